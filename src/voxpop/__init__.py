"""voxpop: the best decision for a whole population, from a small, private, biased sample of its people."""

from voxpop.calibration import Calibration, calibrate
from voxpop.calibration.pilot import Pilot
from voxpop.core.errors import InputError
from voxpop.core.kernels import Constant, Linear, Matern, Precomputed, SquaredExponential
from voxpop.core.problem import Problem
from voxpop.core.spaces import Choice, Decisions, Float, Integer, Space
from voxpop.drivers.study import Study
from voxpop.lab.scenarios import make_scenario
from voxpop.policies import make_policy

__version__ = "0.1.0"

__all__ = [
    "Calibration",
    "Choice",
    "Constant",
    "Decisions",
    "Float",
    "InputError",
    "Integer",
    "Linear",
    "Matern",
    "Pilot",
    "Precomputed",
    "Problem",
    "Space",
    "SquaredExponential",
    "Study",
    "calibrate",
    "make_policy",
    "make_scenario",
]
