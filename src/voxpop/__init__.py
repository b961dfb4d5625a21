"""voxpop: the best decision for a whole population, from a small, private, biased sample of its people."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from voxpop.calibration import Calibration as Calibration
    from voxpop.calibration import calibrate as calibrate
    from voxpop.calibration.pilot import Pilot as Pilot
    from voxpop.calibration.protected import Protection as Protection
    from voxpop.client import Device as Device
    from voxpop.client import Promise as Promise
    from voxpop.errors import InputError as InputError
    from voxpop.journal.journal import Course as Course
    from voxpop.journal.question import Answer as Answer
    from voxpop.journal.question import Question as Question
    from voxpop.model.calendar import Calendar as Calendar
    from voxpop.model.decisions import Choice as Choice
    from voxpop.model.decisions import Decisions as Decisions
    from voxpop.model.decisions import Float as Float
    from voxpop.model.decisions import Integer as Integer
    from voxpop.model.decisions import Space as Space
    from voxpop.model.kernels import Constant as Constant
    from voxpop.model.kernels import Linear as Linear
    from voxpop.model.kernels import Matern as Matern
    from voxpop.model.kernels import Precomputed as Precomputed
    from voxpop.model.kernels import SquaredExponential as SquaredExponential
    from voxpop.model.money import Money as Money
    from voxpop.model.problem import Evidence as Evidence
    from voxpop.model.problem import Problem as Problem
    from voxpop.model.strata import Strata as Strata
    from voxpop.model.waves import Feedback as Feedback
    from voxpop.policies import make_policy as make_policy
    from voxpop.privacy import make_privacy as make_privacy
    from voxpop.simulation.comparison import Comparison as Comparison
    from voxpop.simulation.comparison import compare as compare
    from voxpop.simulation.people import DrawnPeople as DrawnPeople
    from voxpop.simulation.people import TablePeople as TablePeople
    from voxpop.simulation.rehearsals import OwnPeople as OwnPeople
    from voxpop.simulation.runs import Run as Run
    from voxpop.simulation.runs import Scenario as Scenario
    from voxpop.simulation.runs import simulate as simulate
    from voxpop.simulation.scenarios import make_scenario as make_scenario
    from voxpop.simulation.scenarios import piloted as piloted
    from voxpop.simulation.simulator import Population as Population
    from voxpop.study.study import Study as Study

__version__ = "0.1.0"

# A name is imported when it is first used, so that `voxpop --help` does not wait for what it does not need.
_NAMES = {
    "calibration": "Calibration calibrate",
    "calibration.pilot": "Pilot",
    "calibration.protected": "Protection",
    "client": "Device Promise",
    "errors": "InputError",
    "journal.journal": "Course",
    "journal.question": "Answer Question",
    "model.calendar": "Calendar",
    "model.decisions": "Choice Decisions Float Integer Space",
    "model.kernels": "Constant Linear Matern Precomputed SquaredExponential",
    "model.money": "Money",
    "model.problem": "Evidence Problem",
    "model.strata": "Strata",
    "model.waves": "Feedback",
    "policies": "make_policy",
    "privacy": "make_privacy",
    "simulation.comparison": "Comparison compare",
    "simulation.people": "DrawnPeople TablePeople",
    "simulation.rehearsals": "OwnPeople",
    "simulation.runs": "Run Scenario simulate",
    "simulation.scenarios": "make_scenario piloted",
    "simulation.simulator": "Population",
    "study.study": "Study",
}
_MODULES = {name: f"voxpop.{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_MODULES)  # noqa: PLE0605  it is a list


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found
