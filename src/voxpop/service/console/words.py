"""Numbers and times as pages say them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from voxpop.model.words import counted
from voxpop.model.words import number as amount

WAVE = re.compile(r"(?<![\w'-])([Pp])hase(s?)(?![\w'-])")  # and not as a part of a study's name
UNITS = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


def duration(seconds: float) -> str:
    """Say a time in its largest unit, and in two if that is more telling.

    >>> duration(30), duration(60), duration(5400), duration(86400), duration(90000)
    ('less than a minute', '1 minute', '1 hour 30 minutes', '1 day', '1 day 1 hour')
    """
    left, said = round(max(0.0, seconds) / 60) * 60, []
    for size, unit in UNITS:
        count = int(left // size)
        if count:
            said.append(counted(count, unit))
            left -= round(count * size)
        elif said:
            break
    return " ".join(said[:2]) or "less than a minute"


def moment(at: float) -> str:
    """Write a time in the world's time zone, to the minute.

    >>> moment(0.0)
    '1970-01-01 00:00 UTC'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def iso(at: float) -> str:
    """Write a time for the attribute of a <time> element."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def number(value: int) -> str:
    """Write a whole number with separators."""
    return f"{value:,}"


def size(count: int) -> str:
    """Write a number of bytes.

    >>> size(0), size(2048), size(5 * 2**30)
    ('0 bytes', '2 KiB', '5 GiB')
    """
    amount = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:,.3g} TiB"


def in_waves(text: str) -> str:
    """Say a sentence of the API as pages do, which call a wave a wave whatever the policy.

    >>> in_waves("Wave 2 waits, and waves 3 to 4 of study 'wave-1' are lost")
    "Wave 2 waits, and waves 3 to 4 of study 'wave-1' are lost"
    """
    return WAVE.sub(lambda found: f"{'W' if found[1] == 'P' else 'w'}ave{found[2]}", text)


FILTERS: dict[str, Callable[..., Any]] = {
    "duration": duration,
    "moment": moment,
    "iso": iso,
    "number": number,
    "size": size,
    "counted": counted,
    "amount": amount,
}
