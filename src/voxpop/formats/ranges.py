"""What is said about the values of numeric parameters: from where to where, whole numbers, a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from voxpop.core.errors import InputError, require_choice
from voxpop.core.spaces import Float, Integer


@dataclass(frozen=True)
class Ranges:
    """Limits by parameter, and which parameters are spaced by their logarithm or are whole numbers.

    The name "" stands for the only numeric parameter.
    """

    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    integer: tuple[str, ...] = ()

    def of(self, numeric: Collection[str], names: Collection[str]) -> Ranges:
        """Return the same with all names filled in, or refuse names that are not those of numeric parameters."""

        def resolved(option: str, name: str) -> str:
            if not name:
                if len(numeric) != 1:
                    said = f"there are {', '.join(numeric)}" if numeric else "none of the parameters is a number"
                    raise InputError(f"--{option} needs the name of a parameter, as in --{option} price=1; {said}")
                return next(iter(numeric))
            if require_choice("parameter", name, names) not in numeric:
                raise InputError(f"--{option} is for numbers, and {name} is a choice; leave it out")
            return name

        for option, limits in (("low", self.low), ("high", self.high)):
            if len({resolved(option, name) for name in limits}) < len(limits):
                raise InputError(f"--{option} is given twice for {next(iter(numeric))}; give it once")
        return Ranges(
            {resolved("low", name): value for name, value in self.low.items()},
            {resolved("high", name): value for name, value in self.high.items()},
            tuple(resolved("log", name) for name in self.log),
            tuple(resolved("integer", name) for name in self.integer),
        )

    def parameter(self, name: str, values: Sequence[float]) -> Float | Integer:
        """Make the parameter that took these values in a pilot.

        >>> Ranges({"price": 1.0}, {"price": 15.0}, log=("price",)).parameter("price", [2.0, 12.0])
        Float(low=1.0, high=15.0, log=True)
        >>> Ranges(integer=("seats",)).parameter("seats", [4.0, 2.0])
        Integer(low=2, high=4)
        """
        low, high = self.low.get(name, min(values)), self.high.get(name, max(values))
        for limit, number, worst, wrong in (
            ("low", low, min(values), low > min(values)),
            ("high", high, max(values), high < max(values)),
        ):
            if wrong:
                raise InputError(
                    f"--{limit} {name}={number:g} leaves out {worst:g}, which the pilot tried; give at "
                    f"{'most' if limit == 'low' else 'least'} {worst:g}, or take those rows out of the pilot"
                )
        if name in self.integer:
            return self._whole(name, low, high, values)
        if name in self.log and low <= 0:
            raise InputError(
                f"--log {name} needs values above 0, and they begin at {low:g}; give --low above 0, or leave out --log"
            )
        return Float(low, high, name in self.log)

    def _whole(self, name: str, low: float, high: float, values: Iterable[float]) -> Integer:
        if name in self.log:
            raise InputError(f"--log {name} and --integer {name} cannot be combined; leave one of them out")
        odd = [value for value in (low, high, *values) if value != round(value)]
        if odd:
            raise InputError(f"--integer {name} takes whole numbers, and {odd[0]:g} is not one; leave out --integer")
        return Integer(round(low), round(high))


def limits_of(option: str, texts: Iterable[str]) -> dict[str, float]:
    """Read what follows an option such as --low: price=1, or 1 for the only numeric parameter.

    >>> limits_of("low", ["price=1", "size = 2.5"]), limits_of("low", ["-1"])
    ({'price': 1.0, 'size': 2.5}, {'': -1.0})
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.rpartition("="))
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"--{option} takes a name and a number, such as price=1, got {text!r}")
        if name in found:
            other = name or "the parameter"
            raise InputError(f"--{option} is given for {other} as {found[name]:g} and as {number:g}; give one")
        found[name] = number
    return found
