"""The options of commands that compute many runs."""

from pathlib import Path
from typing import Annotated

import typer

from voxpop.lab.sweep import BACKENDS

BackendOption = Annotated[str, typer.Option(help=f"Where to compute: {', '.join(BACKENDS)}.")]
AddressOption = Annotated[str | None, typer.Option(help="The scheduler of the cluster, such as tcp://HOST:8786.")]
JobsOption = Annotated[int | None, typer.Option(help="Processes on this machine; all cores unless given.")]
DataOption = Annotated[
    Path | None, typer.Option(help="A folder of light-sensor readings, to use instead of the shipped figures.")
]
