"""Pictures, tables and the report of some exhibits, as files."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.exhibits import Exhibit, Scale, Shown, Verdict
from voxpop.io.files import write_atomically
from voxpop.report.drawing import ORANGE, png, svg
from voxpop.report.page import fill
from voxpop.simulation.comparison import Cell, Cells, RunSummary, grid
from voxpop.simulation.trials import Trial

COLOURS: dict[Verdict, str] = {
    "reproduced": "good",
    "reached": "good",
    "not reproduced": "bad",
    "not reached": "bad",
    "undecided": "open",
}
FIELDS = ("regret", "numbers", "merged", "people", "waves", "seconds", "left", "norm_bound")


@dataclass(frozen=True)
class Part:
    """An exhibit with what was made of it."""

    exhibit: Exhibit
    shown: Shown
    picture: str
    missing: str = ""  # what to say if some of its runs failed


def cells_of(exhibit: Exhibit, summaries: Mapping[Trial, RunSummary]) -> Cells | None:
    """Sort the exhibit's runs by series; None if one of the series has no runs at all."""
    cells = {
        name: Cell({trial.seed: summaries[trial] for trial in trials if trial in summaries}, trials)
        for name, trials in exhibit.series.items()
    }
    return cells if all(cell.runs for cell in cells.values()) else None


def write_exhibit(exhibit: Exhibit, cells: Cells, folder: Path, note: str) -> Part:
    """Draw it with a note, and write its picture (PNG, SVG), its runs and its curves (CSV)."""
    shown = exhibit.present(cells)
    stem = exhibit.name.replace("/", "-")
    picture = ""
    wanted, have = len(exhibit.trials), sum(len(cell.runs) for cell in cells.values())
    missing = f"incomplete: {wanted - have} of {wanted} runs are missing" if have < wanted else ""
    if shown.figure is not None:
        for at, said, place in ((0.005, missing, ("left", "bottom")), (0.995, note, ("right", "top"))):
            shown.figure.text(at, at, said, ha=place[0], va=place[1], fontsize=8, color=ORANGE, weight="bold")
        if note:
            shown.figure.get_layout_engine().set(rect=(0, 0, 1, 0.965))  # type: ignore[union-attr, call-arg]
        picture = svg(shown.figure)
        write_atomically(folder / f"{stem}.svg", picture)
        write_atomically(folder / f"{stem}.png", png(shown.figure))
    write_atomically(folder / f"{stem}.csv", _csv(_summary(cells)))
    write_atomically(folder / f"{stem}-curves.csv", _csv(_curves(cells)))
    for number, table in enumerate(shown.tables, start=1):
        write_atomically(folder / f"{stem}-table-{number}.csv", _csv([table.headings, *table.rows]))
    return Part(exhibit, shown, picture, missing)


def write_report(parts: Sequence[Part], scale: Scale, runs: int, notices: Sequence[str], path: Path) -> None:
    """Write one self-contained page."""
    findings = [finding for part in parts for finding in part.shown.findings]
    page = fill(
        "paper.html.j2",
        Path(__file__).parent,
        parts=parts,
        claims=[finding for finding in findings if not finding.target],
        targets=[finding for finding in findings if finding.target],
        counts=lambda some: Counter(finding.verdict for finding in some),
        scale=scale,
        runs=runs,
        notices=notices,
        colours=COLOURS,
    )
    write_atomically(path, page)


def _summary(cells: Cells) -> Iterable[Sequence[Any]]:
    yield ("series", "runs", "kept", *(f"{name} {word}" for name in FIELDS for word in ("mean", "std")))
    for name, cell in cells.items():
        values = [value for field in FIELDS for value in (cell.mean(field), cell.std(field))]
        yield (name, len(cell.runs), int(cell["kept"].sum()), *(f"{value:.6g}" for value in values))


def _curves(cells: Cells) -> Iterable[Sequence[Any]]:
    """List mean and standard deviation of cumulative regret, one row for each series and round."""
    yield ("series", "round", "regret mean", "regret std")
    for name, cell in cells.items():
        rounds = grid(int(cell.trials[0].horizon or 0))
        for at, mean, std in zip(rounds, np.mean(cell.curves, axis=0), np.std(cell.curves, axis=0), strict=True):
            yield name, int(at), f"{mean:.6g}", f"{std:.6g}"


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
