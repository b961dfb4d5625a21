"""When to stop asking: the options that `voxpop run` and `voxpop simulate` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from voxpop.errors import require_number

Limits = dict[str, Any]  # what was given, by the names of a trial's fields
Command = Callable[..., None]


WHEN = "When to stop asking; all may be left out"
WHO = "Your own people, in a CSV file"


def _option(kind: type, text: str, panel: str = WHEN) -> Any:
    return Annotated[kind | None, typer.Option(help=text, rich_help_panel=panel)]


OPTIONS: dict[str, Any] = {
    "answer_cost": _option(float, "What one number costs, in units of reward; unless given, about a hundredth of v."),
    "tolerance": _option(float, "Good enough: go on until nothing can be better by more than this, in reward."),
    "most_people": _option(int, "The most people to ask in all."),
    "most_numbers": _option(int, "The most numbers that people may send in all."),
    "most_waves": _option(int, "The most waves in which people are asked."),
    "population": _option(
        str,
        "The file: a row for each person and decision or, with --formula, for each person; or just the number of "
        "people there are. Nobody is asked twice.",
        WHO,
    ),
    "answer_delay": _option(int, "Rounds that pass while people answer; the best so far is in force."),
    "confidence": _option(float, "How sure to be of what is certified; 0.95 unless given."),
}


def taking(options: Mapping[str, Any], argument: str, gather: Callable[..., Any]) -> Callable[[Command], Command]:
    """Let commands share options; a command gets what `gather` makes of their values as one argument."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(**values: Any) -> None:
            given = {name: values.pop(name) for name in options}
            command(**values, **{argument: gather(**given)})

        own = [each for each in signature(command, eval_str=True).parameters.values() if each.name != argument]
        shared = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=made) for name, made in options.items()
        ]
        made = signature(command).replace(parameters=[*own, *shared])
        run.__signature__ = made  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in (*own, *shared)}
        return run

    return decorate


def _given(confidence: float | None, **limits: float | None) -> Limits:
    """Return the limits that were given; delta is what is left of the confidence."""
    if confidence is not None:
        limits["wave_delta"] = round(1 - require_number("confidence", confidence, above=0, below=1), 12)
    return {name: value for name, value in limits.items() if value is not None}


takes_limits = taking(OPTIONS, "limits", _given)
