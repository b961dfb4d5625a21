"""`voxpop run`: a simulated study from start to report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from voxpop.cli.display import console, show_phases, show_summary, watched_run
from voxpop.cli.privacy import MODELS, DeltaOption, EpsilonOption
from voxpop.cli.stopping import Limits, takes_limits
from voxpop.formats.files import file_stem, write_atomically
from voxpop.formats.studyfile import read_rehearsal
from voxpop.lab.trials import Trial, policy_settings
from voxpop.policies import make_policy
from voxpop.privacy import make_privacy


@takes_limits
def run(
    study: Annotated[
        Path | None, typer.Argument(help="A study file (TOML); without one, the built-in pricing study.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the simulated people.")] = 0,
    out: Annotated[Path, typer.Option(help="The folder for the report and its pictures.")] = Path("voxpop-report"),
    privacy: Annotated[
        str | None, typer.Option(help=f"Whom people trust: {MODELS}; central if only --epsilon is given.")
    ] = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = 1e-6,
    report: Annotated[bool, typer.Option(help="Write the HTML report.")] = True,
    *,
    limits: Limits,
) -> None:
    """Find the best decision: ask samples of people in a few waves, and report what to do.

    Without a study file this is a pricing study for a simulated population of customers. The model's constants come
    from a pilot of 40 customers, never from the truth; the truth is only used to say what the answer is worth.
    """
    given = privacy is not None or epsilon is not None
    trust = make_privacy(privacy or "central" if given else "none", epsilon, delta)
    if study is None:
        trial = Trial("pricing", seed=seed, **limits)
        with console.status("asking 40 customers in a pilot, and calibrating"):
            scenario = trial.scenario()
        policy = trial.make_policy(scenario)
    else:
        scenario, planned_policy, planned = read_rehearsal(study)
        policy = make_policy(**planned_policy.settings() | policy_settings(limits))
        trust = trust if given else planned
    result = watched_run(scenario, policy, seed, trust)
    show_phases(result)
    show_summary(result)
    if report:
        from voxpop.report.drawing import png
        from voxpop.report.figures import overview
        from voxpop.report.page import render

        stem = file_stem(scenario.name)
        page, picture = out / f"{stem}.html", out / f"{stem}.png"
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(page, render(result.course, result.scenario.f))
        write_atomically(picture, png(overview(result.course, result.scenario.f)))
        console.print(f"report: {page}\npicture: {picture}", highlight=False, soft_wrap=True)
