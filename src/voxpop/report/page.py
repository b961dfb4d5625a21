"""Self-contained HTML pages, and the one about a study."""

from __future__ import annotations

from typing import Any

from voxpop import __version__
from voxpop.core.errors import Array, InputError
from voxpop.drivers.course import Course
from voxpop.report.drawing import svg
from voxpop.report.figures import DRAWINGS, figure
from voxpop.report.phases import phase_table, phase_word
from voxpop.report.summary import confidence, describe, number, summarise


def fill(template: str, **values: Any) -> str:
    """Fill in a template of this folder; the page loads nothing from outside."""
    try:
        import jinja2
    except ImportError:
        raise InputError("the report needs jinja2; install it with: pip install 'voxpop[report]'") from None

    loader = jinja2.PackageLoader("voxpop", "report")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(template).render(version=__version__, **values)


def render(course: Course, truth: Array | None = None) -> str:
    """Render the page about a study; `truth` is known of simulations only."""
    problem, calibration = course.problem, course.calibration
    constants = [
        ("per-round noise of a person, σ", "noise_std"),
        ("deviation of a person, v", "bias_std"),
        ("norm bound, B", "norm_bound"),
        ("prior mean", "prior_mean"),
    ]
    return fill(
        "page.html.j2",
        title=f"{course.name}: {describe(course.answer.decision)}",
        lines=summarise(course, truth),
        pictures=[svg(figure(course, name, truth)) for name in DRAWINGS if name != "regret" or truth is not None],
        table=phase_table(course),
        word=phase_word(course),
        sure=confidence(course.policy, problem, len(course.phases)),
        course=course,
        simulated=truth is not None,
        problem=problem,
        number=number,
        describe=describe,
        calibration=calibration,
        constants=[(label, getattr(problem, name), getattr(calibration, name, None)) for label, name in constants],
        lengths=calibration.length_scales.items() if calibration else (),
    )
