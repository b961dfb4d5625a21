"""`voxpop simulate`: any study, any policy, many seeds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from voxpop.cli.backend_options import AddressOption, BackendOption, DataOption, JobsOption, run_all
from voxpop.cli.display import console, errors, show_people, show_summary, show_waves, watched
from voxpop.cli.people import PeopleIn, ResampleOption, built_in, split_population, takes_people
from voxpop.cli.privacy import CalibrationOption, DeltaOption, EpsilonOption, FloorOption, HonestOption, PrivacyOption
from voxpop.cli.stopping import Limits, takes_limits
from voxpop.errors import InputError, require_integer
from voxpop.model.problem import GRAM_LIMIT
from voxpop.policies import DEFAULT, POLICIES
from voxpop.runtime.machine import statement
from voxpop.simulation.rehearsals import Rehearsal
from voxpop.simulation.scenarios import SCENARIOS
from voxpop.simulation.sweep import Backend
from voxpop.simulation.trials import Trial, policy_settings


@takes_limits
@takes_people
def simulate(
    study: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(SCENARIOS)}, or a study file; none for your own people.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(POLICIES)}; the study file's or {DEFAULT} unless given.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Wave l of dpbe asks ceil(2^(alpha l)) people.")] = None,
    ratio: Annotated[float | None, typer.Option(help="C of dpbe, how rarely the action is switched; above 1.")] = None,
    horizon: Annotated[int | None, typer.Option(help="T, the number of rounds.")] = None,
    size: Annotated[int | None, typer.Option(help="n, the number of actions.")] = None,
    privacy: PrivacyOption = "none",
    epsilon: EpsilonOption = None,
    delta: DeltaOption = 1e-6,
    calibration: CalibrationOption = "exact",
    floor: FloorOption = None,
    honest: HonestOption = None,
    seed: Annotated[int, typer.Option(help="The seed of the first run.")] = 0,
    runs: Annotated[int, typer.Option(help="The number of seeds, counting up from the first.")] = 1,
    noise_std: Annotated[float | None, typer.Option(help="sigma, the noise of one person's round.")] = None,
    bias_std: Annotated[float | None, typer.Option(help="v, how far people are from the population.")] = None,
    true_norm: Annotated[bool, typer.Option(help="Take the norm bound B from the truth, not from the paper.")] = False,
    data: DataOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per run, and nothing else.")] = False,
    backend: BackendOption = "local",
    address: AddressOption = None,
    jobs: JobsOption = None,
    resample: ResampleOption = None,
    *,
    limits: Limits,
    people_in: PeopleIn,
) -> None:
    """Simulate a study with the paper's settings, or with your own; with built-in people, a pilot's, or yours."""
    require_integer("runs", runs, least=1)
    where = Backend(backend, address, jobs)
    file, limits = split_population(limits)
    people = people_in(file)
    named = built_in(study, people, resample)
    own: dict[str, Any] = {  # of the built-in studies
        "size": size,
        "noise_std": noise_std,
        "bias_std": bias_std,
        "true_norm": true_norm or None,
        "calibration": None if calibration == "exact" else calibration,
        "floor": floor,
        "honest": honest,
        "data": None if data is None else str(data),
    }
    own = {name: value for name, value in own.items() if value is not None}
    settings = {"alpha": alpha, "ratio": ratio, **limits}
    settings = {name: value for name, value in settings.items() if value is not None}
    first: Trial | Rehearsal
    if named is not None:
        first = Trial(
            named, policy or DEFAULT, seed, horizon, privacy=privacy, epsilon=epsilon, delta=delta, **own, **settings
        )
    elif own:
        option = next(iter(own)).replace("_", "-")
        raise InputError(f"--{option} is for the built-in studies; leave it out")
    else:
        first = Rehearsal(
            study,
            policy or "",
            seed,
            horizon,
            None if privacy == "none" and epsilon is None else privacy,
            epsilon,
            delta,
            people,
            None if resample is None else str(resample),
            tuple(policy_settings(settings).items()),
        )
    first.make_privacy()  # refuses bad settings now, before anything is run
    if size is not None and size > GRAM_LIMIT:
        errors.print(statement(size), style="dim", highlight=False)
    if runs == 1:
        if as_json:
            typer.echo(json.dumps(first.run().as_dict()))
        else:
            result = watched(first)
            show_people(result)
            show_waves(result.course)
            show_summary(result.course, result.scenario.f)
        return
    trials = [replace(first, seed=number) for number in range(seed, seed + runs)]
    found = run_all(_perform, trials, where)
    results = [found[trial] for trial in trials]
    if as_json:
        for each in results:
            typer.echo(json.dumps(each))
    else:
        _show_table(results)


def _perform(trial: Trial | Rehearsal) -> dict[str, Any]:
    return trial.run().as_dict()


def _show_table(results: list[dict[str, Any]]) -> None:
    first, last = results[0], results[-1]
    title = f"{first['study']}, {first['policy']}, seeds {first['seed']} to {last['seed']}"
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for name in ("", "mean", "std", "least", "most"):
        table.add_column(name, justify="left" if not name else "right")
    rows = {"regret": "regret", "numbers sent": "numbers", "people asked": "people", "seconds": "seconds"}
    for name, key in rows.items():
        values = [result[key] for result in results]
        digits = 3 if name == "seconds" else 0
        cells = (np.mean(values), np.std(values), np.min(values), np.max(values))
        table.add_row(name, *(f"{cell:,.{digits}f}" for cell in cells))
    console.print(table)
    kept = sum(result["optimum_kept"] for result in results)
    console.print(f"optimum kept in {kept} of {len(results)} runs", highlight=False)
