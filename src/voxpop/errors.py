"""The one error that users see: a sentence that names the value and the remedy."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral, Real
from operator import ge, gt, le, lt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = NDArray[np.floating[Any]]  # in single or in double precision


class InputError(ValueError):
    """A value, file or setting that cannot be used; the message says what is wrong and what to do about it.

    >>> try:
    ...     require_number("horizon", -1, above=0)
    ... except InputError as error:
    ...     print(error)
    horizon must be a number above 0, got -1
    """

    each: tuple[str, ...] = ()  # the refusals that it lists, if there are several


class RefusedError(InputError):
    """What a service refuses, with the status of its reply."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


@contextmanager
def said_of(place: object) -> Iterator[None]:
    """Prefix the message of an `InputError` raised inside with its place (a file, a parameter)."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def require_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """Return the value as a finite float inside its range, or raise an `InputError` that names both.

    >>> require_number("alpha", 0.7, above=0)
    0.7
    >>> require_number("alpha", -0.3, above=0)
    Traceback (most recent call last):
    ...
    voxpop.errors.InputError: alpha must be a number above 0, got -0.3
    """
    limits = (("above", above, gt), ("at least", least, ge), ("below", below, lt), ("at most", most, le))
    said = " and ".join(f"{word} {limit:g}" for word, limit, _ in limits if limit is not None)
    wanted = f"{name} must be a number {said}".rstrip()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{wanted}, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        number = math.inf
    inside = all(holds(number, limit) for _, limit, holds in limits if limit is not None)
    if not (math.isfinite(number) and inside):
        raise InputError(f"{wanted}, got {value}")
    return number


def require_integer(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """Return the value as an int inside its range, or raise an `InputError` that names both."""
    if type(value) is int and value >= least and (most is None or value <= most):
        return value
    wanted = f"{name} must be a whole number, at least {least}" + ("" if most is None else f" and at most {most}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{wanted}, got {value!r}")
    number = int(value)
    if number < least or (most is not None and number > most):
        raise InputError(f"{wanted}, got {number}")
    return number


def require_choice(kind: str, value: Any, known: Iterable[str]) -> str:
    """Return the value if it is a known name, or raise an `InputError` that suggests the nearest one."""
    names = sorted(known)
    if value in names:
        return str(value)
    near = get_close_matches(str(value), names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"unknown {kind} {value!r}; {hint}known: {', '.join(names)}")


def all_of(*checks: Callable[[], Any]) -> list[Any]:
    """Return what some checks return; if several refuse, raise one `InputError` that lists all refusals."""
    found, wrong = [], list[str]()
    for check in checks:
        try:
            found.append(check())
        except InputError as error:
            wrong += error.each or (str(error),)
    if wrong:
        said = "; ".join(f"({place}) {sentence}" for place, sentence in enumerate(wrong, start=1))
        refusal = InputError(wrong[0] if len(wrong) == 1 else f"{len(wrong)} things are wrong: {said}")
        refusal.each = tuple(wrong)
        raise refusal
    return found


def one_of(names: Iterable[str]) -> str:
    """Join the names of the choices for a sentence.

    >>> one_of(["central", "local", "shuffle"])
    'central, local or shuffle'
    """
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


FEW = 16  # up to this many numbers, Python is quicker than NumPy


def all_finite(array: Array) -> bool:
    """Return True if no number is infinite or NaN."""
    return all(map(math.isfinite, array.ravel().tolist())) if array.size <= FEW else bool(np.isfinite(array).all())


def largest(array: Array) -> float:
    """Return the largest absolute value."""
    return max(map(abs, array.ravel().tolist())) if array.size <= FEW else float(np.abs(array).max())


def require_array(name: str, values: object) -> Array:
    """Return the values as a new float array, or raise an `InputError` if any is not finite."""
    try:
        array = np.array(values, dtype=float)
    except (OverflowError, TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers of one shape, got {type(values).__name__}") from None
    if not all_finite(array):
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{name} must be finite, got {array[place]} at position {list(place)}")
    return array
