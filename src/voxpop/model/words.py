"""Decisions, numbers and certificates as people write them."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from voxpop.errors import InputError


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


WHOLE = re.compile(r"[+-]?[0-9]{1,40}(\.0*)?(e\+?[0-9]{1,2})?")  # a number that some program made a float of

# Signs that are not shown, and that Unicode counts as letters or marks: fillers, joiners, variation selectors.
INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def person_of(value: object) -> str:
    """Return the name by which a person is counted, the same however programs and people write it.

    Capitals, spaces around and between words, invisible characters and the forms of Unicode do not matter, nor does a
    float that was made of a whole number: who is counted under two names is exposed twice.

    >>> [person_of(name) for name in (7, 7.0, "007", "7.0 ", "Ann ", "ann", "A.  Bo")]
    ['7', '7', '7', '7', 'ann', 'ann', 'a. bo']
    """
    if value is None or value != value:  # NaN
        raise InputError("a person has no name; fill in who answered")
    text = str(value)
    if not (text.isascii() and text.isprintable()):
        shown = "".join(sign for sign in text if sign.isspace() or unicodedata.category(sign) not in ("Cf", "Cc"))
        text = INVISIBLE.sub("", unicodedata.normalize("NFKC", shown.casefold()))
    text = " ".join(text.casefold().split())
    if not text:
        raise InputError(f"a person has no name, got {value!r}; fill in who answered")
    return str(int(Decimal(text))) if WHOLE.fullmatch(text) else text


def number(value: float, spread: float = 0.0) -> str:
    """Write a reward with a sensible number of digits: of numbers that differ by this spread, all with the same.

    >>> number(0.123456), number(12345.6)
    ('0.123', '12,346')
    >>> number(2.3, spread=1.4), number(2.2941, spread=1.4), number(0.0, spread=0.02)
    ('2.30', '2.29', '0.0000')
    """
    if 0 < spread < math.inf:
        return f"{value:,.{max(0, math.ceil(math.log10(40 / spread)))}f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def counted(count: int, one: str, many: str = "") -> str:
    """Write a number with its noun.

    >>> counted(1, "round"), counted(2000, "round"), counted(2, "person", "people")
    ('1 round', '2,000 rounds', '2 people')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def limits(low: float, high: float) -> str:
    """Say what is outside of some limits.

    >>> limits(0.0, 1.0), limits(0.0, math.inf)
    ('below 0 or above 1', 'below 0')
    """
    known = (("below", low), ("above", high))
    return " or ".join(f"{side} {number(limit)}" for side, limit in known if math.isfinite(limit))


def percent(confidence: float) -> str:
    """Write a confidence, never as more than it is.

    >>> percent(0.95), percent(0.99999)
    ('95 %', '99.99 %')
    """
    return f"{math.floor(1e4 * confidence + 1e-6) / 100:g} %"


def certified(certificate: float | None, certain: bool, confidence: float | None = None, noun: str = "") -> str:
    """Say what is proved about the decision, and how surely if that is given; `noun` is what decisions are called.

    >>> certified(0.0213, certain=False)
    'nothing is better by more than 0.0213'
    >>> certified(0.0213, False, 0.95, "price")
    'no other price is better by more than 0.0213, with 95 % confidence'
    >>> certified(None, False, 0.95)
    'not certified yet'
    """
    if not certain and (certificate is None or math.isinf(certificate)):
        return "not certified yet"
    said = f"no other {noun}" if noun else "nothing else" if certain else "nothing"
    said += " can be best" if certain else f" is better by more than {number(certificate or 0.0)}"
    return said if confidence is None else f"{said}, with {percent(confidence)} confidence"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
