"""Estimates of the model's constants from a pilot, by marginal likelihood."""

from voxpop.calibration.fit import Calibration, calibrate
from voxpop.calibration.pilot import Pilot

__all__ = ["Calibration", "Pilot", "calibrate"]
