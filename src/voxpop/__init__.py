"""voxpop: the best decision for a whole population, from a small, private, biased sample of its people."""

from voxpop.calibration import Calibration, calibrate
from voxpop.errors import InputError
from voxpop.kernels import Constant, Linear, Matern, Precomputed, SquaredExponential
from voxpop.pilot import Pilot
from voxpop.policies import make_policy
from voxpop.problem import Problem
from voxpop.scenarios import make_scenario
from voxpop.spaces import Choice, Decisions, Float, Integer, Space
from voxpop.study import Study

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
