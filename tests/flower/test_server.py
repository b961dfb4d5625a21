"""The server: the simulator's plans, one participation a node, and people who do not answer are replaced."""

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.flower.direct import Direct, study
from voxpop.errors import InputError
from voxpop.journal.replay import disagreements
from voxpop.privacy import make_privacy
from voxpop_flower import Rules, conduct, server
from voxpop_flower.server import Collector
from voxpop_flower.study import DeviceStudy

MODELS = ("none", "central", "local")
QUICK = Rules(seconds=0.05, patience=0.05)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PAUSE", 0.0)


def counted(grid: Direct, done: DeviceStudy) -> dict[int, list[list[float]]]:
    """The reports that were counted, by wave."""
    return {entry.wave: [grid.reports[entry.wave][int(name)] for name in entry.names] for entry in done.ledger.entries}


@pytest.mark.parametrize(("model", "rails"), [*((model, False) for model in MODELS), ("none", True), ("central", True)])
def test_plans_and_bounds_are_those_of_the_simulator(tmp_path: Path, model: str, rails: bool) -> None:
    """Also with a guardrail, whose metric nodes report besides; so few nodes with local noise teach nothing of it."""
    grid = Direct(tmp_path, 60, model=model)
    done = conduct(grid, study(model, rails=rails))
    assert done.ended
    assert all(wave.plan.also == rails for wave in done.closed)
    assert len(done.closed) > (0 if rails else 1)
    assert disagreements(done.course, counted(grid, done), own_noise=True) == []
    if model != "central":  # where the server draws no noise of its own
        assert disagreements(done.course, counted(grid, done)) == []
    wrong = {wave: [[number + 1 for number in row] for row in rows] for wave, rows in counted(grid, done).items()}
    if model != "local":  # beside local noise, one step is not seen
        assert disagreements(done.course, wrong) != []


@pytest.mark.parametrize("model", MODELS)
def test_nodes_that_are_silent_broken_or_odd_are_replaced_and_nobody_is_asked_twice(tmp_path: Path, model: str) -> None:
    grid = Direct(tmp_path, 80, model=model)
    grid.silent, grid.broken, grid.odd = set(range(1, 6)), set(range(6, 11)), set(range(11, 16))
    done = conduct(grid, study(model), QUICK)
    assert [wave.feedback.count for wave in done.closed] == [wave.plan.people for wave in done.closed]
    assert len(set(grid.asked)) == len(grid.asked) > sum(wave.plan.people for wave in done.closed)
    names = [int(name) for entry in done.ledger.entries for name in entry.names]
    assert len(set(names)) == len(names)
    assert not set(names) & (grid.silent | grid.broken | grid.odd)


def test_a_study_of_costs_finds_the_least(tmp_path: Path) -> None:
    """What these people answer is largest in the middle of the decisions."""
    begun = study()
    costs = DeviceStudy.open(begun.problem, begun.policy, direction="minimize")
    assert conduct(Direct(tmp_path, 60), costs).best.decision in ([0.0], [1.0])


def test_the_ledger_knows_every_release_and_what_it_cost(tmp_path: Path) -> None:
    done = conduct(Direct(tmp_path, 60, model="local"), study("local"))
    assert [entry.people for entry in done.ledger.entries] == [wave.plan.people for wave in done.closed]
    assert done.ledger.totals(1e-6)["epsilon"] == pytest.approx(5.0, rel=1e-6)


def test_a_server_that_was_killed_goes_on_and_asks_others(tmp_path: Path) -> None:
    class KilledError(Exception):
        pass

    class Mortal(Direct):
        def push_messages(self, messages: Any) -> list[str]:
            if len(self.reports) == 2:
                raise KilledError
            return super().push_messages(messages)

    first = Mortal(tmp_path, 60)
    with pytest.raises(KilledError):
        conduct(first, study(path=tmp_path / "study.json"))
    begun = study(path=tmp_path / "study.json")
    taken = {int(name) for entry in begun.ledger.entries for name in entry.names}
    assert len(begun.closed) == 2
    second = Direct(tmp_path, 60)
    done = conduct(second, begun)
    assert done.ended
    assert not taken & set(second.asked)
    second.reports |= first.reports
    assert disagreements(done.course, counted(second, done)) == []


def test_people_are_drawn_with_the_operating_system_s_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []

    class Watched(secrets.SystemRandom):
        def sample(self, *given: Any, **named: Any) -> Any:
            used.append(1)
            return super().sample(*given, **named)

    monkeypatch.setattr("voxpop_flower.server.secrets.SystemRandom", Watched)
    draws = {tuple(Collector(Direct(tmp_path, 60))._draw(20)) for _ in range(5)}
    assert used
    assert len(draws) == 5
    assert all(len(set(drawn)) == 20 for drawn in draws)


def test_a_wave_without_enough_people_is_not_closed_unless_one_may(tmp_path: Path) -> None:
    grid = Direct(tmp_path, 12)
    with pytest.raises(InputError, match=r"wave 1 asks 16 people and 12 answered, .*; connect more nodes"):
        conduct(grid, study(), QUICK)
    other = Direct(tmp_path / "other", 12)
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="wave 2 asks"):  # nobody is left
        conduct(other, begun := study(), Rules(seconds=0.05, patience=0.05, partial=True))
    assert begun.closed[0].feedback.count == 12


def test_the_shuffle_model_is_refused(tmp_path: Path) -> None:
    problem, policy = study().problem, study().policy
    with pytest.raises(InputError, match="the shuffle model needs a shuffler, which Flower does not have"):
        conduct(Direct(tmp_path, 1), DeviceStudy.open(problem, policy, make_privacy("shuffle", 5.0)))


def test_reports_arrive_to_the_last_bit(tmp_path: Path) -> None:
    grid = Direct(tmp_path, 60)
    done = conduct(grid, study())
    wave = done.closed[0]
    tally = wave.release.tally(np.array(counted(grid, done)[1]))
    assert np.array_equal(tally.feedback().mean, wave.feedback.mean)
