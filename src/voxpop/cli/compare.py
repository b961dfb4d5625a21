"""`voxpop compare`: the same people, asked by different policies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from voxpop.cli.backend_options import AddressOption, BackendOption, JobsOption, run_all
from voxpop.cli.display import console
from voxpop.cli.people import PeopleIn, PopulationOption, ResampleOption, built_in, takes_people
from voxpop.cli.privacy import MODELS, DeltaOption, EpsilonOption
from voxpop.errors import InputError, require_choice, require_integer
from voxpop.io.files import file_stem, write_atomically
from voxpop.policies import POLICIES
from voxpop.report.drawing import png, sheet
from voxpop.simulation.comparison import CONTENDERS, COSTS, HEADINGS, because, frontier, rows, suitable, verdict
from voxpop.simulation.pictures import picture
from voxpop.simulation.rehearsals import Rehearsal
from voxpop.simulation.runs import Scenario
from voxpop.simulation.scenarios import SCENARIOS
from voxpop.simulation.simulator import FinitePopulation
from voxpop.simulation.summaries import Cell, Cells, perform
from voxpop.simulation.sweep import Backend
from voxpop.simulation.trials import Trial


@takes_people
def compare(
    study: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(SCENARIOS)}, or a study file; none for your own people.")
    ] = None,
    policies: Annotated[str, typer.Option(help=f"Some of {', '.join(POLICIES)}; with commas.")] = ",".join(CONTENDERS),
    seed: Annotated[int, typer.Option(help="The seed of the first run.")] = 0,
    runs: Annotated[int, typer.Option(help="The number of seeds, counting up from the first.")] = 10,
    horizon: Annotated[int | None, typer.Option(help="T, the number of rounds.")] = None,
    privacy: Annotated[
        str | None, typer.Option(help=f"Whom people trust: {MODELS}; central if only --epsilon is given.")
    ] = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = 1e-6,
    out: Annotated[Path, typer.Option(help="The folder for the picture.")] = Path("voxpop-compare"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
    backend: BackendOption = "local",
    address: AddressOption = None,
    jobs: JobsOption = None,
    resample: ResampleOption = None,
    population: PopulationOption = None,
    *,
    people_in: PeopleIn,
) -> None:
    """Compare policies on the same simulated people: what each loses, and what it asks of people.

    Prints a table, draws regret against numbers sent, people and waves, and says which policies no other beats in both
    regret and numbers.
    """
    require_integer("runs", runs, least=1)
    where = Backend(backend, address, jobs)
    model = privacy or (None if epsilon is None else "central")
    people = people_in(population)
    first: Trial | Rehearsal
    if (named := built_in(study, people, resample)) is not None:
        first = Trial(named, "", seed, horizon, privacy=model or "none", epsilon=epsilon, delta=delta)
    else:
        again = None if resample is None else str(resample)
        first = Rehearsal(study, "", seed, horizon, model, epsilon, delta, people, again)
    names, scenario, trust = _names(policies), first.scenario(), first.make_privacy()
    made = {name: replace(first, policy=name).make_policy(scenario) for name in names}
    chosen, left_out = suitable(made, scenario, trust)
    sheet(1, 1)  # refuses now, before anything is run, if nothing can be drawn
    out.mkdir(parents=True, exist_ok=True)
    seeds = range(seed, seed + runs)
    trials = {name: [replace(first, policy=name, seed=number) for number in seeds] for name in chosen}
    slowest_first = [trial for name in reversed(chosen) for trial in trials[name]]
    found = run_all(perform, slowest_first, where)
    cells = {name: Cell({trial.seed: found[trial] for trial in trials[name]}) for name in chosen}
    path = out / f"{file_stem(scenario.name)}.png"
    write_atomically(path, png(picture(scenario.name, cells)))
    if as_json:
        about = {"study": scenario.name, "horizon": scenario.problem.horizon, **trust.describe()}
        typer.echo(json.dumps({**about, **_plain(cells), "left_out": left_out, "picture": str(path)}))
    else:
        _show(scenario, cells, left_out, path)


def _names(policies: str) -> list[str]:
    """Read a list of policies; a name that is given twice counts once."""
    names = [name.strip() for name in policies.split(",") if name.strip()]
    if not names:
        raise InputError(f"no policy to compare in {policies!r}; name some, such as --policies {','.join(CONTENDERS)}")
    return list(dict.fromkeys(require_choice("policy", name, POLICIES) for name in names))


def _asking_again(scenario: Scenario, cells: Cells) -> str:
    """Say which policies asked more people than there are."""
    people = scenario.population
    if not isinstance(people, FinitePopulation):
        return ""
    names = [name for name, cell in cells.items() if cell["people"].max() > len(people)]
    return f"there are {len(people):,} people to ask; asked some twice: {', '.join(names)}" if names else ""


def _plain(cells: Cells) -> dict[str, Any]:
    """Return what was found as plain data."""
    fields = ("regret", *COSTS, "seconds")
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
        "frontier": frontier(cells),
    }


def _show(scenario: Scenario, cells: Cells, left_out: dict[str, str], path: Path) -> None:
    title = scenario.name
    seeds = list(next(iter(cells.values())).runs)
    above = f"{title}, seed {seeds[0]}" if len(seeds) == 1 else f"{title}, seeds {seeds[0]} to {seeds[-1]}"
    shown = Table(title=above, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for heading in HEADINGS:
        first = heading == "policy"
        shown.add_column(heading, justify="left" if first else "right", no_wrap=first)
    for line in rows(cells):
        shown.add_row(*line)
    console.print(shown)
    if left_out:
        console.print(f"left out: {because(left_out)}", highlight=False, markup=False, soft_wrap=True)
    if again := _asking_again(scenario, cells):
        console.print(again, highlight=False, soft_wrap=True)
    console.print(verdict(cells), highlight=False, markup=False, soft_wrap=True)
    console.print(f"picture: {path}", highlight=False, markup=False, soft_wrap=True)
