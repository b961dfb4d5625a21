"""Simulated devices take part in any study of any coordinator, and end with it."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from tests.helpers_cli import Outcome as Ended
from tests.helpers_cli import main_of, pilot_of_model, study_file
from tests.service.served import served
from tests.service.world import SECRET, add_operator, problem
from voxpop.calibration.fit import calibrate
from voxpop.cli import demo as command
from voxpop.cli import operators
from voxpop.client import Device, Outcome, StudyOverError
from voxpop.errors import RefusedError
from voxpop.gp.belief import believe
from voxpop.model.decisions import Decisions, Float, Space
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.service.demo.crowd import BETWEEN, Crowd, Tastes, listed_tastes, model_tastes, promise_of
from voxpop.service.keys import new_key, write_key
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import people
from voxpop.service.study import life
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import read_definition
from voxpop.service.study.status import status_of
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit

STUDY = """\
name = "tea"
horizon = 60

[parameters.price]
type = "float"
low = 1.0
high = 3.0
points = 5

[kernel]
type = "squared-exponential"
length_scale = 0.3

[model]
noise_std = 0.1
bias_std = 0.2
norm_bound = 1.5
prior_mean = 0.5

[policy]
name = "equal-split"
people = 12
arms = 5
"""


LOCAL = """
[privacy]
model = "local"
epsilon = 5.0
floor = 0
"""


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PAUSE", 0.01)
    monkeypatch.setattr("voxpop.service.demo.crowd.BETWEEN", 0.01)


class Served:
    """A coordinator that runs, with an operator's key."""

    def __init__(self, folder: Path, coordinator: Coordinator, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.coordinator, self.url = folder, coordinator, url
        key = new_key()
        add_operator(coordinator, "me", key)
        write_key(folder / "my.key", key)
        self._main = main_of(monkeypatch)

    def create(self, more: str = "", **named: Any) -> Path:
        path = study_file(self.folder / "tea.toml", STUDY + more)
        self.coordinator.create(*read_definition(path), **named)
        return path

    def fleet(self, *arguments: object, key: bool = True) -> Ended:
        mine = ["--key-file", self.folder / "my.key"] if key else []
        return self._main("fleet", *arguments, "--url", self.url, *mine)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with running(tmp_path) as (coordinator, url):
        yield Served(tmp_path, coordinator, url, monkeypatch)


@contextmanager
def running(folder: Path) -> Iterator[tuple[Coordinator, str]]:
    coordinator = Coordinator(open_store(str(folder / "c.db"), "coordinator"), SECRET)
    with served(CoordinatorApp(coordinator).guarded(RateLimit(0, 1), 2**20), "on") as url:
        yield coordinator, url
    coordinator.database.close()


def test_a_study_of_a_trust_model_is_brought_to_its_end(here: Served) -> None:
    """The devices are promised what the study keeps, and with a key the rounds are played, too."""
    here.create(LOCAL)
    done = here.fleet("tea", "--devices", 13)
    assert (done.code, done.err) == (0, "")
    assert "finished: use price = " in done.out
    assert "tastes of 13 devices: around a truth drawn from the study's assumptions, as it has no pilot" in done.out
    assert "13 devices made 12 reports" in done.out
    status = status_of(here.coordinator.context, "tea")
    assert (status.stage, status.registered) == ("finished", 13)


def test_the_devices_are_of_the_study_s_strata_in_proportion(here: Served) -> None:
    here.create("[strata]\nyoung = 0.25\nold = 0.75\n")
    done = here.fleet("tea", "--devices", 16)
    assert (done.code, done.err) == (0, "")
    assert "16 devices made 12 reports" in done.out
    with here.coordinator.database.read() as connection:
        found = Counter(connection.execute(sa.select(people.c.stratum)).scalars())
    assert found == {"young": 4, "old": 12}


def test_a_study_file_is_enough_where_a_clock_plays(here: Served) -> None:
    path = here.create("[service]\nrounds_per_second = 1000\n", enrolment="a-secret-word")
    done = here.fleet(path, "--devices", 12, "--enrolment-code", "a-secret-word", key=False)
    assert (done.code, done.err) == (0, "")
    assert status_of(here.coordinator.context, "tea").stage == "finished"
    again = here.fleet(path, "--enrolment-code", "a-secret-word", key=False)
    assert again.code == 0  # it is over, and nothing is left to do
    assert "made 0 reports" in again.out


def test_people_of_a_file_gain_what_the_formula_says(here: Served) -> None:
    """Everyone gains most from a price of 2.5, so that is what the study finds."""
    here.create()
    rows = "\n".join(f"u{number},{2.5 + 0.01 * (-1) ** number}" for number in range(14))
    (here.folder / "people.csv").write_text(f"person,taste\n{rows}\n")
    given = ["--population", here.folder / "people.csv", "--formula", "1 - (price - taste) ** 2"]
    done = here.fleet("tea", *given)
    assert (done.code, done.err) == (0, "")
    assert "finished: use price = 2.5; 14 devices" in done.out
    assert "gain most from price = 2.5\n" in done.out


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--epsilon", 1], "nothing is sent"),
        (
            ["--privacy", "shuffle", "--second", "https://shuffler.example"],
            "the shuffle model was promised, but the coordinator asks for local",
        ),
        (["--privacy", "shuffle"], "the shuffle model has a shuffler; add --second and its address"),
        (["--formula", "price"], "give both --population and --formula"),
        (["--devices", 0], "devices must be"),
        (["--noise", -1], "noise must be"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(here: Served, given: list[object], sentence: str) -> None:
    here.create(LOCAL)
    done = here.fleet("tea", *given)
    assert done.code == 2
    assert sentence in done.err
    assert status_of(here.coordinator.context, "tea").answered == 0


def test_what_a_study_waits_for_is_shown(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxpop.service.demo.crowd.QUIET", 0.2)
    here.create()
    done = here.fleet("tea", "--devices", 11)
    assert done.code == 2
    assert "Waiting: wave 1 needs 12 people, and 11 who can be asked are registered" in done.out
    assert "the study made no progress" in done.err


def test_a_name_without_a_key_is_refused_with_the_remedy(here: Served) -> None:
    done = here.fleet("tea", key=False)
    assert done.code == 2
    assert "add --key-file, or give the study file" in done.err


def test_a_coordinator_that_is_not_there_is_said_to_be_so(here: Served) -> None:
    path = here.create()
    here.url = "http://127.0.0.1:1"
    done = here.fleet(path, key=False)
    assert done.code == 2
    assert "is the coordinator running there?" in done.err


def test_devices_check_in_when_the_coordinator_wishes() -> None:
    class Phone:
        def __init__(self, next_check_in: float | None) -> None:
            self.next_check_in, self.calls = next_check_in, 0

        def check_in(self) -> Outcome:
            self.calls += 1
            return Outcome.WAITING

    now, phones = [0.0], [Phone(5.0), Phone(None)]
    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr("voxpop.service.demo.crowd.Device", Phone)
        patch.setattr("voxpop.service.demo.crowd.BETWEEN", BETWEEN)
        crowd = Crowd(phones, pool, clock=lambda: now[0])  # type: ignore[arg-type]
        for moment in (0.0, 0.5, 1.5, 4.9, 5.0):
            now[0] = moment
            crowd.check_in()
    assert [phone.calls for phone in phones] == [2, 3]


def test_the_drawn_function_is_one_that_the_model_allows() -> None:
    made = model_tastes(problem(), seed=3)
    found = problem()
    height = made.mean - np.asarray(found.prior_mean)
    gram = found.kernel(found.decisions.points, found.decisions.points)
    norm = float(np.sqrt(height @ np.linalg.solve(gram + 1e-10 * np.eye(len(gram)), height)))
    assert 0.5 * found.norm_bound < norm <= found.norm_bound
    assert len({int(model_tastes(problem(), seed).mean.argmax()) for seed in range(9)}) > 2


def piloted() -> Problem:
    """Return a problem with a pilot of people who gain most in the middle."""
    points = np.linspace(0, 1, 9)[:, None]
    pilot = pilot_of_model(0, points, f=4 - 8 * (points[:, 0] - 0.5) ** 2, rounds=40, bias=0.2, noise=0.2)
    return calibrate(pilot, Space(price=Float(0, 1))).problem(Decisions(points), horizon=500)


def test_people_agree_with_the_pilot_of_their_study() -> None:
    """Otherwise the model check would fail, and rightly so."""
    found = piloted()
    belief = believe(found)
    deviation = np.sqrt(np.diag(belief.covariance(np.arange(found.size))))
    drawn = [model_tastes(found, seed) for seed in range(20)]
    assert all(np.all(np.abs(tastes.mean - belief.mean) < 5 * deviation + 1e-6) for tastes in drawn)
    assert {int(tastes.mean.argmax()) for tastes in drawn} <= {3, 4, 5}
    assert not np.array_equal(drawn[0].mean, drawn[1].mean)
    assert "what the study's pilot says (seed 1)" in drawn[1].origin


def test_of_more_decisions_than_can_be_drawn_the_estimate_is_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voxpop.service.demo.crowd.MOST_DRAWN", 8)
    found = piloted()
    assert np.array_equal(model_tastes(found).mean, believe(found).mean)


@pytest.mark.parametrize("tastes", [model_tastes(problem()), listed_tastes(np.eye(6), noise_std=0.3)])
def test_people_are_the_same_when_they_are_asked_again(tastes: Tastes) -> None:
    plan = Plan(1, np.array([0, 4]), np.array([2, 3]), 1)
    first, again, other = (tastes.averages(person, plan) for person in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_promise_is_what_the_study_keeps(tmp_path: Path) -> None:
    more = '[privacy]\nmodel = "central"\nepsilon = 5.0\n[service]\nparticipations = 2\nbudget = 12.0\n'
    _, definition = read_definition(study_file(tmp_path / "a.toml", STUDY + more))
    kept = promise_of(definition)
    assert (kept.model, kept.epsilon, kept.participations) == ("central", 5.0, 2)


def test_a_coordinator_that_has_no_time_for_a_while_is_asked_again(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy answers 503 while the service is started again, to the devices and to the application."""
    here.create(LOCAL)
    away, known = iter([503, 502, 503]), operators.send

    def send(*given: Any) -> Any:
        if (status := next(away, None)) is not None:
            raise RefusedError("starting", status)
        return known(*given)

    monkeypatch.setattr(command, "send", send)
    path = here.folder / "tea.toml"
    done = here.fleet(path, "--devices", 13)
    assert (done.code, done.err) == (0, "")
    assert "13 devices made 12 reports" in done.out


def test_devices_wait_for_a_coordinator_that_has_no_time_to_register_them(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.create(LOCAL)
    away, known = iter([503] * 14), Device.register

    def register(device: Device) -> None:
        if (status := next(away, None)) is not None:
            raise httpx.TransportError(f"the coordinator answered {status}")
        known(device)

    monkeypatch.setattr(Device, "register", register)
    done = here.fleet("tea", "--devices", 13)
    assert (done.code, done.err) == (0, "")
    assert "13 devices made 12 reports" in done.out


def test_a_device_that_is_refused_says_with_which_status(here: Served) -> None:
    here.create(LOCAL, enrolment="come-in-please")
    promise = promise_of(read_definition(here.folder / "tea.toml")[1])
    with closing(Device(here.url, "tea", promise)) as device:
        with pytest.raises(RefusedError, match="enrolment code") as refused:
            device.register()
        assert refused.value.status == 403
    life.change(here.coordinator.context, "tea", life.Wanted.ENDED)
    with closing(Device(here.url, "tea", promise, enrolment_code="come-in-please")) as device:
        with pytest.raises(StudyOverError) as over:
            device.register()
        assert over.value.status == 410


def test_people_who_do_not_answer_are_some_of_them(here: Served) -> None:
    here.create("[service]\ndeadline = 0.5\n")
    done = here.fleet("tea", "--devices", 60, "--answers", 0.7)
    assert (done.code, done.err) == (0, "")
    funnel = status_of(here.coordinator.context, "tea").funnel
    assert funnel.asked > 12
    assert here.fleet("tea", "--devices", 60, "--answers", 0).code == 2
