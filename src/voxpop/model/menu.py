"""Which decisions exist: values that are listed, steps, allowed combinations, and those that a formula leaves.

A parameter that nothing is said about takes the values of the pilot where they are few or evenly spaced, as people set
them, and round numbers otherwise. Nobody charges 2.1153.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from voxpop.errors import InputError, require_choice, require_integer, require_number, said_of
from voxpop.model.decisions import Choice, Decisions, Float, Integer, Label, Parameter, Space
from voxpop.model.formula import Formula, column_of

FEW = 20  # values of a pilot that are the decisions as they are
MOST = 51  # values of a numeric parameter, unless they are listed
WANTED = 1_500  # decisions in all, unless something is said about them
MOST_STEPS = 10**6
KEYS = ("points", "values", "step")  # what a study file may say of a parameter's values


@dataclass(frozen=True)
class Menu:
    """What is said about the decisions; the name "" stands for the only numeric parameter.

    >>> menu = Menu(values={"price": [2.99, 3.49, 3.99]}, only="price <= 3 or plan == 'plus'")
    >>> space = Space(price=Float(2, 4), plan=Choice(("basic", "plus")))
    >>> [tuple(decision.values()) for decision in menu.decisions(space)]
    [(2.99, 'basic'), (2.99, 'plus'), (3.49, 'plus'), (3.99, 'plus')]
    """

    points: int | Mapping[str, int] | None = None  # evenly spaced values, of every numeric parameter or of some
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    step: Mapping[str, float] = field(default_factory=dict)
    only: str = ""  # a formula of the parameters, which is 0 for decisions that do not exist
    allowed: Sequence[Label] = ()  # the decisions themselves

    @classmethod
    def of(
        cls, points: Any = None, values: Any = None, step: Any = None, only: str | None = None, allowed: Any = None
    ) -> Menu:
        """Make a menu of what a program says: a list of values or a step alone is about the only numeric parameter.

        >>> Menu.of(values=[1, 2]).values, Menu.of(step=0.5).step
        ({'': [1, 2]}, {'': 0.5})
        """
        named = [said if isinstance(said, Mapping) else {} if said is None else {"": said} for said in (values, step)]
        lists = {name: [some] if isinstance(some, str | int | float) else list(some) for name, some in named[0].items()}
        return cls(points, lists, named[1], only or "", [dict(label) for label in allowed or ()])

    def __post_init__(self) -> None:
        names = [*self.values, *self.step, *(self.points if isinstance(self.points, Mapping) else ())]
        if twice := [name for name in names if names.count(name) > 1]:
            whose = f"parameter {twice[0]}".strip()
            raise InputError(f"the {whose} is given two of values, step and points; leave one of them out")
        if self.allowed and (self.points is not None or self.values or self.step):
            raise InputError("allowed combinations say which values exist; leave out points, values and steps")
        if self.only:
            Formula(self.only)

    def named(self, numeric: Collection[str], names: Collection[str]) -> Menu:
        """Return the same with all names filled in; refuse names that are not those of parameters."""
        values = resolved("--values", self.values, numeric, names, words=True)
        return replace(self, values=values, step=resolved("--step", self.step, numeric, names, words=True))

    def fitted(self, space: Space, tried: Sequence[Any]) -> Menu:
        """Return the menu with what holds unless given, from the decisions that a pilot tried."""
        numeric = [name for name, each in space.parameters.items() if not isinstance(each, Choice)]
        menu = self.named(numeric, space.parameters)
        left = [name for name in numeric if name not in menu.values and name not in menu.step]
        if menu.allowed or not left:
            return menu
        if menu.points is not None:
            return replace(menu, points=dict.fromkeys(left, menu.points)) if isinstance(menu.points, int) else menu
        values = {name: sorted({label[name] for label in tried if isinstance(label, Mapping)}) for name in left}
        own = {name: some for name, some in values.items() if looks_set(space.parameters[name], some)}
        sizes = [len(_column(name, each, menu)) for name, each in space.parameters.items() if name not in left]
        if math.prod((*sizes, *map(len, own.values()))) > WANTED:
            own = {}
        fixed = math.prod((*sizes, *map(len, own.values())))
        most = max(3, min(MOST, int((WANTED / fixed) ** (1 / max(1, len(left) - len(own))) + 1e-9)))
        made = {name: own.get(name) or rounded(space.parameters[name], values[name], most) for name in left}
        return replace(menu, values={**menu.values, **made})

    def entry(self, name: str) -> dict[str, Any]:
        """Return what a study file says of a parameter's values."""
        if name in self.values:
            return {"values": list(self.values[name])}
        if name in self.step:
            return {"step": float(self.step[name])}
        points = self.points.get(name) if isinstance(self.points, Mapping) else self.points
        return {} if points is None else {"points": points}

    def decisions(self, space: Space, among: Decisions | None = None) -> Decisions:
        """Return the decisions of a space that exist, or those of others that the formula leaves."""
        if among is not None:
            found = among
        elif self.allowed:
            found = space.listed(self.allowed)
        else:
            found = space.combined({name: _column(name, each, self) for name, each in space.parameters.items()})
        if not self.only:
            return found
        formula, labels = Formula(self.only), found.labels or ()
        formula.require_names(space.parameters)
        columns = {name: column_of([label[name] for label in labels]) for name in formula.names}
        holds = np.broadcast_to(formula(columns), (len(labels),))
        kept = np.flatnonzero((holds != 0) & ~np.isnan(holds))
        if len(kept) < 2:
            left = "one" if len(kept) else "none"
            raise InputError(f"{formula} leaves {left} of {len(labels):,} decisions; let it allow two or more")
        return Decisions(found.points[kept], [labels[place] for place in kept.tolist()])


