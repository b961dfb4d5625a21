"""voxpop: the best decision for a whole population, from a small, private, biased sample of its people."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voxpop.calibration import Calibration, calibrate
    from voxpop.calibration.pilot import Pilot
    from voxpop.calibration.protected import Protection
    from voxpop.client import Device, Promise
    from voxpop.core.errors import InputError
    from voxpop.core.evidence import Evidence
    from voxpop.core.kernels import Constant, Linear, Matern, Precomputed, SquaredExponential
    from voxpop.core.phases import Feedback
    from voxpop.core.problem import Problem
    from voxpop.core.spaces import Choice, Decisions, Float, Integer, Space
    from voxpop.core.strata import Strata
    from voxpop.drivers.course import Course
    from voxpop.drivers.question import Answer, Question
    from voxpop.drivers.simulate import Population
    from voxpop.drivers.study import Study
    from voxpop.lab.comparison import Comparison, compare
    from voxpop.lab.own_people import OwnPeople
    from voxpop.lab.piloted import piloted
    from voxpop.lab.populations.drawn import DrawnPeople
    from voxpop.lab.populations.table import TablePeople
    from voxpop.lab.runs import Run, simulate
    from voxpop.lab.scenario import Scenario
    from voxpop.lab.scenarios import make_scenario
    from voxpop.policies import make_policy
    from voxpop.privacy import make_privacy

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Calibration",
    "Choice",
    "Comparison",
    "Constant",
    "Course",
    "Decisions",
    "Device",
    "DrawnPeople",
    "Evidence",
    "Feedback",
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
    "Promise",
    "Protection",
    "Question",
    "Run",
    "Scenario",
    "Space",
    "SquaredExponential",
    "Strata",
    "Study",
    "TablePeople",
    "calibrate",
    "compare",
    "make_policy",
    "make_privacy",
    "make_scenario",
    "piloted",
    "simulate",
]

# A name is imported when it is first used, so that `voxpop --help` does not wait for what it does not need.
_MODULES = {
    "Calibration": "voxpop.calibration",
    "calibrate": "voxpop.calibration",
    "Pilot": "voxpop.calibration.pilot",
    "Protection": "voxpop.calibration.protected",
    "Device": "voxpop.client",
    "Promise": "voxpop.client",
    "InputError": "voxpop.core.errors",
    "Evidence": "voxpop.core.evidence",
    "Constant": "voxpop.core.kernels",
    "Linear": "voxpop.core.kernels",
    "Matern": "voxpop.core.kernels",
    "Precomputed": "voxpop.core.kernels",
    "SquaredExponential": "voxpop.core.kernels",
    "Feedback": "voxpop.core.phases",
    "Problem": "voxpop.core.problem",
    "Choice": "voxpop.core.spaces",
    "Decisions": "voxpop.core.spaces",
    "Float": "voxpop.core.spaces",
    "Integer": "voxpop.core.spaces",
    "Space": "voxpop.core.spaces",
    "Strata": "voxpop.core.strata",
    "Course": "voxpop.drivers.course",
    "Answer": "voxpop.drivers.question",
    "Question": "voxpop.drivers.question",
    "Population": "voxpop.drivers.simulate",
    "Study": "voxpop.drivers.study",
    "Comparison": "voxpop.lab.comparison",
    "compare": "voxpop.lab.comparison",
    "OwnPeople": "voxpop.lab.own_people",
    "piloted": "voxpop.lab.piloted",
    "DrawnPeople": "voxpop.lab.populations.drawn",
    "TablePeople": "voxpop.lab.populations.table",
    "Run": "voxpop.lab.runs",
    "simulate": "voxpop.lab.runs",
    "Scenario": "voxpop.lab.scenario",
    "make_scenario": "voxpop.lab.scenarios",
    "make_policy": "voxpop.policies",
    "make_privacy": "voxpop.privacy",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
