"""What a study asks its owner, and what it answers, in terms of the problem's own decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from voxpop.errors import InputError
from voxpop.io.frames import data_frame
from voxpop.model.calendar import Calendar
from voxpop.model.direction import Direction
from voxpop.model.problem import Problem
from voxpop.model.strata import Strata
from voxpop.model.waves import Forecast, Plan
from voxpop.model.words import certified, counted, describe, number
from voxpop.policies import Policy
from voxpop.runtime.frames import listed
from voxpop.runtime.html import html_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Question:
    """One wave in terms of the problem's own decisions: play each for its rounds, then ask this many people.

    If the rounds are in blocks, each person is asked for the averages over the rounds of one block.

    >>> question = Question(1, ({"price": 4.5}, {"price": 5.0}), (20, 20), people=300)
    >>> print(question)
    wave 1: play price = 4.5 for 20 rounds and price = 5 for 20 rounds, then ask 300 people
    >>> question.table().head(2)
       person  price  reward
    0  w1-001    4.5     NaN
    1  w1-001    5.0     NaN
    """

    wave: int
    decisions: tuple[Any, ...]
    rounds: tuple[int, ...]
    people: int
    meanwhile: Any = None  # the decision to keep in force until the answers are in
    rest: int = 0  # the rounds that are expected to pass until then
    forecast: Forecast | None = None  # what the wave is expected to bring and to cost, if the policy knows
    strata: dict[str, int] = field(default_factory=dict)  # how many of the people to draw from each stratum, if any
    measure: str = "reward"  # what people are asked for: their average reward, or cost
    blocks: int = 1  # equal parts of the rounds; a person is asked about one of them
    order: tuple[int, ...] = ()  # the place of the decision that is played in each round; empty: one after the other
    counting: tuple[int, ...] = ()  # the number of the block in which each round counts; 0: in none; empty: all count
    numbered: tuple[int, ...] = ()  # the numbers of the blocks; empty: from 1 on
    over: bool = False  # its rounds are over, and were not all played as planned
    others: tuple[Any, ...] = ()  # decisions that were in force then, and are not asked about; their places follow
    first: int = 1  # the number of its first round, of all rounds of the study
    calendar: Calendar | None = None  # what a round is
    same: int = 0  # the people who answer in every wave, and about every block; 0: fresh people
    metrics: tuple[str, ...] = ()  # what people are asked besides, of each decision: those of guardrails

    @classmethod
    def of(
        cls, problem: Problem, plan: Plan, strata: Strata | None = None, direction: Direction = Direction.MAXIMIZE
    ) -> Question:
        """Put a plan as a question."""
        drawn = {} if strata is None else strata.allocate(plan.people, plan.blocks)
        arms, over, others, order = plan.arms.tolist(), plan.played is not None, list[int](), tuple[int, ...]()
        counting = tuple(plan.counting.tolist()) if over or plan.washout else ()
        rounds = (plan.turns * (plan.washout + plan.each)).tolist()
        if over or plan.orders is not None:  # otherwise there may be very many rounds
            others = np.setdiff1d(plan.sequence, [-1, *arms]).tolist()
            places = {action: place for place, action in enumerate([*arms, *others])}
            order = tuple(places.get(action, -1) for action in plan.sequence.tolist())
        if over:
            lived = [place for place, block in zip(order, counting, strict=True) if block]
            rounds = [lived.count(place) for place in range(len(arms))]
        return cls(
            plan.wave,
            tuple(problem.decisions[arm] for arm in arms),
            tuple(rounds),
            sum(drawn.values()) or plan.people,
            problem.decisions[plan.reference],
            plan.rest,
            plan.forecast,
            drawn,
            direction.measure,
            plan.blocks,
            order,
            counting,
            plan.used,
            over,
            tuple(problem.decisions[action] for action in others),
            same=plan.same,
            metrics=tuple(guardrail.name for guardrail in problem.guardrails),
        )

    @property
    def length(self) -> int:
        """The rounds of the wave, with those that pass until the answers are in."""
        return (len(self.order) or sum(self.rounds)) + self.rest

    @property
    def labels(self) -> tuple[Any, ...]:
        """What the decisions are called as the columns of a wide table, and in dictionaries."""
        return tuple(map(label_of, self.decisions))

    @property
    def _numbers(self) -> tuple[int, ...]:
        """The numbers of the blocks."""
        return self.numbered or tuple(range(1, self.blocks + 1))

    @property
    def in_blocks(self) -> bool:
        """True if people are asked about a block by its number."""
        return self.blocks > 1 or bool(self.numbered)

    @property
    def assigned(self) -> dict[str, list[int]]:
        """The block of each person in the order of the table, by stratum; block b has (people + b) // blocks of them.

        >>> Question(1, ({"price": 4.5},), (2,), people=5, blocks=2).assigned
        {'': [1, 1, 2, 2, 2]}

        People who answer in every wave have a place in each block.
        """
        drawn, numbers = self.strata or {"": self.people}, self._numbers
        if self.same:
            return {"": [block for block in numbers for _ in range(self.people)]}
        blocks = (numbers[-1 - person % self.blocks] for person in count())
        return {stratum: sorted(islice(blocks, people)) for stratum, people in drawn.items()}

    def table(self, wide: bool = False) -> pd.DataFrame:
        """Return a table for the answers, which `Study.tell` takes once its empty cells are filled in.

        It has one row a person and decision or, if it is wide, one row a person and one column a decision. The names of
        the people are placeholders: write your own in their place. If there are strata or blocks, there is a column for
        them.

        >>> Question(1, ({"price": 4.5}, {"price": 5.0}), (20, 20), people=2).table(wide=True)
          person  4.5  5.0
        0   w1-1  NaN  NaN
        1   w1-2  NaN  NaN
        """
        return data_frame(self.rows(wide))

    def rows(self, wide: bool = False) -> Iterator[dict[Any, Any]]:
        """Yield the rows of the table for the answers."""
        digits, empty = len(str(self.same or self.people)), float("nan")
        drawn = [(stratum, block) for stratum, blocks in self.assigned.items() for block in blocks]
        for place, (stratum, block) in enumerate(drawn, start=1):
            whose = ({"stratum": stratum} if self.strata else {}) | ({"block": block} if self.in_blocks else {})
            name = f"p{(place - 1) % self.people + 1:0{digits}}" if self.same else f"w{self.wave}-{place:0{digits}}"
            person = {"person": name, **whose}
            if wide and self.metrics:
                raise InputError(
                    f"a wide table has room for one answer a decision, and {', '.join(self.metrics)} is asked as well; "
                    "take the long table, without --wide"
                )
            if wide:
                yield {**person, **dict.fromkeys(self.labels, empty)}
            else:
                answered = dict.fromkeys((self.measure, *self.metrics), empty)
                yield from ({**person, **parameters_of(each), **answered} for each in self.decisions)

    @property
    def whom(self) -> str:
        """Whom to ask, in words: how many people, and about which block."""
        if self.same:
            about = f", about each of {self.blocks} blocks" if self.blocks > 1 else ""
            return f"the {self.people:,} people who answer in every wave{about}"
        if not self.in_blocks:
            return f"{self.people:,} people"
        counts = [(self.people + block) // self.blocks for block in range(self.blocks)]
        parts = [f"{count:,} about block {block}" for block, count in zip(self._numbers, counts, strict=True)]
        return f"{self.people:,} people, {_listed(parts)}"

    @property
    def plays(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """What to play, as the headings and the rows of a table: each decision, and in which rounds."""
        when: tuple[str, ...] = ()
        if self.order:
            when = tuple(f"block {block}" for block in self._numbers) if self.in_blocks else ("in rounds",)
        cells: list[list[list[int]]] = [[[] for _ in when] for _ in self.decisions]
        for turn, (place, block) in enumerate(zip(self.order, self._counted(len(self.order)), strict=True), start=1):
            if block:
                cells[place][self._numbers.index(block)].append(turn)
        return ("played" if self.over else "play", "rounds", *when), [
            (describe(decision), f"{rounds:,}", *map(listed, each))
            for decision, rounds, each in zip(self.decisions, self.rounds, cells, strict=True)
        ]

    def _counted(self, rounds: int) -> Sequence[int]:
        """Return the number of the block in which each round counts; 0: in none."""
        return self.counting or [turn * self.blocks // rounds + 1 for turn in range(rounds)]

    def schedule(self) -> list[dict[str, Any]]:
        """List the rounds of the wave: the number of each, from when until when it is played, its decision and block.

        Without a calendar there are no dates. Rounds that do not count, and those that pass until the answers are in,
        have no block.

        >>> week = Calendar("week", "2026-03-02", "Europe/Berlin")
        >>> for row in Question(1, ({"price": 4.5}, {"price": 5.0}), (1, 1), people=2, calendar=week).schedule():
        ...     print(row["round"], row["from"], row["until"], row["decision"], row["block"])
        1 2026-03-02 00:00:00+01:00 2026-03-09 00:00:00+01:00 {'price': 4.5} 1
        2 2026-03-09 00:00:00+01:00 2026-03-16 00:00:00+01:00 {'price': 5.0} 1
        """
        order = self.order or [place for place, rounds in enumerate(self.rounds) for _ in range(rounds)]
        known = [*self.decisions, *self.others, None]
        played = [(known[place], block or None) for place, block in zip(order, self._counted(len(order)), strict=True)]
        rows = [*played, *[(self.meanwhile, None)] * self.rest]
        spans: Iterable[tuple[Any, Any]] = repeat((None, None))
        if self.calendar is not None:
            spans = self.calendar.spans(self.first, len(rows))
        return [
            {"round": number, "from": begins, "until": ends, "decision": decision, "block": block}
            for number, ((decision, block), (begins, ends)) in enumerate(zip(rows, spans, strict=False), self.first)
        ]

    def __str__(self) -> str:
        """Say in one sentence what to do."""
        played = [
            f"{describe(decision)} for {counted(rounds, 'round')}"
            for decision, rounds in zip(self.decisions, self.rounds, strict=True)
        ]
        ordered = ", in the order of its schedule" if self.order else ""
        blocks = f" and in {self.blocks} blocks" if self.blocks > 1 else ""
        if self.over:
            return f"wave {self.wave}: {_listed(played)} were played and count; ask {self.whom}"
        partly = f"; {self.washed_out}" if self.washed_out else ""
        return f"wave {self.wave}: play {_listed(played)}{ordered}{blocks}, then ask {self.whom}{partly}"

    @property
    def washed_out(self) -> str:
        """Say which rounds do not count, if the first ones of every turn do not."""
        washout = 0 if self.over or not self.counting else self.counting.index(1)
        which = "round of every turn does" if washout == 1 else f"{washout} rounds of every turn do"
        return f"the first {which} not count" if washout else ""

    def _repr_html_(self) -> str:
        """Show a notebook what to play and whom to ask."""
        headings, rows = self.plays
        averages = _listed([self.measure, *self.metrics])
        asked = f"wave {self.wave}: then ask {self.whom}, for their average {averages} of each"
        return html_table(rows, headings, asked)


def _listed(parts: list[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def parameters_of(decision: Any) -> dict[str, Any]:
    """Return a decision by parameter; coordinates without names are x1, x2 and so on.

    >>> parameters_of([0.5, 0.25])
    {'x1': 0.5, 'x2': 0.25}
    """
    if isinstance(decision, Mapping):
        return dict(decision)
    values = decision if isinstance(decision, list) else [decision]
    return {f"x{place}": value for place, value in enumerate(values, start=1)}


def label_of(decision: Any) -> Any:
    """Return what a decision is called as a column: the value of its only parameter, or else all in words.

    >>> label_of({"price": 4.7}), label_of({"price": 4.7, "colour": "red"})
    (4.7, 'price = 4.7, colour = red')
    """
    values = list(parameters_of(decision).values())
    return values[0] if len(values) == 1 else describe(decision)


def failure_chance(policy: Policy, problem: Problem, waves: int) -> float:
    """Bound the probability that anything certified is wrong: delta, or beta for every bound of every wave."""
    printed = 2 * problem.size * max(1, waves) * problem.beta
    return float(min(1.0, policy.settings().get("delta", printed)))


def confidence_of(policy: Policy, problem: Problem, waves: int) -> float | None:
    """Return with which probability all holds that is certified after this number of waves; None: with none."""
    chance = failure_chance(policy, problem, waves)
    return 1 - chance if chance < 1 else None


@dataclass(frozen=True)
class Answer:
    """What to do now, and how sure that is. If the study minimises, estimate, low and high are costs.

    >>> print(Answer(3, {"price": 4.7}, 1.3, None, None, 0.05, 0.002, certain=False))
    price = 4.7: expect 1.3; expected loss 0.002 per round; nothing is better by more than 0.05
    >>> print(Answer(3, {"price": 4.7}, 1.3, None, None, None, 0.002, certain=False))
    price = 4.7: expect 1.3; expected loss 0.002 per round; not certified yet
    """

    index: int
    decision: Any
    estimate: float | None  # what to expect of the decision; None before anybody has answered, in a pilot or since
    low: float | None  # certified: its reward is between low and high; None: nothing is certified
    high: float | None
    regret: float | None  # certified: no decision is better by more than this; None: nothing is certified
    expected_loss: float | None  # what the model expects this decision to lose per round, if the policy knows
    certain: bool  # nothing else can be best
    confidence: float | None = None  # with which all that is certified holds; None: with none
    guardrails: tuple[str, ...] = ()  # what is certified of each, or believed, in words

    @property
    def facts(self) -> dict[str, str]:
        """What is known about the decision, in words: what to expect, what it may lose, and what is certified."""
        facts = {} if self.estimate is None else {"expect": number(self.estimate)}
        if self.estimate is not None and self.low is not None and self.high is not None:
            facts["expect"] += f", certified {number(self.low)} to {number(self.high)}"
        if self.estimate is not None and self.expected_loss is not None:
            facts["expected loss"] = f"{number(self.expected_loss)} per round"
        facts |= {"guardrails": "; ".join(self.guardrails)} if self.guardrails else {}
        noun = "decision that keeps the guardrails" if self.guardrails else ""
        return {**facts, "certified": certified(self.regret, self.certain, self.confidence, noun)}

    def __str__(self) -> str:
        """Say what to do and how sure that is."""
        *facts, proved = self.facts.items()
        return f"{describe(self.decision)}: {'; '.join([*(f'{name} {fact}' for name, fact in facts), proved[1]])}"

    def _repr_html_(self) -> str:
        """Show a notebook what to do and how sure that is."""
        return html_table(self.facts.items(), caption=describe(self.decision))
