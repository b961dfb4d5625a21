"""Which wave to play: the cheapest of those that pay almost as much as the best.

What a wave of U people about arms A, W rounds each, is expected to bring is

    net = (rounds left) value - c U |A| - W sum over A of (m_b + value - m_a),

where c is the cost of an answer, b the incumbent and m the pooled mean: a round of the wave is lost against the
decision that is expected after it. Asking stops when no wave has a positive net.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from voxpop.errors import Array
from voxpop.model.problem import Indices, Problem
from voxpop.model.state import Channel, Prospect, State
from voxpop.model.waves import Forecast, Plan, changed
from voxpop.policies.waves.outlook import TIE, Outlook
from voxpop.policies.waves.sealing import SEALED

SIZES = (1, 2, 3, 4, 6, 8, 10, 13, 16)  # of a wave, in arms besides the incumbent
LARGE = (22, 29, 36)  # further sizes, if few waves are left
BLOCK = 4  # people, at least, where a wave has more than two blocks
UNMEASURED = 2  # waves of a short study without a pilot, in which every round is needed
LONG = 800  # rounds in which a small wave that measures shocks costs little
RESIDUALS = 8  # degrees of freedom with which a wave is to show shocks
SHOWN = 6  # those of a wave that is played for that alone
ENOUGH = 12  # degrees of freedom, after which shocks are known and everybody answers about all rounds
ROUNDS = (1, 2, 4, 8, 16, 32, 64)  # of an arm in a wave
PEOPLE_RATIO = 1.45
GOOD_ENOUGH = 0.86  # of the largest net
FINALISTS = tuple(np.linspace(0.8, 0.98, 10).tolist())  # shares of the largest net
LAST_FINALISTS = (0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 1.0)  # if the number of waves is limited
FEW, MANY = 60, 600  # numbers of people for which arms are put in order
FEWEST = 16  # people in a wave, unless a budget allows fewer
MOST_PEOPLE = 10_000_000


@dataclass(frozen=True)
class Limits:
    """What a wave may take at most."""

    rounds: int
    people: int
    numbers: int
    washout: int = 0  # rounds at the start of every turn of an arm that do not count
    cycle: int = 0  # rounds of a cycle, in each of which every arm has its turn; 0: none

    @property
    def together(self) -> int:
        """The turns of an arm that belong together."""
        return max(1, self.cycle)

    @property
    def turn(self) -> int:
        """The rounds of these turns, in each of which as many count as do not, or one."""
        return self.together * (self.washout + max(1, self.washout))

    def pulls(self, arms: Indices, turns: int) -> Indices:
        """Return the rounds of each arm that count."""
        return np.full(len(arms), turns * self.together * max(1, self.washout), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Offer:
    """A wave that could be played, and what is expected of it."""

    arms: Indices
    places: Indices  # of the arms in the outlook
    rounds: int  # W, of each arm; with a washout or a cycle, turns
    people: int
    gain: float
    answers: float
    exploring: float
    blocks: int = 1
    limits: Limits = field(default_factory=lambda: Limits(0, 0, 0))
    also: int = 0  # metrics besides the objective

    @property
    def pulls(self) -> Indices:
        """The rounds of every arm that count."""
        return self.limits.pulls(self.arms, self.rounds)

    @property
    def cost(self) -> float:
        """What it costs in all."""
        return self.answers + self.exploring

    @property
    def net(self) -> float:
        """What it brings beyond its cost."""
        return self.gain - self.cost

    def plan(self, wave: int, reference: int, same: int = 0) -> Plan:
        """Return the offer as a plan, for these very people if they are the same in every wave."""
        forecast = Forecast(self.gain, self.answers, self.exploring)
        plan = Plan(wave, self.arms, self.pulls, self.people, reference, forecast=forecast, sealed=SEALED)
        plan = changed(plan, washout=self.limits.washout, cycle=self.limits.cycle)
        return changed(plan, blocks=self.blocks, same=same, also=self.also)


@dataclass(frozen=True, eq=False)
class Planner:
    """Everything that the offers of one wave have in common."""

    problem: Problem
    state: State
    channel: Channel
    outlook: Outlook
    answer_cost: float
    delay: int  # rounds that pass while people answer
    limits: Limits
    fewest: int
    waves_left: int | None  # with this one; None: as many as pay
    problems: tuple[Problem, ...] = ()  # of all metrics; empty: of the objective alone

    @property
    def _metrics(self) -> tuple[Problem, ...]:
        return self.problems or (self.problem,)

    @property
    def _also(self) -> int:
        return len(self._metrics) - 1

    @property
    def _enough(self) -> float:
        """The share of the largest net with which a wave is good enough: the next ones can make up for the rest."""
        return GOOD_ENOUGH if self.waves_left is None else max(GOOD_ENOUGH, 1 - 0.03 * (self.waves_left - 1))

    @property
    def _sizes(self) -> tuple[int, ...]:
        return SIZES if self.waves_left is None or self.waves_left > 2 else (*SIZES, *LARGE)

    def best(self) -> Offer | None:
        """Return the cheapest offer whose net is almost the largest; None if nothing pays.

        The largest of many estimates is too large, so the finalists are valued again with fresh draws.
        """
        offers = [offer for offer in self._offers() if offer.net > 0]
        shares = FINALISTS if self.waves_left is None else LAST_FINALISTS
        finalists = [_cheapest(offers, share) for share in shares]
        again = [self._again(offer) for offer in finalists if offer is not None]
        return _cheapest([offer for offer in again if offer.net > 0], self._enough)

    def measuring(self) -> Offer | None:
        """Return a small wave that shows what rounds do to everybody, if nothing has and the limits allow it.

        What its people explain of residuals is not to hide what rounds did to the largest wave so far.
        """
        places = np.sort(self.outlook.cheapest(3))
        if len(places) < 2:  # where nothing else may be tried
            return None
        rounds, numbers = 2, len(places) * (1 + self._also)
        while (rounds - 1) * (len(places) - 1) < SHOWN:
            rounds *= 2
        largest = max((plan.people for plan, _ in self.state.history), default=0)
        most = min(self.limits.people, self.limits.numbers // numbers)
        people = max(self.fewest, min(max(rounds * BLOCK, largest // 2), most))
        long = self.limits.rounds - self.delay >= LONG * self.limits.turn
        if not self.channel.splits or self._measured or people > most or not long:
            return None
        value = self._values(places, rounds, np.array([float(people)]), fresh=True)[0]
        return self._offer(places, rounds, people, float(value))

    @property
    def _measured(self) -> bool:
        """True if residuals have shown enough of shocks for a statement to count with them."""
        return self.problem.shocks.known and self.problem.shocks.freedom >= RESIDUALS / 2

    def widening(self) -> Offer | None:
        """Return the wave after which most is expected to be allowed for its price, if it may pay; None without rules.

        The value of one wave does not see that others may be played with what it allows. What is to be learned counts
        in proportion to the decisions that may turn out best, and are expected to be safe then.
        """
        outlook, found = self.outlook, list[Offer]()
        if not outlook.bounds:
            return None
        choices = useful_rounds(self.problem, outlook.actions[outlook.pool])
        for places in self._arm_sets(choices[0], choices[-1]):
            for rounds in choices:
                left = self.limits.rounds - rounds * len(places) * self.limits.turn - self.delay
                most = min(self.limits.people, self.limits.numbers // self._numbers(places, rounds), MOST_PEOPLE)
                if left <= 0 or most < self.fewest:
                    continue
                people = numbers_of_people(self.fewest, most)
                single, shared, hidden = self._expected(places, rounds)
                nothing = Prospect(np.zeros((len(places) * len(single),) * 2), np.zeros_like)
                usable, noises = self._hidden(hidden or nothing, single, shared, people)
                opened = outlook.opened(places, noises) / outlook.contenders
                for count, share in zip(people[usable].tolist(), opened.tolist(), strict=True):
                    offer = replace(self._offer(places, rounds, int(count), 0.0), gain=left * outlook.worth * share)
                    found.append(offer)
        best = max(found, key=lambda offer: offer.net, default=None)
        return best if best is not None and best.net > 0 else None

    def _again(self, offer: Offer) -> Offer:
        """Value an offer with fresh draws, and more of them."""
        value = self._values(offer.places, offer.rounds, np.array([offer.people]), fresh=True)[0]
        return self._offer(offer.places, offer.rounds, offer.people, float(value))

    def _offer(self, places: Indices, rounds: int, people: int, value: float) -> Offer:
        """Return the offer of a wave after which the best choice is expected to be better by `value`."""
        arms, lost = self.outlook.actions[places], float(self.outlook.loss(places).sum())
        exploring = rounds * self.limits.turn * (lost + value * len(places))
        blocks, gain = self._blocks(rounds, len(places), people), (self.limits.rounds - self.delay) * value
        answers = self.answer_cost * people * self._numbers(places, rounds)
        return Offer(arms, places, rounds, people, gain, answers, exploring, blocks, self.limits, self._also)

    def _blocks(self, rounds: int, arms: int, people: float = math.inf) -> int:
        return blocks_in(self.problem, self.channel, rounds, arms, people)

    def _numbers(self, places: Indices, rounds: int) -> int:
        """Return how many numbers a person sends: about one block, or about every block, and about every metric."""
        return len(self._metrics) * len(places) * (self._blocks(rounds, len(places)) if self.problem.of_people else 1)

    def _lived(self, pulls: Indices, rounds: int) -> Indices:
        """Return the rounds of each arm behind one person's answers."""
        return pulls if self.problem.of_people else pulls // self._blocks(rounds, len(pulls))

    def _offers(self) -> Iterator[Offer]:
        choices = useful_rounds(self.problem, self.outlook.actions[self.outlook.pool], self.limits.together)
        # The same shocks were in the pilot, so that they are measured at once; without one, in a wave for that alone
        # before a long study ends, and in a short one from the third wave on. Where the same people answer there is
        # hardly any other noise, and the second wave measures them.
        short = self.limits.rounds < LONG * self.limits.turn or self.limits.people < 2 * self.fewest
        waves = UNMEASURED if short else math.inf
        soon = bool(self.problem.pilot) or self.state.wave >= (1 if self.problem.of_people else waves)
        needed = soon and self.channel.splits and not self._measured
        least = RESIDUALS / 2 if needed else 0.0
        for places in self._arm_sets(choices[0], choices[-1]):
            for rounds in choices if not least else sorted({*choices, *ROUNDS[1:4]}):
                if (rounds - 1) * (len(places) - 1) >= least:
                    yield from self._of_people(places, rounds)

    def _of_people(self, places: Indices, rounds: int) -> Iterator[Offer]:
        """Offer one set of arms to several numbers of people."""
        left = self.limits.rounds - rounds * len(places) * self.limits.turn - self.delay
        if left <= 0:
            return
        price = self.answer_cost * self._numbers(places, rounds)
        lost = rounds * self.limits.turn * float(self.outlook.loss(places).sum())
        worth = left * self.outlook.worth - lost  # at the most
        numbers = self.limits.numbers // self._numbers(places, rounds)
        most = min(self.limits.people, numbers, int(min(worth / price, MOST_PEOPLE)))
        if most < self.fewest:
            return
        people = numbers_of_people(self.fewest, most)
        for count, value in zip(people.tolist(), self._values(places, rounds, people).tolist(), strict=True):
            yield self._offer(places, rounds, int(count), value)

    def _values(self, places: Indices, rounds: int, people: Array, fresh: bool = False) -> Array:
        single, shared, hidden = self._expected(places, rounds)
        if hidden is None:
            return self.outlook.values_of_people(places, single, shared, people, fresh)
        found = np.zeros(len(people))
        usable, noises = self._hidden(hidden, single, shared, people)
        found[usable] = self.outlook.values(places, noises, fresh)
        return found

    def _expected(self, places: Indices, rounds: int) -> tuple[list[Array], list[Array], Prospect | None]:
        """Return the noise to expect in each metric: of one person, of all, and what privacy adds."""
        arms, problems = self.outlook.actions[places], self._metrics
        pulls, washout = self.limits.pulls(arms, rounds), self.limits.washout
        plan = Plan(self.state.wave + 1, arms, pulls, self.fewest, washout=washout, also=self._also)
        lived, turns = self._lived(pulls, rounds), plan.turns
        single = [problem.answer_noise(arms, lived) / (1 - SEALED) for problem in problems]
        shared = [problem.shocks.variance / (1 - SEALED) * problem.shock_noise(turns) for problem in problems]
        return single, shared, self.channel.prospect(self.problem, self.state, plan)

    def _hidden(
        self, hidden: Prospect, single: list[Array], shared: list[Array], people: Array
    ) -> tuple[NDArray[np.bool_], list[Array]]:
        """Return for which numbers of people answers can hide, and their noise in each metric, (people, arms, arms)."""
        variance = hidden.variance(people) / (1 - SEALED)
        usable, arms = np.isfinite(variance), len(single[0])
        some, more = people[usable][:, None, None], variance[usable][:, None, None]
        each = enumerate(zip(single, shared, strict=True))
        return usable, [own / some + more * hidden.of_metric(metric, arms) + common for metric, (own, common) in each]

    def _noises(self, arms: Indices, rounds: int, people: int) -> list[Array]:
        """Return the noise of a wave in each metric, privacy apart."""
        lived, turns = (
            self._lived(self.limits.pulls(arms, rounds), rounds),
            np.full(len(arms), rounds * max(1, self.limits.cycle)),
        )
        return [
            problem.answer_noise(arms, lived, people) + problem.shocks.variance * problem.shock_noise(turns)
            for problem in self._metrics
        ]

    def _arm_sets(self, fewest: int, most: int) -> list[Indices]:
        """Return prefixes of several orders of the arms, each with the incumbent."""
        outlook = self.outlook
        little, much = (
            self._noises(outlook.actions, rounds, people) for rounds, people in ((fewest, FEW), (most, MANY))
        )
        most_arms = self._sizes[-1]
        orders = [outlook.by_value(little, most_arms), outlook.by_value(much, most_arms)]
        orders += [outlook.by_variance(noise, most_arms, metric) for metric, noise in enumerate(much)]
        orders += [outlook.by_chance(most_arms)]
        sets = {tuple(sorted({outlook.incumbent, *order[:size]})) for order in orders for size in self._sizes}
        return [np.array(places, dtype=np.intp) for places in sorted(sets)]


