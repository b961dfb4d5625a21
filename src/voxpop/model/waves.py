"""One wave as a value: its plan, the feedback of its people, the tally of their answers, and what happened in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from voxpop.errors import Array, InputError, largest, require_array, require_integer
from voxpop.model.problem import GRID_BITS, Indices

Record = TypeVar("Record")


def changed(record: Record, **changes: Any) -> Record:
    """Copy a record with some fields changed, at a tenth of the cost of `dataclasses.replace`.

    Use it only for records that neither validate nor cache anything: `__post_init__` does not run.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     y: int
    >>> changed(Point(1, 2), y=3)
    Point(x=1, y=3)
    """
    new = object.__new__(type(record))
    object.__setattr__(new, "__dict__", record.__dict__ | changes)
    return new


HALF = 2**20  # the parts into which whole numbers are split, for exact products
MOST_SHUFFLED = 10_000  # rounds of a wave whose orders are drawn and kept
EXACT = 2**12  # people whose products of halves add up exactly in double precision


@dataclass(frozen=True)
class Forecast:
    """What a wave is expected to bring and to cost, in units of reward, before it is played."""

    gain: float  # by the better decision, over the rounds that are left
    answers: float  # the price of the answers
    exploring: float  # lost while poorer actions are in force
    certificate: float | None = None  # what the certificate is expected to be afterwards, if that is the aim

    @property
    def cost(self) -> float:
        """What the wave costs in all."""
        return self.answers + self.exploring


@dataclass(frozen=True)
class End:
    """No further wave, and the reason in a few words."""

    reason: str


@dataclass(frozen=True, eq=False)
class Plan:
    """One wave: the distinct arms, the rounds each is played, and how many people are asked afterwards."""

    wave: int  # l = 1, 2, ...
    arms: Indices
    pulls: Indices  # W_l, one for each arm
    people: int
    reference: int = 0  # the incumbent, with which every action is compared; fixed before the feedback
    reports: Literal["averages", "rounds", "one"] = "averages"  # what a person sends; "one": a new person every round
    rest: int = 0  # rounds after the arms' own, in which the reference is in force and nothing is asked about
    forecast: Forecast | None = None
    sealed: float = 0.0  # the share of what the answers say that is set aside, to certify the decision
    blocks: int = 1  # equal parts of the rounds; a person is asked about one of them
    orders: Indices | None = None  # (turns, arms) the orders in which all arms are played, as places; None: in a row
    same: int = 0  # who answers in every wave, if they are always the same people, and each of them about every block
    washout: int = 0  # rounds at the start of every turn of an arm that do not count
    played: Indices | None = None  # (asked,) the action that was in force in each round; -1: none; None: as planned
    used: tuple[int, ...] = ()  # the numbers of the blocks that count, if there were several; empty: all
    counts: Indices | None = None  # (blocks, arms) the turns that count, where arms or blocks differ in them
    planned: Plan | None = None  # the plan before it was played otherwise
    also: int = 0  # metrics that people answer about besides the objective
    cycle: int = 0  # rounds of a cycle, such as 7 days: every arm has as many turns in each as the others; 0: none

    @property
    def coordinates(self) -> int:
        """The numbers of a report about a block: one for each arm and metric, metric after metric."""
        return len(self.arms) * (1 + self.also)

    @property
    def lived(self) -> Indices:
        """The rounds of each arm behind one person's averages."""
        return self.pulls // self.blocks

    @property
    def answers(self) -> int:
        """The answers about a block that are averaged, if everyone answers."""
        return self.people * self.blocks if self.same else self.people

    @property
    def each(self) -> int:
        """The rounds of a turn that count: as many as do not, or one."""
        return max(1, self.washout)

    @property
    def turns(self) -> Indices:
        """How many times each arm is played; the rounds of a turn share what happens to everybody."""
        return self.pulls if self.each == 1 else self.pulls // self.each

    @property
    def in_blocks(self) -> bool:
        """True if people are asked about a block by its number."""
        return self.blocks > 1 or bool(self.used)

    @property
    def numbered(self) -> tuple[int, ...]:
        """The numbers of the blocks."""
        return self.used or tuple(range(1, self.blocks + 1))

    @property
    def sequence(self) -> Indices:
        """The actions in the order they are played, (asked,); -1: none."""
        if self.played is not None:
            return self.played
        if self.orders is None:
            return np.repeat(self.arms, self.turns * (self.washout + self.each))
        return np.repeat(self.arms[self.orders.ravel()], self.washout + self.each)

    @property
    def counting(self) -> Indices:
        """The block in which each round counts, (asked,); 0: in none."""
        turns, blocks = (self.planned or self)._turns(self.sequence)
        kept = np.isin(turns, self.arms) & np.isin(blocks, self.numbered)
        rounds = np.repeat((kept * blocks)[:, None], self.washout + self.each, axis=1)
        rounds[:, : self.washout] = 0
        return rounds.ravel()

    def _turns(self, actions: Indices) -> tuple[Indices, Indices]:
        """Return the action of each turn, -1 if no one action was in force throughout, and its block.

        With a cycle, the turns in one round of it count if the same actions had one each as elsewhere: what was played
        on other days of the week cannot be compared.
        """
        turns = actions.reshape(-1, self.washout + self.each)
        blocks = np.arange(len(turns)) * self.blocks // len(turns) + 1
        found = np.where((turns == turns[:, :1]).all(axis=1), turns[:, 0], -1)
        if self.cycle and self.orders is not None:
            days = found.reshape(-1, len(self.arms), self.cycle).swapaxes(1, 2)
            sets = np.sort(days).reshape(-1, len(self.arms))
            known, counts = np.unique(sets, axis=0, return_counts=True)
            usual = (sets == known[np.argmax(counts)]).all(axis=1).reshape(days.shape[:2])
            found = np.where(usual[:, :, None], days, -1).swapaxes(1, 2).ravel()
        return found, blocks

    def as_played(self, actions: Indices) -> Plan:
        """Return the plan with what was really in force in each round, (asked,); -1: nothing.

        A turn counts if one action was in force throughout. Averages are compared over the same blocks, so that those
        blocks and actions are used of which every action was played in every block. Where turns differ, an average over
        R blocks has the noise of R times their harmonic mean, rounded down.

        >>> plan = Plan(1, np.array([3, 5]), np.array([4, 4]), 100, blocks=2)
        >>> plan = changed(plan, orders=np.array([[0, 1], [1, 0], [0, 1], [1, 0]]))
        >>> late = plan.as_played(np.array([3, 5, 5, 3, -1, 5, 5, 3]))
        >>> late.pulls.tolist(), late.counts.tolist()
        ([2, 4], [[2, 2], [1, 2]])
        """
        plan = self.planned or self
        if np.array_equal(actions, plan.sequence):
            return plan
        turns, blocks = plan._turns(actions)
        arms = np.unique(turns[turns >= 0])
        counts = np.array([(turns[blocks == block][:, None] == arms).sum(axis=0) for block in plan.numbered])
        rows, columns = _complete(counts)
        if not len(rows) or len(columns) < min(2, len(plan.arms)):
            raise InputError(
                f"no two decisions of wave {plan.wave} were played in the same block, so that nothing can be compared; "
                "play its rounds again, and then say what was in force"
            )
        counts, used = counts[np.ix_(rows, columns)], [plan.numbered[row] for row in rows.tolist()]
        pulls = plan.each * np.floor(len(used) ** 2 / (1 / counts).sum(axis=0) + 1e-9).astype(np.intp)
        people = plan.people if plan.same else sum((plan.people + block - 1) // plan.blocks for block in used)
        late = changed(
            plan,
            arms=arms[columns],
            pulls=pulls,
            people=people,
            blocks=len(used),
            orders=None,
            played=actions,
            used=tuple(used) if plan.blocks > 1 else (),
            counts=None if np.ptp(counts) == 0 else counts,
            planned=plan,
        )
        if (forecast := plan.forecast) is None:
            return late
        return changed(late, forecast=changed(forecast, answers=forecast.answers * late.numbers / plan.numbers))

    def shuffled(self, rng: np.random.Generator) -> Plan:
        """Return the plan with independent random orders: every arm once, then every arm again, and so on.

        Arms of very many rounds are played one after the other, and in one block.

        >>> plan = Plan(1, np.array([3, 5, 8]), np.array([2, 2, 2]), 100).shuffled(np.random.default_rng(0))
        >>> sorted(plan.sequence[:3].tolist()), sorted(plan.sequence[3:].tolist())
        ([3, 5, 8], [3, 5, 8])
        """
        rounds = set(self.turns.tolist())
        if len(rounds) > 1 or self.reports == "one":  # of policies that play some arms more often
            return self
        if self.asked > MOST_SHUFFLED:
            return changed(self, blocks=1)
        cycle, size = max(1, self.cycle), len(self.arms)
        orders = rng.permuted(np.tile(np.arange(size), (rounds.pop() // cycle, 1)), axis=1)
        # As many turns in one order meet every round of the cycle, if the order moves on after every cycle / gcd.
        steps = np.arange(cycle) * math.gcd(cycle, size) // cycle
        orders = orders[:, (np.arange(size) - steps[:, None]) % size].reshape(-1, size)
        return changed(self, orders=orders, blocks=self.blocks if self.answers >= self.blocks else 1)

    @property
    def length(self) -> int:
        """The rounds of the wave."""
        return self.asked + self.rest

    @property
    def asked(self) -> int:
        """The rounds that people are asked about; they are invited once these are played."""
        if self.played is not None:
            return len(self.played)
        rounds: int = sum(self.pulls.tolist())  # quicker than NumPy for the few arms of a wave
        return rounds if not self.washout else rounds // self.each * (self.washout + self.each)

    @property
    def aims_at_certificate(self) -> bool:
        """True if the wave is played for its certificate, whether it pays or not."""
        return self.forecast is not None and self.forecast.certificate is not None

    @property
    def numbers(self) -> int:
        """The numbers that are sent in the wave if everyone answers (eq:comm_cost)."""
        each = {"averages": self.coordinates, "rounds": self.asked, "one": 1}
        return self.answers * each[self.reports]


def _complete(counts: Indices) -> tuple[Indices, Indices]:
    """Return rows and columns between which no count is 0: those that lack most are left out, one after the other.

    >>> [part.tolist() for part in _complete(np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1], [0, 0, 1]]))]
    [[1, 2], [0, 1, 2]]
    """
    rows, columns = (np.arange(size) for size in counts.shape)
    while (lacking := counts[np.ix_(rows, columns)] == 0).any():
        by_row, by_column = lacking.mean(axis=1), lacking.mean(axis=0)
        if by_row.max() >= by_column.max():
            rows = np.delete(rows, int(by_row.argmax()))
        else:
            columns = np.delete(columns, int(by_column.argmax()))
    return rows, columns


@dataclass(frozen=True)
class Weighting:
    """What unequal weights do to an average of people who were sampled unevenly (see `strata`)."""

    effective: float  # the number of people whose plain average is as noisy
    freedom: float  # degrees of freedom of the scatter


@dataclass(frozen=True, eq=False)
class Feedback:
    """The average over the people who answered, their number, and what privacy did to the average, if anything.

    >>> Feedback([0.4, 0.6], 120).count
    120
    """

    mean: Array  # (arms,)
    count: int
    noise: Array | None = None  # (arms, arms) the covariance of what was added: noise, or what gaps leave open
    clipping: Array | None = None  # (arms, arms) clipping biases a'mean by at most sqrt(a' clipping a)
    printed: bool = False  # account for the noise as printed (eq:confidence_width_dp)
    scatter: Array | None = None  # (arms, arms) sample covariance of single people's averages, where they are seen
    weighting: Weighting | None = None  # None: everyone counts the same
    by_block: Array | None = None  # (blocks, arms) the averages of the people of each block
    kept: float = 1.0  # the share of what the answers say; the rest is sealed

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", require_array("the feedback's mean", self.mean))
        object.__setattr__(self, "count", require_integer("the feedback's count", self.count, least=1))

    @property
    def effective(self) -> float:
        """The number of people that the average is worth."""
        return self.kept * (self.count if self.weighting is None else self.weighting.effective)

    @property
    def freedom(self) -> float:
        """The degrees of freedom of the scatter."""
        return self.count - 1 if self.weighting is None else self.weighting.freedom

    @property
    def variances(self) -> Array | None:
        """The variances of single people's averages, (arms,); journals of earlier versions keep these alone."""
        return self.scatter.diagonal() if self.scatter is not None and self.scatter.ndim == 2 else self.scatter

    def of_metric(self, plan: Plan, metric: int = 0) -> Feedback:
        """Return what the answers say of one metric: of the objective (0) or of a guardrail."""
        if not plan.also:
            return self
        at = slice(metric * len(plan.arms), (metric + 1) * len(plan.arms))

        def part(matrix: Array | None) -> Array | None:
            return None if matrix is None else np.asarray(matrix[(at,) * np.ndim(matrix)])

        return replace(
            self,
            mean=self.mean[at],
            noise=part(self.noise),
            clipping=part(self.clipping),
            scatter=part(self.scatter),
            by_block=None if self.by_block is None else self.by_block[:, at],
        )

    def check(self, plan: Plan) -> None:
        """Refuse feedback that does not fit the plan."""
        length = (plan.coordinates,)
        if self.mean.shape != length:
            raise InputError(
                f"wave {plan.wave} asks for {plan.coordinates} averages, got shape {self.mean.shape}; "
                f"give one number for each arm{' and metric, metric after metric' * (plan.also > 0)}"
            )
        if self.scatter is not None and np.shape(self.scatter) not in (length, length * 2):
            raise InputError(
                f"the scatter of wave {plan.wave} must be a covariance of {plan.coordinates} averages, "
                f"got shape {np.shape(self.scatter)}"
            )
        if self.by_block is not None and np.shape(self.by_block) != (plan.blocks, *length):
            raise InputError(
                f"wave {plan.wave} has {plan.blocks} blocks of {plan.coordinates} averages each, got shape "
                f"{np.shape(self.by_block)}; give one row a block, or leave by_block out"
            )


def averaged(parts: Sequence[tuple[float, Feedback]]) -> Feedback:
    """Average the averages of independent groups of people, of which each has a share.

    Noise that privacy added to them adds up by the squares of the shares, and what clipping may bias at most by the
    shares, since the sum of w_s sqrt(a'M_s a) is at most the root of the sum of w_s a'M_s a.

    The scatter of the result is n_eff times the estimated variance of the average, so that it compares with the
    variance of one person. Its degrees of freedom are the fewest that the groups' own, weighted like this, allow; a
    single person shows no scatter, and the other groups stand for that one.
    """
    variances = [share**2 / part.effective for share, part in parts]  # of w_s y_s, in units of C
    seen = [(variance, part) for variance, (_, part) in zip(variances, parts, strict=True) if part.scatter is not None]
    whole = math.fsum(variance for variance, _ in seen)
    return Feedback(
        np.sum([share * part.mean for share, part in parts], axis=0),
        sum(part.count for _, part in parts),
        noise=_sum((share**2, part.noise) for share, part in parts),
        clipping=_sum((share, part.clipping) for share, part in parts),
        scatter=_sum((variance / whole, part.scatter) for variance, part in seen),
        weighting=Weighting(
            effective=1 / math.fsum(variances),
            freedom=min((whole / variance * part.freedom for variance, part in seen), default=0.0),
        ),
    )


def in_blocks(parts: Sequence[Feedback], same: bool = False) -> Feedback:
    """Average the averages of the people of each block, or the same people's about each; all blocks count the same."""
    if len(parts) == 1:
        return parts[0]
    by_block = np.stack([part.mean for part in parts])
    found = replace(averaged([(1 / len(parts), part) for part in parts]), by_block=by_block)
    return of_same(replace(found, count=parts[0].count), len(parts)) if same else found


def of_same(feedback: Feedback, blocks: int) -> Feedback:
    """Return the average of people who answered about so many blocks each, and of whom the scatter shows as many."""
    return replace(feedback, weighting=Weighting(feedback.count * blocks, feedback.count - 1))


def _sum(terms: Iterable[tuple[float, Array | None]]) -> Array | None:
    """Add up arrays times their factors; None if there are none."""
    found = [factor * array for factor, array in terms if array is not None]
    return np.sum(found, axis=0) if found else None


class Answered(NamedTuple):
    """A plan with its feedback: what a log keeps of a wave."""

    plan: Plan
    feedback: Feedback


@dataclass(frozen=True)
class Tally:
    """Answers added up on an integer grid: `a + b` gives the same sum in any order and any grouping.

    >>> a, b = (Tally.of([[x]], step=2**-40) for x in (0.1, 0.2))
    >>> a + b == b + a, (a + b).count
    (True, 2)
    """

    count: int
    total: tuple[int, ...]
    step: float
    products: tuple[int, ...] | None = None  # arms x arms, of single answers, in squared steps; None: nobody saw them

    @classmethod
    def of(cls, answers: object, step: float) -> Tally:
        """Add up some people's answers, an array of shape (people, arms)."""
        array = require_array("answers", answers)
        if array.ndim != 2 or 0 in array.shape:
            raise InputError(f"answers must have the shape (people, arms) and not be empty, got {array.shape}")
        check_scale(largest(array), step)
        if len(array) == 1:
            steps = tuple(round(number / step) for number in array[0].tolist())
            return cls(1, steps, step, tuple(one * other for one in steps for other in steps))
        grid = np.rint(array / step)
        tally = cls.of_steps(grid, step)
        return cls(tally.count, tally.total, step, _products(grid))

    @classmethod
    def of_steps(cls, grid: Array, step: float) -> Tally:
        """Add up answers that are already whole numbers of steps."""
        if not len(grid):
            raise InputError("there are no answers to add up; wait for at least one")
        if largest(grid) * len(grid) < 2.0**62:
            return cls(len(grid), tuple(grid.astype(np.int64).sum(axis=0).tolist()), step)
        return cls(len(grid), tuple(sum(map(int, column)) for column in grid.T.tolist()), step)

    def __add__(self, other: Tally) -> Tally:
        if self.step != other.step or len(self.total) != len(other.total):
            raise InputError("only tallies of the same plan and the same problem can be added")
        total = tuple(a + b for a, b in zip(self.total, other.total, strict=True))
        products = None
        if self.products is not None and other.products is not None:
            products = tuple(a + b for a, b in zip(self.products, other.products, strict=True))
        return Tally(self.count + other.count, total, self.step, products)

    def feedback(self) -> Feedback:
        """Return the average answer."""
        # Python rounds the quotient of two ints correctly, even if they are very large.
        mean = np.array([total / self.count * self.step for total in self.total])
        return Feedback(mean, self.count, scatter=self._scatter())

    def _scatter(self) -> Array | None:
        """Compute the sample covariance of single answers, if they were seen."""
        if self.products is None or self.count < 2:
            return None
        pairs, sums = self.count * (self.count - 1), (one * other for one in self.total for other in self.total)
        entries = [(self.count * product - each) / pairs for product, each in zip(self.products, sums, strict=True)]
        return np.array(entries).reshape(len(self.total), -1) * self.step**2


def _products(grid: Array) -> tuple[int, ...]:
    """Add up the products of whole numbers exactly, (arms, arms): each number is split into parts of 20 bits."""
    total, rest = np.zeros((grid.shape[1],) * 2, dtype=object), grid
    parts: list[Array] = []
    while True:
        high = np.floor(rest / HALF)
        parts.append(rest - HALF * high)
        if largest(high) <= HALF:
            parts.append(high)
            break
        rest = high
    for start in range(0, len(grid), EXACT):
        some = [part[start : start + EXACT] for part in parts]
        for i, one in enumerate(some):
            for j, other in enumerate(some):
                total += HALF ** (i + j) * (one.T @ other).astype(np.int64).astype(object)
    return tuple(total.ravel().tolist())


def check_scale(answer: float, step: float) -> None:
    """Refuse answers that are out of all proportion to the problem."""
    if answer > step * 2.0**80:
        raise InputError(
            f"the answer {answer:g} is out of all proportion to the problem's scale "
            f"({step * 2.0**GRID_BITS:g}); check the units of the answers and of norm_bound"
        )


@dataclass(frozen=True)
class Info:
    """What happened in a wave; for display only."""

    active_before: int
    active_after: int
    max_width: float
    information_gain: float
    norm_bound: float
    refuted: bool  # the norm bound was found too small and raised
    forgotten: int = 0  # waves dropped because no norm bound reconciles them with the latest
    warning: str = ""  # what the model check found, and what to do about it


def latest_warning(infos: Iterable[Info]) -> str:
    """Return what the model check found last; empty if it never found anything."""
    return next((info.warning for info in reversed(list(infos)) if info.warning), "")
