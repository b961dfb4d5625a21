"""A policy of your own against those of voxpop: the same simulated customers, the same seeds."""

from dataclasses import asdict, dataclass, replace

import matplotlib.pyplot as plt
import numpy as np

from voxpop import compare, make_scenario
from voxpop.model.state import OPEN, State
from voxpop.model.waves import End, Info, Plan
from voxpop.policies import POLICIES
from voxpop.simulation.scenarios import Options


@dataclass(frozen=True)
class Zoom:
    """What many teams do by hand: try a few values, then a few around the best, then a few around that."""

    arms: int = 7
    people: int = 100
    waves: int = 3
    name = "zoom"
    aggregates = True  # it learns from averages of many people

    def settings(self):
        return {"name": self.name, **asdict(self)}

    def init(self, problem):
        return State.prior(problem, problem.norm_bound)

    def plan(self, problem, state, channel=OPEN):
        if state.wave == self.waves:
            return End("it has zoomed in as often as it may")
        last, reach = problem.size - 1, (problem.size - 1) / 2 / 3**state.wave  # a third of the range before
        centre = np.clip(state.best if state.wave else last / 2, reach, last - reach)
        arms = np.unique(np.linspace(centre - reach, centre + reach, self.arms).round().astype(int))
        plan = Plan(state.wave + 1, arms, np.full(len(arms), 5), self.people, state.best)  # five rounds each
        return channel.enlist(problem, state, plan)  # with enough people to hide in, if the study is private

    def advance(self, problem, state, plan, feedback):
        best = int(plan.arms[feedback.mean.argmax()])  # it believes the last averages, and proves nothing
        after = replace(state.record(plan, feedback), decision=best)
        return after, Info(problem.size, problem.size, float(state.lead_width.max()), 0.0, state.norm_bound, False)

    def best(self, problem, state):
        return state.best


POLICIES["zoom"] = Zoom  # its name for make_policy, saved studies and study files


def customers(seed):
    """Make the pricing study, with a new pilot for each seed."""
    return make_scenario("pricing", Options(seed=seed))


found = compare(customers, ["waves", "zoom", "halving", "equal-split"], seeds=range(5))
print(found)

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, cell in found.cells.items():
    (dots,) = ax.plot(cell["numbers"], cell["regret"], ".", alpha=0.5)
    ax.plot(cell.mean("numbers"), cell.mean(), "o", color=dots.get_color(), markersize=11, label=name)
ax.set(xlim=(0, None), yscale="log", xlabel="numbers that people send", ylabel="profit lost over 20,000 rounds")
ax.yaxis.set_major_formatter("{x:,.0f}")
ax.xaxis.set_major_formatter("{x:,.0f}")
ax.set_title("Down and to the left is better; small dots are single runs", loc="left", fontsize=10)
figure.legend(loc="outside lower center", ncols=4, frameon=False)
figure.savefig("own_policy.png", dpi=120)