def _cheapest(offers: list[Offer], share: float) -> Offer | None:
    """Return the cheapest offer whose net is at least this share of the largest."""
    enough = (1 - TIE) * share * max((offer.net for offer in offers), default=0.0)
    return min(
        (offer for offer in offers if offer.net >= enough), key=lambda offer: float(f"{offer.cost:.9g}"), default=None
    )


def useful_rounds(problem: Problem, arms: Indices, together: int = 1) -> list[int]:
    """List the numbers of rounds per arm, or of turns together, that are worth trying: more teach almost nothing.

    People deviate alike at two arms that are close, so that their difference is known as well as rounds are many; and
    what rounds do to everybody is averaged by rounds alone. How the same people deviate in every wave is no noise.
    """
    if problem.of_people:
        return [*ROUNDS]
    covariance = problem.covariance(arms, arms)
    variance = covariance.diagonal()
    apart = np.add.outer(variance, variance) - 2 * covariance
    np.fill_diagonal(apart, np.inf)
    nearest = np.minimum(apart.min(axis=1), variance) if len(arms) > 1 else variance
    rounds = problem.noise_std**2 + FEW * problem.shocks.variance
    most = rounds / max(problem.bias_std**2 * float(np.median(nearest)) / 2, np.finfo(float).tiny)
    return [rounds for rounds in ROUNDS if rounds == 1 or rounds * together < 2 * most]


