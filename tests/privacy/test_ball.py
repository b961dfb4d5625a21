import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import chi

from tests.helpers import function_of_norm, gram
from tests.helpers_privacy import Case, first_wave, later_wave
from voxpop.errors import Array
from voxpop.privacy import Private
from voxpop.privacy.ball import Ball, candidates

QUANTILE = 0.999  # the share of people following the model whom a ball must hold
PRIVATE = Private("central", 5.0, floor=60)
LATER = later_wave(3, PRIVATE)


def balls(case: Case) -> dict[str, list[Ball]]:
    found: dict[str, list[Ball]] = {}
    for ball in candidates(case.problem, case.plan, case.state):
        found.setdefault(ball.metric, []).append(ball)
    return found


def spread(case: Case) -> Array:
    """v^2 K + sigma^2 W^-1, of one person's averages."""
    problem, arms = case.problem, case.plan.arms
    return np.asarray(
        problem.bias_std**2 * gram(problem)[np.ix_(arms, arms)] + np.diag(problem.noise_std**2 / case.plan.pulls)
    )


def length(ball: Ball, y: Array) -> Array:
    """The whitened lengths of answers (people, arms), by a plain solve."""
    return np.asarray(np.linalg.norm(np.linalg.solve(ball.root, (y - ball.centre).T), axis=0))


def extreme_deviations(case: Case, rng: np.random.Generator, people: int) -> Array:
    """Deviations at the very quantile, in random directions, (people, arms)."""
    arms = len(case.plan.arms)
    z = rng.standard_normal((people, arms))
    z *= float(chi.ppf(QUANTILE, arms)) / np.linalg.norm(z, axis=1, keepdims=True)
    return np.asarray(z @ np.linalg.cholesky(spread(case)).T)


@pytest.mark.parametrize("norm_bound", [0.01, 1.0, 30.0])
def test_the_kernel_ball_holds_every_function_of_the_norm_bound(norm_bound: float) -> None:
    case, rng = first_wave(norm_bound=norm_bound), np.random.default_rng(1)
    [ball] = balls(case)["kernel"]
    deviations = extreme_deviations(case, rng, 200)
    for _ in range(50):
        f = 0.5 + function_of_norm(case.problem, norm_bound, rng)
        assert length(ball, f[case.plan.arms] + deviations).max() <= ball.radius * (1 + 1e-9)


def test_the_kernel_ball_holds_the_worst_function_and_deviation_and_little_more() -> None:
    case, rng = first_wave(), np.random.default_rng(2)
    [ball] = balls(case)["kernel"]
    K = gram(case.problem)[np.ix_(case.plan.arms, case.plan.arms)]
    D, q, reached = spread(case), float(chi.ppf(QUANTILE, 4)), 0.0
    for a in rng.standard_normal((500, 4)):  # the farthest f(A) + deviation in the direction a
        far = K @ a / math.sqrt(a @ K @ a) + q * D @ a / math.sqrt(a @ D @ a)
        reached = max(reached, float(length(ball, 0.5 + far[None, :])[0]))
    assert 0.95 * ball.radius <= reached <= ball.radius * (1 + 1e-9)


def farthest(case: Case, ball: Ball, seed: int) -> float:
    """Find the largest whitened length of f(A) + deviation that the previous release and the norm bound allow."""
    problem, (before, feedback) = case.problem, case.state.history[-1]
    K, n, arms = gram(problem), problem.size, case.plan.arms
    N = problem.bias_std**2 * K[np.ix_(before.arms, before.arms)] + np.diag(problem.noise_std**2 / before.pulls)
    N = N / feedback.count + (0.0 if feedback.noise is None else feedback.noise)
    reach = float(chi.ppf(1 - problem.beta, len(before.arms)))
    if feedback.clipping is not None:  # the farthest that clipping can move the average
        reach += math.sqrt(float(np.linalg.eigvals(np.linalg.solve(N, feedback.clipping)).real.max()))
    root_n, root_k = np.linalg.cholesky(N), np.linalg.cholesky(K + 1e-12 * np.eye(n))
    root_d, q = np.linalg.cholesky(spread(case)), float(chi.ppf(QUANTILE, len(arms)))

    def error(w: Array) -> Array:
        return np.asarray(np.linalg.solve(root_n, (root_k @ w[:n])[before.arms] - feedback.mean))

    def outside(w: Array) -> float:
        y = (root_k @ w[:n])[arms] + root_d @ w[n:]
        return -float(np.sum(np.linalg.solve(ball.root, y - ball.centre) ** 2))

    limits: Any = [
        {"type": "ineq", "fun": lambda w: problem.norm_bound**2 - w[:n] @ w[:n]},
        {"type": "ineq", "fun": lambda w: reach**2 - error(w) @ error(w)},
        {"type": "ineq", "fun": lambda w: q**2 - w[n:] @ w[n:]},
    ]
    found = minimize(
        outside,
        0.5 * np.random.default_rng(seed).standard_normal(n + len(arms)),
        method="SLSQP",
        constraints=limits,
        options={"maxiter": 200},
    )
    assert min(float(limit["fun"](found.x)) for limit in limits) > -1e-5
    return math.sqrt(-float(found.fun))


@pytest.mark.parametrize("privacy", [None, PRIVATE], ids=["plain", "central"])
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_the_earlier_balls_hold_all_that_the_previous_release_allows_and_little_more(
    seed: int, privacy: Private | None
) -> None:
    case = later_wave(seed, privacy)
    found = balls(case)["earlier"]
    assert len(found) >= 2
    reached = [max(farthest(case, ball, start) for start in range(3)) / ball.radius for ball in found]
    assert max(reached) <= 1 + 1e-4
    assert max(reached) > 0.8  # for the best mixture, not by being needlessly large


