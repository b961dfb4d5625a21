"""Checks of the form of reports and of the constants of releases."""

from __future__ import annotations

import numpy as np

from voxpop.core.errors import Array, InputError, require_integer

MOST_COUNT = 10**15  # people, bits or arms; counts up to this are exact as floats


def check_length(reports: Array, arms: int) -> None:
    """Refuse reports of another length, and an empty list of reports."""
    if reports.ndim != 2:
        raise InputError(f"reports must have the shape (people, {arms}), got {reports.shape}; a report is a row")
    if reports.shape[1] != arms:
        raise InputError(f"a report has {arms} numbers, got shape {reports.shape[1:]}; send one for each arm")
    if not len(reports):
        raise InputError("there is not a single report to add up; wait for one")


def check_finite(reports: Array) -> None:
    """Refuse reports with infinities or NaN, which no device sends."""
    if not np.isfinite(reports).all():
        bad = reports[~np.isfinite(reports)][0]
        raise InputError(f"a report holds {bad}, which no device sends; send finite numbers only")


def require_count(name: str, value: object) -> int:
    """Return the value if it is a whole number of people, bits or arms; 3.0 is not."""
    if isinstance(value, float):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    return require_integer(name, value, least=1, most=MOST_COUNT)
