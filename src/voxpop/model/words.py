"""Decisions, numbers and certificates as people write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


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


def number(value: float) -> str:
    """Write a reward with a sensible number of digits.

    >>> number(0.123456), number(12345.6)
    ('0.123', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def counted(count: int, one: str, many: str = "") -> str:
    """Write a number with its noun.

    >>> counted(1, "round"), counted(2000, "round"), counted(2, "person", "people")
    ('1 round', '2,000 rounds', '2 people')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def certified(certificate: float | None, certain: bool) -> str:
    """Say what is proved about the decision.

    >>> certified(0.0213, certain=False)
    'nothing is better by more than 0.0213'
    """
    if certain:
        return "nothing else can be best"
    if certificate is None or math.isinf(certificate):
        return "nothing yet"
    return f"nothing is better by more than {number(certificate)}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
