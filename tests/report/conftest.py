import numpy as np
import pytest

from tests.report.studies import conducted
from voxpop import Choice, Float, Integer, Space
from voxpop.journal.journal import Course
from voxpop.simulation.runs import Run
from voxpop.simulation.trials import Trial

TWO = Space(price=Float(2, 12), discount=Float(0, 0.5))
DESIGNS = Space(design=Choice(("plain", "bold", "night", "a very long name that has to be cut somewhere")))
MIXED = Space(price=Float(2, 12), colour=Choice(("red", "blue")), gifts=Integer(0, 3))


@pytest.fixture(scope="package")
def waves() -> Run:
    return Trial("pricing", size=25, horizon=5000, seed=1, settings={"delta": 0.1}).run()


@pytest.fixture(scope="package")
def paper() -> Run:
    return Trial("sphere", "dpbe", size=12, horizon=300).run()


@pytest.fixture(scope="package")
def courses(waves: Run, paper: Run) -> dict[str, Course]:
    """Studies without a truth, of every kind that has a picture of its own."""
    price = Space(price=Float(2, 12))
    return {
        "waves": waves.course,
        "paper": paper.course,
        "open": conducted(price.grid(41), told=1),
        "only the pilot": conducted(price.grid(41), told=0),
        "nothing": conducted(price.grid(41), told=0, pilot=False),
        "two parameters": conducted(TWO.grid(7), told=2),
        "logarithmic": conducted(Space(timeout=Float(1, 1000, log=True), retries=Integer(0, 5)).grid(7), told=1),
        "choice": conducted(DESIGNS.grid(), told=2),
        "choice, nothing": conducted(DESIGNS.grid(), told=0, pilot=False),
        "mixed": conducted(MIXED.grid(4), told=2),
        "scattered": conducted(MIXED.sobol(16, seed=1), told=2),
        "one decision": conducted(Space(price=Float(2, 12)).grid(1), told=0, pilot=False),
        "unordered": Trial("light", horizon=500).run().course,
        "private": Trial("pricing", size=25, horizon=5000, privacy="central", epsilon=5.0).run().course,
    }


@pytest.fixture(scope="package")
def truth(waves: Run) -> np.ndarray:
    return waves.scenario.f