def test_an_earlier_ball_is_smaller_than_the_kernel_ball() -> None:
    found = balls(later_wave(0))
    sizes = {metric: min(float(np.trace(b.shape)) * b.radius**2 for b in some) for metric, some in found.items()}
    assert sizes["earlier"] < 0.5 * sizes["kernel"]


def test_nothing_earlier_is_used_before_there_is_a_release() -> None:
    assert "earlier" not in balls(first_wave())


@pytest.mark.parametrize("metric", ["kernel", "earlier", "euclidean"])
@given(answers=arrays(float, (3, 3), elements=st.floats(-1e100, 1e100)))
def test_clipped_answers_are_in_the_ball_whatever_they_were(metric: str, answers: Array) -> None:
    for ball in balls(LATER)[metric]:
        assert np.linalg.norm(ball.clip(ball.whiten(answers)), axis=1).max() <= ball.radius * (1 + 1e-12)


@pytest.mark.parametrize("size", [1e160, 1e300])
def test_answers_near_the_end_of_floating_point_are_clipped_too(size: float) -> None:
    z = size * np.array([[1.0, -1.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, -1.0]])
    for ball in candidates(LATER.problem, LATER.plan, LATER.state):
        np.testing.assert_allclose(np.linalg.norm(ball.clip(z), axis=1), ball.radius, rtol=1e-9)


def test_an_answer_at_the_centre_of_a_large_ball_stays_there() -> None:
    ball = Ball("euclidean", np.zeros(2), np.eye(2), 50.0, (np.empty(0), np.empty(0)))
    np.testing.assert_array_equal(ball.clip(np.zeros((1, 2))), np.zeros((1, 2)))


def test_answers_inside_are_not_moved_and_those_outside_keep_their_direction() -> None:
    ball = balls(LATER)["kernel"][0]
    z = np.array([[0.3, -0.4, 0.0], [30.0, -40.0, 0.0]])
    np.testing.assert_allclose(ball.clip(z), [[0.3, -0.4, 0.0], [0.6 * ball.radius, -0.8 * ball.radius, 0.0]])


@pytest.mark.parametrize("metric", ["kernel", "earlier", "euclidean"])
def test_restore_undoes_whiten(metric: str) -> None:
    for ball in balls(LATER)[metric]:
        y = np.random.default_rng(0).standard_normal((1, 3))
        np.testing.assert_allclose(ball.restore(ball.whiten(y)[0]), y[0], rtol=1e-9)


@pytest.mark.parametrize("later", [False, True])
def test_at_most_one_model_like_person_in_a_thousand_is_clipped(later: bool) -> None:
    case = LATER if later else first_wave()
    for ball in candidates(case.problem, case.plan, case.state):
        clipped = np.mean(length(ball, case.answers(100_000)) > ball.radius)
        assert clipped <= 1.3e-3  # three standard errors above 1e-3


def chi_excess(freedom: int, power: int) -> float:
    """E (chi - q)+^power, by quadrature."""
    q = float(chi.ppf(QUANTILE, freedom))
    return float(quad(lambda x: (x - q) ** power * float(chi.pdf(x, freedom)), q, q + 20)[0])


def moment(ball: Ball, power: int) -> float:
    excess, chance = ball.tail
    return float(excess**power @ chance)


def test_the_excess_of_people_around_nothing_is_that_of_a_chi_variable_from_above() -> None:
    case = first_wave(norm_bound=1e-6)  # f is zero, so the whitened length of answers is chi / q
    [ball], q = balls(case)["kernel"], float(chi.ppf(QUANTILE, 4))
    for power in (1, 2):
        exact = chi_excess(4, power) / q**power
        assert exact * (1 - 1e-3) <= moment(ball, power) <= 1.25 * exact
    beyond = np.maximum(length(ball, case.answers(1_000_000)) - ball.radius, 0.0)
    assert beyond.mean() == pytest.approx(moment(ball, 1), rel=0.3)


@pytest.mark.parametrize("people", [2, 50, 2000])
@pytest.mark.parametrize("beta", [0.05, 1e-3])
def test_the_mean_excess_passes_its_bound_with_probability_beta_at_most(people: int, beta: float) -> None:
    case = first_wave(norm_bound=1e-6)
    [ball] = balls(case)["kernel"]
    clipping = ball.clipping(people, beta)
    assert clipping is not None
    slack = math.sqrt(clipping[0, 0] / ball.shape[0, 0])
    groups = 400_000 // people if people < 1000 else 2000
    beyond = np.maximum(length(ball, case.answers(groups * people)) - ball.radius, 0.0).reshape(groups, people)
    failures = np.mean(beyond.mean(axis=1) > slack)
    assert failures <= beta + 4 * math.sqrt(beta / groups)


@pytest.mark.parametrize("metric", ["kernel", "euclidean"])
def test_the_excess_bounds_what_clipping_takes_from_the_worst_function(metric: str) -> None:
    case = first_wave()
    [ball] = balls(case)[metric]
    rng, K = np.random.default_rng(5), gram(case.problem)
    deviations = case.answers(200_000) - case.f[case.plan.arms]
    for a in rng.standard_normal((5, 4)):
        f = 0.5 + K[:, case.plan.arms] @ a / math.sqrt(a @ K[np.ix_(case.plan.arms, case.plan.arms)] @ a)
        beyond = np.maximum(length(ball, f[case.plan.arms] + deviations) - ball.radius, 0.0)
        assert beyond.mean() <= moment(ball, 1)
        assert (beyond**2).mean() <= moment(ball, 2)
