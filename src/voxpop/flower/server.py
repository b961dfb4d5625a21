"""The server's part: draw nodes, ask them, replace those that do not answer, and close the phase with the tally.

Planning, releasing and saving are those of every study (`Fielded`). What is left is to collect: nodes are drawn with
the operating system's generator, each is asked once, and one that is late, fails or declines makes room for another.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from voxpop.core.errors import Array, InputError
from voxpop.core.phases import Tally
from voxpop.drivers.fielded import Fielded
from voxpop.drivers.phase import Phase
from voxpop.flower import messages
from voxpop.formats.releases import phase_for_devices, release_to_dict

PAUSE = 1.0  # seconds between two looks at what has arrived

log = logging.getLogger("flwr")


@dataclass(frozen=True)
class Rules:
    """How long to wait for whom.

    `seconds` is the time a node has to reply, and `patience` the time to wait for nodes to connect when everybody who
    is connected has been asked. With `partial`, a phase that still lacks people then closes with those who answered.
    """

    seconds: float = 600.0
    patience: float = 600.0
    partial: bool = False


@dataclass
class Collector:
    """Who was asked, and who is being waited for."""

    grid: Grid
    rules: Rules = field(default_factory=Rules)
    asked: set[int] = field(default_factory=set)  # in any phase: nobody is asked twice

    def collect(self, study: Fielded, phase: Phase) -> tuple[Tally, tuple[str, ...]]:
        """Ask as many nodes as the phase asks people; return their tally and their names."""
        told = phase_for_devices(study.problem, phase.plan, release_to_dict(phase.release))
        reports, waiting, alone = dict[int, Array](), dict[str, tuple[int, float]](), time.monotonic()
        while len(reports) < phase.plan.people:
            missing = phase.plan.people - len(reports) - len(waiting)
            drawn = self._draw(missing)
            if drawn:
                sent = self.grid.push_messages([messages.ask(node, told, self.rules.seconds) for node in drawn])
                due = time.monotonic() + self.rules.seconds
                waiting |= {name: (node, due) for name, node in zip(sent, drawn, strict=True) if name}
            for reply in self.grid.pull_messages(list(waiting)):
                node, _ = waiting.pop(reply.metadata.reply_to_message_id)
                try:
                    report = messages.read_report(reply)
                    phase.release.accept(report)
                except InputError as refused:
                    log.warning("node %d is replaced: %s", node, refused)
                else:
                    reports[node] = report
            now = time.monotonic()
            for name in [name for name, (_, due) in waiting.items() if due < now]:
                log.warning("node %d is replaced: it did not reply in time", waiting.pop(name)[0])
            alone = now if drawn or waiting else alone
            if now - alone > self.rules.patience:
                break
            time.sleep(PAUSE if len(reports) < phase.plan.people else 0.0)
        self._require_enough(phase, len(reports))
        tally = phase.release.tally(np.concatenate(list(reports.values())))
        return tally, tuple(str(node) for node in reports)

    def _draw(self, people: int) -> list[int]:
        """Draw nodes that were not asked yet, as many as there are of those wanted."""
        if people <= 0:
            return []
        free = sorted(set(self.grid.get_node_ids()) - self.asked)
        drawn = secrets.SystemRandom().sample(free, min(people, len(free)))
        self.asked |= set(drawn)
        return drawn

    def _require_enough(self, phase: Phase, count: int) -> None:
        people = phase.plan.people
        if count < people and not (self.rules.partial and count):
            raise InputError(
                f"phase {phase.plan.phase} asks {people:,} people and {count:,} answered, and everybody who is "
                "connected was asked; connect more nodes, and set population in [policy] to their number"
            )


def conduct(grid: Grid, study: Fielded, rules: Rules | None = None) -> Fielded:
    """Conduct a study to its end with the nodes of a grid; a study that is saved goes on where it stopped."""
    if study.privacy.release_type.two_servers:
        raise InputError(
            f"the {study.privacy.model} model needs a server between the nodes and the SuperLink, which Flower does "
            "not have; use central or local, or voxpop's own service"
        )
    known = {int(name) for entry in study.ledger.entries for name in entry.names}
    collector = Collector(grid, rules or Rules(), known)
    while (phase := study.open_phase()) is not None:
        log.info(
            "phase %d asks %d people about %d decisions", phase.plan.phase, phase.plan.people, len(phase.plan.arms)
        )
        study.close_phase(*collector.collect(study, phase))
        log.info("phase %d is closed; best so far: %s", phase.plan.phase, study.best.decision)
    log.info("the study is over, because %s; best: %s", study.ended, study.best.decision)
    return study


def server_app(study: Callable[[Context], Fielded], rules: Rules | None = None) -> ServerApp:
    """Make a ServerApp that conducts the study which a function makes of the run's context."""
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        conduct(grid, study(context), rules)

    app.main()(main)
    return app
