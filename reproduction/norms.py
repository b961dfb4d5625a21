"""What the norm bound does: the paper's B against the true norm. The paper has no such figure: it assumes that B is
known or 1.
"""

from collections.abc import Iterator

from reproduction.drawing import COLOURS, draw_bars
from reproduction.exhibits import OURS, STUDIES, Exhibit, Finding, Scale, Sheet, Shown, compare
from voxpop.simulation.comparison import Cells, quantity
from voxpop.simulation.pictures import panels
from voxpop.simulation.scenarios import least_norm

NORMS = {"B of the paper": False, "true norm": True}


def exhibits(scale: Scale) -> Iterator[Exhibit]:
    """Make the exhibit of all studies with both bounds; on `synthetic` they are the same."""
    series = {
        _key(study, name, norm): scale.trials(study, policy, true_norm=true)
        for study in STUDIES
        for name, policy in OURS.items()
        for norm, true in NORMS.items()
    }
    yield Exhibit(
        name="norms",
        title="The norm bound: the paper's B, and a valid one",
        labels=(),
        series=series,
        present=present,
        text="B = 1 is far too small for the benchmark functions and the sensors, so no width is valid there, the "
        "paper's or ours; the best action may be dropped. With the true norm of the function on the decision set "
        "every width is valid. voxpop's dpbe notices a refuted bound and doubles it.",
    )


def _key(study: str, name: str, norm: str) -> str:
    return f"{study}, {name}, {norm}"


def present(cells: Cells) -> Shown:
    """Draw bars of regret and numbers sent."""
    bars = {
        f"{name}, {norm}": ([cells[_key(study, name, norm)] for study in STUDIES], COLOURS[name], "//" * true)
        for name in OURS
        for norm, true in NORMS.items()
    }
    with panels(2) as (figure, axes):
        draw_bars(axes, STUDIES, bars)
    return Shown(figure, [_table(cells)], _findings(cells))


def _table(cells: Cells) -> Sheet:
    rows = {}
    for study in STUDIES:
        scenario = cells[_key(study, "DPBE", "B of the paper")].trials[0].scenario()
        bounds = scenario.problem.norm_bound, least_norm(scenario.problem, scenario.f)
        rows[study] = dict(zip(("B, paper", "true norm, seed 0"), map(quantity, bounds), strict=True))
        for norm in NORMS:
            for name in OURS:
                cell = cells[_key(study, name, norm)]
                rows[study][f"{name}, {norm}"] = f"{quantity(cell.mean())} ({cell.kept} kept)"
    return Sheet.of("Regret by norm bound", "", "study", rows)


def _findings(cells: Cells) -> list[Finding]:
    found = []
    for study in STUDIES:
        printed, ours = (cells[_key(study, name, "true norm")] for name in OURS)
        half = f"{study}: with a valid norm bound voxpop's dpbe loses at most half of what DPBE loses"
        less = f"{study}: with a valid norm bound voxpop's dpbe sends no more than DPBE"
        found += [
            compare(half, ours, printed, factor=0.5).as_target(),
            compare(less, ours, printed, "numbers").as_target(),
        ]
    return found
