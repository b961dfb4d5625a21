"""One report about several metrics: clipped together, whatever their units, and released with noise for each."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import random_problem
from voxpop.model.guardrails import Guardrail, Rule
from voxpop.model.problem import Problem
from voxpop.model.waves import Feedback, Plan
from voxpop.policies.waves.policy import Waves
from voxpop.policies.waves.state import WavesState
from voxpop.privacy import Private, Simulated
from voxpop.privacy.ball import candidates
from voxpop.privacy.none import NoPrivacy
from voxpop.runtime.random_streams import stream
from voxpop.simulation.people import GPPeople, SeveralMetrics

ARMS, COUNT = np.array([0, 3, 7]), 300
PLAN = Plan(1, ARMS, np.full(3, 2), COUNT, sealed=0.25, also=1)


def guarded(scale: float = 1.0, alike: float = 0.6) -> Problem:
    """Return a problem with a metric that is measured in units of this size."""
    metric = random_problem(1, noise_std=0.1 * scale, bias_std=0.3 * scale, norm_bound=scale)
    guardrail = Guardrail(Rule("g", 0.0, -100 * scale), metric, (alike,))
    return replace(random_problem(1), guardrails=(guardrail,))


def begun(problem: Problem, waves: int = 0) -> WavesState:
    policy = Waves()
    state = policy.init(problem)
    for number in range(1, waves + 1):
        plan = replace(PLAN, wave=number, sealed=0.0)  # as it was released
        noise, mean = 1e-4 * np.eye(6), np.repeat([0.1, 0.1 * scale_of(problem)], 3)
        told = Feedback(mean, COUNT, noise=noise * np.outer(*(np.repeat([1.0, scale_of(problem)], 3),) * 2))
        state, _ = policy.advance(problem, state, plan, told)
    assert isinstance(state, WavesState)
    return state


def scale_of(problem: Problem) -> float:
    return problem.guardrails[0].problem.norm_bound


@pytest.mark.parametrize("alike", [0.0, 0.6, 0.95])
@pytest.mark.parametrize("waves", [0, 1])
def test_hardly_anybody_who_follows_the_model_is_clipped(alike: float, waves: int) -> None:
    problem, rng = guarded(50.0, alike), np.random.default_rng(0)
    for ball in candidates(problem, PLAN, begun(problem, waves)):
        level = 0.1 if ball.metric == "earlier" else 0.0  # what the wave before said
        truths = [np.full(p.size, level * p.norm_bound) for p in problem.metrics]
        people = SeveralMetrics(tuple(map(GPPeople, problem.metrics, truths)), problem.correlation)
        z = ball.whiten(people.observe(PLAN, 20_000, rng))
        assert (np.linalg.norm(z, axis=1) > ball.radius).mean() < 2e-3
        assert np.linalg.norm(z, axis=1).max() > 0.3 * ball.radius  # and not by far


@pytest.mark.parametrize("waves", [0, 1])
def test_units_do_not_matter(waves: int) -> None:
    answers = np.random.default_rng(0).standard_normal((50, 6))
    whitened = []
    for scale in (1.0, 1e6):
        problem = guarded(scale)
        balls = candidates(problem, PLAN, begun(problem, waves))
        whitened += [ball.whiten(answers * np.repeat([1.0, scale], 3)) for ball in balls]
    half = len(whitened) // 2
    for one, other in zip(whitened[:half], whitened[half:], strict=True):
        assert other == pytest.approx(one, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("model", ["central", "local", "shuffle", "aggregate"])
def test_every_trust_model_releases_all_metrics_with_the_noise_that_it_says(model: str) -> None:
    problem = guarded(50.0)
    delta = 1e-6
    release = Private(model, 8.0, delta).calibrate(problem, begun(problem), PLAN)
    assert release.arms == 6
    people = SeveralMetrics(tuple(GPPeople(p, np.zeros(p.size)) for p in problem.metrics), problem.correlation)
    source, rng = Simulated(lambda: stream(0, "agent", 1)), np.random.default_rng(0)
    answers = people.observe(PLAN, COUNT, rng)
    told = release.analyze(release.tally(release.randomize(answers, source)), source)
    assert told.noise is not None
    errors = (told.mean - answers.mean(axis=0)) / np.sqrt(told.noise.diagonal())
    assert np.abs(errors).max() < 5
    for metric, size in enumerate((1.0, 50.0)):
        part = told.of_metric(PLAN, metric)
        assert part.noise is not None
        assert part.noise.shape == (3, 3)
        assert np.sqrt(part.noise.diagonal().max()) < 3 * size
    assert np.abs(told.noise[:3, 3:]).max() == 0.0  # noise of its own for each metric


def test_one_report_of_the_largest_size_moves_the_sum_by_the_diameter_at_most() -> None:
    """Whatever somebody answers about both metrics, they are in one ball."""
    problem = guarded(50.0)
    release = Private("central", 5.0).calibrate(problem, begun(problem), PLAN)
    wild = np.random.default_rng(0).standard_normal((1000, 6)) * np.repeat([1e9, 1e3], 3)
    assert np.linalg.norm(release.clipped(wild), axis=1).max() <= release.ball.radius * (1 + 1e-9)


def test_without_privacy_every_metric_has_its_own_public_range() -> None:
    problem = guarded(50.0)
    release = NoPrivacy().calibrate(problem, begun(problem), PLAN)
    clipped = release.tally(np.full((2, 6), 1e6)).feedback().mean
    assert clipped[3:] == pytest.approx(50 * clipped[:3], rel=0.01)
