"""Estimates of the model's constants from a pilot, by marginal likelihood."""

from voxpop.calibration.fit import Calibration, calibrate
from voxpop.calibration.pilot import Pilot
from voxpop.calibration.shocks import ShockEstimate, estimate_shocks
from voxpop.calibration.tails import catoni_mean, people_needed

__all__ = [
    "Calibration",
    "Pilot",
    "ShockEstimate",
    "calibrate",
    "catoni_mean",
    "estimate_shocks",
    "people_needed",
]
