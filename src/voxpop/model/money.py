"""Money and people: what the reward is measured in, for how many people a decision is in force, and what asking costs.

A study reckons with the average person and with one round. Sums for all people, in money, are what owners read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from voxpop.errors import InputError
from voxpop.model.options import check, option
from voxpop.model.waves import Forecast
from voxpop.model.words import number


@dataclass(frozen=True)
class Money:
    """The money of a study.

    >>> shop = Money("EUR", people=40_000, answer=2.0)
    >>> shop.total(0.03)
    '1,200 EUR'
    >>> shop.priced(Forecast(gain=1.5, answers=0.1, exploring=0.02), numbers=600)
    Forecast(gain=60000.0, answers=1200.0, exploring=800.0, certificate=None)
    """

    unit: str = option(label="Money", help="The money that a reward is measured in.", example="EUR")
    people: int = option(
        least=1,
        most=10**11,
        unit="people",
        label="People whom the decision affects",
        help="The people for whom the decision is in force; gains and losses are those of all of them.",
        example=40_000,
    )
    answer: float | None = option(
        None,
        least=0,
        label="Price of one number, in money",
        help="What one number costs, in this money; hardly anything unless given.",
        example=2.0,
    )

    def __post_init__(self) -> None:
        check(self, "money.")
        if not str(self.unit).strip():
            raise InputError(f"money.unit must be a name, such as EUR, got {self.unit!r}")

    def total(self, reward: float) -> str:
        """Write a reward of the average person as that of all."""
        return self.said(self.people * reward)

    def said(self, amount: float) -> str:
        """Write an amount of money."""
        return f"{number(amount)} {self.unit}"

    def priced(self, forecast: Forecast, numbers: float) -> Forecast:
        """Return what a wave that asks for so many numbers is expected to bring and to cost, for all people."""
        gain, exploring = self.people * forecast.gain, self.people * forecast.exploring
        return Forecast(gain, self.cost(numbers, forecast.answers), exploring, forecast.certificate)

    def cost(self, numbers: float, counted: float) -> float:
        """Return what so many numbers cost, of which the policy counts this for the average person."""
        return self.people * counted if self.answer is None else numbers * self.answer

    def settings(self, known: Collection[str], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a policy that knows these, with its people and the price of a number."""
        if self.answer is not None and given.get("answer_cost") is not None:
            raise InputError(
                f"a number costs {self.answer:g} {self.unit} by money and {given['answer_cost']:g} units of reward by "
                "answer_cost; leave one of them out"
            )
        found = {"population": self.people, "answer_cost": (self.answer or 0.0) / self.people}
        return {**{name: value for name, value in found.items() if name in known}, **given}
