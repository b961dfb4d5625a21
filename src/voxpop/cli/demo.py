"""`voxpop demo` and `voxpop fleet`: simulated devices that really talk to a coordinator."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import numpy as np
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from voxpop.cli.display import console, say, show_summary, show_waves
from voxpop.cli.operators import LOCAL, KeyFile, Url, own_key, send
from voxpop.cli.options import PrivacyOption
from voxpop.client import StudyOverError
from voxpop.errors import InputError, RefusedError, require_integer, require_number
from voxpop.model.words import counted, describe, number
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Private, make_privacy
from voxpop.privacy.models import release_type_of
from voxpop.runtime.machine import one_thread
from voxpop.service.demo import crowd as crowds
from voxpop.service.demo.crowd import QUIET, THREADS, Crowd, Patience, Tastes, promise_of, running, simulated
from voxpop.service.keys import new_key
from voxpop.service.study.definition import Definition, Rules, read_definition, require_name
from voxpop.service.study.log import Record, fold
from voxpop.simulation.people import Customers
from voxpop.simulation.rehearsals import rewards_of_formula
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

    Both servers are processes on this machine. At the end the same reports go through the simulator, and the plans and
    the state must be the same; exits with 1 if they are not.
    """
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
    customers = Customers(np.array([label["price"] for label in scenario.problem.decisions]))
    tastes = Tastes(customers.mean, "of customers", lambda _, plan, rng: customers.observe(plan, 1, rng)[0])
    _end_by_signals()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="voxpop-demo-", ignore_cleanup_errors=True))
        with console.status("starting a coordinator and a shuffler"):
            url, second, key = stack.enter_context(running(Path(folder), port))
        say(f"console: {url}  (while this runs)")
        stack.enter_context(one_thread())
        http, pool = stack.enter_context(httpx.Client(timeout=QUIET)), stack.enter_context(ThreadPoolExecutor(THREADS))
        application = _Application(url, key, "pricing", by_clock=False)
        application.send("PUT", "", {"definition": definition.encode()})
        promise = promise_of(definition, second)
        made = simulated(tastes, range(devices), url, "pricing", promise, http=http)
        crowd = Crowd(made, pool, longest=crowds.BETWEEN)
        _shown(crowd, application, "the demonstration")
        events = [Record(**event) for event in application.send("GET", "/log")["events"]]
        problems = crowds.disagreements(events, crowd.reports, True, crowd.blocks)
    course, asked = fold(events, "pricing"), counted(sum(map(len, crowd.reports.values())), "device")
    show_waves(course)
    show_summary(course, scenario.f)
    say(
        f"{asked} answered in {counted(len(crowd.reports), 'wave')}; it ended because {course.ended}; "
        f"{time.monotonic() - start:.1f} s"
    )
    for problem in problems:
        console.print(f"[bold red]DIFFERENT[/bold red]: {problem}")
    if problems:
        raise typer.Exit(1)
    console.print(
        "[green]the same[/green]: the simulator, given the same reports and noise, makes the same plans and ends "
        "in the same state, to the last bit"
    )


def _end_by_signals() -> None:
    """Turn SIGTERM and SIGHUP into an exception, so that all processes and files are cleaned up."""

    def end(number: int, _: Any) -> None:
        for ignored in ENDING:
            signal.signal(ignored, signal.SIG_IGN)  # it is already ending
        raise SystemExit(128 + number)

    for one in ENDING:
        if signal.getsignal(one) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(one, end)


PAUSE = 0.25  # seconds between looks at the study


