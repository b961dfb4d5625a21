"""Guardrails: metrics besides the objective, of which a decision must not cost too much."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.model.words import number

if TYPE_CHECKING:
    from voxpop.model.problem import Problem

RULE = re.compile(r"(?P<name>.*?\S)\s*(?P<sign>[<>]=)\s*(?P<limit>\S.*)")
LIMIT = re.compile(r"(?P<today>today\b)?\s*(?P<value>[+-]?\s*\d[\d.]*(?:e[+-]?\d+)?)?\s*(?P<percent>%)?")
HOW = "write one such as 'retention >= 0.41', 'retention >= -2%' or 'complaints <= today + 0.01'"


@dataclass(frozen=True)
class Rule:
    """What a metric must keep: g(x) - share g(today) >= floor; where less is better, of -g.

    >>> for text in ("retention >= 0.41", "retention >= -2%", "complaints <= today + 0.01"):
    ...     rule = Rule.of(text)
    ...     print(rule.share, rule.floor, rule)
    0.0 0.41 retention at least 0.41
    0.98 0.0 retention at most 2 % below today's
    1.0 -0.01 complaints at most 0.01 above today's
    """

    name: str
    share: float = 0.0
    floor: float = 0.0
    less: bool = False  # less is better

    @classmethod
    def of(cls, text: str) -> Rule:
        """Read a rule as people write it."""
        found = RULE.fullmatch(str(text).strip())
        limit = found and LIMIT.fullmatch(found["limit"].strip())
        if not found or not limit or not (limit["value"] or limit["today"]):
            raise InputError(f"{text!r} is no guardrail; {HOW}")
        less, sign = found["sign"] == "<=", -1.0 if found["sign"] == "<=" else 1.0
        try:
            value = float((limit["value"] or "0").replace(" ", ""))
        except ValueError:
            raise InputError(f"{text!r} is no guardrail, as {limit['value']} is no number; {HOW}") from None
        if limit["percent"]:
            if not value > -100:
                raise InputError(f"{text!r} allows any value; give a percentage above -100")
            return cls(found["name"], 1 + value / 100, 0.0, less)
        return cls(found["name"], 1.0 if limit["today"] else 0.0, sign * value, less)

    @property
    def relative(self) -> bool:
        """True if it compares with the decision in force today."""
        return self.share > 0

    def turn(self, values: Array) -> Array:
        """Turn values of the metric into what is maximised, or back."""
        return 0.0 - values if self.less else values

    @property
    def text(self) -> str:
        """The rule as `of` reads it.

        >>> [Rule.of(text).text for text in ("a >= 0.4", "b <= +10%", "c >= today - 0.02")]
        ['a >= 0.4', 'b <= +10%', 'c >= today -0.02']
        """
        sign, floor = ("<=", 0.0 - self.floor) if self.less else (">=", self.floor)
        if self.share not in (0.0, 1.0):
            return f"{self.name} {sign} {100 * (self.share - 1):+.10g}%"
        return f"{self.name} {sign} {f'today {floor:+.10g}' if self.relative else f'{floor:.10g}'}"

    def bound(self, slack: float) -> str:
        """Say which limit a decision keeps that passes the rule by so much.

        >>> Rule("retention", 0.0, 0.40).bound(0.01), Rule("complaints", 1.0, -0.01, less=True).bound(0.004)
        ('retention at least 0.41', "complaints at most 0.006 above today's")
        """
        side, floor = ("at most" if self.less else "at least"), self.floor + slack
        if not self.relative:
            return f"{self.name} {side} {number(self.turn(np.array(floor)).item())}"
        percent = self.share not in (0.0, 1.0)
        amount = 100 * (self.share - 1) if percent else (-1 if self.less else 1) * floor
        if abs(amount) < 1e-12:
            return f"{self.name} {side} today's" + (f", with {number(slack)} to spare" if percent and slack else "")
        below = amount < 0
        side = "at most" if below != self.less else "at least"
        said = f"{self.name} {side} {number(abs(amount))}{' %' * percent} {'below' if below else 'above'} today's"
        return said + (f", with {number(slack)} to spare" if percent and slack else "")

    def __str__(self) -> str:
        return self.bound(0.0)


@dataclass(frozen=True, eq=False)
class Guardrail:
    """A rule with its metric, which is another unknown reward of the same decisions, and maximises."""

    rule: Rule
    problem: Problem
    correlations: tuple[float, ...] = field(default=())  # of people's answers, with the objective's and earlier ones'

    @property
    def name(self) -> str:
        """The name of the metric."""
        return self.rule.name


def correlation_of(guardrails: Sequence[Guardrail]) -> Array:
    """Return how people's answers about the objective and all metrics vary together, (metrics, metrics)."""
    found = np.eye(1 + len(guardrails))
    for place, guardrail in enumerate(guardrails, 1):
        found[place, : len(guardrail.correlations)] = guardrail.correlations
        found[: len(guardrail.correlations), place] = guardrail.correlations
    return found


def require_guardrails(problem: Problem) -> None:
    """Refuse guardrails that cannot be meant."""
    guardrails, points, today = problem.guardrails, problem.decisions.points, problem.today
    asked = [(group.people, group.points.tolist()) for group in problem.pilot]
    names = [guardrail.name for guardrail in guardrails]
    for place, guardrail in enumerate(guardrails):
        rule = guardrail.rule
        if rule.name in names[:place]:
            other = guardrails[names.index(rule.name)].rule
            raise InputError(
                f"{rule.name} has two guardrails, {other} and {rule}; keep the stricter one, or give its column twice"
            )
        if rule.relative and today is None:
            raise InputError(
                f"{rule} compares with today's decision, which is not known; say which decision is in force today, or "
                f"give an absolute limit such as {rule.name!r} {'<=' if rule.less else '>='} 0.4"
            )
        low, high = guardrail.problem.limits
        if not rule.relative and not rule.floor <= high:
            raise InputError(f"{rule} is out of reach, and no decision keeps it; give another limit")
        if not rule.relative and rule.floor <= low:
            raise InputError(f"{rule} forbids nothing, as {rule.name} is never worse; leave it out, or correct it")
        if not np.array_equal(guardrail.problem.decisions.points, points):
            raise InputError(f"the guardrail {rule.name} knows other decisions than the study; give it the same ones")
        if asked != [(group.people, group.points.tolist()) for group in guardrail.problem.pilot]:
            raise InputError(
                f"{rule.name} was measured for other people or decisions of the pilot than the objective; give both "
                "for the same people, or leave the guardrail out"
            )
        if len(guardrail.correlations) not in (0, place + 1):
            raise InputError(
                f"the guardrail {rule.name} needs {place + 1} correlations, with the objective and each guardrail "
                f"before it, got {len(guardrail.correlations)}"
            )
    if np.linalg.eigvalsh(correlation_of(guardrails))[0] <= 0:
        raise InputError("the correlations of the guardrails contradict each other; calibrate again")
