"""`voxpop calibrate`: a study file from a pilot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from voxpop.calibration.doubts import LEVEL, doubts
from voxpop.calibration.fit import Calibration, require_settings
from voxpop.calibration.protected import Protection, require_bounds
from voxpop.calibration.search import KERNELS, SEARCHES
from voxpop.calibration.tails import people_needed
from voxpop.cli.display import console, progress, say, table_of
from voxpop.cli.options import COLUMNS, Names, roles_of
from voxpop.errors import InputError, require_integer
from voxpop.io.files import write_atomically
from voxpop.io.history import read_history
from voxpop.io.pilots import ReleasedPilot, calibrate_file
from voxpop.io.ranges import Ranges, limits_of, menu_of
from voxpop.io.studyfile import write_study
from voxpop.io.tables import PilotTable
from voxpop.model.direction import Direction
from voxpop.model.money import Money
from voxpop.model.options import options_of
from voxpop.model.problem import REWARD_RANGE
from voxpop.policies import DEFAULT
from voxpop.report.drawing import png
from voxpop.report.summary import constant_rows, pilot_sentences, shock_sentences, summarise
from voxpop.study.study import Study

MENU = "The decisions that exist; unless given, the pilot's values if they are few, and round numbers otherwise"
WORTH = {one.name: one.help for one in options_of(Money)}


def _menu(text: str, metavar: str | None = None) -> Any:
    return typer.Option(help=text, metavar=metavar, rich_help_panel=MENU)


def _worth(name: str) -> Any:
    return typer.Option(help=WORTH[name], rich_help_panel="Money and people; all may be left out")


def calibrate(
    pilot: Annotated[
        Path, typer.Argument(help="CSV or Parquet with the columns person, reward, rounds and one per parameter.")
    ],
    out: Annotated[Path, typer.Option(help="The study file to write.")] = Path("study.toml"),
    horizon: Annotated[int, typer.Option(help="Rounds of the study.")] = 20_000,
    person: Annotated[str | None, typer.Option(metavar="NAME", help=COLUMNS["person"])] = None,
    reward: Annotated[str | None, typer.Option(metavar="NAME", help=COLUMNS["reward"])] = None,
    wide: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The parameter of which a table with a row a person has a column a value."),
    ] = None,
    parameter: Annotated[Names, typer.Option(metavar="NAME", help=COLUMNS["parameter"])] = None,
    ignore: Annotated[Names, typer.Option(metavar="NAME", help=COLUMNS["ignore"])] = None,
    choice: Annotated[Names, typer.Option(metavar="NAME", help=COLUMNS["choice"])] = None,
    metric: Annotated[Names, typer.Option(metavar="NAME", help=COLUMNS["metric"])] = None,
    round_column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="This column says when a row was tried; date or round, unless given."),
    ] = None,
    history: Annotated[
        Path | None, typer.Option(help="CSV of a metric under one decision, a row a round; it shows shocks all share.")
    ] = None,
    history_column: Annotated[str | None, typer.Option(metavar="NAME", help="The column of the metric.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the history, and what was found in it (PNG).")] = None,
    low: Annotated[
        Names, typer.Option(metavar="[NAME=]NUMBER", help="The least value, if not the pilot's: price=1.")
    ] = None,
    high: Annotated[Names, typer.Option(metavar="[NAME=]NUMBER", help="The largest value, if not the pilot's.")] = None,
    log: Annotated[Names, typer.Option(metavar="NAME", help="Space this parameter by its logarithm.")] = None,
    integer: Annotated[Names, typer.Option(metavar="NAME", help="This parameter is a whole number.")] = None,
    values: Annotated[Names, _menu("The values that exist: price=2.99,3.49.", "[NAME=]A,B,C")] = None,
    step: Annotated[Names, _menu("They are this far apart: price=0.10.", "[NAME=]NUMBER")] = None,
    points: Annotated[int | None, _menu("So many values of every other number, evenly spaced.")] = None,
    only: Annotated[str | None, _menu("Only such exist: \"price <= 3 or plan == 'plus'\".", "FORMULA")] = None,
    allowed: Annotated[Path | None, _menu("CSV of those that exist, with a column for each parameter.")] = None,
    kernel: Annotated[str, typer.Option(help=f"auto, {', '.join(KERNELS)}.")] = "auto",
    margin: Annotated[float, typer.Option(help="Safety factor on the norm bound.")] = 1.5,
    guardrail: Annotated[
        Names,
        typer.Option(
            metavar="RULE", help="A column that decisions must keep: 'retention >= -2%', 'complaints <= 0.05'."
        ),
    ] = None,
    today: Annotated[
        Names, typer.Option(metavar="[NAME=]VALUE", help="The decision in force today: price=2.99.")
    ] = None,
    minimize: Annotated[
        bool, typer.Option("--minimize", help="People answer with costs (the column cost), and the least is best.")
    ] = False,
    reward_range: Annotated[
        str | None,
        typer.Option(metavar="LOW:HIGH", help=f"{REWARD_RANGE.help} What the pilot's answers show, unless given."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Protect the pilot's people: everything is computed from private sums.")
    ] = None,
    delta: Annotated[float, typer.Option(help="The probability with which that promise may fail.")] = 1e-6,
    low_reward: Annotated[
        float | None, typer.Option(help="The lowest reward, known beforehand; answers below count as this.")
    ] = None,
    high_reward: Annotated[float | None, typer.Option(help="The highest reward, known beforehand.")] = None,
    unit: Annotated[str | None, _worth("unit")] = None,
    people: Annotated[int | None, _worth("people")] = None,
    answer: Annotated[float | None, _worth("answer")] = None,
    force: Annotated[bool, typer.Option(help="Replace the study file if it exists.")] = False,
) -> None:
    """Estimate from a pilot what a study must assume, and write a study file.

    A few dozen people and a dozen actions are enough. Each row of the CSV is one person's average reward for one
    action, and the rounds behind it.
    """
    require_integer("horizon", horizon, least=1)
    kernels = require_settings(kernel, margin, reward_range)
    kept = ReleasedPilot(pilot)
    if kept.owns(out):
        raise InputError(f"{out} belongs to the pilot; choose another --out")
    if out.exists() and not force:
        raise InputError(f"{out} exists already; choose another --out, or replace it with --force")
    if (unit is None) != (people is None) or (unit is None and answer is not None):
        raise InputError("money needs --unit EUR and --people N, and perhaps --answer; add what is missing")
    money = None if unit is None or people is None else Money(unit, people, answer)
    protection = _protection(low_reward, high_reward, epsilon, delta)
    towards = Direction.MINIMIZE if minimize else Direction.MAXIMIZE
    named = {"person": person, "reward": reward, "wide": wide, "metrics": tuple(metric or ())}
    roles = roles_of(parameter, ignore, choice, round=round_column, **named)
    if history is None and (history_column or picture):
        option = "--history-column" if history_column else "--picture"
        raise InputError(f"{option} is about a history; add --history metric.csv, or leave it out")
    shown = None if history is None else read_history(history, history_column)
    menu = menu_of(points, values or (), step or (), only, allowed)
    limits = limits_of("low", low or ()), limits_of("high", high or ())
    ranges = Ranges(*limits, tuple(log or ()), tuple(integer or ()), menu)
    with progress(SEARCHES * len(kernels), "searches") as (bar, task):
        found, table, fresh = calibrate_file(
            *(
                pilot,
                towards,
                kernel,
                margin,
                protection,
                roles,
                ranges,
                lambda: bar.advance(task),
                reward_range,
                shown,
            ),
            guardrails=guardrail or (),
            today=today or None,
        )
    text = write_study(found, table.space, horizon, table.menu, out.stem, {"name": DEFAULT}, reward or "", money)
    write_atomically(out, text)
    _show(found, table)
    if protection is not None:
        said = "keeps what was released, for later runs" if fresh else "was used again: no noise was drawn"
        say(f"{kept.path} {said}")
    if picture is not None and shown is not None:
        from voxpop.report.figures.history import history_figure

        write_atomically(picture, png(history_figure(shown)))
        say(f"picture: {picture}")
    if found.guardrails:
        lines = summarise(Study.from_calibration(found, horizon, table.menu).course)
        for line in (line for line in lines if line.name == "Take note"):
            say(f"take note: {line.value} ({line.note})")
    say(f"study file: {out}; rehearse it with: voxpop run {out}")


def _protection(low: float | None, high: float | None, epsilon: float | None, delta: float) -> Protection | None:
    if epsilon is not None:
        return Protection(*require_bounds(low, high), epsilon, delta)
    if low is not None or high is not None:
        raise InputError("the range of rewards is used to protect a pilot; add --epsilon, or leave the range out")
    return None


def _show(found: Calibration, table: PilotTable) -> None:
    """Print how the file was read, what it says and leaves open in plain words, and the constants."""
    say(*table.said, "")
    say(*pilot_sentences(found), *shock_sentences(found))
    open_questions = doubts(found, table.pilot, table.people.__getitem__, table.line)
    if open_questions:
        say("The study can begin, but take note:", *(f"- {sentence}" for sentence in open_questions))
    else:
        say("That is enough to plan a study with.")
    say("")
    console.print(table_of(("constant", "estimate", "95 % interval"), constant_rows(found), left=("constant",)))
    facts = [f"kernel: {found.kernel_name}, from {found.people} people and {len(found.pilot)} actions"]
    if found.skewness is not None:
        facts.append(
            f"skewness of single answers: {found.skewness:.2g}; "
            f"averages of {people_needed(LEVEL, found.skewness):,} people are Gaussian enough for a bound at {LEVEL:g} "
            "standard deviations"
        )
    if found.protection is not None:
        facts.append(
            f"the pilot costs its people epsilon {found.protection.epsilon:g} at delta {found.protection.delta:g}; its "
            f"averages have errors at least {found.widened:.1f} times as large as without protection"
        )
    say(*facts)
