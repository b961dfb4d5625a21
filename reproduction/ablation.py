"""DPBE and its ablations: regret against rounds, numbers sent, and running time.

fig:regret_compare, fig:regret_optimization_baselines, tab:runtime, tab:communication_time_baseline.
"""

from collections.abc import Iterator
from functools import partial

from reproduction.drawing import COLOURS, draw_costs, draw_curves
from reproduction.exhibits import STUDIES, Exhibit, Finding, Scale, Sheet, Shown, compare, ranged
from reproduction.paper import COST, judge_seconds, seconds_of
from voxpop.simulation.comparison import Cells, quantity
from voxpop.simulation.pictures import panels

FIGURES = {
    "synthetic": ("fig:regret_compare", "tab:runtime"),
    "sphere": ("fig:sphere", "fig:regret_optimization_baselines", "tab:communication_time_baseline"),
    "camel": ("fig:six-hump", "fig:regret_optimization_baselines", "tab:communication_time_baseline"),
    "michalewicz": ("fig:michalewicz", "fig:regret_optimization_baselines", "tab:communication_time_baseline"),
    "light": ("fig:light", "fig:regret_optimization_baselines", "tab:communication_time_baseline"),
}
POLICIES = {
    "DPBE": "dpbe-paper",
    "DPBE-Fixed": "dpbe-fixed",
    "DPBE-NoBatching": "dpbe-nobatching",
    "voxpop": "dpbe",
}


def exhibits(scale: Scale) -> Iterator[Exhibit]:
    """Make one exhibit for each study."""
    for study in STUDIES:
        yield Exhibit(
            name=f"ablation/{study}",
            title=f"DPBE, its ablations and voxpop's dpbe: {study}",
            labels=FIGURES[study],
            series={name: scale.trials(study, policy) for name, policy in POLICIES.items()},
            present=partial(present, study),
            text="DPBE, DPBE-Fixed and DPBE-NoBatching are the paper's, to the letter; voxpop is its own form, dpbe. "
            "Every run has a function of its own, drawn by its seed; readings/ has one function with many runs. "
            "Shaded: one standard deviation. On the right every dot is a run.",
        )


def present(study: str, cells: Cells) -> Shown:
    """Make the figure, the table and the findings for one study."""
    with panels(2) as (figure, (left, right)):
        draw_curves(left, cells, COLOURS, f"Regret: {study}")
        draw_costs(right, cells, COLOURS)
    return Shown(figure, [_table(study, cells)], _findings(study, cells))


def _table(study: str, cells: Cells) -> Sheet:
    rows, base = {}, (COST[study]["DPBE"][1], seconds_of(cells["DPBE"]))
    for name, cell in cells.items():
        paper, seconds = COST[study].get(name), seconds_of(cell)
        rows[name] = {
            "regret at T": f"{quantity(cell.mean())} ± {quantity(cell.std())}",
            "regret, median (range)": ranged(cell["regret"]),
            "numbers sent, paper": quantity(paper[0]) if paper else "",
            "numbers sent": quantity(cell.mean("numbers")),
            "numbers, median (range)": ranged(cell["numbers"]),
            "people asked": quantity(cell.mean("people")),
            "seconds, paper": quantity(paper[1]) if paper else "",
            "seconds": quantity(seconds),
            "seconds agree": judge_seconds(paper[1], seconds, *base) if paper else "",
            "optimum kept": cell.kept,
        }
    return Sheet.of(f"Numbers sent and running time: {study}", FIGURES[study][-1], "policy", rows)


def _findings(study: str, cells: Cells) -> list[Finding]:
    printed, fixed, single, ours = (cells[name] for name in POLICIES)
    shares = zip(COST[study]["DPBE"], COST[study]["DPBE-NoBatching"], strict=True)
    sent, took = (f"{less / more:.2g} times in the paper" for less, more in shares)
    found = [
        compare(f"{study}: DPBE loses less than DPBE-Fixed at the same cost", printed, fixed).because(REASONS["fixed"]),
        compare(f"{study}: DPBE-NoBatching loses a little less than DPBE", single, printed).because(REASONS["single"]),
        compare(f"{study}: DPBE sends less than DPBE-NoBatching ({sent})", printed, single, "numbers"),
        compare(f"{study}: DPBE takes less time than DPBE-NoBatching ({took})", printed, single, "seconds"),
    ]
    half = compare(f"{study}: voxpop's dpbe loses at most half of what DPBE loses", ours, printed, factor=0.5)
    cost = compare(f"{study}: voxpop's dpbe sends no more than DPBE", ours, printed, "numbers")
    return [*found, half.as_target(), cost.as_target()]


REASONS = {
    "fixed": "DPBE-Fixed asks the mean number of people, weighted by cost, from the first phase on. Where actions fall "
    "late, the costly late phases make that mean so large that DPBE-Fixed loses hardly more.",
    "single": "Most is lost before the first action falls, and that depends on B Sigma and on the people asked, hardly "
    "on the batches.",
}
