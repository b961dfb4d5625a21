"""Self-contained HTML pages, and the one about a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from voxpop import __version__
from voxpop.errors import Array, InputError
from voxpop.io.files import write_atomically
from voxpop.journal.journal import Course
from voxpop.model.words import number
from voxpop.report.drawing import DARK, LIGHT, inline, png
from voxpop.report.figures import FIRST, draw, overview, pictures
from voxpop.report.summary import summarise
from voxpop.report.tables import wave_table
from voxpop.report.view import View

ASSUMED = (
    ("noise σ: how much one round of one person varies", "noise_std"),
    ("deviation v: how much a person differs from the population", "bias_std"),
    ("norm bound B: how strongly the reward can vary between decisions", "norm_bound"),
    ("prior mean: the reward to expect before any answer", "prior_mean"),
)


def fill(template: str, folder: Path | None = None, **values: Any) -> str:
    """Fill in a template of this folder, or of another one; the page loads nothing from outside."""
    try:
        import jinja2
    except ImportError:
        raise InputError("the report needs jinja2; install it with: pip install 'voxpop[report]'") from None

    loader = jinja2.ChoiceLoader([jinja2.FileSystemLoader(folder or ()), jinja2.PackageLoader("voxpop", "report")])
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(template).render(version=__version__, light=LIGHT, dark=DARK, **values)


def render(course: Course, truth: Array | None = None) -> str:
    """Render the page about a study; `truth` is known of simulations only.

    >>> from voxpop.simulation.trials import Trial
    >>> run = Trial("pricing", size=25, horizon=2000, settings={"answer_cost": 1e9}).run()
    >>> "Nobody was asked" in render(run.course)
    True
    """
    view, calibration = View(course, truth), course.calibration
    told = course.direction.problem(course.problem)  # in the units of its owner
    head, *lines = summarise(course, truth)
    drawn = {name: _drawn(view, name) for name in pictures(view)}
    return fill(
        "page.html.j2",
        head=head,
        tiles=[line for line in lines if line.first],
        lines=[line for line in lines if not line.first],
        first=[picture for name, picture in drawn.items() if name in FIRST],
        others=[picture for name, picture in drawn.items() if name not in FIRST],
        table=wave_table(course),
        view=view,
        course=course,
        simulated=truth is not None,
        number=number,
        calibration=calibration,
        constants=[(label, getattr(told, name), getattr(calibration, name, None)) for label, name in ASSUMED],
        lengths=calibration.length_scales.items() if calibration else (),
    )


def _drawn(view: View, name: str) -> dict[str, str]:
    """Draw a picture for the page."""
    figure, caption = draw(view, name)
    return {"name": name, "svg": inline(figure, name, figure.get_suptitle(), caption), "caption": caption}


def write_report(course: Course, folder: Path, stem: str, truth: Array | None = None) -> tuple[Path, Path]:
    """Write the page about a study and its picture to a folder; return where they are."""
    page, picture = folder / f"{stem}.html", folder / f"{stem}.png"
    # Both are made before anything is written.
    made: dict[Path, str | bytes] = {page: render(course, truth), picture: png(overview(course, truth))}
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in made.items():
        write_atomically(path, content)
    return page, picture