def resolved(
    option: str, given: Mapping[str, Any], numeric: Collection[str], names: Collection[str], words: bool = False
) -> dict[str, Any]:
    """Return what an option says by parameter, with "" filled in; refuse other names, and choices unless `words`."""
    if "" in given and len(numeric) != 1:
        said = f"there are {', '.join(numeric)}" if numeric else "none of the parameters is a number"
        raise InputError(f"{option} needs the name of a parameter, as in {option} price=1; {said}")
    found = {name or next(iter(numeric)): value for name, value in given.items()}
    if len(found) < len(given):
        raise InputError(f"{option} is given twice for {next(iter(numeric))}; give it once")
    for name in found:
        if require_choice("parameter", name, names) not in numeric and not words:
            raise InputError(f"{option} is for numbers, and {name} is a choice; leave it out")
    return found


def _column(name: str, parameter: Parameter, menu: Menu) -> list[Any]:
    """Return the values of a parameter in the decisions."""
    said = menu.entry(name)
    with said_of(name):
        if "values" in said:
            return listed(parameter, said["values"])
        if "step" in said:
            return stepped(parameter, said["step"])
    return parameter.values(require_integer(f"points of {name}", said.get("points", 10), least=1))


def listed(parameter: Parameter, values: Iterable[Any]) -> list[Any]:
    """Return listed values in order; refuse repeated ones, and values that the parameter cannot take."""
    found = list(values)
    if isinstance(parameter, Choice):
        names = {str(option): option for option in parameter.options}
        found = [names.get(f"{value:g}" if isinstance(value, float) else str(value), value) for value in found]
    for value in found:
        parameter.scale(value)
    if len(set(found)) < max(1, len(found)):
        raise InputError(f"its values must be different, got {', '.join(map(str, found)) or 'none'}; give each once")
    if isinstance(parameter, Choice):
        return found
    return sorted(map(float if isinstance(parameter, Float) else int, found))


