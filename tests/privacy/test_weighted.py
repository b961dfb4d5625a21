"""Weights and privacy: a person's influence stays inside the ball, and the noise is what is claimed."""

from typing import Any

import numpy as np
import pytest

from tests.study.test_study_private import asked, problem, records
from voxpop.errors import Array, InputError
from voxpop.model.strata import Sample, Strata
from voxpop.model.waves import Feedback
from voxpop.privacy import Private, Simulated
from voxpop.privacy.audit import attack, specimen
from voxpop.privacy.central import Central
from voxpop.privacy.local import Local
from voxpop.privacy.sources import Integers, Source
from voxpop.study.study import Study

HALVES = Strata({"young": 0.5, "old": 0.5})
SAMPLE = HALVES.sample(["young"] * 40 + ["old"] * 10)
RARE = 49  # one of the ten, who weighs most


class Silent(Simulated):
    """No noise, to see what it would be added to."""

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        return np.zeros((rows, columns), dtype=np.int64)


SILENT = Silent(np.random.default_rng(0))


def release(people: int = 50) -> Central:
    made = Private("central", 2.0).calibrate(*specimen(people))
    assert isinstance(made, Central)
    return made


def moderate(made: Central, seed: int = 0) -> Array:
    """Answers well inside the ball."""
    z = np.random.default_rng(seed).uniform(-0.3, 0.3, size=(50, made.arms)) * made.ball.radius
    return made.ball.centre + z @ made.ball.root.T


def test_without_noise_it_is_the_weighted_average() -> None:
    made = release()
    answers = moderate(made)
    feedback = made.weighted(answers, SAMPLE, SILENT)
    np.testing.assert_allclose(feedback.mean, answers[:40].mean(axis=0) / 2 + answers[40:].mean(axis=0) / 2, atol=1e-7)
    assert feedback.count == 50
    assert feedback.effective == pytest.approx(1 / (0.25 / 40 + 0.25 / 10))


@pytest.mark.parametrize("person", [0, RARE])
def test_nobody_moves_the_sum_by_more_than_the_noise_was_made_for(person: int) -> None:
    made = release()
    bound = 2 * made.ball.radius / made.step + np.sqrt(made.arms)
    moved = 0.0
    for unit in (*np.eye(made.arms), np.ones(made.arms) / np.sqrt(made.arms)):
        sums = []
        for sign in (-1, 1):
            answers = moderate(made)
            answers[person] = made.ball.centre + sign * 1e6 * (made.ball.root @ unit)
            z = made.ball.whiten(made.weighted(answers, SAMPLE, SILENT).mean[None, :])[0]
            sums.append(z * SAMPLE.equivalent / made.step)
        moved = max(moved, float(np.linalg.norm(sums[1] - sums[0])))
    assert moved <= bound * (1 + 1e-6)
    assert moved == pytest.approx(bound if person == RARE else bound / 4, rel=1e-6)


def test_the_noise_that_is_claimed_is_the_noise_there_is() -> None:
    """An average in which one person weighs as much as in one of twenty people has the noise of twenty."""
    made, source = release(), Simulated(np.random.default_rng(1))
    answers = moderate(made)
    drawn = np.array([made.weighted(answers, SAMPLE, source).mean for _ in range(3000)])
    feedback = made.weighted(answers, SAMPLE, source)
    assert SAMPLE.equivalent == 20
    assert feedback.noise is not None
    np.testing.assert_allclose(feedback.noise, made.variance(20) * made.ball.shape)
    scale = np.sqrt(np.outer(feedback.noise.diagonal(), feedback.noise.diagonal()))
    np.testing.assert_allclose(np.cov(drawn.T) / scale, feedback.noise / scale, atol=0.1)


def test_people_drawn_in_proportion_lose_nothing_to_weights() -> None:
    made, even = release(), HALVES.sample(["young", "old"] * 25)
    answers = moderate(made)
    weighted, plain = made.weighted(answers, even, SILENT), made.analyze(made.tally(answers), SILENT)
    np.testing.assert_allclose(weighted.mean, plain.mean, atol=1e-7)
    for one, other in ((weighted.noise, plain.noise), (weighted.clipping, plain.clipping)):
        assert one is not None
        assert other is not None
        np.testing.assert_allclose(one, other)


def test_clipping_of_uneven_people_is_bounded_like_that_of_fewer() -> None:
    """The Chernoff bound of the weighted excess, computed as it is for these weights, is never larger."""
    made = release()
    clipping = made.weighted(moderate(made), SAMPLE, SILENT).clipping
    assert clipping is not None
    claimed = np.sqrt(np.trace(clipping) / np.trace(made.ball.shape))
    excess, chance = made.ball.tail
    rates = np.geomspace(1e-1, 1e5, 400)

    def log_moment(rate: float) -> Array:
        return np.asarray(np.log1p(np.expm1(np.minimum(rate * SAMPLE.weights[:, None] * excess, 700.0)) @ chance))

    direct = min((float(log_moment(rate).sum()) - np.log(made.beta)) / rate for rate in rates)
    assert direct <= claimed * 1.01


class Seen(Central):
    """A central release whose people are weighed; the one whom the auditor moves is of the rare stratum."""

    sample: Sample = HALVES.sample(["old"] * 10 + ["young"] * 40)

    def view(self, answers: Array, source: Source) -> Array:
        mean = self.weighted(answers, self.sample, source).mean
        return np.asarray(self.ball.whiten(mean[None, :])[0])


def test_the_audit_finds_what_was_promised_and_no_more() -> None:
    made = release()
    seen = Seen(made.ball, made.beta, made.cost, made.step, made.std)
    found = attack(seen, Simulated(np.random.default_rng(2)), people=50, trials=1500)
    assert not found.violated
    assert found.measured_mu > 0.7 * found.claimed_mu


def test_devices_that_add_noise_themselves_cannot_be_weighed() -> None:
    made = Private("local", 2.0).calibrate(*specimen(50))
    assert isinstance(made, Local)
    with pytest.raises(InputError, match=r"cannot weigh people .*draw them in proportion"):
        made.weighted(np.zeros((50, made.arms)), SAMPLE, SILENT)


def stratified(question: Any, prefix: str = "p") -> list[dict[str, Any]]:
    """Every fifth person is old."""
    return [
        {**record, "stratum": "old" if int(record["person"][len(prefix) :]) % 5 == 0 else "young"}
        for record in records(question, prefix)
    ]


def feedback_of(study: Study) -> Feedback:
    return study.log[-1].feedback


def test_a_private_study_charges_everyone_and_refuses_who_took_part() -> None:
    study = Study(problem(), "dpbe", privacy=Private("central", 5.0), strata=HALVES)
    question = asked(study)
    study.tell(question.wave, stratified(question))
    assert study.ledger.entries[0].people == len(study.ledger.entries[0].names) == question.people
    assert study.ledger.totals(1e-6)["epsilon"] == pytest.approx(5.0)
    assert feedback_of(study).count == question.people
    assert feedback_of(study).effective < question.people
    question = asked(study)
    with pytest.raises(InputError, match="has taken part 1 times"):
        study.tell(question.wave, stratified(question))
    assert len(study.log) == 1


def test_a_private_study_refuses_no_value_of_a_weighted_answer() -> None:
    study = Study(problem(), "dpbe", privacy=Private("central", 5.0), strata=HALVES)
    question = asked(study)
    rows = stratified(question)
    wild = [np.nan, np.inf, -np.inf, 1e308]
    study.tell(question.wave, [{**row, "average": wild[place % 4]} for place, row in enumerate(rows)])
    assert np.isfinite(feedback_of(study).mean).all()
