"""voxpop: the best decision for a whole population, from a small, private, biased sample of its people."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voxpop.calibration import Calibration, calibrate
    from voxpop.calibration.pilot import Pilot
    from voxpop.core.errors import InputError
    from voxpop.core.kernels import Constant, Linear, Matern, Precomputed, SquaredExponential
    from voxpop.core.problem import Problem
    from voxpop.core.spaces import Choice, Decisions, Float, Integer, Space
    from voxpop.drivers.simulate import Population
    from voxpop.drivers.study import Study
    from voxpop.lab.comparison import Comparison, compare
    from voxpop.lab.own_people import OwnPeople
    from voxpop.lab.piloted import piloted
    from voxpop.lab.populations.drawn import DrawnPeople
    from voxpop.lab.populations.table import TablePeople
    from voxpop.lab.runs import simulate
    from voxpop.lab.scenario import Scenario
    from voxpop.lab.scenarios import make_scenario
    from voxpop.policies import make_policy

__version__ = "0.1.0"

__all__ = [
    "Calibration",
    "Choice",
    "Comparison",
    "Constant",
    "Decisions",
    "DrawnPeople",
    "Float",
    "InputError",
    "Integer",
    "Linear",
    "Matern",
    "OwnPeople",
    "Pilot",
    "Population",
    "Precomputed",
    "Problem",
    "Scenario",
    "Space",
    "SquaredExponential",
    "Study",
    "TablePeople",
    "calibrate",
    "compare",
    "make_policy",
    "make_scenario",
    "piloted",
    "simulate",
]

# A name is imported when it is first used, so that `voxpop --help` does not wait for what it does not need.
_MODULES = {
    "Calibration": "voxpop.calibration",
    "calibrate": "voxpop.calibration",
    "Pilot": "voxpop.calibration.pilot",
    "InputError": "voxpop.core.errors",
    "Constant": "voxpop.core.kernels",
    "Linear": "voxpop.core.kernels",
    "Matern": "voxpop.core.kernels",
    "Precomputed": "voxpop.core.kernels",
    "SquaredExponential": "voxpop.core.kernels",
    "Problem": "voxpop.core.problem",
    "Choice": "voxpop.core.spaces",
    "Decisions": "voxpop.core.spaces",
    "Float": "voxpop.core.spaces",
    "Integer": "voxpop.core.spaces",
    "Space": "voxpop.core.spaces",
    "Study": "voxpop.drivers.study",
    "Population": "voxpop.drivers.simulate",
    "Comparison": "voxpop.lab.comparison",
    "compare": "voxpop.lab.comparison",
    "OwnPeople": "voxpop.lab.own_people",
    "piloted": "voxpop.lab.piloted",
    "DrawnPeople": "voxpop.lab.populations.drawn",
    "TablePeople": "voxpop.lab.populations.table",
    "simulate": "voxpop.lab.runs",
    "Scenario": "voxpop.lab.scenario",
    "make_scenario": "voxpop.lab.scenarios",
    "make_policy": "voxpop.policies",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
