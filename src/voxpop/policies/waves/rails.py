"""Which decisions keep the guardrails, as far as is believed.

A rule asks s(x) = g(x) - share g(today) - floor >= 0 of a metric g. The belief about g gives every s(x) a mean and a
standard deviation, and x keeps all of M rules with 95 % if the mean is above z deviations for each, with z =
Phi^-1(1 - 0.05 / M). `most_loss` is such a rule about the objective: f(x) - f(today) >= -most_loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from voxpop.errors import Array
from voxpop.gp.belief import Belief
from voxpop.model.guardrails import Rule
from voxpop.model.problem import GRAM_LIMIT, Indices, Problem

DOUBT = 0.05  # the chance with which a decision that is tried or recommended may break a rule
LOSS = "the loss against today's decision"


@dataclass(frozen=True, eq=False)
class Rail:
    """A rule with what is believed of its metric."""

    rule: Rule
    belief: Belief
    metric: int  # 0: the objective
    today: int
    z: float  # standard deviations with which it is to hold

    @cached_property
    def mean(self) -> Array:
        """The mean of s(x) for every action, (n,)."""
        mean = self.belief.mean
        against = self.rule.share * mean[self.today] if self.rule.relative else 0.0
        return np.asarray(mean - against - self.rule.floor)

    @cached_property
    def deviation(self) -> Array:
        """The standard deviation of s(x) for every action, (n,)."""
        share, own = self.rule.share, self.belief.deviation
        if not self.rule.relative:
            return own
        size, today = self.belief.problem.size, np.array([self.today])
        blocks = [np.arange(start, min(start + GRAM_LIMIT, size)) for start in range(0, size, GRAM_LIMIT)]
        shared = np.concatenate([self.belief.between(block, today)[:, 0] for block in blocks])
        square = own**2 - 2 * share * shared + (share * own[self.today]) ** 2
        found = np.sqrt(np.maximum(square, 0.0))
        found[self.today] = abs(1 - share) * own[self.today]
        return np.asarray(found)

    @property
    def margin(self) -> Array:
        """By how much s(x) is surely above 0, (n,)."""
        return self.mean - self.z * self.deviation

    @property
    def chances(self) -> Array:
        """The chance that each action keeps the rule, (n,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(self.deviation > 0, ndtr(self.mean / self.deviation), self.mean >= 0))


def rails_of(problem: Problem, beliefs: Sequence[Belief], most_loss: float | None) -> tuple[Rail, ...]:
    """Return all rules that hold in a study, with what is believed of their metrics."""
    rules = [(place, guardrail.rule) for place, guardrail in enumerate(problem.guardrails, 1)]
    if most_loss is not None:
        rules.append((0, Rule(LOSS, 1.0, -most_loss)))
    if not rules:
        return ()
    z, today = -float(ndtri(DOUBT / len(rules))), problem.today or 0
    return tuple(Rail(rule, beliefs[metric], metric, today, z) for metric, rule in rules)


def kept(rails: Sequence[Rail], size: int) -> NDArray[np.bool_]:
    """Return which actions keep all rules with 95 %, (n,)."""
    return np.all([rail.margin >= 0 for rail in rails], axis=0) if rails else np.ones(size, dtype=bool)


def nearest(rails: Sequence[Rail], among: Indices | None = None) -> int:
    """Return the action that is most likely to keep all rules: the one whose least likely rule is likeliest."""
    scores = np.min([rail.mean / np.maximum(rail.deviation, 1e-300) for rail in rails], axis=0)
    return int(np.argmax(scores) if among is None else among[np.argmax(scores[among])])


def recommended(belief: Belief, rails: Sequence[Rail], today: int | None) -> int:
    """Return the best action that keeps all rules; if none does, that of today, or the one that is nearest to it."""
    keeps = kept(rails, belief.problem.size)
    if keeps.any():
        return int(np.argmax(np.where(keeps, belief.mean, -np.inf)))
    return nearest(rails) if today is None else today


def trials(belief: Belief, rails: Sequence[Rail], best: int, today: int | None) -> NDArray[np.bool_]:
    """Return which actions may be tried, (n,): those that keep all rules, and those that are in force anyway."""
    found = kept(rails, belief.problem.size)
    found[[best] if today is None else [best, today]] = True
    return found
