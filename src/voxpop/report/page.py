"""One self-contained HTML page about a run."""

from __future__ import annotations

from importlib.resources import files

from voxpop import __version__
from voxpop.errors import InputError
from voxpop.report.figures import DRAWINGS, figure, svg
from voxpop.report.summary import describe, number, summarise
from voxpop.simulate import Run


def render(run: Run) -> str:
    """The page; it loads nothing from outside."""
    try:
        import jinja2
    except ImportError:
        raise InputError("the report needs jinja2; install it with: pip install 'voxpop[report]'") from None

    source = files("voxpop.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    problem, calibration = run.scenario.problem, run.scenario.calibration
    constants = [
        ("per-round noise of a user, σ", "noise_std"),
        ("deviation of a user, v", "bias_std"),
        ("norm bound, B", "norm_bound"),
        ("prior mean", "prior_mean"),
    ]
    return environment.from_string(source).render(
        title=f"{run.scenario.name}: {describe(problem.decisions[run.best])}",
        lines=summarise(run),
        pictures=[svg(figure(run, name)) for name in DRAWINGS],
        steps=run.steps,
        run=run,
        problem=problem,
        number=number,
        describe=describe,
        version=__version__,
        calibration=calibration,
        constants=[(label, getattr(problem, name), getattr(calibration, name, None)) for label, name in constants],
        lengths=calibration.length_scales.items() if calibration else (),
    )
