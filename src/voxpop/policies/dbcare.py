"""DBCARE with people: race the arms, and stop when more answers would cost more than they save.

Harding and Kandasamy, Balancing performance and costs in best arm identification (2025, arXiv:2505.20583), minimise

    (what the chosen arm loses) + (cost of a sample) (samples)

by dynamically budgeted elimination: all arms that are left are sampled alike, an arm is dropped when it is clearly
behind the leader, and the budget of an arm grows as arms are dropped. Here a sample is one number of a person, an arm
loses its gap in every round that is left, and the number of people behind each average doubles from wave to wave.

With n people behind each of k averages, whose single numbers have the standard deviation s, the leader of worst-case
means loses about s sqrt(2 ln k / n) a round. Over T rounds that and the cost of the numbers, c k n, are least for

    n = (T s sqrt(2 ln k) / (2 c k))^(2/3),

which has the exponent of the paper's lower bound. The paper takes samples one by one; its constants are replaced by a
share of this budget and a width of the race, which were chosen on the seeds 100 to 139, which are in no table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from voxpop.model.options import option
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import End, Plan
from voxpop.policies.peers import Pooled, few_rounds, short_plan, spread
from voxpop.policies.protocol import OVER
from voxpop.policies.waves.policy import PRICE


@dataclass(frozen=True)
class DBCARE(Pooled):
    """Race the arms with a budget that balances the cost of numbers and the loss of the chosen arm."""

    answer_cost: float | None = option(
        None, above=0, help="What one number costs, in units of reward; unless given, about a hundredth of v."
    )
    people: int = option(20, least=1, help="The people in the first wave.")
    arms: int = option(26, least=1, help="The most actions in the first wave.")
    width: float = option(
        1.0, above=0, most=1e3, help="The standard errors of a difference by which a dropped arm is behind."
    )
    share: float = option(0.1, above=0, most=1e3, help="The share of the worst case's budget that is spent.")
    name = "dbcare"

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Double the people behind each average, up to the budget of the arms that are left."""
        left = problem.horizon - state.rounds
        if left == 0:
            return OVER
        arms = self._racing(problem, state) if state.history else spread(problem, min(self.arms, left))
        if len(arms) == 1:
            return End("one arm is left")
        asked = sum(plan.people for plan, _ in state.history)
        people = min(max(self.people, asked), self.budget(problem, len(arms)) - asked)
        if people <= 0:
            return End("more answers would cost more than they save")
        return channel.enlist(problem, state, short_plan(problem, state, arms[:left], people))

    def budget(self, problem: Problem, arms: int) -> int:
        """Return the people who are asked about each of so many arms before the race is called off."""
        cost = PRICE * problem.bias_std * math.sqrt(problem.largest_variance)
        cost = cost if self.answer_cost is None else self.answer_cost
        loss = problem.horizon * answer_deviation(problem) * math.sqrt(2 * math.log(arms))
        return round(self.share * math.pow(loss / (2 * cost * arms), 2 / 3))

    def _racing(self, problem: Problem, state: State) -> Indices:
        """Return the arms that are not clearly behind the leader by their averages over all waves, best first."""
        arms = state.history[-1].plan.arms  # which every wave asked about
        total, people = np.zeros(len(arms)), 0.0
        for plan, feedback in state.history:
            order = np.argsort(plan.arms)
            total += feedback.effective * feedback.mean[order[np.searchsorted(plan.arms, arms, sorter=order)]]
            people += feedback.effective
        behind = (total / people).max() - total / people
        kept = behind <= self.width * answer_deviation(problem) * math.sqrt(2 / people)
        return np.asarray(arms[kept][np.argsort(behind[kept], kind="stable")])


def answer_deviation(problem: Problem) -> float:
    """Return s, the largest standard deviation of one number: a person's deviation, and the noise of few rounds."""
    return math.sqrt(problem.bias_std**2 * problem.largest_variance + problem.noise_std**2 / few_rounds(problem))
