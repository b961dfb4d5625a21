"""A study that is over goes on as a watch: statements age, standing waves are asked, and changes are told."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from voxpop.errors import Array, InputError
from voxpop.journal.journal import Amended, TakenBack
from voxpop.journal.watch import rounds_passed, watched
from voxpop.model.calendar import Calendar
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.waves import changed
from voxpop.report.figures import figure
from voxpop.report.summary import summarise
from voxpop.study.study import Study

POINTS = np.linspace(0, 1, 12)[:, None]
PROBLEM = Problem(POINTS, SquaredExponential(0.25), 0.1, 0.3, norm_bound=2.0, horizon=4000)
GRAM = PROBLEM.kernel(POINTS, POINTS)


class Moving:
    """People around rewards that move by at most `rate` a round, along a function of norm 1."""

    def __init__(self, seed: int, rate: float) -> None:
        self.rng = np.random.default_rng(seed)
        weights = self.rng.standard_normal(12)
        self.f = 1.6 * GRAM @ weights / np.sqrt(weights @ GRAM @ weights)
        # What rises is far from the best, so that the best does not stay the best.
        best = int(self.f.argmax())
        self.step = rate * (GRAM[(best + 6) % 12] - GRAM[best]) / np.sqrt(2 - 2 * GRAM[best, (best + 6) % 12])

    def at(self, rounds: float) -> Array:
        return np.asarray(self.f + rounds * self.step)

    def answer(self, study: Study) -> None:
        question = study.ask()
        assert question is not None
        plan, first = study.course.pending, study.course.rounds
        assert plan is not None
        noise = np.linalg.cholesky(PROBLEM.answer_noise(plan.arms, plan.lived) + 1e-12 * np.eye(len(plan.arms)))
        means = []
        for block, played in enumerate(plan.sequence.reshape(plan.blocks, -1)):
            times = [first + block * len(played) + np.flatnonzero(played == arm).mean() for arm in plan.arms]
            means.append([self.at(when)[arm] for arm, when in zip(plan.arms, times, strict=True)])
        rows = np.array(means)[np.array(question.assigned[""]) - 1]
        rows += self.rng.standard_normal(rows.shape) @ noise.T
        study.tell(question.wave, rows)

    def conduct(self, study: Study) -> None:
        while study.ended is None:
            self.answer(study)

    def lost(self, study: Study) -> float:
        now = self.at(study.course.rounds)
        return float(now.max() - now[study.best.index])


def over(seed: int = 0, rate: float = 0.0, **settings: Any) -> tuple[Moving, Study]:
    people, study = Moving(seed, rate), Study(PROBLEM, **{"tolerance": 0.4, "drift": 1e-4, **settings})
    people.conduct(study)
    return people, study


def test_what_was_certified_is_true_after_many_rounds_because_it_ages() -> None:
    aged, still, rate = [], [], 1.5e-3
    for seed in range(40):
        people, study = over(seed, rate, drift=rate)
        before = study.state.certificate
        study.watch(600)
        aged.append(people.lost(study) <= study.state.certificate)
        still.append(people.lost(study) <= before)
    assert np.mean(aged) >= 0.95 > 0.85 > np.mean(still)


def test_a_standing_wave_is_due_once_the_certificate_is_beyond_the_tolerance() -> None:
    people, study = over(0)
    said = study.watch()
    assert said.wave is None
    assert said.stands is not None
    assert study.watch(said.stands - 1).wave is None
    assert study.ask() is None
    due = study.watch(2)
    assert due.certified is not None
    assert due.certified > 0.4
    assert due.wave == len(study.closed) + 1
    assert due.stands is None
    assert study.state.spent == 0
    people.conduct(study)
    assert study.watch().stands
    assert 0 < study.state.spent < study.policy.settings()["delta"]
    assert study.closed[-1].plan.people <= 200


def test_how_often_one_looks_does_not_matter() -> None:
    one, other = over(0)[1], over(0)[1]
    one.watch(30)
    for _ in range(3):
        other.watch(10)
    assert one.state.certificate == pytest.approx(other.state.certificate)
    assert (one.state.spent, one.course.rounds) == (other.state.spent, other.course.rounds)


def test_decisions_come_back_as_bounds_widen() -> None:
    _, study = over(2, drift=1e-3)
    before = study.state.active
    study.watch(1000)
    assert set(before.tolist()) < set(study.state.active.tolist())


def test_another_best_decision_is_an_alert_in_words_and_on_the_chart() -> None:
    people, study = over(1, 1.5e-3, drift=1.5e-3)
    was = study.best.decision
    study.watch(1000)
    assert study.course.alert == ""
    people.conduct(study)
    said = study.watch()
    assert study.best.decision != was
    assert said.alert == study.course.alert != ""
    assert "Alert" in [line.name for line in summarise(study.course)]
    labels = figure(study.course, "watch").axes[0].get_legend_handles_labels()[1]
    assert {"another decision", "tolerance", "certified"} <= set(labels)


def test_a_watch_is_in_the_journal(tmp_path: Path) -> None:
    people, study = over(1, 1.5e-3, drift=1.5e-3, path=tmp_path / "study.json")
    study.watch(1000)
    assert Study.load(tmp_path / "study.json").watch() == study.watch()
    people.conduct(study)
    again = Study.load(tmp_path / "study.json")
    assert again.watch() == study.watch()
    assert again.course.rounds == study.course.rounds == study.state.rounds
    trail = [course.state.rounds for course in study.course.replayed()]
    assert trail == [0, *(study.course.begins(w.plan.wave) + w.plan.length for w in study.closed)]
    back = study.course.after(TakenBack(len(study.closed)))
    assert back.rounds == study.course.begins(len(study.closed)) == back.state.rounds


def test_what_cannot_be_watched_is_refused() -> None:
    with pytest.raises(InputError, match="states no rate of change"):
        over(0, drift=None)[1].watch(3)
    begun = Study(PROBLEM, drift=1e-4)
    with pytest.raises(InputError, match="has not ended"):
        begun.watch(3)
    _, study = over(0)
    for rounds, said in ((-3, "rounds must be"), (4000, "reaches its horizon")):
        with pytest.raises(InputError, match=said):
            study.watch(rounds)
    with pytest.raises(InputError, match="drift"):
        Study(PROBLEM, drift=-1.0)
    study.watch(2000)
    study.ask()
    assert study.watch().wave == len(study.closed) + 1  # one may always look
    with pytest.raises(InputError, match="has not ended"):
        study.watch(3)
    _, study = over(0)
    study.watch(3)
    with pytest.raises(InputError, match="rounds have passed"):
        study.take_back()


def test_the_calendar_says_how_many_rounds_have_passed() -> None:
    _, study = over(0, calendar=Calendar("day", "2025-11-03", "Europe/Berlin"))
    with pytest.raises(InputError, match="calendar says"):
        study.watch(3)
    later = datetime(2026, 11, 3, tzinfo=UTC)
    assert rounds_passed(study.course, None, later) + study.course.rounds == 365  # the 366th day has begun
    said = watched(study.course.after(Amended(passed=300)))
    assert said.stands
    assert study.course.calendar is not None
    assert said.until == study.course.calendar.until(said.round + said.stands)
    _, ahead = over(0, calendar=Calendar("day", "2999-11-03", "Europe/Berlin"))
    assert ahead.watch().round == ahead.course.rounds < 20


def test_without_drift_nothing_changes_and_a_limit_of_zero_is_none() -> None:
    one, other = over(3, drift=None)[1], over(3, drift=0.0)[1]
    assert one.state.certificate == other.state.certificate
    assert other.course.after(Amended(horizon=5000)).state.certificate == one.state.certificate


def test_rewards_that_changed_between_waves_are_named_and_do_not_raise_the_norm_bound() -> None:
    _, study = over(4, tolerance=0.15, drift=None)
    (first, *_), policy, place = study.closed, study.policy, len(study.closed) + 1
    plan, feedback = changed(first.plan, wave=place), first.feedback

    def after(change: Any) -> tuple[float, str]:
        told = changed(feedback, mean=feedback.mean + change)
        state, info = policy.advance(PROBLEM, study.state, plan, told)
        return state.norm_bound, info.warning

    assert after(0.0) == (study.state.norm_bound, "")
    bound, said = after(np.linspace(-0.6, 0.6, len(plan.arms)))
    assert "changed against each other between wave 1 and wave" in said
    assert "with drift = " in said
    assert bound == study.state.norm_bound
    assert "changed against" not in after(0.6)[1]  # a promotion on all decisions
