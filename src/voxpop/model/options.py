"""The table of options: a setting carries its limits, its unit and its sentence of help where it is defined.

A dataclass of settings declares its fields with `option` and checks them with `check`. What `options_of` lists of it is
all that the command line, the study file, the API, the console's form and the docs' tables know about a setting.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from voxpop.errors import InputError, require_choice, require_integer, require_number

REQUIRED: Any = MISSING  # the default of an option that must be given


@dataclass(frozen=True)
class Option:
    """One setting: its default, its type, its limits, and what to say of it."""

    name: str
    default: Any
    kind: type = object  # int, float, bool or str; of others nothing is checked
    optional: bool = False  # None may be given, and leaves it out
    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""  # of a number, in one word
    label: str = ""  # in a form
    help: str = ""  # one sentence
    example: Any = None  # a usual value
    panel: str = ""  # the heading below which the command line and forms offer it; empty: they do not
    called: str = ""  # what errors call it, if not by its name

    @property
    def required(self) -> bool:
        """True if it has no default."""
        return self.default is REQUIRED

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.replace('_', '-')}"

    def check(self, value: Any, prefix: str = "") -> None:
        """Refuse a value of another type or outside the limits, in a sentence that names both."""
        name = f"{prefix}{self.called or self.name}"
        if value is None and self.optional:
            return
        if self.choices:
            require_choice(name, value, self.choices)
        elif self.kind is bool and not isinstance(value, bool):
            raise InputError(f"{name} must be true or false, got {value!r}")
        elif self.kind is int:
            most = None if self.most is None else int(self.most)
            require_integer(name, value, least=int(self.least or 0), most=most)
        elif self.kind is float:
            require_number(name, value, above=self.above, least=self.least, below=self.below, most=self.most)


def option(default: Any = REQUIRED, **said: Any) -> Any:
    """Declare a field of a dataclass of settings, with what else an `Option` says.

    >>> @dataclass(frozen=True)
    ... class Kettle:
    ...     cups: int = option(2, least=1, most=8, help="How many cups it boils.")
    ...
    ...     def __post_init__(self) -> None:
    ...         check(self)
    >>> Kettle(9)
    Traceback (most recent call last):
    ...
    voxpop.errors.InputError: cups must be a whole number, at least 1 and at most 8, got 9
    >>> [(one.name, one.default, one.help) for one in options_of(Kettle)]
    [('cups', 2, 'How many cups it boils.')]
    """
    return field(default=default, metadata={"option": said})


@lru_cache(maxsize=256)
def options_of(settings: type) -> tuple[Option, ...]:
    """List the options of a dataclass of settings; a field that was not declared with `option` has no limits."""
    hints = get_type_hints(settings)
    return tuple(
        _typed(Option(part.name, part.default, **part.metadata.get("option", {})), hints[part.name])
        for part in fields(settings)
        if part.init
    )


def check(settings: Any, prefix: str = "") -> None:
    """Check every option of a dataclass of settings, which calls this in `__post_init__`."""
    for one in options_of(settings.__class__):
        one.check(getattr(settings, one.name), prefix)


def _typed(one: Option, hint: Any) -> Option:
    """Return the option with what its annotation says: `int | None`, `float`, `Literal["exact", "paper"]`."""
    optional = type(None) in get_args(hint)
    kind = next(kind for kind in get_args(hint) if kind is not type(None)) if optional else hint
    choices = get_args(kind) if get_origin(kind) is Literal else one.choices
    kind = str if choices else kind if isinstance(kind, type) else object
    label = one.label or one.name.replace("_", " ").capitalize()
    return replace(one, kind=kind, optional=optional, choices=choices, label=label)
