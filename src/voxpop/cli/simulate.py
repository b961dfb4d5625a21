"""`voxpop run`, `voxpop simulate` and `voxpop compare`: studies with simulated people."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from voxpop.cli.display import console, errors, say, show_run, table_of
from voxpop.cli.options import (
    TRUST,
    AddressOption,
    BackendOption,
    DataOption,
    JobsOption,
    People,
    PrivacyOption,
    Stopping,
    StudyArgument,
    from_table,
    run_all,
)
from voxpop.errors import InputError, require_integer
from voxpop.io.files import file_stem, write_atomically
from voxpop.model.problem import GRAM_LIMIT
from voxpop.policies import DEFAULT, POLICIES, policy_options
from voxpop.privacy import NoPrivacy, Private
from voxpop.report.drawing import png, sheet
from voxpop.runtime.extensions import find
from voxpop.runtime.machine import statement
from voxpop.simulation import comparison
from voxpop.simulation.comparison import CONTENDERS, Cell, Cells
from voxpop.simulation.pictures import picture
from voxpop.simulation.runs import Run, Scenario
from voxpop.simulation.simulator import FinitePopulation
from voxpop.simulation.sweep import Backend

TYPICAL = 15  # the pricing study loses as much as the median of seeds 0 to 19; with seed 0 it is far unluckier


@dataclass(frozen=True, kw_only=True)
class RunOptions(Stopping):
    """The options of `voxpop run`."""

    study: Annotated[
        Path | None, typer.Argument(help="A study file (TOML); without one, your own people or the pricing study.")
    ] = None
    seed: Annotated[int, typer.Option(help="The seed of the simulated people.")] = TYPICAL
    out: Annotated[Path, typer.Option(help="The folder for the report and its pictures.")] = Path("voxpop-report")
    report: Annotated[bool, typer.Option(help="Write the HTML report.")] = True


def run(chosen: RunOptions) -> None:
    """Find the best decision: ask samples of people in a few waves, and report what to do.

    Without a study file this is a study of your own people, or else a pricing study for a simulated population of
    customers. The model's constants come from a pilot of 40 people, never from the truth; the truth is only used to
    say what the answer is worth.
    """
    study = None if chosen.study is None else str(chosen.study)
    alone = study is None and chosen.own_people() is None and chosen.resample is None
    trial = chosen.trial("pricing" if alone else None, study, settings=chosen.settings())
    trial.make_privacy()  # refuses bad settings now, before a pilot
    with console.status("preparing the study" if study else "asking people in a pilot, and calibrating"):
        scenario = trial.scenario()
    result = show_run(trial, scenario)
    if chosen.report:
        from voxpop.report.page import write_report

        page, picture = write_report(result.course, chosen.out, file_stem(scenario.name), result.truth)
        say(f"report: {page}", f"picture: {picture}")


@dataclass(frozen=True, kw_only=True)
class Many:
    """What commands that compute many runs share."""

    study: StudyArgument = None
    horizon: Annotated[int | None, typer.Option(help="T, the number of rounds.")] = None
    runs: Annotated[int, typer.Option(help="The number of seeds, counting up from the first.")] = 1
    backend: BackendOption = "local"
    address: AddressOption = None
    jobs: JobsOption = None

    @property
    def where(self) -> Backend:
        """Where to compute; refuses a number of runs that is not one."""
        require_integer("runs", self.runs, least=1)
        return Backend(self.backend, self.address, self.jobs)


OFFERED = {"dpbe": ("alpha", "ratio"), "bbkb": ("switch", "oversampling", "bonus")}
PAPER = [one for policy, names in OFFERED.items() for one in policy_options(policy) if one.name in names]
PROMISED = [TRUST["floor"], TRUST["honest"]]
_FromTable = from_table("_FromTable", [*PAPER, *PROMISED])


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(_FromTable, Many, Stopping):  # type: ignore[misc, valid-type]
    """The options of `voxpop simulate`."""

    policy: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(POLICIES)}; the study file's or {DEFAULT} unless given.")
    ] = None
    size: Annotated[int | None, typer.Option(help="n, the number of actions.")] = None
    privacy: PrivacyOption = NoPrivacy.model
    calibration: Annotated[str, typer.Option(help=TRUST["calibration"].help)] = Private.calibration
    noise_std: Annotated[float | None, typer.Option(help="sigma, the noise of one person's round.")] = None
    bias_std: Annotated[float | None, typer.Option(help="v, how far people are from the population.")] = None
    true_norm: Annotated[bool, typer.Option(help="Take the norm bound B from the truth, not from the paper.")] = False
    data: DataOption = None
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per run, and nothing else.")] = False

    @property
    def model(self) -> str | None:
        """The trust model; None if nothing was said."""
        return None if self.privacy == NoPrivacy.model and self.epsilon is None else self.privacy

    def settings(self) -> dict[str, Any]:
        """Return the settings of the policy that were given."""
        paper = {one.name: getattr(self, one.name) for one in PAPER}
        return {name: value for name, value in paper.items() if value is not None} | super().settings()

    def own(self) -> dict[str, Any]:
        """Return what was said that only a built-in study can be told."""
        given = {name: getattr(self, name) for name in ("size", "noise_std", "bias_std")}
        given |= {one.name: getattr(self, one.name) for one in PROMISED}
        given["true_norm"] = self.true_norm or None
        given["calibration"] = None if self.calibration == Private.calibration else self.calibration
        given["data"] = None if self.data is None else str(self.data)
        return {name: value for name, value in given.items() if value is not None}


def simulate(chosen: SimulateOptions) -> None:
    """Simulate a study with the paper's settings, or with your own; with built-in people, a pilot's, or yours."""
    where = chosen.where
    named = chosen.built_in(chosen.study)
    first = chosen.trial(named, chosen.study, chosen.policy or "", chosen.horizon, chosen.settings(), chosen.own())
    first.make_privacy()  # refuses bad settings now, before anything is run
    if chosen.size is not None and chosen.size > GRAM_LIMIT:
        errors.print(statement(chosen.size), style="dim", highlight=False)
    if chosen.runs == 1:
        if chosen.as_json:
            typer.echo(json.dumps(first.run().as_dict()))
        else:
            show_run(first, first.scenario())
        return
    trials = [replace(first, seed=number) for number in range(chosen.seed, chosen.seed + chosen.runs)]
    found = run_all(Run.as_dict, trials, where)
    results = [found[trial] for trial in trials]
    if chosen.as_json:
        for each in results:
            typer.echo(json.dumps(each))
    else:
        _show_table(results)


def _show_table(results: list[dict[str, Any]]) -> None:
    first, last = results[0], results[-1]
    rows = []
    for name, key in {"regret": "regret", "numbers sent": "numbers", "people asked": "people", "seconds": ""}.items():
        values = [result[key or name] for result in results]
        digits = 3 if name == "seconds" else 0
        cells = (np.mean(values), np.std(values), np.min(values), np.max(values))
        rows.append((name, *(f"{cell:,.{digits}f}" for cell in cells)))
    title = f"{first['study']}, {first['policy']}, seeds {first['seed']} to {last['seed']}"
    console.print(table_of(("", "mean", "std", "least", "most"), rows, left=("",), title=title))
    say(f"optimum kept in {sum(result['optimum_kept'] for result in results)} of {len(results)} runs")


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Many, People):
    """The options of `voxpop compare`."""

    policies: Annotated[str, typer.Option(help=f"Some of {', '.join(POLICIES)}; with commas.")] = ",".join(CONTENDERS)
    runs: Annotated[int, typer.Option(help="The number of seeds, counting up from the first.")] = 10
    out: Annotated[Path, typer.Option(help="The folder for the picture.")] = Path("voxpop-compare")
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False


def compare(chosen: CompareOptions) -> None:
    """Compare policies on the same simulated people: what each loses, and what it asks of people.

    Prints a table, draws regret against numbers sent, people and waves, and says which policies no other beats in both
    regret and numbers.
    """
    where = chosen.where
    first = chosen.trial(chosen.built_in(chosen.study), chosen.study, horizon=chosen.horizon)
    names, scenario, trust = _names(chosen.policies), first.scenario(), first.make_privacy()
    made = {name: replace(first, policy=name).make_policy(scenario) for name in names}
    fitting, left_out = comparison.suitable(made, scenario, trust)
    sheet(1, 1)  # refuses now, before anything is run, if nothing can be drawn
    chosen.out.mkdir(parents=True, exist_ok=True)
    seeds = range(chosen.seed, chosen.seed + chosen.runs)
    trials = [replace(first, policy=name, seed=n) for n in seeds for name in fitting]
    found = run_all(comparison.summarise, trials, where, scenario)
    cells = {name: Cell({one.seed: done for one, done in found.items() if one.policy == name}) for name in fitting}
    path = chosen.out / f"{file_stem(scenario.name)}.png"
    write_atomically(path, png(picture(scenario.name, cells)))
    if chosen.as_json:
        about = {"study": scenario.name, "horizon": scenario.problem.horizon, **trust.describe()}
        about |= scenario.described_weather
        typer.echo(json.dumps({**about, **_plain(cells), "left_out": left_out, "picture": str(path)}))
    else:
        _show(scenario, cells, left_out, path)


def _names(policies: str) -> list[str]:
    """Read a list of policies; a name that is given twice counts once."""
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise InputError(f"no policy to compare in {policies!r}; name some, such as --policies {','.join(CONTENDERS)}")
    for name in names:
        find("policy", name, POLICIES)
    return list(dict.fromkeys(names))


def _asking_again(scenario: Scenario, cells: Cells) -> str:
    """Say which policies asked more people than there are."""
    people = scenario.population
    if not isinstance(people, FinitePopulation):
        return ""
    names = [name for name, cell in cells.items() if cell["people"].max() > len(people)]
    return f"there are {len(people):,} people to ask; asked some twice: {', '.join(names)}" if names else ""


def _plain(cells: Cells) -> dict[str, Any]:
    """Return what was found as plain data."""
    fields = ("regret", *comparison.COSTS, "seconds")
    return {
        "seeds": list(next(iter(cells.values())).runs),
        "policies": [
            {
                "policy": name,
                **{field: {"mean": cell.mean(field), "std": cell.std(field)} for field in fields},
                "optimum_kept": int(cell["kept"].sum()),
                "certificate_true": sum(run.certificate is True for run in cell.runs.values()),
                "certificates": sum(run.certificate is not None for run in cell.runs.values()),
            }
            for name, cell in cells.items()
        ],
        "frontier": comparison.frontier(cells),
    }


def _show(scenario: Scenario, cells: Cells, left_out: dict[str, str], path: Path) -> None:
    seeds = list(next(iter(cells.values())).runs)
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    console.print(
        table_of(comparison.HEADINGS, comparison.rows(cells), left=("policy",), title=f"{scenario.name}, {which}")
    )
    left = f"left out: {comparison.because(left_out)}" if left_out else ""
    said = (left, _asking_again(scenario, cells), comparison.verdict(cells), f"picture: {path}")
    say(*filter(None, said))
