"""A formula, such as `(price - 1.5) * (wtp >= price)`, computed for all people or decisions at once.

The text is taken apart by Python's own parser and computed with NumPy; nothing in it is ever executed. It may hold
numbers, names, words in quotes, + - * / **, comparisons, and, or, not, `a if c else b`, and the functions below. A
comparison is 1 if it holds and 0 if not.
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxpop.errors import InputError, require_choice, said_of

Values = NDArray[Any]  # numbers, or words
Part = Callable[[Mapping[str, Values]], Values]  # computes the value of a part from those of names
LONGEST = 2000  # characters
LARGEST = 1e300
SHOWN = 80  # characters, in a message

OPERATORS: dict[type[ast.AST], Callable[..., Values]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Not: lambda part: np.where(np.isnan(part), np.nan, part == 0),
    ast.And: lambda *parts: _decided(parts, 0.0),
    ast.Or: lambda *parts: _decided(parts, 1.0),
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


def _decided(parts: Sequence[Values], by: float) -> Values:
    """Return what one part decides alone (0 for and, 1 for or), or else the contrary; NaN if a part is unknown."""
    found = [np.asarray((part != 0) == by) & ~np.isnan(part) for part in parts]
    unknown = reduce(np.logical_or, map(np.isnan, parts))
    return np.where(reduce(np.logical_or, found), by, np.where(unknown, np.nan, 1 - by))


def _where(condition: Values, yes: Values, no: Values) -> Values:
    return np.where(np.isnan(condition), np.nan, np.where(condition != 0, yes, no))


FUNCTIONS: dict[str, tuple[Callable[..., Values], int, int | None]] = {  # with the least and the most arguments
    "min": (lambda *parts: reduce(np.minimum, parts), 2, None),
    "max": (lambda *parts: reduce(np.maximum, parts), 2, None),
    "exp": (np.exp, 1, 1),
    "log": (np.log, 1, 1),
    "sqrt": (np.sqrt, 1, 1),
    "abs": (np.abs, 1, 1),
    "where": (_where, 3, 3),
}


@dataclass(frozen=True)
class Formula:
    """A formula of numbers, words and names.

    >>> profit = Formula("(price - 1.5) * (wtp >= price)")
    >>> profit.names
    ('price', 'wtp')
    >>> profit({"wtp": np.array([[3.0], [5.0]]), "price": np.array([[2.0, 4.0]])})
    array([[0.5, 0. ],
           [0.5, 2.5]])
    >>> Formula("price.real")
    Traceback (most recent call last):
    ...
    voxpop.errors.InputError: the formula 'price.real': 'price.real' at character 1 is not allowed; use numbers,
    names, + - * / **, comparisons, and, or, not, and the functions abs, exp, log, max, min, sqrt, where
    """

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", self.text.strip())
        _ = self._compiled

    def __str__(self) -> str:
        return f"the formula {self.text if len(self.text) <= SHOWN else self.text[:SHOWN] + '...'!r}"

    @cached_property
    def _tree(self) -> ast.expr:
        if len(self.text) > LONGEST:
            raise InputError(f"the formula has {len(self.text):,} characters and may have {LONGEST:,}; shorten it")
        try:
            return ast.parse(self.text, "formula", mode="eval").body
        except SyntaxError as error:
            place = error.offset or len(self.text) + 1
            raise InputError(f"{self} cannot be read: {error.msg} at character {place}; correct it") from None
        except (ValueError, RecursionError, MemoryError):
            raise self._too_deep() from None

    @cached_property
    def _compiled(self) -> Part:
        try:
            return self._part(self._tree)
        except RecursionError:
            raise self._too_deep() from None

    @property
    def names(self) -> tuple[str, ...]:
        """The names whose values it needs, in alphabetical order."""
        nodes = list(ast.walk(self._tree))
        called = [node.func for node in nodes if isinstance(node, ast.Call)]
        return tuple(sorted({node.id for node in nodes if isinstance(node, ast.Name) and node not in called}))

    def require_names(self, known: Iterable[str]) -> None:
        """Refuse a name without a value."""
        with said_of(self):
            for name in self.names:
                require_choice("name", name, known)

    def __call__(self, values: Mapping[str, Values]) -> Values:
        """Compute the formula for arrays that broadcast; what is not a number (1 / 0, log(-1)) is inf or NaN."""
        self.require_names(values)
        try:
            with np.errstate(all="ignore"):
                result = self._compiled(values)
        except RecursionError:
            raise self._too_deep() from None
        if not _is_number(result):
            raise InputError(f"{self} gives words; let it give a number")
        return result

    def _part(self, node: ast.expr) -> Part:
        """Return what computes one part of the formula; refuse what is no part of the language."""
        match node:
            case ast.Constant(value=str() as word):
                return lambda values: np.array(word)
            case ast.Constant(value=int() | float() as constant) if abs(constant) < LARGEST:
                return lambda values: np.array(float(constant))
            case ast.Name(id=name):
                return lambda values: values[name]
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
                return self._applied(OPERATORS[type(operator)], left, right)
            case ast.UnaryOp(op=operator, operand=operand) if type(operator) in OPERATORS:
                return self._applied(OPERATORS[type(operator)], operand)
            case ast.BoolOp(op=operator, values=parts):
                return self._applied(OPERATORS[type(operator)], *parts)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self._applied(_where, test, body, other)
            case ast.Compare(ops=operators) if all(type(operator) in OPERATORS for operator in operators):
                return self._compared(node)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                function, least, most = FUNCTIONS[name]
                if least <= len(arguments) and (most is None or len(arguments) <= most):
                    return self._applied(function, *arguments)
                raise self._refusal(node, f"needs {'at least ' * (most is None)}{least} values, got {len(arguments)}")
        raise self._refusal(
            node,
            "is not allowed; use numbers, names, + - * / **, comparisons, and, or, not, and the functions "
            + ", ".join(sorted(FUNCTIONS)),
        )

    def _applied(self, function: Callable[..., Values], *nodes: ast.expr) -> Part:
        """Return what applies a function of numbers to parts."""
        parts = [(node, self._part(node)) for node in nodes]

        def value(values: Mapping[str, Values]) -> Values:
            found = [(node, part(values)) for node, part in parts]
            for node, numbers in found:
                if not _is_number(numbers):
                    raise self._refusal(node, "is a word where a number is needed; compare words with == or != only")
            return np.asarray(function(*(numbers for _, numbers in found)), dtype=float)

        return value

    def _compared(self, node: ast.Compare) -> Part:
        """Return what compares parts; of a chain, such as 0 < x < 1, every link must hold."""
        compiled = [self._part(part) for part in (node.left, *node.comparators)]

        def value(values: Mapping[str, Values]) -> Values:
            parts, holds = [part(values) for part in compiled], np.array(True)
            for operator, place, left, right in zip(node.ops, node.comparators, parts, parts[1:], strict=False):
                equality = isinstance(operator, ast.Eq | ast.NotEq)
                if _is_number(left) != _is_number(right) or not (equality or _is_number(left)):
                    raise self._refusal(
                        place, "is compared with another kind of thing; compare numbers, or words by =="
                    )
                holds = holds & OPERATORS[type(operator)](left, right)
            unknown = [np.isnan(part) for part in parts if _is_number(part)]
            return np.where(reduce(np.logical_or, unknown), np.nan, holds) if unknown else holds.astype(float)

        return value

    def _too_deep(self) -> InputError:
        return InputError(f"{self} cannot be read; write it in a simpler way")

    def _refusal(self, node: ast.expr, reason: str) -> InputError:
        part = ast.get_source_segment(self.text, node) or ""
        lines = self.text.splitlines(keepends=True)  # the parser counts bytes in lines, and people characters from 1
        before = "".join(lines[: node.lineno - 1]) + lines[node.lineno - 1].encode()[: node.col_offset].decode()
        return InputError(f"{self}: {part!r} at character {len(before) + 1} {reason}")


def column_of(cells: Sequence[Any]) -> Values:
    """Return the values of a name as numbers, or as words."""
    return np.array(cells if any(isinstance(cell, str) for cell in cells) else [float(cell) for cell in cells])


def _is_number(values: Values) -> bool:
    return values.dtype.kind == "f"
