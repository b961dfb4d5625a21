"""Decisions that are added or withdrawn while a study runs: what is certified follows."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.journal.journal import Amended
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import SquaredExponential
from voxpop.model.noise import Shocks
from voxpop.model.problem import Evidence, Problem
from voxpop.policies.waves.sealing import PILOT_SEALED
from voxpop.policies.waves.state import WavesState
from voxpop.study.study import Study

VALUES = [0.0, 0.2, 0.4, 0.6, 0.8]
PILOT = Evidence(np.array(VALUES)[:, None], np.full(5, 4), 12, np.array([0.2, 0.5, 0.65, 0.6, 0.3]))
PROBLEM = Problem(VALUES, SquaredExponential(0.4), 0.3, 0.3, norm_bound=2.0, horizon=4_000, pilot=(PILOT,))


def truth(x: float) -> float:
    return 0.7 - 2 * (x - 0.5) ** 2


def tell(study: Study, seed: int = 0) -> list[float]:
    """Let people who follow the truth answer the next wave; return what they were asked about."""
    question = study.ask()
    assert question is not None
    rng, table = np.random.default_rng([seed, question.wave]), question.table()
    (column,) = [name for name in table.columns if name not in ("person", "block", "reward", "average")]
    own = {name: rng.normal(0, 0.2) for name in table["person"].unique()}
    table["reward"] = [
        truth(x) + own[name] + rng.normal(0, 0.05) for name, x in zip(table["person"], table[column], strict=True)
    ]
    study.tell(question.wave, table)
    return [float(decision[0]) for decision in question.decisions]


def of(study: Study) -> WavesState:
    state = study.state
    assert isinstance(state, WavesState)
    return state


def test_before_the_first_wave_it_is_as_if_the_study_had_begun_so() -> None:
    study, other = Study(PROBLEM), [0.0, 0.4, 0.5, 0.6]
    study.change_decisions(Decisions(other))
    begun = Study(Problem(other, SquaredExponential(0.4), 0.3, 0.3, norm_bound=2.0, horizon=4_000, pilot=(PILOT,)))
    assert study.best.decision == begun.best.decision
    assert study.best.estimate == pytest.approx(begun.best.estimate)
    assert study.course.known[-1].left == 4
    asked, wanted = study.ask(), begun.ask()
    assert asked is not None
    assert wanted is not None
    assert sorted(asked.decisions) == sorted(wanted.decisions)


def test_what_was_withdrawn_is_neither_asked_about_nor_used_and_what_is_new_can_be() -> None:
    study = Study(PROBLEM, tolerance=0.02)
    tell(study)
    gone = study.best.decision[0]
    study.change_decisions(Decisions(sorted({*VALUES, 0.5} - {gone})))
    assert study.best.decision != [gone]
    asked: list[float] = []
    while study.ended is None:
        asked += tell(study)
    assert gone not in asked
    assert 0.5 in asked
    assert study.best.decision == [0.5]
    assert len(study.problem.decisions) == 6


def test_until_the_next_wave_the_bounds_of_all_decisions_say_what_is_certified() -> None:
    study = Study(PROBLEM, tolerance=0.05)
    tell(study)
    while study.ended is None:
        tell(study)
    before, said, gone = of(study), study.best, study.best.decision[0]
    lower, upper = (ends.copy() for ends in study.course.bounds)
    left = [place for place, value in enumerate(VALUES) if value != gone]
    study.change_decisions(Decisions([VALUES[place] for place in left]))
    best = study.best.index
    assert best in left
    wanted = max(0.0, max(upper[place] - lower[best] for place in left if place != best))
    assert study.state.certificate == pytest.approx(wanted)
    assert said.regret is not None
    assert truth(VALUES[best]) >= max(truth(VALUES[place]) for place in left) - study.state.certificate
    assert before.spent <= of(study).spent <= of(study).delta


def test_later_statements_rest_on_later_waves_alone_and_all_answers_are_used_to_decide() -> None:
    study = Study(PROBLEM, tolerance=0.02)
    tell(study)
    evidence = of(study).evidence
    assert evidence is not None
    assert [part.wave for part in evidence.parts] == [0, 1]
    alone = of(study)
    study.change_decisions(Decisions([*VALUES, 0.5]))
    evidence, view = of(study).evidence, of(study).view
    assert evidence is not None
    assert view is not None
    assert alone.view is not None
    assert evidence.parts == ()
    assert 0 < alone.spent < of(study).spent < of(study).delta
    assert len(view.belief.rows) == len(alone.view.belief.rows) + 5 + len(study.closed[0].plan.arms)
    assert view.belief.deviation[:5].max() < alone.view.belief.deviation.max()
    assert math.isinf(study.state.proved(study.problem, study.state.best))  # nothing is known of 0.5
    tell(study)
    evidence = of(study).evidence
    assert evidence is not None
    assert [part.wave for part in evidence.parts] == [2]


def test_it_is_saved_and_taken_into_account_when_the_study_is_read(tmp_path: Path) -> None:
    study = Study(PROBLEM, path=tmp_path / "study.json")
    tell(study)
    study.change_decisions(Decisions([0.2, 0.4, 0.5, 0.6]))
    again = Study.load(tmp_path / "study.json")
    assert again.best == study.best
    assert again.state.active.tolist() == study.state.active.tolist()
    asked, wanted = again.ask(), study.course.following
    assert (asked is None) == hasattr(wanted, "reason")
    assert [state.lower.size for state in (course.state for course in again.course.replayed())] == [6, 6]
    again.change_decisions(Decisions([0.2, 0.4, 0.5, 0.6]))  # says nothing new
    assert len(again.course.menus) == 1


def test_a_decision_may_come_back() -> None:
    study = Study(PROBLEM)
    tell(study)
    study.change_decisions(Decisions(VALUES[1:]))
    study.change_decisions(Decisions(VALUES))
    assert study.problem.size == 5
    assert of(study).withdrawn == ()


def test_what_cannot_be_changed_is_refused() -> None:
    study = Study(PROBLEM)
    study.ask()
    with pytest.raises(InputError) as call:
        study.change_decisions(Decisions(VALUES[1:]))
    assert refusal(call) == "wave 1 is open; hand in its answers before decisions change"
    tell(study)
    with pytest.raises(InputError, match="chooses among two decisions or more, and 1 is left"):
        study.change_decisions(Decisions(VALUES[:1]))
    with pytest.raises(InputError, match="knows no ranges of parameters; give Decisions"):
        study.change_decisions([{"price": 1.0}])
    study.change_decisions(Decisions(VALUES[1:]))
    with pytest.raises(InputError, match="cannot be taken back, because decisions came or went since"):
        study.take_back()
    other = Study(PROBLEM, "dpbe")
    with pytest.raises(InputError, match="the policy 'dpbe' decides among the decisions that it began with; use waves"):
        other.change_decisions(Decisions(VALUES[1:]))


def test_a_wave_that_is_taken_back_leaves_the_decisions_as_they_were() -> None:
    study = Study(PROBLEM, tolerance=0.02)
    tell(study)
    left = [0.2, 0.4, 0.5, 0.6, 0.8]
    study.change_decisions(Decisions(left))
    before, asked = of(study), study.ask()
    for _ in range(2):  # and again
        tell(study)
        study.take_back()
        now = of(study)
        assert now.withdrawn == before.withdrawn == (0,)
        assert now.used == before.used == 1
        assert np.isinf(now.upper[5]) == np.isinf(before.upper[5])  # nothing was sealed about 0.5 when it was chosen
        assert now.certificate == pytest.approx(before.certificate)
        assert now.active.tolist() == before.active.tolist()
        assert now.centre == pytest.approx(before.centre)
        assert study.ask() == asked
    study.change_decisions(Decisions(left))  # says nothing new
    assert len(study.course.menus) == 1


def test_what_was_proved_before_a_decision_was_added_says_nothing_of_it() -> None:
    study = Study(PROBLEM, tolerance=0.02)
    tell(study)
    told = of(study)
    study.change_decisions(Decisions([*VALUES, 0.5]))
    tell(study)
    first, one, two = (course.state for course in study.course.replayed())
    assert isinstance(one, WavesState)
    assert first.active.tolist() == list(range(5))
    assert one.withdrawn == (5,)
    assert 5 not in one.active
    assert one.upper[5] == first.upper[5]
    assert one.certificate == pytest.approx(told.certificate)
    assert 5 in of(study).offered
    assert two is study.state


def test_wider_limits_of_rewards_leave_the_decisions_as_they_were() -> None:
    problem = replace(PROBLEM, reward_range="-9:9")
    study = Study(problem)
    tell(study)
    study.change_decisions(Decisions([0.2, 0.4, 0.5, 0.6]))
    before, known = of(study), study.course.known[-1]
    study.change_reward_range("-10:10")
    assert of(study).withdrawn == before.withdrawn
    assert study.course.known[-1].left == known.left
    assert of(study).active.tolist() == before.active.tolist()


def test_what_was_withdrawn_stays_so_when_statements_age() -> None:
    study = Study(PROBLEM, tolerance=0.05, drift=1e-5)
    tell(study)
    while study.ended is None:
        tell(study)
    study.change_decisions(Decisions([0.0, 0.2, 0.4, 0.6]))
    study._add(Amended(passed=200_000))
    assert of(study).active.tolist() == [0, 1, 2, 3]  # of those that are left anything may have become the best


def test_of_a_study_in_which_nobody_was_asked_the_whole_pilot_decides_again() -> None:
    study = Study(PROBLEM, answer_cost=1e6)
    assert study.ask() is None
    study.change_decisions(Decisions([0.2, 0.4, 0.5, 0.6]))
    begun = Study(replace(PROBLEM, decisions=Decisions([0.2, 0.4, 0.5, 0.6])), answer_cost=1e6)
    assert study.ask() is None
    assert begun.ask() is None
    assert study.best.estimate == pytest.approx(begun.best.estimate)


def test_of_sealed_averages_that_are_planned_with_it_is_known_how_much_shocks_add_to_their_noise() -> None:
    study = Study(PROBLEM)
    tell(study)
    state = of(study)
    assert state.evidence is not None
    calm, shaken = (
        state.evidence.rows(PROBLEM.showing([], Shocks(variance)), state.history) for variance in (0.0, 1.0)
    )
    assert calm[1].rounds == pytest.approx(shaken[1].noise - calm[1].noise)
    size = len(calm[0])
    assert calm[0].rounds == pytest.approx((np.eye(size) + 1) / PILOT_SEALED)


def test_answers_that_are_attached_later_leave_the_decisions_as_they_were() -> None:
    study = Study(PROBLEM)
    study.change_decisions(Decisions([0.0, 0.2, 0.5, 0.8]))
    study.attach({"decisions": [[0.4], [0.5], [0.6]], "mean": [0.9, 0.2, 0.9], "count": 40})
    assert of(study).withdrawn == (2, 3)
    assert study.best.decision in ([0.2], [0.5])
    assert study.course.known[-1].left == 4
