"""`voxpop run`: a simulated study from start to report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from voxpop.cli.display import console, show_people, show_summary, show_waves, watched_run
from voxpop.cli.people import PeopleIn, ResampleOption, split_population, takes_people
from voxpop.cli.privacy import MODELS, DeltaOption, EpsilonOption
from voxpop.cli.stopping import Limits, takes_limits
from voxpop.io.files import file_stem
from voxpop.simulation.rehearsals import Rehearsal
from voxpop.simulation.trials import Trial, policy_settings

TYPICAL = 15  # the pricing study loses as much as the median of seeds 0 to 19; with seed 0 it is far unluckier


@takes_limits
@takes_people
def run(
    study: Annotated[
        Path | None, typer.Argument(help="A study file (TOML); without one, your own people or the pricing study.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the simulated people.")] = TYPICAL,
    out: Annotated[Path, typer.Option(help="The folder for the report and its pictures.")] = Path("voxpop-report"),
    privacy: Annotated[
        str | None, typer.Option(help=f"Whom people trust: {MODELS}; central if only --epsilon is given.")
    ] = None,
    epsilon: EpsilonOption = None,
    delta: DeltaOption = 1e-6,
    report: Annotated[bool, typer.Option(help="Write the HTML report.")] = True,
    resample: ResampleOption = None,
    *,
    limits: Limits,
    people_in: PeopleIn,
) -> None:
    """Find the best decision: ask samples of people in a few waves, and report what to do.

    Without a study file this is a study of your own people, or else a pricing study for a simulated population of
    customers. The model's constants come from a pilot of 40 people, never from the truth; the truth is only used to
    say what the answer is worth.
    """
    model = privacy or (None if epsilon is None else "central")
    file, limits = split_population(limits)
    people = people_in(file)
    trial: Trial | Rehearsal
    if study is None and people is None and resample is None:
        trial = Trial("pricing", seed=seed, privacy=model or "none", epsilon=epsilon, delta=delta, **limits)
    else:
        trial = Rehearsal(
            None if study is None else str(study),
            seed=seed,
            privacy=model,
            epsilon=epsilon,
            delta=delta,
            people=people,
            resample=None if resample is None else str(resample),
            settings=tuple(policy_settings(limits).items()),
        )
    trust = trial.make_privacy()
    with console.status("preparing the study" if study else "asking people in a pilot, and calibrating"):
        scenario = trial.scenario()
    result = watched_run(scenario, trial.make_policy(scenario), seed, trust)
    show_people(result)
    show_waves(result.course)
    show_summary(result.course, scenario.f)
    if report:
        from voxpop.report.page import write_report

        page, picture = write_report(result.course, out, file_stem(scenario.name), scenario.f)
        console.print(f"report: {page}\npicture: {picture}", highlight=False, soft_wrap=True)