def fleet(
    study: Annotated[str, typer.Argument(help="The name of a study, with your key; or its study file (TOML).")],
    devices: Annotated[int | None, typer.Option(help="Simulated devices; 60, or one for each row of people.")] = None,
    url: Url = LOCAL,
    key_file: KeyFile = None,
    population: Annotated[Path | None, typer.Option(help="A file (CSV) with a row for each person.")] = None,
    formula: Annotated[
        str | None, typer.Option(help="What such a person gains: '(price - 1.5) * (wtp >= price)'.")
    ] = None,
    noise: Annotated[float, typer.Option(help="How much one round of such a person varies.")] = 0.0,
    privacy: Annotated[str | None, typer.Option(help="The trust model that people were promised.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The eps that people were promised.")] = None,
    second: Annotated[str | None, typer.Option(help="The address of the study's shuffler or helper, if any.")] = None,
    enrolment_code: Annotated[
        str | None, typer.Option(envvar="VOXPOP_ENROLMENT_CODE", help="The study's code, if it has one.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the people's tastes.")] = 0,
    answers: Annotated[float, typer.Option(help="The share of those who are asked who answer.")] = 1.0,
) -> None:
    """Let simulated devices take part in a study, on any coordinator, until it is finished.

    With an operator's key they also are the application that uses decisions and reports the rounds. What people gain is
    drawn at random from what the study's pilot says, or from its assumptions if it has no pilot; or it follows from a
    file of people and a formula. They were promised what the study keeps, unless another promise is given: then a
    device refuses to answer, and this exits with 2.
    """
    key = own_key(key_file) if key_file is not None or os.environ.get("VOXPOP_KEY") else None
    name, definition = _definition(study, url, key)
    tastes, people = _tastes(definition, population, formula, noise, seed)
    require_number("answers", answers, above=0, most=1)
    count = require_integer("devices", people or 60 if devices is None else devices, least=1, most=people or 100_000)
    otherwise = {name: value for name, value in (("model", privacy), ("epsilon", epsilon)) if value is not None}
    model = privacy or definition.privacy.model
    role = release_type_of(model).second
    if role is not None and second is None:
        raise InputError(f"the {model} model has a {role}; add --second and its address")
    promise = promise_of(definition, second, **otherwise)
    say(f"tastes of {count:,} devices: {tastes.origin}")
    by_clock = definition.by_clock
    application = None if key is None else _Application(url, key, name, by_clock)
    with one_thread(), httpx.Client(timeout=30) as http, ThreadPoolExecutor(THREADS) as pool:
        named: dict[str, Any] = {"enrolment_code": enrolment_code, "http": http, "strata": definition.strata}
        crowd = Crowd(simulated(tastes, range(count), url, name, promise, **named), pool)
        for device in crowd.devices:
            device.answers = answers
        try:
            found = _shown(crowd, application)
        except StudyOverError:
            say(f"{name} is over: who took part or has a key sees its decision; {count:,} devices made 0 reports")
            return
        except httpx.HTTPError as error:
            raise InputError(f"cannot reach {url}: {error}; is the coordinator running there?") from None
    best = int(tastes.mean.argmax())
    lost = f"{tastes.mean[best] - tastes.mean[found['index']]:.3g} per round more than from this"
    say(
        f"finished: use {describe(found['decision'])}; {count:,} devices made {_answers(crowd):,} reports; "
        f"these people gain most from {describe(definition.problem.decisions[best])}"
        + ("" if best == found["index"] else f", {lost}")
    )


def _definition(study: str, url: str, key: str | None) -> tuple[str, Definition]:
    """Return the name and the definition of a study, from its file or from the coordinator."""
    if study.endswith(".toml"):
        return read_definition(Path(study))
    if key is None:
        raise InputError(
            f"the definition of {study!r} is for operators; add --key-file, or give the study file instead"
        )
    require_name(study)
    return study, Definition.decode(send(url, key, "GET", f"/v2/studies/{study}/log")["events"][0]["body"])


def _tastes(
    definition: Definition, population: Path | None, formula: str | None, noise: float, seed: int
) -> tuple[Tastes, int | None]:
    """Return what people gain, and how many people there are if they are listed."""
    require_integer("seed", seed, least=0)
    require_number("noise", noise, least=0)
    if (population is None) != (formula is None):
        raise InputError("a formula says what the people of a file gain; give both --population and --formula, or none")
    if population is None or formula is None:
        return crowds.model_tastes(definition.problem, seed), None
    if definition.problem.guardrails:
        raise InputError(
            f"the study has the guardrail {definition.problem.guardrails[0].rule}, and a formula says nothing of it; "
            "leave out --population and --formula"
        )
    rewards = definition.direction.turn(rewards_of_formula(population, formula, definition.problem.decisions))
    return crowds.listed_tastes(rewards, noise, seed), len(rewards)


