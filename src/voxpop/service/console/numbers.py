"""Numbers as people type them. What can be read in two ways is refused: nobody sees what became of it."""

from __future__ import annotations

import re

from voxpop.errors import InputError, require_number

HOUR = 3600.0
GROUPED = re.compile(r"\d{1,3}(?:([, \u00a0\u202f])\d{3})(?:\1\d{3})*")  # thousands apart: 20,000 or 20 000
COMMA = re.compile(r"[+-]?\d+,\d+")  # 0,5


def whole(label: str, text: str) -> int:
    """Read a whole number; commas and spaces may stand between thousands, and nowhere else.

    >>> whole("Rounds", "20,000"), whole("Rounds", "1 000"), whole("Rounds", "7")
    (20000, 1000, 7)
    """
    plain = re.sub(r"\D", "", text) if GROUPED.fullmatch(text) else text
    if not re.fullmatch(r"[+-]?[0-9]+", plain):
        raise InputError(f"{label} must be a whole number such as 20000, got {text!r:.40}")
    return int(plain)


def decimal(label: str, text: str) -> float:
    """Read a number with a decimal point or comma.

    >>> decimal("Epsilon", "0.5"), decimal("Epsilon", "0,5"), decimal("Epsilon", "1 000")
    (0.5, 0.5, 1000.0)
    """
    grouped = GROUPED.fullmatch(text)
    if grouped and grouped[1] == "," and not text.startswith("0,"):
        ways = f"{text.replace(',', '')} or {text.replace(',', '.')}"
        raise InputError(f"{label} must be a number that is read in one way; write {ways} instead of {text}")
    plain = re.sub(r"\D", "", text) if grouped and grouped[1] != "," else text
    try:
        return require_number(label, float(plain.replace(",", ".") if COMMA.fullmatch(plain) else plain))
    except ValueError:
        raise InputError(f"{label} must be a number such as 0.5, got {text!r:.40}") from None


def percent(label: str, text: str) -> float:
    """Read a confidence in percent, and return what is left of it."""
    return round(1 - require_number(label, decimal(label, text), above=0, below=100) / 100, 12)


def hours(label: str, text: str) -> float:
    """Read hours, and return seconds."""
    return decimal(label, text) * HOUR