def blocks_in(problem: Problem, channel: Channel, rounds: int, arms: int, people: float) -> int:
    """Return how many blocks a wave has: one, once it is known what rounds do to everybody."""
    known = not channel.splits or problem.shocks.freedom >= ENOUGH
    return 1 if known else blocks_of(rounds, arms, math.inf if problem.of_people else people)


def blocks_of(rounds: int, arms: int, people: float = math.inf) -> int:
    """Return into how many blocks so many rounds of each arm are divided: the fewest that show enough of shocks.

    >>> blocks_of(1, 9), blocks_of(16, 9), blocks_of(16, 3), blocks_of(16, 3, people=20), blocks_of(4, 2)
    (1, 2, 8, 4, 1)
    """
    blocks = 1
    while 2 * blocks <= min(rounds, max(2.0, people / BLOCK)) and (blocks - 1) * (arms - 1) < RESIDUALS:
        blocks *= 2
    return blocks if (blocks - 1) * (arms - 1) >= RESIDUALS / 2 else 1


def numbers_of_people(least: int, most: int, ratio: float = PEOPLE_RATIO) -> Array:
    """List numbers of people between two limits, each so many times the one before."""
    steps = math.floor(math.log(most / least) / math.log(ratio)) if most > least else 0
    return np.unique(np.ceil(least * ratio ** np.arange(steps + 1)).clip(max=most))
