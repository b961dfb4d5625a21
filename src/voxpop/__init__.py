"""voxpop: the best decision for a whole population, from a small, private, biased sample of its people."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voxpop.calibration import Calibration, calibrate
    from voxpop.calibration.pilot import Pilot
    from voxpop.calibration.protected import Protection
    from voxpop.client import Device, Promise
    from voxpop.errors import InputError
    from voxpop.journal.journal import Course
    from voxpop.journal.question import Answer, Question
    from voxpop.model.decisions import Choice, Decisions, Float, Integer, Space
    from voxpop.model.kernels import Constant, Linear, Matern, Precomputed, SquaredExponential
    from voxpop.model.problem import Evidence, Problem
    from voxpop.model.strata import Strata
    from voxpop.model.waves import Feedback
    from voxpop.policies import make_policy
    from voxpop.privacy import make_privacy
    from voxpop.simulation.comparison import Comparison, compare
    from voxpop.simulation.people import DrawnPeople, TablePeople
    from voxpop.simulation.rehearsals import OwnPeople
    from voxpop.simulation.runs import Run, Scenario, simulate
    from voxpop.simulation.scenarios import make_scenario, piloted
    from voxpop.simulation.simulator import Population
    from voxpop.study.study import Study

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
    "InputError": "voxpop.errors",
    "Evidence": "voxpop.model.problem",
    "Constant": "voxpop.model.kernels",
    "Linear": "voxpop.model.kernels",
    "Matern": "voxpop.model.kernels",
    "Precomputed": "voxpop.model.kernels",
    "SquaredExponential": "voxpop.model.kernels",
    "Feedback": "voxpop.model.waves",
    "Problem": "voxpop.model.problem",
    "Choice": "voxpop.model.decisions",
    "Decisions": "voxpop.model.decisions",
    "Float": "voxpop.model.decisions",
    "Integer": "voxpop.model.decisions",
    "Space": "voxpop.model.decisions",
    "Strata": "voxpop.model.strata",
    "Course": "voxpop.journal.journal",
    "Answer": "voxpop.journal.question",
    "Question": "voxpop.journal.question",
    "Population": "voxpop.simulation.simulator",
    "Study": "voxpop.study.study",
    "Comparison": "voxpop.simulation.comparison",
    "compare": "voxpop.simulation.comparison",
    "OwnPeople": "voxpop.simulation.rehearsals",
    "piloted": "voxpop.simulation.scenarios",
    "DrawnPeople": "voxpop.simulation.people",
    "TablePeople": "voxpop.simulation.people",
    "Run": "voxpop.simulation.runs",
    "simulate": "voxpop.simulation.runs",
    "Scenario": "voxpop.simulation.runs",
    "make_scenario": "voxpop.simulation.scenarios",
    "make_policy": "voxpop.policies",
    "make_privacy": "voxpop.privacy",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