@dataclass(frozen=True)
class _Application:
    """The application of a study, with an operator's key: it uses the decisions and reports the rounds."""

    url: str
    key: str
    study: str
    by_clock: bool  # a clock plays the rounds, and they are not reported

    def play(self, wave: int) -> None:
        """Play the rounds of the wave that are left."""
        try:
            while not self.by_clock and (now := self.send("GET", "/decision"))["wave"] == wave and now["rounds"]:
                self.send("PUT", f"/rounds/{new_key()}", {"wave": wave, "rounds": now["rounds"]})
        except RefusedError as refusal:
            if refusal.status != 409:  # the study was paused, or another application plays too: look again
                raise

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request about the study."""
        return send(self.url, self.key, method, f"/v2/studies/{self.study}{path}", body)


def _live(
    crowd: Crowd, application: _Application | None, show: Callable[[dict[str, Any]], object], name: str = "the study"
) -> dict[str, Any]:
    """Register, and take part until the study is finished; return the decision that is in force then.

    `show` shows the decision in force to people, and returns what is different when something has happened. A
    coordinator that is gone for a while, or has no time, is asked again: then there is no decision.
    """
    patience, over, registered = Patience(name), None, False
    while True:
        try:
            if not registered:
                try:
                    crowd.register()
                except StudyOverError as error:  # if asking does not pay, it ends before anyone is asked
                    over = error
                registered = True
            if (now := crowd.devices[0].decision())["stage"] == "finished":
                return now
            patience.see((show(now), now["rounds"]))
            if application is not None and now["rounds"]:
                application.play(now["wave"])
            crowd.check_in()
        except (httpx.HTTPError, RefusedError) as error:
            nobody = isinstance(error, httpx.ConnectError) and not registered  # has ever answered
            if nobody or (isinstance(error, RefusedError) and error.status < 500):
                raise over or error from None
            patience.see("away")
        time.sleep(PAUSE)


def _shown(crowd: Crowd, application: _Application | None, name: str = "the study") -> dict[str, Any]:
    """Take part in a study, and show how far it is: each wave is a bar that fills with answers."""
    said = ""
    columns = (TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TextColumn("{task.fields[also]}"))
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        bars.add_task("registering", total=len(crowd.devices), also="")

        def show(now: dict[str, Any]) -> str:
            nonlocal said
            status = None if application is None else application.send("GET", "")
            waits = "" if status is None else " ".join(hold["sentence"] for hold in status["holds"])
            _draw(bars, now, status, waits)
            line = f"wave {now['wave']} {now['stage']}: {_answers(crowd):,} reports of {len(crowd.devices):,} devices"
            line += f". {waits}" if waits else ""
            if not console.is_terminal and line != said:
                say(line)
            said = line
            return line

        now = _live(crowd, application, show, name)
        _draw(bars, now, None if application is None else application.send("GET", ""), "")
        return now


def _draw(bars: Progress, now: dict[str, Any], status: dict[str, Any] | None, waits: str) -> None:
    """Show how far the wave is; when the next one begins, its bar is full and says what was learned."""
    over, place = now["stage"] == "finished", bars.task_ids[-1]
    if over or now["wave"] >= len(bars.task_ids):  # the first bar is that of those who register
        total, best = bars.tasks[-1].total or 1, ""
        if status is not None and len(bars.task_ids) > 1:
            certified, best = status["best"]["certified"], f"best so far: {describe(status['best']['decision'])}"
            best += "" if certified is None else f", certified within {number(certified)}"
        said = f"wave {len(bars.task_ids) - 1} closed" if len(bars.task_ids) > 1 else "registered"
        bars.update(place, total=total, completed=total, description=said, also=best)
        place = place if over else bars.add_task("", total=None, also="")
    if not over:
        people, answered = (None, 0) if status is None else (status["people"] or None, status["answered"])
        stage = f"wave {now['wave']} {now['stage']}"
        bars.update(place, description=stage, total=people, completed=answered, also=waits)


def _answers(crowd: Crowd) -> int:
    return sum(device.memory.reports for device in crowd.devices)
