import pytest

from voxpop.lab.runs import Run
from voxpop.lab.trials import Trial


@pytest.fixture(scope="module")
def waves() -> Run:
    return Trial("pricing", size=25, horizon=5000, wave_delta=0.1).run()


@pytest.fixture(scope="module")
def phases() -> Run:
    return Trial("sphere", "dpbe", size=12, horizon=300).run()
