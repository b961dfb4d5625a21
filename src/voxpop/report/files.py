"""The files of a report: the page and its picture."""

from __future__ import annotations

from pathlib import Path

from voxpop.core.errors import Array
from voxpop.drivers.course import Course
from voxpop.formats.files import write_atomically


def write_report(course: Course, folder: Path, stem: str, truth: Array | None = None) -> tuple[Path, Path]:
    """Write the page about a study and its picture to a folder; return where they are."""
    from voxpop.report.drawing import png
    from voxpop.report.figures import overview
    from voxpop.report.page import render

    page, picture = folder / f"{stem}.html", folder / f"{stem}.png"
    # Both are made before anything is written.
    made: dict[Path, str | bytes] = {page: render(course, truth), picture: png(overview(course, truth))}
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in made.items():
        write_atomically(path, content)
    return page, picture
