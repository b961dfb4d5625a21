"""The calibration of a pilot, wherever its answers are: in a CSV file, in a DataFrame or in records."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path

from voxpop.calibration.fit import Calibration, calibrate, require_settings
from voxpop.calibration.protected import Protection
from voxpop.core.direction import Direction
from voxpop.formats.released_pilot import ReleasedPilot
from voxpop.formats.tables import read_pilot
from voxpop.privacy.sources import Secure


def calibration_of(
    pilot: object,
    direction: str = Direction.MAXIMIZE,
    kernel: str = "auto",
    margin: float = 1.5,
    protection: Protection | None = None,
) -> Calibration:
    """Calibrate from the path of a CSV file, or from what `calibrate` takes.

    What is released of a file with a protection is kept beside it, as `voxpop calibrate` keeps it, and used again.
    """
    if not isinstance(pilot, str | PathLike):
        return calibrate(pilot, None, kernel, margin, protection, direction=direction)
    require_settings(kernel, margin)  # before anything is released
    kept = ReleasedPilot(Path(pilot))
    if protection is None:
        kept.require_none()
    towards = Direction.of(direction)
    records, space = read_pilot(kept.pilot, protection is not None, measure=towards.measure)
    released = None if protection is None else kept.groups(records, protection, Secure())[0]
    return calibrate(replace(records, direction=towards), space, kernel, margin, protection, released=released)
