import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

from tests.helpers import drive, everything, function_of_norm, gram, random_problem, worst_function
from voxpop.errors import Array, InputError
from voxpop.gp.selection import select
from voxpop.gp.widths import AffineEstimator
from voxpop.model.kernels import Linear, SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Feedback, Plan
from voxpop.policies import make_policy
from voxpop.policies.dpbe import DPBE, PRINTED, people_of_phase
from voxpop.policies.protocol import ALONE
from voxpop.simulation.people import GPPeople
from voxpop.simulation.simulator import simulate_waves

NAMES = ["dpbe", "dpbe-paper"]


def exactly(f: Array) -> Callable[[Plan], Feedback]:
    return lambda plan: Feedback(f[plan.arms], plan.people)


def undecided(problem: Problem) -> Callable[[Plan], Feedback]:
    return exactly(np.zeros(problem.size))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("horizon", "lengths"),
    [(1, [1]), (2, [1, 1]), (15, [1, 2, 4, 8]), (20, [1, 2, 4, 8, 5]), (64, [1, 2, 4, 8, 16, 32, 1])],
)
def test_phases_double_and_are_cut_at_the_horizon(name: str, horizon: int, lengths: list[int]) -> None:
    problem = random_problem(0, horizon=horizon)
    plans = [plan for _, plan, *_ in drive(make_policy(name), problem, undecided(problem))]
    assert [plan.length for plan in plans] == lengths
    assert [int(plan.pulls.sum()) + plan.rest for plan in plans] == lengths
    assert name == "dpbe" or not any(plan.rest for plan in plans)
    assert [plan.wave for plan in plans] == list(range(1, len(lengths) + 1))


@pytest.mark.parametrize("alpha", [0.3, 0.7, 0.9, 1.0])
def test_phase_l_asks_two_to_the_alpha_l_people_rounded_up(alpha: float) -> None:
    problem = random_problem(0, horizon=2**10 - 1)
    plans = [plan for _, plan, *_ in drive(DPBE(alpha=alpha), problem, undecided(problem))]
    assert [plan.people for plan in plans] == [math.ceil(round(2 ** (alpha * l), 9)) for l in range(1, 11)]