def stepped(parameter: Parameter, step: float) -> list[Any]:
    """Return values a step apart: from the least one on if that is round, and multiples of the step otherwise.

    >>> stepped(Float(2.99, 4.5), 0.5), stepped(Float(1.0234, 1.4), 0.1)
    ([2.99, 3.49, 3.99, 4.49], [1.1, 1.2, 1.3, 1.4])
    """
    if isinstance(parameter, Choice):
        raise InputError("it is a choice, and a step is for numbers; list its values instead")
    require_number("step", step, above=0)
    first = parameter.low if plain(parameter.low) else math.ceil(parameter.low / step - 1e-9) * step
    count = (parameter.high - first) / step + 1e-9
    if not 1 <= count <= MOST_STEPS:
        few = "fewer than two values" if count < 1 else f"more than {MOST_STEPS:,} values"
        limits = f"between {parameter.low:g} and {parameter.high:g}"
        raise InputError(f"a step of {step:g} gives {few} {limits}; give a {'smaller' if count < 1 else 'larger'} one")
    made = (float(f"{first + place * step:.12g}") for place in range(int(count) + 1))
    return listed(parameter, [min(value, parameter.high) for value in made])


def plain(value: float) -> bool:
    """Tell whether a number has at most two decimals or three digits, as people write it.

    >>> [plain(value) for value in (2.99, 149.95, 0.0125, 2.1153, 1 / 3)]
    [True, True, True, False, False]
    """
    return any(float(f"{value:{form}}") == value for form in (".2f", ".3g"))


def looks_set(parameter: Parameter, values: Sequence[Any]) -> bool:
    """Tell whether values look like those that are set: plain, and few or evenly spaced, over the whole range.

    >>> looks_set(Float(1.99, 3.99), [1.99, 2.99, 3.99]), looks_set(Float(1, 3), [1, 1.0234, 3])
    (True, False)
    """
    if not isinstance(parameter, Float) or len(values) < 2 or not all(map(plain, values)):
        return False
    gaps = np.diff(values)
    ends = math.isclose(values[0], parameter.low) and math.isclose(values[-1], parameter.high)
    return ends and (len(values) <= FEW or bool(np.ptp(gaps) <= 1e-6 * gaps.max()))


def rounded(parameter: Parameter, tried: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many round numbers within the range, no finer than those that a pilot tried, if they are round.

    >>> rounded(Float(1.0234, 1.9), [], 11), rounded(Integer(1, 30), [], 8)
    ([1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9], [5, 10, 15, 20, 25, 30])
    >>> rounded(Float(1, 100, log=True), [], 7)
    [1.0, 2.2, 4.6, 10.0, 22.0, 46.0, 100.0]
    """
    assert not isinstance(parameter, Choice)
    low, high = parameter.low, parameter.high
    if isinstance(parameter, Float) and parameter.log:
        made = sorted({float(f"{value:.2g}") for value in parameter.values(most)})
        made = [value for value in made if low <= value <= high]
    else:
        finest = 1.0 if isinstance(parameter, Integer) else _unit(tried)
        least = max((high - low) / (most - 1), finest)
        scale = 10.0 ** math.floor(math.log10(least))
        step = next(times * scale for times in (1, 2, 5, 10) if times * scale >= least * (1 - 1e-9))
        ends = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        made = [float(f"{place * step:.12g}") for place in range(ends[0], ends[1] + 1)]
        made = sorted({min(max(value, low), high) for value in made})
    if len(made) < 2:
        made = parameter.values(most)
    return [int(value) for value in made] if isinstance(parameter, Integer) else made


def _unit(tried: Sequence[float]) -> float:
    """Return the power of ten of which all tried values are multiples; 0 if they are not round.

    >>> _unit([1.0, 1.4, 3.0]), _unit([100.0, 250.0]), _unit([1 / 3])
    (0.1, 1.0, 0.0)
    """
    if not tried or not all(map(plain, tried)):
        return 0.0
    digits = next(digits for digits in range(30) if all(round(value, digits) == value for value in tried))
    return float(10.0**-digits)
