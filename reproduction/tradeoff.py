"""Regret and numbers sent of DPBE against alpha, the person-sampling parameter: fig:tradeoff."""

from collections.abc import Iterator, Mapping

from reproduction import theory
from reproduction.drawing import COLOURS, draw_trend
from reproduction.exhibits import OURS, Exhibit, Finding, Scale, Sheet, Shown, ranged, trend
from reproduction.paper import COST, COST_AT_LARGEST_ALPHA, TRADEOFF_ALPHAS
from voxpop.gp.selection import BatchRule
from voxpop.simulation.comparison import Cell, Cells, quantity
from voxpop.simulation.pictures import logarithmic, panels

RULES: dict[str, BatchRule] = {"DPBE": "printed", "voxpop": "corrected"}
RATIO = 1.6
PAPER = {0.7: COST["synthetic"]["DPBE"][0], 0.9: COST_AT_LARGEST_ALPHA}


def exhibits(scale: Scale) -> Iterator[Exhibit]:
    """Make the exhibit of the trade-off on the synthetic function."""
    series = {
        f"{name}, alpha = {alpha}": scale.trials("synthetic", policy, settings={"alpha": alpha})
        for name, policy in OURS.items()
        for alpha in TRADEOFF_ALPHAS
    }
    yield Exhibit(
        name="tradeoff",
        title="More people asked, less regret",
        labels=("fig:tradeoff",),
        series=series,
        present=present,
        text="Dashed: what the theorems promise at most (thm:regret_upper_bound and thm:communication, phase by "
        "phase, with our form of the lemmas), for the first seed's function.",
    )


def present(cells: Cells) -> Shown:
    """Draw regret and numbers sent against alpha."""
    by_alpha: dict[str, Mapping[float, Cell]] = {
        name: {alpha: cells[f"{name}, alpha = {alpha}"] for alpha in TRADEOFF_ALPHAS} for name in OURS
    }
    problem = next(iter(cells.values())).trials[0].scenario().problem
    with panels(2) as (figure, (left, right)):
        for name, found in by_alpha.items():
            draw_trend(left, found, "regret", name, COLOURS[name])
            draw_trend(right, found, "numbers", name, COLOURS[name])
            for ax, most in ((left, theory.regret), (right, theory.numbers_sent)):
                bounds = [most(problem, alpha, RATIO, RULES[name]) for alpha in TRADEOFF_ALPHAS]
                ax.plot(TRADEOFF_ALPHAS, bounds, "--", color=COLOURS[name], linewidth=1, label=f"{name}, at most")
        right.plot(list(PAPER), list(PAPER.values()), "x", color="black", markersize=8, label="DPBE in the paper")
        for ax, title, label in ((left, "Regret at T", "regret"), (right, "Numbers sent", "numbers")):
            logarithmic(ax, "y")
            ax.set(title=title, xlabel="alpha", ylabel=label)
        right.legend(fontsize=8, loc="upper left")
    rows = {}
    for alpha in TRADEOFF_ALPHAS:
        at = {name: cells[alpha] for name, cells in by_alpha.items()}
        rows[str(alpha)] = {
            **{f"regret, {name}": quantity(cell.mean()) for name, cell in at.items()},
            "numbers, paper": quantity(PAPER[alpha]) if alpha in PAPER else "",
            **{f"numbers, {name}": quantity(cell.mean("numbers")) for name, cell in at.items()},
            "DPBE, median (range)": ranged(at["DPBE"]["numbers"]),
        }
    table = Sheet.of("Regret and numbers sent by alpha", "fig:tradeoff", "alpha", rows)
    return Shown(figure, [table], _claims(by_alpha))


def _claims(by_alpha: Mapping[str, Mapping[float, Cell]]) -> list[Finding]:
    printed = by_alpha["DPBE"]
    return [
        trend("DPBE's regret falls with alpha", printed, "regret", rises=False).because(REASONS["regret"]),
        trend("DPBE's cost rises with alpha", printed, "numbers", rises=True).because(REASONS["cost"]),
    ]


REASONS = {
    "regret": "From some alpha on, what is lost before the first action falls depends on B Sigma, not on the people.",
    "cost": "With few people in a phase more phases are needed; readings/synthetic has the paper's dip.",
}
