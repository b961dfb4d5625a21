"""`voxpop simulate`: any study, any policy, many seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from voxpop.cli.display import console, errors, progress, show_phases, show_summary, watched
from voxpop.cli.privacy import (
    CalibrationOption,
    DeltaOption,
    EpsilonOption,
    FloorOption,
    PrivacyOption,
    make_privacy,
)
from voxpop.errors import require_integer
from voxpop.memory import statement
from voxpop.policies import POLICIES, make_policy, settings_of
from voxpop.policies.dpbe import matching_users
from voxpop.problem import GRAM_LIMIT
from voxpop.scenarios import SCENARIOS, Options, make_scenario
from voxpop.simulate import Run
from voxpop.simulate import simulate as simulate_once


def simulate(
    study: Annotated[str, typer.Argument(help=f"One of {', '.join(SCENARIOS)}.")],
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(POLICIES)}.")] = "dpbe",
    alpha: Annotated[float | None, typer.Option(help="Phase l asks ceil(2^(alpha l)) people.")] = None,
    ratio: Annotated[float | None, typer.Option(help="C, how rarely the action is switched; above 1.")] = None,
    horizon: Annotated[int | None, typer.Option(help="T, the number of rounds.")] = None,
    size: Annotated[int | None, typer.Option(help="n, the number of actions.")] = None,
    privacy: PrivacyOption = "none",
    epsilon: EpsilonOption = None,
    delta: DeltaOption = 1e-6,
    calibration: CalibrationOption = "exact",
    floor: FloorOption = None,
    seed: Annotated[int, typer.Option(help="The seed of the first run.")] = 0,
    runs: Annotated[int, typer.Option(help="How many seeds, counting up from the first.")] = 1,
    data: Annotated[Path | None, typer.Option(help="The folder of the light-sensor data.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a run, and nothing else.")] = False,
) -> None:
    """Simulate a study with the paper's settings, or your own."""
    require_integer("runs", runs, least=1)
    trust = make_privacy(privacy, epsilon, delta, calibration, floor)
    chosen = {name: value for name, value in (("alpha", alpha), ("ratio", ratio)) if value is not None}

    def one(number: int, show: bool = False) -> Run:
        scenario = make_scenario(study, Options(number, size, horizon, data))
        if number == seed and scenario.problem.size > GRAM_LIMIT:
            errors.print(statement(scenario.problem.size), style="dim", highlight=False)
        taken = {name: value for name, value in scenario.settings.items() if name in settings_of(policy)}
        if policy == "dpbe-fixed":
            reference = simulate_once(scenario, make_policy("dpbe-paper", **{**taken, **chosen}), number)
            taken["users"] = matching_users(reference.plans)
        made = make_policy(policy, **{**taken, **chosen})
        return watched(scenario, made, number, trust) if show else simulate_once(scenario, made, number, trust)

    if runs == 1:
        result = one(seed, show=not as_json)
        if as_json:
            typer.echo(json.dumps(result.as_dict()))
        else:
            show_phases(result)
            show_summary(result)
        return
    results = []
    with progress(runs, "runs") as (bar, task):
        for number in range(seed, seed + runs):
            results.append(one(number))
            bar.advance(task)
    if as_json:
        for result in results:
            typer.echo(json.dumps(result.as_dict()))
    else:
        _show_table(results)


def _show_table(results: list[Run]) -> None:
    first, last = results[0], results[-1]
    title = f"{first.scenario.name}, {first.policy.name}, seeds {first.seed} to {last.seed}"
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for name in ("", "mean", "std", "least", "most"):
        table.add_column(name, justify="left" if not name else "right")
    rows = {
        "regret": [run.metrics.regret for run in results],
        "numbers sent": [float(run.metrics.communication) for run in results],
        "people asked": [float(run.metrics.participants) for run in results],
        "seconds": [run.seconds for run in results],
    }
    for name, values in rows.items():
        digits = 3 if name == "seconds" else 0
        cells = (np.mean(values), np.std(values), np.min(values), np.max(values))
        table.add_row(name, *(f"{cell:,.{digits}f}" for cell in cells))
    console.print(table)
    kept = sum(run.optimum_kept for run in results)
    console.print(f"optimum kept in {kept} of {len(results)} runs", highlight=False)
