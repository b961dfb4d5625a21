"""The server's part: draw nodes, ask them, replace those that do not answer, and close the wave with the tally.

Planning, releasing and saving are those of every study (`DeviceStudy`). What is left is to collect: nodes are drawn
with the operating system's generator, each is asked once, and one that is late, fails or declines makes room for
another.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from voxpop.errors import Array, InputError
from voxpop.io.schema import encode, wave_for_devices
from voxpop.journal.wave import Wave
from voxpop.model.waves import Tally
from voxpop.privacy.release import HELPER
from voxpop_flower import messages
from voxpop_flower.shares import Shared, shared_of
from voxpop_flower.study import DeviceStudy

if TYPE_CHECKING:
    from voxpop.service.shuffler.signed_http import ShufflerLink

PAUSE = 1.0  # seconds between two looks at what has arrived

log = logging.getLogger("flwr")


@dataclass(frozen=True)
class Rules:
    """How long to wait for whom.

    `seconds` is the time a node has to reply, and `patience` the time to wait for nodes to connect when everybody who
    is connected has been asked. With `partial`, a wave that still lacks people then closes with those who answered.
    """

    seconds: float = 600.0
    patience: float = 600.0
    partial: bool = False


@dataclass
class Collector:
    """Who was asked, and who is being waited for."""

    grid: Grid
    rules: Rules = field(default_factory=Rules)
    helper: ShufflerLink | None = None  # of the aggregate model
    asked: set[int] = field(default_factory=set)  # in any wave: nobody is asked twice

    def collect(self, study: DeviceStudy, wave: Wave) -> tuple[Tally, tuple[str, ...]]:
        """Ask as many nodes as the wave asks people; return their tally and their names."""
        told = wave_for_devices(study.problem, wave.plan, encode(wave.release), study.direction)
        shared, reports = shared_of(wave, self.helper), dict[int, Array]()
        while True:
            self._gather(wave, told, shared, reports)
            if shared is not None and not shared.checked(reports):
                continue
            tally: Tally | None = wave.release.gather(np.concatenate(list(reports.values())))
            if shared is not None and tally is not None:
                tally = shared.join(wave, reports, tally)
            if tally is not None:
                return tally, tuple(str(node) for node in reports)

    def _gather(self, wave: Wave, told: dict[str, Any], shared: Shared | None, reports: dict[int, Array]) -> None:
        """Ask nodes until there are as many reports as the wave asks people, or nobody is left."""
        waiting, last = dict[str, tuple[int, float]](), time.monotonic()
        while len(reports) < wave.plan.people:
            drawn = self._draw(wave.plan.people - len(reports) - len(waiting))
            if drawn:
                waiting |= self._ask(drawn, told, shared)
            for reply in self.grid.pull_messages(list(waiting)):
                node, _ = waiting.pop(reply.metadata.reply_to_message_id)
                try:
                    report = messages.read_report(reply)
                    wave.release.accept(report)
                except InputError as refused:
                    log.warning("node %d is replaced: %s", node, refused)
                else:
                    reports[node] = report
            now = time.monotonic()
            for name in [name for name, (_, due) in waiting.items() if due < now]:
                log.warning("node %d is replaced: it did not reply in time", waiting.pop(name)[0])
            last = now if drawn or waiting else last
            if now - last > self.rules.patience:
                break
            time.sleep(PAUSE if len(reports) < wave.plan.people else 0.0)
        self._require_enough(wave, len(reports))

    def _ask(self, nodes: list[int], told: dict[str, Any], shared: Shared | None) -> dict[str, tuple[int, float]]:
        """Send the question; return whose reply is awaited, by message, and until when."""
        if shared is not None:
            shared.invite(nodes)
        asked = {node: told if shared is None else {**told, "helper": shared.told(node)} for node in nodes}
        sent = self.grid.push_messages([messages.ask(node, each, self.rules.seconds) for node, each in asked.items()])
        due = time.monotonic() + self.rules.seconds
        return {name: (node, due) for name, node in zip(sent, nodes, strict=True) if name}

    def _draw(self, people: int) -> list[int]:
        """Draw nodes that were not asked yet, as many as there are of those wanted."""
        if people <= 0:
            return []
        free = sorted(set(self.grid.get_node_ids()) - self.asked)
        drawn = secrets.SystemRandom().sample(free, min(people, len(free)))
        self.asked |= set(drawn)
        return drawn

    def _require_enough(self, wave: Wave, count: int) -> None:
        people = wave.plan.people
        if count < people and not (self.rules.partial and count):
            raise InputError(
                f"wave {wave.plan.wave} asks {people:,} people and {count:,} answered, and everybody who is "
                "connected was asked; connect more nodes, and set population in [policy] to their number"
            )


def conduct(
    grid: Grid, study: DeviceStudy, rules: Rules | None = None, helper: ShufflerLink | None = None
) -> DeviceStudy:
    """Conduct a study to its end with the nodes of a grid; a study that is saved goes on where it stopped.

    The aggregate model needs a helper outside Flower: that of `helper_at`.
    """
    second = study.privacy.release_type.second
    if second is not None and (second != HELPER or helper is None):
        raise InputError(
            f"the {study.privacy.model} model needs a {second}, which Flower does not have; "
            f"{'give conduct() one' if second == HELPER else 'use aggregate, or the service of voxpop'}"
        )
    known = {int(name) for entry in study.ledger.entries for name in entry.names}
    collector = Collector(grid, rules or Rules(), helper, known)
    while (wave := study.open_wave()) is not None:
        plan = wave.plan
        log.info("wave %d asks %d people about %d decisions", plan.wave, plan.people, len(plan.arms))
        study.close_wave(*collector.collect(study, wave))
        log.info("wave %d is closed; best so far: %s", plan.wave, study.best.decision)
    log.info("the study is over, because %s; best: %s", study.ended, study.best.decision)
    return study


def server_app(
    study: Callable[[Context], DeviceStudy], rules: Rules | None = None, helper: ShufflerLink | None = None
) -> ServerApp:
    """Make a ServerApp that conducts the study which a function makes of the run's context."""
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        conduct(grid, study(context), rules, helper)

    app.main()(main)
    return app