@pytest.mark.parametrize("hundredths", [10, 28, 30, 56, 70, 90, 112])  # 0.28 * 25 is 7.000000000000001
def test_whole_powers_of_two_are_not_rounded_up_by_accident(hundredths: int) -> None:
    whole = [l for l in range(1, 31) if hundredths * l % 100 == 0]
    assert [people_of_phase(hundredths / 100, l) for l in whole] == [2 ** (hundredths * l // 100) for l in whole]


@pytest.mark.parametrize("name", NAMES)
def test_a_single_active_action_ends_the_run(name: str) -> None:
    policy, problem = make_policy(name), random_problem(0)
    alone = replace(policy.init(problem), active=np.array([7]))
    assert policy.plan(problem, alone) == ALONE
    assert policy.best(problem, alone) == 7
    one = random_problem(0, n=1)
    assert policy.plan(one, policy.init(one)) == ALONE


def test_nothing_is_known_at_first_but_the_prior() -> None:
    problem = random_problem(1, kernel=2.0 * random_problem(1).kernel, norm_bound=3.0, prior_mean=5.0)
    state = DPBE().init(problem)
    np.testing.assert_allclose(state.upper, 5 + 3 * math.sqrt(2))
    np.testing.assert_allclose(state.lower, 5 - 3 * math.sqrt(2))
    assert state.active.tolist() == list(range(12))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("policy", [DPBE(), DPBE(compare=False), DPBE(**PRINTED)])
def test_the_action_of_largest_lower_bound_stays(policy: DPBE, seed: int) -> None:
    problem, rng = random_problem(seed, noise_std=0.02, bias_std=0.05, horizon=4000), np.random.default_rng(seed)
    people = GPPeople(problem, function_of_norm(problem, 1.0, rng))
    before = policy.init(problem)
    for _, after in simulate_waves(problem, policy, people, seed):
        assert set(after.active) <= set(before.active)
        assert before.active[np.argmax(after.lower[before.active])] in after.active
        assert np.all(after.upper[after.active] >= after.lower[after.active].max())
        before = after
    assert len(before.active) < problem.size


def reference_dpbe(
    problem: Problem, answer: Callable[[int, int], float], alpha: float, C: float
) -> list[tuple[dict[int, int], int, list[int]]]:
    """alg:DPBE line by line, every round a row of the matrices: rounds of each arm, |U_l| and D_{l+1}."""
    K, lam, v, B, beta = gram(problem), problem.ridge, problem.bias_std, problem.norm_bound, problem.beta
    D, l, t, T_l, log = list(range(problem.size)), 1, 0, 1, []
    while t < problem.horizon and len(D) > 1:
        played: list[int] = []
        Sigma2, end = K.diagonal(), min(T_l, problem.horizon - t)
        solved: Array = np.zeros((0, problem.size))
        while len(played) < end:
            a = max(D, key=lambda x: Sigma2[x])
            played += [a] * max(1, math.floor((C**2 - 1) / Sigma2[a]))
            played = played[:end]
            solved = np.asarray(
                np.linalg.solve(K[np.ix_(played, played)] + lam * np.eye(len(played)), K[played]), float
            )
            Sigma2 = K.diagonal() - np.sum(K[played] * solved, axis=0)
        people = math.ceil(2 ** (alpha * l))
        mu = solved.T @ np.array([answer(l, a) for a in played])
        spread = v * math.sqrt(2 * math.log(1 / beta) / people)
        w = spread * np.sqrt(K.diagonal()) + spread * np.sqrt(Sigma2) + B * np.sqrt(Sigma2)
        D = [x for x in D if mu[x] + w[x] >= max(mu[b] - w[b] for b in D)]
        log.append(({a: played.count(a) for a in played}, people, D))
        t, T_l, l = t + end, 2 * T_l, l + 1
    return log


@pytest.mark.parametrize("seed", range(6))
def test_dpbe_paper_is_the_printed_algorithm(seed: int) -> None:
    kernel = SquaredExponential(0.3) + 0.3 * Linear()  # no two actions of one variance: no ties to break
    problem = random_problem(seed, kernel=kernel, noise_std=0.05, bias_std=0.1, norm_bound=0.5, horizon=700, beta=0.05)
    rng = np.random.default_rng(seed)
    f, errors = 2 * function_of_norm(problem, 1.0, rng), 0.02 * rng.standard_normal((20, problem.size))
    log = [
        (dict(zip(plan.arms.tolist(), plan.pulls.tolist(), strict=True)), plan.people, after.active.tolist())
        for _, plan, _, after, _ in drive(
            make_policy("dpbe-paper", alpha=0.75, ratio=1.5),
            problem,
            lambda plan: Feedback((f + errors[plan.wave])[plan.arms], plan.people),
        )
    ]
    assert log == reference_dpbe(problem, lambda l, a: float((f + errors[l])[a]), 0.75, 1.5)
    assert len(log[-1][2]) < problem.size


@pytest.mark.parametrize("seed", range(5))
def test_bounds_only_tighten_while_the_norm_bound_holds(seed: int) -> None:
    problem, rng = random_problem(seed, horizon=2000), np.random.default_rng(seed)
    lower, upper = DPBE().init(problem).lower, DPBE().init(problem).upper
    for step, state in simulate_waves(problem, DPBE(), GPPeople(problem, function_of_norm(problem, 1.0, rng)), seed):
        assert not step.info.refuted
        assert np.all(state.upper <= upper)
        assert np.all(state.lower >= lower)
        lower, upper = state.lower, state.upper
    assert np.max(upper - lower) < 2.0


@pytest.mark.parametrize("seed", range(5))
def test_a_refuted_norm_bound_is_doubled_and_the_run_still_finds_the_best(seed: int) -> None:
    problem = random_problem(seed, noise_std=1e-3, bias_std=1e-3, norm_bound=0.02, horizon=4000)
    f = function_of_norm(problem, 2.0, np.random.default_rng(seed))
    steps = list(drive(DPBE(), problem, exactly(f)))
    infos, last = [info for *_, info in steps], steps[-1][3]
    assert any(info.refuted for info in infos)
    doublings = [math.log2(info.norm_bound / 0.02) for info in infos]
    assert doublings == pytest.approx([round(d) for d in doublings])
    assert doublings[-1] >= 1
    assert last.norm_bound == infos[-1].norm_bound
    assert len(last.active) >= 1
    best = DPBE().best(problem, last)
    assert best in last.active
    assert f.max() - f[best] <= 0.01


@pytest.mark.parametrize("policy", [DPBE(), DPBE(compare=False), DPBE(**PRINTED)])
@pytest.mark.parametrize("seed", range(3))
def test_answers_that_no_norm_can_explain_still_end_with_an_action(policy: DPBE, seed: int) -> None:
    problem, rng = random_problem(seed, n=6, noise_std=1e-3, bias_std=1e-3, horizon=500), np.random.default_rng(seed)
    noise = 10 * rng.standard_normal((20, 6))
    state = policy.init(problem)
    for _, plan, _, after, _ in drive(policy, problem, lambda p: Feedback(noise[p.wave][p.arms], p.people)):
        assert len(after.active) >= 1
        assert after.rounds == state.rounds + plan.length
        assert math.isfinite(after.norm_bound)
        state = after
    assert policy.best(problem, state) in state.active


def test_bounds_that_touch_within_rounding_leave_an_action() -> None:
    policy = DPBE(compare=False)
    problem = Problem.of_matrix(np.eye(2), 0.01, 0.01, norm_bound=1.0, horizon=100)
    plan = Plan(1, np.array([0, 1]), np.array([1, 1]), 100)
    estimate = AffineEstimator(problem, plan.arms, problem.answer_noise(plan.arms, plan.pulls, 100)).values(
        plan.arms, 1.0
    )
    y = (1 + 5e-10 + estimate.width) / estimate.weights.sum(axis=1)  # lower bounds a hair above the prior's 1
    state, _ = policy.advance(problem, policy.init(problem), plan, Feedback(y, 100))
    assert len(state.active) >= 1


def test_the_counted_width_is_the_printed_one_with_the_noise_that_the_estimate_has() -> None:
    """eq:confidence_width_dp with a'(noise) a of the estimate's own weights in place of 2 C^2 gamma_T noise."""
    problem, noise = random_problem(3, n=8, noise_std=0.1, bias_std=0.2, horizon=127), 0.3 * np.eye(1)
    counted = DPBE(**{**PRINTED, "width": "counted"})
    plan = counted.plan(problem, counted.init(problem))
    assert isinstance(plan, Plan)
    widths = {}
    for policy in (counted, replace(counted, width="printed")):
        for private in (None, noise):
            feedback = Feedback(np.zeros(1), 2, private, printed=private is not None)
            after, _ = policy.advance(problem, policy.init(problem), plan, feedback)
            widths[policy.width, private is not None] = after.upper - after.centre
    z, weights = np.sqrt(2 * np.log(1 / problem.beta)), paper_weights(problem, plan)[:, 0]
    np.testing.assert_allclose(widths["counted", False], widths["printed", False], rtol=1e-12)
    added = widths["counted", True] - widths["counted", False]
    np.testing.assert_allclose(added, z * np.sqrt(0.3) * np.abs(weights), rtol=1e-9)
    assert (widths["printed", True] - widths["printed", False] > 3 * added).all()


def paper_weights(problem: Problem, plan: Plan) -> Array:
    K = gram(problem)
    regularised = K[np.ix_(plan.arms, plan.arms)] + problem.ridge * np.diag(1 / plan.pulls)
    return np.asarray(np.linalg.solve(regularised, K[plan.arms]).T)


def worst_case(problem: Problem, policy: DPBE, phase: int, x: int) -> Array:
    """Return the function of norm B that is hardest on action x in this phase if nothing was eliminated before."""
    chosen = select(problem, everything(problem), 2 ** (phase - 1), policy.ratio, policy.batches)
    plan = Plan(phase, chosen.arms, chosen.pulls, people_of_phase(policy.alpha, phase))
    if policy.width == "printed":
        return worst_function(problem, plan.arms, paper_weights(problem, plan)[x], x)
    estimator = AffineEstimator(problem, plan.arms, problem.answer_noise(plan.arms, plan.pulls, plan.people))
    return worst_function(problem, plan.arms, estimator.values(everything(problem), 1.0).weights[x], x)


def misses(policy: DPBE, worst: bool) -> tuple[Array, Array, Array]:
    """Collect |truth - centre| / width over active actions, phases and runs, of f and of gaps; and if B was refuted."""
    problem = random_problem(3, n=8, noise_std=0.1, bias_std=0.2, horizon=127, beta=0.05)
    of_values, of_gaps, refuted = list[Array](), list[Array](), list[bool]()
    bare = replace(policy, intersect=False, compare=False)
    gaps = replace(policy, intersect=False)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, phase = int(rng.integers(8)), int(rng.integers(1, 8))
        f = worst_case(problem, policy, phase, x) if worst else function_of_norm(problem, 1.0, rng)
        before = policy.init(problem)
        for step, after in simulate_waves(problem, policy, GPPeople(problem, f), seed):
            at = before.active
            alone, _ = bare.advance(problem, before, step.plan, step.feedback)
            of_values.append((np.abs(f - alone.centre) / (alone.upper - alone.centre))[at])
            if policy.compare:
                alone, _ = gaps.advance(problem, before, step.plan, step.feedback)
                others = at[at != step.plan.reference]
                gap = np.abs(f - f[step.plan.reference] - alone.lead)
                of_gaps.append(gap[others] / alone.lead_width[others])
            refuted.append(step.info.refuted)
            before = after
    return np.concatenate(of_values), np.concatenate(of_gaps or [np.zeros(1)]), np.array(refuted)


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize("policy", [DPBE(), DPBE(**PRINTED)], ids=NAMES)
def test_truth_is_outside_the_intervals_less_often_than_beta(policy: DPBE, worst: bool) -> None:
    of_values, of_gaps, refuted = misses(policy, worst)
    assert len(of_values) > 1000
    assert np.mean(of_values > 1) < 0.05
    assert np.mean(of_gaps > 1) < 0.05
    assert np.mean(refuted) < 0.05
    if policy.width == "affine":  # not by being needlessly wide
        assert np.mean(of_values > 0.5) > 0.05


@pytest.mark.parametrize("name", NAMES)
def test_feedback_must_answer_the_plan(name: str) -> None:
    policy, problem = make_policy(name), random_problem(0)
    state = policy.init(problem)
    plan = policy.plan(problem, state)
    assert isinstance(plan, Plan)
    for mean in (np.zeros(len(plan.arms) + 1), np.zeros((len(plan.arms), 1)), np.float64(0.0)):
        with pytest.raises(InputError, match=rf"asks for {len(plan.arms)} averages, got shape"):
            policy.advance(problem, state, plan, Feedback(mean, 3))  # type: ignore[arg-type]


def test_a_state_is_a_fold_of_plans_and_feedback() -> None:
    problem, policy = random_problem(5, noise_std=0.02, bias_std=0.05, horizon=3000), DPBE()
    f = function_of_norm(problem, 1.0, np.random.default_rng(5))
    steps = list(simulate_waves(problem, policy, GPPeople(problem, f), 5))

    def advance(state: State, pair: tuple[Plan, Feedback]) -> State:
        return policy.advance(problem, state, *pair)[0]

    final = steps[-1][1]
    replayed = reduce(advance, [(step.plan, step.feedback) for step, _ in steps], policy.init(problem))
    for field in ("active", "lower", "upper", "centre", "lead", "lead_width"):
        np.testing.assert_array_equal(getattr(replayed, field), getattr(final, field))
    assert (replayed.wave, replayed.rounds, replayed.norm_bound) == (final.wave, final.rounds, final.norm_bound)


def test_advancing_leaves_the_old_state_alone() -> None:
    problem, policy = random_problem(6), DPBE()
    state = policy.init(problem)
    lower, active = state.lower.copy(), state.active.copy()
    plan = policy.plan(problem, state)
    assert isinstance(plan, Plan)
    policy.advance(problem, state, plan, Feedback(np.full(len(plan.arms), 0.5), 1000))
    np.testing.assert_array_equal(state.lower, lower)
    np.testing.assert_array_equal(state.active, active)


@pytest.mark.parametrize("settings", [{"alpha": 0.5, "ratio": 1.2}, {"compare": False}, PRINTED])
def test_settings_make_the_same_policy_again(settings: dict[str, Any]) -> None:
    policy = DPBE(**settings)
    assert make_policy(**policy.settings()) == policy


def test_rewards_shifted_with_their_prior_mean_change_nothing() -> None:
    plain = random_problem(7, noise_std=0.02, bias_std=0.05, horizon=1000)
    shifted, f = replace(plain, prior_mean=5.0), function_of_norm(plain, 1.0, np.random.default_rng(7))
    for left, right in zip(drive(DPBE(), plain, exactly(f)), drive(DPBE(), shifted, exactly(f + 5)), strict=True):
        assert left[3].active.tolist() == right[3].active.tolist()
        np.testing.assert_allclose(left[3].upper + 5, right[3].upper, rtol=1e-9)
