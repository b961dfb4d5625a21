"""What the columns of a table are: options of every command that reads one."""

from __future__ import annotations

from typing import Annotated

import typer

from voxpop.io.columns import Roles

Names = list[str] | None
COLUMNS = {
    "parameter": "Only this column is a parameter; may be repeated.",
    "ignore": "This column is not a parameter; may be repeated.",
    "choice": "This column holds names, even if they have digits.",
}
ParameterOption = Annotated[Names, typer.Option(metavar="NAME", help=COLUMNS["parameter"])]
IgnoreOption = Annotated[Names, typer.Option(metavar="NAME", help=COLUMNS["ignore"])]
ChoiceOption = Annotated[Names, typer.Option(metavar="NAME", help=COLUMNS["choice"])]


def roles_of(parameter: Names, ignore: Names, choice: Names) -> Roles:
    """Return what was said about the columns."""
    return Roles(tuple(parameter or ()), tuple(ignore or ()), tuple(choice or ()))
