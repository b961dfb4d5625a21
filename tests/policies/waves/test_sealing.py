"""The sealed part of the answers: independent of the other, drawn once, and a statement that is as true as it says."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm, t

from tests.helpers import everything, evidence, function_of_norm, own, random_problem, worst_function
from tests.helpers_waves import everyone, truth
from voxpop.errors import Array
from voxpop.gp.belief import Rows, all_rows, own_noise, pilot_rows
from voxpop.model.noise import TRUST
from voxpop.model.problem import Indices, Problem
from voxpop.model.waves import End, Feedback, Plan, Tally, changed
from voxpop.policies.waves.policy import Waves
from voxpop.policies.waves.sealing import (
    DRAWN,
    PILOT_SEALED,
    SEALED,
    Evidence,
    Model,
    Part,
    factor,
    halves,
    inflation,
    powered,
    split_pilot,
    split_wave,
    wider,
)
from voxpop.policies.waves.state import FIRST, LISTED, LOOK
from voxpop.privacy import Private

DRAWS, LEVEL = 20_000, 0.1
ARMS = np.array([0, 3, 7])


def few_enough(failures: int, level: float, draws: int = DRAWS) -> bool:
    """Return False if the level is exceeded by more than chance allows once in a million tests."""
    return failures <= float(binom.isf(1e-6, draws, level))


def many_enough(failures: int, level: float, draws: int = DRAWS) -> bool:
    """Return False if there are fewer failures than chance allows once in a million tests."""
    return failures >= float(binom.ppf(1e-6, draws, level))


def wave(sealed: float = SEALED, arms: Indices = ARMS, people: int = 30) -> Plan:
    return Plan(1, arms, np.full(len(arms), 2), people, 7, sealed=sealed)


# The two parts


@pytest.mark.parametrize("share", [0.1, 0.25, 0.9])
def test_the_parts_are_independent_and_together_say_what_was_said(share: float) -> None:
    problem = random_problem(0)
    noise = problem.answer_noise(ARMS, np.full(3, 2), 30)
    rng, root = np.random.default_rng(0), np.linalg.cholesky(noise)
    drawn = root @ rng.standard_normal((3, DRAWS))
    parts = [
        halves(Rows(problem.decisions.points[ARMS], y, noise), share, np.frombuffer(y.tobytes(), np.uint32).tolist())
        for y in drawn.T
    ]
    planned, sealed = (np.array([part[which].residual for part in parts]).T for which in (0, 1))
    np.testing.assert_allclose(parts[0][0].noise, noise / (1 - share))
    np.testing.assert_allclose(parts[0][1].noise, noise / share)
    both = np.cov(np.concatenate([planned, sealed]))
    expected = np.block([[noise / (1 - share), np.zeros((3, 3))], [np.zeros((3, 3)), noise / share]])
    assert np.abs(both - expected).max() < 6 * np.abs(expected).max() / math.sqrt(DRAWS)
    np.testing.assert_allclose((1 - share) * planned + share * sealed, drawn, atol=1e-12)


def test_the_draw_hangs_on_the_answers_the_wave_and_the_seed_alone() -> None:
    problem, other = random_problem(0), random_problem(0)
    feedback = Feedback(np.array([0.1, 0.2, 0.3]), 30)

    def planned(problem: Problem, feedback: Feedback, plan: Plan, seed: int = 0) -> Array:
        return split_wave(problem, plan, feedback, seed)[0].feedback.mean

    first = planned(problem, feedback, wave())
    np.testing.assert_array_equal(planned(other, feedback, wave()), first)
    nudged = Feedback(feedback.mean * (1 + 1e-15), 30)  # as another processor rounds
    np.testing.assert_allclose(planned(problem, nudged, wave()), first, rtol=1e-12)
    assert not np.allclose(planned(problem, Feedback(np.array([0.1, 0.2, 0.3001]), 30), wave()), first, atol=1e-3)
    assert not np.allclose(planned(problem, feedback, wave(), seed=1), first, atol=1e-3)


def test_what_is_planned_with_is_as_noisy_as_it_says() -> None:
    problem = random_problem(0, bias_std=0.1)
    people = random_problem(0, bias_std=0.3)
    for noise in (None, 0.01 * np.eye(3)):
        answers = everyone(people, truth(problem, 0), 0)(wave(people=40))
        feedback = Feedback(answers.mean, answers.count, noise, scatter=answers.scatter)
        answered, part = split_wave(problem, wave(people=40), feedback, 0)
        assert part is not None
        total, freedom = own_noise(problem, wave(people=40), feedback)
        rows = all_rows(problem, [answered], None, own=True)
        np.testing.assert_allclose(rows.noise, total / (1 - SEALED))
        np.testing.assert_allclose(part.noise, total / SEALED)
        np.testing.assert_allclose((1 - SEALED) * rows.residual + SEALED * part.residual, feedback.mean, atol=1e-12)
        assert np.abs(rows.residual - part.residual).max() > 0.01
        assert part.freedom == freedom == TRUST + 39


@pytest.mark.parametrize(("level", "freedom"), [(0.05, 19.0), (0.001, 5.0)])
def test_noise_that_was_estimated_has_the_factor_of_student(level: float, freedom: float) -> None:
    assert factor(level) == pytest.approx(norm.isf(level))
    assert factor(level) * math.sqrt(inflation(level, freedom)) == pytest.approx(t.isf(level, freedom), rel=1e-6)
    assert inflation(level, math.inf) == 1


def test_a_pilot_is_split_wherever_it_was_taken() -> None:
    bare = random_problem(3)
    points = np.concatenate([bare.decisions.points[[4, 9]], [[0.111, 0.222]]])
    problem = random_problem(3, pilot=[evidence(points, [5, 5, 5], 30, [0.4, -0.3, 0.1])])
    planned, part = split_pilot(problem, 0)
    assert part is not None
    rows, places = pilot_rows(problem), wider(problem)
    np.testing.assert_allclose(places.decisions.points[part.arms], rows.points)
    assert sorted(part.arms.tolist()) == [4, 9, problem.size]
    np.testing.assert_allclose(
        PILOT_SEALED * part.residual + (1 - PILOT_SEALED) * planned.residual, rows.residual, atol=1e-12
    )
    assert split_pilot(bare, 0)[1] is None


# The statement


def proof(problem: Problem, *parts: Part, bound: float = 1.0, population: int | None = None) -> Evidence:
    return Evidence(problem, parts, Model(bound), population)


def sealed(problem: Problem, y: Array, arms: Indices = ARMS, people: float = 30.0, freedom: float = math.inf) -> Part:
    return Part(arms, y, problem.answer_noise(arms, np.full(len(arms), 2), people), None, freedom)


def gap_weights(problem: Problem, x: int, best: int, level: float) -> Array:
    """Find the weights of a bound, which is linear in the averages."""
    zero = proof(problem, sealed(problem, np.zeros(3))).state(best, level).gaps[x]
    units = (proof(problem, sealed(problem, unit)).state(best, level).gaps[x] for unit in np.eye(3))
    return np.asarray(np.array(list(units)) - zero)


@pytest.mark.parametrize("x", [1, 3, 5, 11])
def test_a_bound_fails_at_its_level_for_the_worst_function_of_the_norm(x: int) -> None:
    problem, best = random_problem(2), 7
    weights = gap_weights(problem, x, best, LEVEL)
    f = worst_function(problem, ARMS, weights + (best == ARMS), x)
    width = proof(problem, sealed(problem, np.zeros(3))).state(best, LEVEL).gaps[x]
    root = np.linalg.cholesky(sealed(problem, np.zeros(3)).noise)
    y = f[ARMS] + np.random.default_rng(5).standard_normal((DRAWS, 3)) @ root.T
    failures = int(np.sum(f[x] - f[best] > y @ weights + width))
    assert few_enough(failures, LEVEL)
    assert many_enough(failures, LEVEL)


def test_two_waves_say_as_much_as_one_of_all_their_people() -> None:
    problem, y = random_problem(2), np.array([0.3, -0.2, 0.1])
    both = proof(problem, sealed(problem, y, people=10), sealed(problem, y, people=20)).state(7, LEVEL)
    one = proof(problem, sealed(problem, y, people=30)).state(7, LEVEL)
    np.testing.assert_allclose(both.gaps, one.gaps, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(both.lower, one.lower, rtol=1e-5, atol=1e-9)


def test_no_part_makes_a_statement_weaker() -> None:
    problem = random_problem(2)
    first, second = sealed(problem, np.zeros(3)), sealed(problem, np.zeros(3), np.array([1, 5, 9]), freedom=3.0)
    at = everything(problem)
    widths = [proof(problem, *parts).widths(at, 7, LEVEL) for parts in ((), (first,), (first, second))]
    assert (widths[0] >= widths[1] - 1e-9).all()
    assert (widths[1] >= widths[2] - 1e-6).all()
    assert proof(problem).assumed(7) == pytest.approx(widths[0].max())


def test_clipping_of_several_waves_adds_up() -> None:
    problem, at = random_problem(2), everything(random_problem(2))
    plain = sealed(problem, np.zeros(3))
    clipped = Part(plain.arms, plain.residual, plain.noise, 0.04 * plain.noise, math.inf)
    none, one, two = (
        proof(problem, *parts).widths(at, 7, LEVEL) for parts in ((plain, plain), (clipped, plain), (clipped, clipped))
    )
    assert (one >= none - 1e-9).all()
    assert (two > none).sum() == problem.size - 1
    assert two.max() > one.max()


def test_bounds_on_all_rewards_hold_together() -> None:
    problem, rng = random_problem(2), np.random.default_rng(0)
    runs = failures = 0
    root = np.linalg.cholesky(sealed(problem, np.zeros(3)).noise)
    for seed in range(400):
        f = function_of_norm(problem, 1.0, np.random.default_rng(seed))
        said = proof(problem, sealed(problem, f[ARMS] + root @ rng.standard_normal(3))).state(7, 0.3)
        failures += bool(((f < said.lower) | (f > said.upper)).any())
        runs += 1
    assert few_enough(failures, 0.3, runs)


def test_a_finite_population_is_meant_itself_with_its_own_best_action() -> None:
    """Its deviations from f choose its best action, so that one-sided statements about fixed actions fail too often."""
    problem = random_problem(1, n=12, noise_std=0.01, bias_std=1.0, norm_bound=0.01)
    size, people, level, runs = 100, 50, 0.1, 3000
    rng, K = np.random.default_rng(0), problem.covariance(everything(problem), everything(problem))
    arms, root = everything(problem), np.linalg.cholesky(K + 1e-9 * np.eye(12))
    failures = {None: 0, size: 0}
    noise = problem.answer_noise(arms, np.ones(12, int), people)
    draw = np.linalg.cholesky(noise * (1 - people / size) + 1e-12 * np.eye(12))
    for _ in range(runs):
        own_mean = root @ rng.standard_normal(12) / math.sqrt(size)
        part = Part(arms, own_mean + draw @ rng.standard_normal(12), noise, None, math.inf)
        best = int(rng.integers(12))
        for population in failures:
            said = proof(problem, part, bound=0.01, population=population).state(best, level)
            failures[population] += bool(own_mean.max() - own_mean[best] > said.gaps[own_mean.argmax()])
    assert not few_enough(failures[None], level, runs)
    assert few_enough(failures[size], level, runs)


def test_the_draw_of_a_finite_population_is_bounded_for_all_actions_together() -> None:
    problem, size, level, runs = random_problem(1, n=12, bias_std=1.0), 100, 0.1, 20_000
    arms, K = everything(problem), problem.covariance(everything(problem), everything(problem))
    part = Part(arms, np.zeros(12), problem.answer_noise(arms, np.ones(12, int), 50), None, math.inf)
    added, usual = (proof(problem, part, population=here)._estimator(level, 1)[1] for here in (size, None))
    draws = np.random.default_rng(0).standard_normal((runs, 12)) @ np.linalg.cholesky(K + 1e-9 * np.eye(12)).T
    apart = np.sqrt(K.diagonal()[1:] + K[0, 0] - 2 * K[0, 1:])
    worst = ((draws[:, 1:] - draws[:, :1]) / apart).max(axis=1) / math.sqrt(size)
    assert few_enough(int((worst > added - usual).sum()), DRAWN * level, runs)


# Shorter length-scales


@pytest.mark.parametrize("power", [2, 4, 8])
def test_a_power_of_the_kernel_is_a_kernel_of_the_same_variance(power: int) -> None:
    problem = random_problem(3)
    x = problem.decisions.points
    K = powered(problem.kernel, problem.largest_variance, power)(x, x)
    assert np.linalg.eigvalsh(K).min() > -1e-9
    assert K.diagonal().max() == pytest.approx(problem.largest_variance)
    assert (problem.kernel(x, x) + 1e-12 >= K).all()


# In a study


def test_what_is_planned_does_not_hang_on_what_is_sealed() -> None:
    """Answers with the same plan part lead to the same plans, whatever the sealed part says."""
    problem, policy = random_problem(6, horizon=2000), Waves()
    state = policy.init(problem)
    plan = policy.plan(problem, state)
    assert isinstance(plan, Plan)
    after, _ = policy.advance(problem, state, plan, everyone(problem, truth(problem, 6), 6)(plan))
    part = own(after).parts[-1]
    assert plan.sealed == SEALED
    moved = Part(part.arms, part.residual + 10.0, part.noise, part.clipping, part.freedom)
    other = changed(own(after), evidence=replace(own(after).evidence, parts=(moved,)), spent=0.0).opened(LOOK)
    assert other.certificate != after.certificate
    one, two = policy.plan(problem, after), policy.plan(problem, other)
    assert isinstance(one, Plan)
    assert isinstance(two, Plan)
    assert (one.arms.tolist(), one.people, one.reference) == (two.arms.tolist(), two.people, two.reference)
    for name in ("active", "lower", "upper", "certified"):
        assert np.array_equal(getattr(after.unsealed, name), getattr(other.unsealed, name))
    assert not np.array_equal(after.upper, other.upper)
    for model in ("central", "shuffle"):
        balls = [Private(model, 3.0).calibrate(problem, each.unsealed, one) for each in (after, other)]
        assert np.array_equal(balls[0].ball.centre, balls[1].ball.centre)
        assert np.array_equal(balls[0].ball.root, balls[1].ball.root)


def test_a_look_costs_little_and_the_end_all_but_a_small_rest() -> None:
    problem, policy = random_problem(6, horizon=2000), Waves()
    state = policy.init(problem)
    plan = policy.plan(problem, state)
    assert isinstance(plan, Plan)
    assert (state.spent, state.certificate) == (0.0, math.inf)
    after, _ = policy.advance(problem, state, plan, everyone(problem, truth(problem, 6), 6)(plan))
    assert after.spent == pytest.approx(LOOK * policy.delta)
    end = after.concluded()
    assert end.spent == pytest.approx(policy.delta * (1 - LOOK * (1 - LOOK)))
    assert end.certificate < after.certificate
    assert set(end.active.tolist()) <= set(after.active.tolist())


def test_waves_of_a_study_from_before_there_were_seals_are_planned_with_and_prove_nothing() -> None:
    bare = random_problem(6, horizon=2000)
    f = truth(bare, 6)
    problem = random_problem(6, horizon=2000, pilot=[evidence(bare.decisions.points, np.full(12, 5), 50, f)])
    policy = Waves()
    old = wave(sealed=0.0)
    state, info = policy.advance(problem, policy.init(problem), old, everyone(problem, f, 0)(old))
    assert "wave 1 was planned by an earlier version of voxpop" in info.warning
    assert state.history[0].feedback.count == 30
    assert math.isinf(state.concluded().certificate)
    plan = replace(wave(), wave=2)
    later, _ = policy.advance(problem, state, plan, everyone(problem, f, 0)(plan))
    assert (later.concluded().spent, later.concluded().certificate) == (policy.delta, math.inf)
    certain = Waves(tolerance=0.1).plan(problem, later)
    assert certain == End("nothing is left of the chance of error, so that no tolerance can be certified")
    assert len(own(later).parts) == 1
    assert own(later).evidence.parts == own(later).parts  # the pilot has planned the old wave, too


def test_clipped_answers_prove_nothing_once_the_model_they_were_clipped_to_is_given_up() -> None:
    problem, policy = random_problem(6, horizon=2000), Waves()
    state = policy.init(problem)
    plan = Plan(1, np.arange(6), np.ones(6, int), 200, 0, sealed=SEALED)
    noise = problem.answer_noise(plan.arms, plan.pulls, 200)
    modest = Feedback(np.full(6, 0.01), 200, noise, 1e-4 * noise)
    state, _ = policy.advance(problem, state, plan, modest)
    assert len(own(state).parts) == 1
    plan = Plan(2, np.arange(6, 12), plan.pulls, 200, 0, sealed=SEALED)
    noise = problem.answer_noise(plan.arms, plan.pulls, 200)
    far = Feedback(5.0 * np.array([1, -1, 1, -1, 1, -1]), 200, noise, 1e-4 * noise)
    after, info = policy.advance(problem, state, plan, far)
    assert info.refuted
    assert own(after).model.power == 1
    assert own(after).parts == ()
    assert math.isinf(after.certificate)


def test_a_tally_of_one_person_has_no_scatter_to_count_with() -> None:
    problem = random_problem(0)
    feedback = Tally.of(np.zeros((1, 3)), problem.grid_step).feedback()
    _, part = split_wave(problem, wave(people=1), feedback, 0)
    assert part is not None
    assert math.isinf(part.freedom)


def test_each_decision_of_the_list_has_its_part_of_the_level() -> None:
    """What is said of another decision than the recommendation follows from two statements, which share the level."""
    problem, changes, f = Problem.of_matrix(np.eye(3), 0.3, 0.3, 2.0, 2000), list[bool](), np.array([0.5, 0.5, 0.0])
    for seed in range(30):
        plan = Plan(1, np.arange(3), np.ones(3, dtype=int), 200, 0, sealed=SEALED)
        state, _ = Waves().advance(problem, Waves().init(problem), plan, everyone(problem, f, seed)(plan))
        first, *others = own(state).outlook.shortlist(LISTED).tolist()
        end, evidence, level = state.concluded(), own(state).evidence, (1 - LOOK) * (0.05 - state.spent)
        assert evidence is not None
        said = min(evidence.state(first, (FIRST if others else 1.0) * level).certificate, state.certificate)
        changes.append(end.best != first)
        if changes[-1]:
            said += evidence.gaps(np.array([first]), end.best, (1 - FIRST) / len(others) * level)[0]
        assert end.certificate == pytest.approx(max(said, 0.0))
        assert end.best in end.active
    assert 0 < sum(changes) < 30
