"""A finished run in words that a manager understands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voxpop.lab.runs import Run


@dataclass(frozen=True)
class Line:
    """One fact: its name, its value, and what it means."""

    name: str
    value: str
    note: str = ""


def describe(decision: Any) -> str:
    """Write a decision as people would.

    >>> describe({"price": 4.7, "colour": "red"})
    'price = 4.7, colour = red'
    """
    if isinstance(decision, Mapping):
        return ", ".join(f"{name} = {_short(value)}" for name, value in decision.items())
    if isinstance(decision, list):
        return "(" + ", ".join(map(_short, decision)) + ")"
    return str(decision)


def summarise(run: Run) -> list[Line]:
    """Say what to do, how sure that is, and what it cost."""
    scenario, state, metrics = run.scenario, run.state, run.metrics
    problem, f, best = scenario.problem, scenario.f, run.best
    low, high = state.lower[best], state.upper[best]
    others = len(state.active) - 1
    chance = 2 * problem.size * max(1, len(run.phases)) * problem.beta
    lines = [
        Line("Do this", describe(problem.decisions[best])),
        Line("Expect", f"a {scenario.reward} of {number(low)} to {number(high)}", f"the truth is {number(f[best])}"),
        Line(
            "How sure",
            "nothing else can be best"
            if others == 0
            else f"nothing else is better by more than {number(state.certificate)}",
            f"wrong with probability below {chance:.2g} if the model holds; "
            + ("one action is left" if others == 0 else f"{others + 1} of {problem.size} actions are left"),
        ),
        Line(
            "Asked",
            f"{metrics.people:,} people, {metrics.numbers:,} numbers in all",
            f"and {scenario.pilot_numbers:,} in the pilot" if scenario.pilot_numbers else "",
        ),
        Line(
            "Lost while learning",
            f"{metrics.regret:,.0f} over {problem.horizon:,} rounds",
            f"compared with knowing the best action from the start{_share(metrics.regret, problem.horizon * f.max())}",
        ),
    ]
    trust = run.privacy.describe()
    if trust["privacy"] != "none":
        lines.append(
            Line(
                "Claimed" if trust["caveats"] else "Promised",
                f"({trust['epsilon']:g}, {trust['delta']:g})-differential privacy, in the {trust['privacy']} model",
                "; ".join(trust["caveats"])
                or "to everyone, whatever they answer; each person is asked once"
                + ("; the pilot is not covered" if scenario.pilot_numbers else ""),
            )
        )
    if state.norm_bound != problem.norm_bound:
        lines.append(
            Line(
                "Note",
                f"the norm bound {number(problem.norm_bound)} was too small for the answers",
                f"it was raised to {number(state.norm_bound)} during the study",
            )
        )
    return lines


def number(value: float) -> str:
    """Write a reward with a sensible number of digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _share(part: float, whole: float) -> str:
    return f": {part / whole:.1%} of the best possible total" if whole > 0 else ""
