"""Waves in blocks: what random orders leave of shocks, how it is measured, and how often statements are then false."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import binom

from benchmarks.weather import KINDS, Design, aged, counted, false, false_of_chosen, kinds, multiplied, people
from benchmarks.weather import played as blocks_played
from voxpop.errors import Array
from voxpop.gp.belief import _shocks, own_noise
from voxpop.model.kernels import SquaredExponential
from voxpop.model.noise import ALIKE, Shocks
from voxpop.model.problem import Problem
from voxpop.model.waves import Answered, Feedback, Plan, changed, in_blocks
from voxpop.policies.waves.policy import Waves
from voxpop.policies.waves.sealing import LEVELS, Evidence, Model, Part, _noise, factor, inflation, split_wave
from voxpop.simulation.people import GPPeople
from voxpop.simulation.runs import Scenario, simulate
from voxpop.simulation.scenarios import Options, make_scenario

RUNS, LEVEL = 20_000, 0.05
NOBODY = 1e-9  # so little people vary, and so few degrees of freedom a prior has


def problem_of(arms: int, vary: float = NOBODY, shock: float = NOBODY, freedom: float = NOBODY) -> Problem:
    kernel = SquaredExponential(1.5)
    return Problem(np.arange(arms), kernel, vary, vary, 1.0, 1000, shock_std=shock, shock_freedom=freedom)


def plan_of(arms: int, rounds: int, blocks: int, people: int = 100) -> Plan:
    return Plan(1, np.arange(arms), np.full(arms, rounds), people, sealed=0.25, blocks=blocks)


def lived(plan: Plan, shocks: Array) -> Array:
    """Return what shocks, one a round, do to the averages of every block and arm, (blocks, arms)."""
    cells = np.empty((int(plan.pulls[0]), len(plan.arms)))
    np.put_along_axis(cells, plan.sequence.reshape(cells.shape), shocks.reshape(cells.shape), axis=1)
    return np.asarray(cells.reshape(plan.blocks, -1, len(plan.arms)).mean(axis=1))


def feedback_of(by_block: Array, people: int = 100, scatter: Array | None = None) -> Feedback:
    return Feedback(by_block.mean(axis=0), people, by_block=by_block, scatter=scatter)


def measured(problem: Problem, plan: Plan, by_block: Array, scatter: Array | None = None) -> Shocks:
    return _shocks(problem, [Answered(plan, feedback_of(by_block, plan.people, scatter))])


# What random orders leave of shocks


@pytest.fixture(scope="module", params=[(3, 2, 2), (4, 2, 2), (3, 4, 2)], ids=str)
def every_order(request: pytest.FixtureRequest) -> tuple[Plan, Array, Array, Array]:
    """All orders of some arms, rounds and blocks: S, and the average of every arm and the mean square of each."""
    arms, rounds, blocks = request.param
    plan, problem = plan_of(arms, rounds, blocks), problem_of(arms)
    shocks = np.random.default_rng(arms).exponential(size=rounds * arms) + 0.3 * np.arange(rounds * arms)
    means, squares = [], []
    for orders in product(permutations(range(arms)), repeat=rounds):
        by_block = lived(changed(plan, orders=np.array(orders)), shocks)
        means.append(by_block.mean(axis=0))
        squares.append(measured(problem, plan, by_block).variance)
    return plan, shocks.reshape(rounds, arms).var(axis=1, ddof=1).mean(), np.array(means), np.array(squares)


def test_a_difference_of_arms_has_the_variance_within_sub_blocks(
    every_order: tuple[Plan, float, Array, Array],
) -> None:
    plan, within, means, _ = every_order
    weights = np.arange(len(plan.arms)) - (len(plan.arms) - 1) / 2
    assert (means @ weights).mean() == pytest.approx(0, abs=1e-12)
    assert np.square(means @ weights).mean() == pytest.approx(weights @ weights * within / plan.pulls[0])


def test_residuals_measure_it(every_order: tuple[Plan, float, Array, Array]) -> None:
    _, within, _, squares = every_order
    assert squares.mean() == pytest.approx(within)


def test_a_difference_has_mean_zero_whatever_the_residuals_are(every_order: tuple[Plan, float, Array, Array]) -> None:
    plan, within, means, squares = every_order
    difference, place = means[:, 0] - means[:, 1], np.unique(squares.round(9), return_inverse=True)[1]
    np.testing.assert_allclose(np.bincount(place, difference), 0, atol=1e-9)
    if plan.blocks == plan.pulls[0]:  # and where residuals are small, differences are large
        given = np.bincount(place, np.square(difference)) / np.bincount(place)
        mean = np.bincount(place, squares) / np.bincount(place)
        np.testing.assert_allclose(given, 2 * (within - (1 - 1 / plan.blocks) * mean))


def test_a_trend_is_taken_for_no_difference_by_random_orders_alone() -> None:
    plan, trend = plan_of(4, 8, 4), np.arange(32.0)
    rng, level = np.random.default_rng(0), 0.05

    def lost(plan: Plan) -> bool:
        by_block = lived(plan, trend)
        shocks = measured(problem_of(4), plan, by_block)
        width = factor(level) * np.sqrt(2 * shocks.at_most(inflation(level, shocks.freedom)) / 8)
        return bool(by_block[:, 3].mean() - by_block[:, 0].mean() > width)

    assert lost(changed(plan, orders=np.tile(plan.arms, (8, 1))))  # always in the same order
    assert sum(lost(plan.shuffled(rng)) for _ in range(1000)) <= binom.isf(1e-4, 1000, 0.06)


def test_studies_are_played_in_random_orders() -> None:
    scenario = make_scenario("synthetic", Options(seed=0, size=40, horizon=4000, shocks=0.1))
    plans = [wave.plan for wave in simulate(scenario, Waves(), 0).closed]
    orders = [order for plan in plans if plan.orders is not None for order in plan.orders.tolist()]
    long = [tuple(order) for order in orders if len(order) > 5]
    assert len(set(long)) == len(long) >= 2
    assert not any(list(order) == sorted(order) for order in long)


# How shocks are measured


def residuals(blocks: int, arms: int, square: float) -> Array:
    """Return averages by block and arm whose residuals have a mean square, with levels of arms and blocks."""
    rest = np.outer(np.arange(blocks) - (blocks - 1) / 2, np.arange(arms) - (arms - 1) / 2)
    rest *= np.sqrt(square * (blocks - 1) * (arms - 1) / np.square(rest).sum())
    return np.asarray(rest + np.arange(blocks)[:, None] + np.square(np.arange(arms)))


def between(covariance: Array) -> float:
    """Return the mean eigenvalue of a covariance for weights that add up to zero."""
    arms = len(covariance)
    centred = np.eye(arms) - 1 / arms
    return float(np.trace(centred @ covariance @ centred)) / (arms - 1)


def test_calm_rounds_leave_people_s_part() -> None:
    problem, plan = problem_of(4, 0.3), plan_of(4, 6, 3)
    people = 2 * between(problem.answer_noise(plan.arms, plan.lived)) * 3 / plan.people  # two rounds a block
    found = measured(problem, plan, residuals(3, 4, people / 2))
    assert found.variance == pytest.approx(0, abs=1e-9 * people)
    assert found.people == pytest.approx(people)
    assert found.freedom == pytest.approx(6)


@pytest.mark.parametrize("square", [0.5, 2.0])
def test_a_known_variance_is_recovered(square: float) -> None:
    plan = plan_of(4, 6, 3)
    assert measured(problem_of(4), plan, residuals(3, 4, square / 2)).variance == pytest.approx(square)
    scatter = np.diag([1.0, 2.0, 3.0, 6.0])
    found = measured(problem_of(4), plan, residuals(3, 4, square / 2), scatter)
    assert found.people == pytest.approx(2 * between(scatter) * 3 / plan.people)
    assert found.variance == pytest.approx(square - found.people)


@pytest.mark.parametrize("seen", [False, True])
def test_people_s_part_is_subtracted_once(seen: bool) -> None:
    problem, plan, shock = problem_of(5, 0.3), plan_of(5, 16, 8, people=160), 0.01
    single = problem.answer_noise(plan.arms, plan.lived)
    rng, root, runs = np.random.default_rng(1), np.linalg.cholesky(single / 20), 1500
    found = []
    for _ in range(runs):
        shocks = np.sqrt(shock) * rng.standard_normal(80)
        by_block = lived(plan.shuffled(rng), shocks) + rng.standard_normal((8, 5)) @ root.T
        found.append(measured(problem, plan, by_block, single if seen else None))
    variances = np.array([one.variance for one in found])
    assert 0.5 < found[0].people / shock < 2  # neither left out nor subtracted twice could be missed
    assert np.mean(variances == 0) < 0.02
    assert variances.mean() == pytest.approx(shock, abs=4 * variances.std() / np.sqrt(runs))


# How often statements are false


def few_enough(found: Array, level: float) -> bool:
    return bool(found.sum() <= binom.isf(1e-5, len(found), level))


@pytest.mark.parametrize("people", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("blocks", [2, 8])
def test_people_s_noise_is_no_excuse(people: float, blocks: int) -> None:
    rng, design = np.random.default_rng(2), Design(blocks, 4)
    noise = np.sqrt(people) * rng.standard_normal((RUNS, 1, blocks, 4))
    found = blocks_played(rng.standard_normal((RUNS, blocks * 4)), design, rng, noise)
    for level in (LEVEL, 0.0135):
        assert few_enough(false(found, design, level, people), level)


@pytest.mark.parametrize("kind", KINDS)
def test_shocks_of_any_kind_leave_statements_true(kind: str) -> None:
    rng, design = np.random.default_rng(3), Design(4, 9)
    found = blocks_played(KINDS[kind](rng, RUNS, 36), design, rng)
    share = false(found, design, LEVEL)
    assert few_enough(share, 1.1 * LEVEL)
    assert share.mean() > 0.7 * LEVEL  # nor is it wide for nothing
    assert few_enough(false_of_chosen(found, design, LEVEL, rng), 1.1 * LEVEL)


def test_the_table_counts_as_the_software_does() -> None:
    plan, by_block = plan_of(4, 3, 3), np.random.default_rng(4).standard_normal((3, 4))
    found = measured(problem_of(4), plan, by_block)
    ours = counted(np.array([found.variance]), 0.0, found.freedom, LEVEL)
    assert found.at_most(inflation(LEVEL, found.freedom)) == pytest.approx(ours[0])
    pooled = measured(problem_of(4, freedom=2.0), plan, by_block)  # what was assumed counts no longer
    assert pooled.freedom == pytest.approx(6)
    assert pooled.at_most(inflation(LEVEL, pooled.freedom)) == pytest.approx(ours[0])


def test_the_tables_have_a_row_for_every_case() -> None:
    for table, rows in ((kinds, 7 * 20), (people, 4 * 9), (multiplied, 4 * 4)):
        headings, *cells = table(runs=50)
        assert len(cells) == rows
        assert all(len(row) == len(headings) for row in cells)


def test_logarithms_of_averages_leave_statements_true_where_shocks_multiply() -> None:
    """Added to unequal rewards, such shocks are too small for the largest; so are seasons for all."""
    added, logs = np.array(
        [[float(str(cell).split("%")[0]) / 100 for cell in row[3:5]] for row in [*multiplied()][1:]]
    ).T
    assert logs.max() < 0.056
    assert added.max() > 0.15
    assert added[:4].max() < 0.056  # of equal rewards


def test_inflated_tails_are_convex() -> None:
    x = np.linspace(0.01, 9, 400)
    assert (np.diff(ndtr(-2.3 * np.sqrt(x)), 2) > 0).all()


# Levels of waves


def wave_part(problem: Problem, plan: Plan, residual: Array) -> Part:
    noise = problem.answer_noise(plan.arms, plan.lived, plan.people) / plan.sealed
    return Part(plan.arms, residual, noise, rounds=1 / plan.pulls / plan.sealed)


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_a_level_leaks_no_more_than_its_share_of_the_width(size: float) -> None:
    problem, plan = problem_of(6, 0.3), plan_of(6, 4, 2)
    rng, level, best = np.random.default_rng(5), LEVEL, 2
    residual, shocks = rng.standard_normal(6), Shocks(0.01, freedom=50.0)
    gaps = [
        Evidence(problem, (wave_part(problem, plan, residual + shift),), Model(1.0), shocks=shocks)
        .state(best, level)
        .gaps
        for shift in (0.0, size)
    ]
    plain = Evidence(problem, (wave_part(problem, plan, residual),), Model(1.0), shocks=shocks)
    counted = _noise(plain.parts[0], level, shocks.at_most(inflation(level, 50.0)), 0.0, 0.0)
    kappa = size / np.sqrt(LEVELS * counted.diagonal().max())
    widths = plain.widths(np.arange(6), best, level)
    assert (np.abs(gaps[1] - gaps[0]) <= kappa / factor(level) * widths + 1e-12).all()


# The lower bound


@pytest.mark.parametrize("rounds", [100, 10_000])
def test_shocks_alone_cost_a_root_of_the_horizon(rounds: int) -> None:
    """Two unrelated actions, all of whose rounds tell f+ and f- apart alike: the best play is what looks better."""
    norm, most = 2.0, 1.0  # |h|^2 and max |h|
    bound = 3 * norm * np.sqrt(rounds) / (16 * most)
    gap = 3 * norm / (4 * most * np.sqrt(rounds))
    exact = gap * sum(ndtr(-gap / 2 * np.sqrt(np.arange(rounds))))
    assert bound < exact < 1.3 * bound
    limit = 1.5 * quad(lambda u: ndtr(-0.75 * np.sqrt(u)), 0, 1)[0]
    assert exact == pytest.approx(limit * np.sqrt(rounds), rel=0.02)


def test_people_s_part_of_uneven_blocks() -> None:
    problem, plan = problem_of(3, 0.3), plan_of(3, 4, 2, people=120)
    single = problem.answer_noise(plan.arms, plan.lived)
    parts = [Feedback(np.zeros(3), count, scatter=single) for count in (20, 100)]
    found = _shocks(problem, [Answered(plan, in_blocks(parts))])
    assert found.people == pytest.approx(2 * between(single) * (1 / 20 + 1 / 100) / 2)


def test_a_sealed_part_counts_with_all_of_its_noise() -> None:
    problem, plan = problem_of(3, 0.3, shock=0.3), plan_of(3, 4, 2)
    feedback = feedback_of(np.zeros((2, 3)))
    part = split_wave(problem, plan, feedback, seed=0)[1]
    assert part is not None
    whole = own_noise(problem, plan, feedback)[0] / plan.sealed
    level = min(1.0, ALIKE / 12) * problem.shocks.variance / plan.sealed  # bands count more in common
    counted = _noise(part, 0.05, problem.shocks.variance, 0.0, 0.0)
    np.testing.assert_allclose(counted, whole - level + problem.shocks.variance / plan.sealed)


@pytest.mark.parametrize("arms", [2, 4, 9])
def test_a_prior_does_not_dilute_what_was_measured(arms: int) -> None:
    problem = problem_of(arms, shock=0.01, freedom=2.0)
    rng, plan = np.random.default_rng(6), plan_of(arms, 2, 2)
    found = []
    for _ in range(3000):
        by_block = rng.standard_normal((2, arms))
        shocks = measured(problem, plan, by_block)
        width = factor(LEVEL) * np.sqrt(shocks.at_most(inflation(LEVEL, shocks.freedom)))
        found.append(by_block[:, 0].mean() - by_block[:, 1].mean() > width)
    assert few_enough(np.array(found), LEVEL)


@pytest.mark.parametrize("seed", range(3))
def test_two_decisions_are_certified_although_few_residuals_compare_them(seed: int) -> None:
    problem, f = Problem.of_matrix(np.eye(2), 0.3, 0.3, 2.0, 20_000), np.array([0.5, 0.5])
    run = simulate(Scenario("tie", problem, GPPeople(problem, f), f), Waves(), seed)
    *_, last = run.closed
    assert all(plan.blocks == 1 or plan.blocks > 4 for plan in run.plans)
    assert last.plan.people >= max(plan.people for plan in run.plans) // 2  # the wave that measured shocks
    assert run.state.certificate < problem.bias_std  # with sixteen people in it: 2 to 3 times that


def test_the_rounds_of_a_turn_are_one_shock() -> None:
    """With a washout of 4, what is measured and counted is the same whether rounds of a turn are alike or not."""
    rng, problem = np.random.default_rng(5), problem_of(5, shock=0.5, freedom=9.0)
    turns, each = plan_of(5, 4, 2), changed(plan_of(5, 16, 2), washout=4)
    assert (each.turns.tolist(), each.lived.tolist()) == ([4] * 5, [8] * 5)
    cells = rng.normal(size=(2, 5))
    assert measured(problem, each, cells).variance == pytest.approx(measured(problem, turns, cells).variance)
    feedback = feedback_of(cells)
    found, same = (own_noise(problem, plan, feedback)[0] for plan in (each, turns))
    assert found == pytest.approx(same, abs=1e-12)
    parts = [split_wave(problem, plan, feedback, 0)[1] for plan in (each, turns)]
    assert all(part is not None and part.rounds is not None for part in parts)
    assert [part.rounds.tolist() for part in parts if part and part.rounds is not None] == [[1.0] * 5] * 2


def test_certificates_age_as_fast_as_the_world_may_move() -> None:
    """Of one seed: what is certified grows with its age where a drift is stated, and is true."""
    headings, *rows = aged(runs=1)
    found = [dict(zip(headings, row, strict=True)) for row in rows]
    assert [(row["rate"], row["age"]) for row in found[::4]] == [("0", 0), ("1e-05", 0), ("0.0001", 0)]
    assert all(row["true"] == "100%" for row in found)
    calm, _, moving = (
        np.array([float(str(row["median, range"])) for row in found[start : start + 4]]) for start in (0, 4, 8)
    )
    assert (calm == calm[0]).all()
    assert (np.diff(moving) > 0).all()
