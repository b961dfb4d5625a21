"""`voxpop demo`: the service at work, on one machine."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from voxpop.cli.display import console
from voxpop.cli.operators import need_service
from voxpop.cli.options import PrivacyOption
from voxpop.errors import require_integer, require_number
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Private, make_privacy
from voxpop.simulation.scenarios import Options, make_scenario

ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def demo(
    devices: Annotated[int, typer.Option(help="Simulated devices.")] = 700,
    privacy: PrivacyOption = "shuffle",
    epsilon: Annotated[float, typer.Option(help="The eps that everyone is promised.")] = 5.0,
    horizon: Annotated[int, typer.Option(help="Rounds for which the price matters.")] = 5000,
    port: Annotated[int, typer.Option(help="The port of the coordinator and its console; 0 for a free one.")] = 0,
) -> None:
    """Find the best price with a coordinator, a shuffler and hundreds of devices that really talk to each other.

    All are processes on this machine. At the end the same reports go through the simulator, and the plans and the state
    must be the same; exits with 1 if they are not.
    """
    need_service()
    from voxpop.service.demo.processes import QUIET, running
    from voxpop.service.study.definition import Definition, Rules

    require_integer("devices", devices, least=10, most=100_000)
    require_number("epsilon", epsilon, above=0)
    trust = make_privacy(privacy, None if privacy == NoPrivacy.model else epsilon, Private.delta)
    require_integer("port", port, least=0, most=65535)
    start = time.monotonic()
    with console.status("asking 40 customers in a pilot, and calibrating"):
        scenario = make_scenario("pricing", Options(horizon=horizon, size=51))
    rules = Rules(deadline=QUIET)  # every device answers, however busy the machine is
    policy = make_policy("waves", most_people=devices)
    definition = Definition(scenario.problem, policy, trust, reward=scenario.reward, rules=rules)
    with (
        _ended_by_signals(),
        tempfile.TemporaryDirectory(prefix="voxpop-demo-", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        with console.status("starting a coordinator, a shuffler and two processes of devices"):
            world = stack.enter_context(running(scenario, definition, devices, Path(folder), port))
        console.print(f"console: {world.url}  (while this runs)", highlight=False, soft_wrap=True)
        with Live(console=console, refresh_per_second=5) as live:
            last: dict[str, Any] = {}

            def watch(seen: dict[str, Any]) -> None:
                last.update(seen)
                live.update(_picture(seen, devices))

            world.play(watch)
        problems = world.check()
    _conclude(last, world.reports, problems, scenario.f, time.monotonic() - start)
    if problems:
        raise typer.Exit(1)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, so that all processes and files are cleaned up."""

    def end(number: int, _: Any) -> None:
        for ignored in ENDING:
            signal.signal(ignored, signal.SIG_IGN)  # it is already ending
        raise SystemExit(128 + number)

    heeded = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, end) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _picture(seen: dict[str, Any], devices: int) -> Group:
    """Draw the study as it is now."""
    status = seen["status"]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("wave", "rounds", "played", "people", "left", "widest bound"):
        table.add_column(name, justify="right")
    for wave in seen["waves"]:
        cells = (wave["wave"], f"{wave['rounds']:,}", wave["arms"], wave["people"], wave["active"])
        table.add_row(*map(str, cells), f"±{wave['width']:.3g}")
    bars = Table.grid(padding=(0, 2))
    shown = [("devices registered", status["registered"], devices)]
    if status["stage"] != "finished":  # otherwise nothing is played, and nobody is asked
        shown.append(("rounds played", status["played"], status["rounds"]))
        shown.append(("people answered", status["answered"], status["people"]))
    for name, part, whole in shown:
        bars.add_row(name, ProgressBar(max(whole, 1), part, width=40), f"{part:,} of {whole:,}")
    from voxpop.model.words import counted

    ledger = seen["ledger"]
    spent = f"{ledger['epsilon'] or 0:.3g} of {seen['budget']:g}" if seen["budget"] else "no promise"
    text = (
        f"Wave {status['wave']}, {status['stage']}. Privacy ledger: {counted(ledger['releases'], 'release')} about "
        f"{counted(ledger['people'], 'person', 'people')}, eps of the most exposed {spent}."
    )
    return Group(table, bars, text, *status["says"])


def _conclude(
    seen: dict[str, Any], reports: dict[int, list[list[float]]], problems: list[str], f: Any, seconds: float
) -> None:
    """Print the result, and whether the simulator agrees."""
    from voxpop.model.words import counted

    if not console.is_terminal:
        console.print()  # the picture ends without a new line there
    best = seen["status"]["best"]["index"]
    sent = sum(map(len, reports.values()))
    console.print(
        f"best price: [bold]{seen['actions'][best]}[/bold], worth {f[best]:.3f} per customer of {f.max():.3f} possible"
        f"; {counted(sent, 'device')} answered in {counted(len(reports), 'wave')}; it ended because "
        f"{seen['status']['reason']}; {seconds:.1f} s",
        highlight=False,
    )
    if not problems:
        console.print(
            "[green]the same[/green]: the simulator, given the same reports and noise, makes the same plans and ends "
            "in the same state, to the last bit"
        )
    for problem in problems:
        console.print(f"[bold red]DIFFERENT[/bold red]: {problem}")
