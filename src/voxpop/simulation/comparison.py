"""Policies compared on the same people, in one call; `voxpop compare` does the same in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from voxpop.errors import InputError, one_of
from voxpop.policies import Policy
from voxpop.privacy import NoPrivacy, Privacy
from voxpop.simulation.runs import Scenario, simulate
from voxpop.simulation.summaries import Cell, Cells, quantity, summarise

# The default first, then what a practitioner would use instead.
CONTENDERS = ("waves", "dpbe", "pilot-only", "equal-split", "halving", "thompson", "gp-ucb")
COSTS = {"numbers": "numbers sent", "people": "people asked", "waves": "waves"}
HEADINGS = ("policy", "regret at T", *COSTS.values(), "optimum kept", "certificate true")


@dataclass(frozen=True, repr=False)
class Comparison:
    """What each policy lost and asked for; printed as a table.

    >>> from voxpop import make_scenario
    >>> from voxpop.simulation.scenarios import Options
    >>> found = compare(make_scenario("sphere", Options(size=15, horizon=500)), ["waves", "equal-split"], seeds=[0])
    >>> print(found)  # doctest: +ELLIPSIS
    policy       regret at T  numbers sent  people asked  waves  optimum kept  certificate true
    waves        ...
    equal-split  ...
    No policy beats ... in both regret and numbers sent.
    >>> found.cells["equal-split"].mean("people")
    100.0
    """

    study: str
    cells: Cells  # by policy: `cells["waves"].mean("regret")`, and also numbers, people and waves
    left_out: dict[str, str]  # policies that make no sense for this study, with the reason

    @property
    def frontier(self) -> list[str]:
        """The policies that no other beats in both regret and numbers sent."""
        return frontier(self.cells)

    def __repr__(self) -> str:
        lines = [HEADINGS, *rows(self.cells)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([*shown, verdict(self.cells)])


def compare(
    study: Scenario | Callable[[int], Scenario],
    policies: Iterable[str] = CONTENDERS,
    seeds: Iterable[int] = range(5),
    privacy: Privacy | None = None,
) -> Comparison:
    """Let policies ask the same simulated people, once for each seed.

    Give a function of the seed instead of a scenario to have a new pilot in every run.

    >>> from voxpop import make_scenario
    >>> from voxpop.simulation.scenarios import Options
    >>> found = compare(make_scenario("sphere", Options(size=15, horizon=1000)), ["waves", "gp-ucb"], seeds=range(2))
    >>> found.cells["waves"].mean("people") < found.cells["gp-ucb"].mean("people")
    True
    """
    trust = privacy or NoPrivacy()
    scenarios = {seed: study if isinstance(study, Scenario) else study(seed) for seed in seeds}
    if not scenarios:
        raise InputError("there are no seeds to run; give at least one, such as range(5)")
    first = next(iter(scenarios.values()))
    chosen, reasons = suitable({name: first.make_policy(name) for name in policies}, first, trust)
    cells = {
        name: Cell({seed: summarise(simulate(made, name, seed, trust)) for seed, made in scenarios.items()})
        for name in chosen
    }
    return Comparison(first.name, cells, reasons)


def suitable(policies: Mapping[str, Policy], scenario: Scenario, privacy: Privacy) -> tuple[list[str], dict[str, str]]:
    """Choose the policies that make sense for a study, and say why the others do not."""
    reasons = {
        name: f"asks one person per round, whom the {privacy.model} model cannot hide"
        for name, policy in policies.items()
        if privacy.model != "none" and not policy.aggregates
    }
    if "pilot-only" in policies and not scenario.problem.pilot:
        reasons["pilot-only"] = "needs a pilot, and this study has none"
    chosen = [name for name in policies if name not in reasons]
    if not chosen:
        raise InputError(f"nothing is left to compare: {because(reasons)}; name other policies")
    return chosen, reasons


def because(reasons: Mapping[str, str]) -> str:
    """Say in one line why policies were left out."""
    return "; ".join(f"{name} {reason}" for name, reason in reasons.items())


def rows(cells: Cells) -> list[tuple[str, ...]]:
    """List what every policy loses and asks for, and how often it is right where it claims something."""
    return [
        (
            name,
            f"{quantity(cell.mean())} ± {quantity(cell.std())}",
            *(quantity(cell.mean(cost)) for cost in COSTS),
            cell.kept if cell.certified else "",
            cell.certified,
        )
        for name, cell in cells.items()
    ]


def frontier(cells: Cells) -> list[str]:
    """List the policies that no other beats in both mean regret and mean numbers sent.

    One that is as good in one and better in the other beats it, too.
    """
    means = {name: (cell.mean(), cell.mean("numbers")) for name, cell in cells.items()}
    return [
        name
        for name, (regret, numbers) in means.items()
        if not any(r <= regret and n <= numbers and (r, n) != (regret, numbers) for r, n in means.values())
    ]


def verdict(cells: Cells) -> str:
    """Say which policies are on the frontier."""
    return f"No policy beats {one_of(frontier(cells))} in both regret and numbers sent."
