"""Calibration from a pilot: the likelihood is scipy's, and known constants are recovered."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import multivariate_normal

from tests.helpers_cli import draw, pilot_of_model, refusal
from voxpop.calibration.fit import Calibration, Estimate, calibrate
from voxpop.calibration.likelihood import Design
from voxpop.calibration.pilot import Pilot
from voxpop.calibration.search import Fit, Prior
from voxpop.errors import Array, InputError
from voxpop.model.decisions import Choice, Decisions, Float, Space
from voxpop.model.kernels import Constant, Matern, SquaredExponential
from voxpop.simulation.paper import random_rkhs_function
from voxpop.simulation.scenarios import least_norm

LENGTH, BIAS, NOISE, TAU, OFFSET = 0.35, 0.6, 0.9, 1.3, 0.2
LINE = np.linspace(0, 1, 12)[:, None]
POINTS = np.array([[0.0], [0.3], [0.45], [0.8], [1.0]])
NAN = float("nan")


def fitted(pilot: Pilot, *scales: float, offset: float = OFFSET) -> Fit:
    """The likelihood of a pilot at fixed constants."""
    theta = np.append(np.log(scales or (LENGTH, BIAS, NOISE, TAU)), logit(offset))
    groups = pilot.groups()
    return Fit("squared-exponential", pilot.decisions.points, {"x1": 1}, Design.of(groups), Prior.of(groups, 1), theta)


def kernel_of(x: Array, y: Array) -> Array:
    return np.asarray((1 - OFFSET) * np.exp(-((x - y.T) ** 2) / (2 * LENGTH**2)) + OFFSET)


def joint_covariance(pilot: Pilot) -> Array:
    """The covariance of all records at once: tau^2 k, and v^2 k and sigma^2 / w within a person."""
    x = pilot.decisions.points[pilot.actions]
    K = kernel_of(x, x)
    same_user = pilot.people[:, None] == pilot.people
    return np.asarray(TAU**2 * K + BIAS**2 * K * same_user + np.diag(NOISE**2 / pilot.counts))


def common_pilot() -> Pilot:
    answers = np.random.default_rng(0).normal(1.5, 1.0, size=(6, 5))
    return Pilot.of_matrix(Decisions(POINTS), answers, [2, 3, 5, 1, 4])


def uneven_pilot() -> Pilot:
    """Two people share a pattern, two differ from it in their counts, the others in their actions."""
    rng = np.random.default_rng(1)
    patterns: list[tuple[list[int], list[int]]] = [
        ([0, 1, 4], [2, 2, 2]),
        ([4, 0, 1], [2, 2, 2]),
        ([0, 1, 4], [2, 2, 3]),
        ([0, 1, 4], [5, 2, 2]),
        ([2], [7]),
        ([0, 1, 2, 3, 4], [1, 1, 1, 1, 1]),
    ]
    people = np.concatenate([[person] * len(actions) for person, (actions, _) in enumerate(patterns)])
    actions, counts = (np.concatenate([pattern[i] for pattern in patterns]) for i in (0, 1))
    return Pilot(Decisions(POINTS), people, actions, rng.normal(1.5, 1.0, len(people)), counts)


PILOTS = {"common": common_pilot, "uneven": uneven_pilot}


@pytest.mark.parametrize("name", PILOTS)
def test_the_likelihood_is_that_of_all_answers_together(name: str) -> None:
    pilot = PILOTS[name]()
    covariance = joint_covariance(pilot)
    ones = np.linalg.solve(covariance, np.ones(len(covariance)))
    mean = ones @ pilot.averages / ones.sum()  # generalised least squares
    posterior = fitted(pilot).posterior
    assert posterior.prior_mean == pytest.approx(mean, rel=1e-10)
    assert posterior.prior_mean_std == pytest.approx(1 / math.sqrt(ones.sum()), rel=1e-10)
    expected = multivariate_normal(np.full(len(covariance), mean), covariance).logpdf(pilot.averages)
    assert posterior.log_likelihood == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", PILOTS)
def test_the_posterior_of_f_is_that_of_all_answers_together(name: str) -> None:
    pilot = PILOTS[name]()
    x = pilot.decisions.points
    cross = TAU**2 * kernel_of(x, x[pilot.actions])  # (actions, records)
    prior = TAU**2 * kernel_of(x, x)
    gain = np.linalg.solve(joint_covariance(pilot), cross.T).T
    posterior = fitted(pilot).posterior
    np.testing.assert_allclose(posterior.mean, gain @ (pilot.averages - posterior.prior_mean), atol=1e-10)
    np.testing.assert_allclose(posterior.covariance, prior - gain @ cross.T, atol=1e-10)


def test_people_who_tried_the_same_actions_equally_often_form_one_group() -> None:
    assert sorted(group.people for group in uneven_pilot().groups()) == [1, 1, 1, 1, 2]
    assert [group.people for group in common_pilot().groups()] == [6]


def test_the_estimate_is_a_maximum_of_the_likelihood() -> None:
    found = calibrate(pilot_of_model(3, LINE), kernel="squared-exponential")
    assert found.log_likelihood >= fitted_at_truth(pilot_of_model(3, LINE))


def fitted_at_truth(pilot: Pilot) -> float:
    return fitted(pilot, 0.3, 0.5, 1.0, 1.0, offset=0.002).posterior.log_likelihood


@cache
def recovered() -> list[Calibration]:
    return [calibrate(pilot_of_model(seed, LINE), kernel="squared-exponential") for seed in range(20)]


TRUTH = {"length": 0.3, "bias_std": 0.5, "noise_std": 1.0, "prior_mean": 2.0}


def estimates(name: str) -> list[Estimate]:
    if name == "length":
        return [found.length_scales["x1"] for found in recovered()]
    return [getattr(found, name) for found in recovered()]


@pytest.mark.parametrize("name", TRUTH)
def test_the_intervals_cover_the_truth(name: str) -> None:
    assert all(estimate.determined for estimate in estimates(name))
    covered = sum(estimate.low <= TRUTH[name] <= estimate.high for estimate in estimates(name))
    assert covered >= 16  # of 20; fewer have a probability of 0.003 if the intervals cover 95 %


@pytest.mark.parametrize(("name", "factor"), [("length", 1.3), ("bias_std", 1.3), ("noise_std", 1.1)])
def test_the_estimates_are_within_a_factor_of_the_truth(name: str, factor: float) -> None:
    ratios = [estimate.value / TRUTH[name] for estimate in estimates(name)]
    assert max(ratios) < factor
    assert min(ratios) > 1 / factor


def test_more_people_make_the_intervals_narrower() -> None:
    few, many = (calibrate(pilot_of_model(5, LINE, people=u), kernel="squared-exponential") for u in (15, 240))
    for name in ("bias_std", "noise_std"):
        wide, narrow = getattr(few, name), getattr(many, name)
        # 16 times the people should give a quarter of the width.
        assert math.log(narrow.high / narrow.low) < 0.5 * math.log(wide.high / wide.low)


@pytest.mark.parametrize("rounds", [4, 40])
def test_the_norm_bound_covers_a_known_norm_most_of_the_time(rounds: int) -> None:
    kernel, covered = SquaredExponential(0.25), 0
    for seed in range(10):
        function, norm = random_rkhs_function(kernel, 1, np.random.default_rng(seed))
        pilot = pilot_of_model(seed, LINE, function(LINE), rounds=rounds, kernel=kernel, bias=0.3, noise=0.5)
        bound = calibrate(pilot, kernel="squared-exponential").norm_bound.value
        covered += norm <= bound
        assert bound < 4 * norm  # a bound that is far too large would cover everything
    assert covered >= 8


def test_the_margin_scales_the_norm_bound_alone() -> None:
    pilot = pilot_of_model(2, LINE)
    narrow, wide = (calibrate(pilot, kernel="squared-exponential", margin=margin) for margin in (1.0, 3.0))
    assert wide.norm_bound.value == pytest.approx(3 * narrow.norm_bound.value, rel=1e-12)
    assert wide.bias_std == narrow.bias_std
    assert narrow.norm_bound.low <= narrow.norm_bound.value <= narrow.norm_bound.high


def test_auto_takes_the_roughest_kernel_that_is_about_as_likely_as_the_likeliest() -> None:
    taken = []
    for pilot in (pilot_of_model(7, LINE, kernel=Matern(0.5, nu=0.5), noise=0.1), pilot_of_model(8, LINE, noise=0.3)):
        densities = {
            name: Fit.search(name, LINE, {"x1": 1}, pilot.groups()).log_density
            for name in ("matern-5/2", "matern-3/2", "matern-1/2")
        }
        close = [name for name, density in densities.items() if density >= max(densities.values()) - 2]
        taken.append(calibrate(pilot).kernel_name)
        assert taken[-1] == close[-1]
    assert taken == [
        "matern-1/2",
        "matern-5/2",
    ]  # rough people cannot be mistaken for smooth ones, nor smooth for rough


def voters(seed: int) -> tuple[Pilot, Decisions, Array]:
    """Forty people say yes or no to 12 of 78 proposals, near an ideal point of their own; and everybody's mean."""
    rng, x = np.random.default_rng(seed), np.linspace(0, 1, 78)
    ideal = rng.choice([0.3, 0.75], size=(400, 1)) + 0.1 * rng.standard_normal((400, 1))
    chance = expit(2 - 10 * np.abs(x - ideal))
    answers = rng.binomial(1, chance[rng.integers(400, size=40)])[:, ::7]
    return Pilot.of_matrix(Decisions(x[::7]), answers, 1), Decisions(x), chance.mean(axis=0)


def test_the_norm_bound_covers_the_whole_decision_set_for_people_who_say_yes_or_no() -> None:
    ratios = []
    for seed in range(6):
        pilot, decisions, f = voters(seed)
        problem = calibrate(pilot).problem(decisions, horizon=100)
        ratios.append(problem.norm_bound / least_norm(problem, f))
    assert min(ratios) > 0.9  # the likeliest kernel of all, squared-exponential, is off by a factor of a hundred
    assert sum(ratio >= 1 for ratio in ratios) >= 5
    assert max(ratios) < 4


def test_the_prior_mean_stays_within_the_range_of_the_averages() -> None:
    """With a long length-scale, generalised least squares place it where a parabola would end up later."""
    means = (LINE[:, 0] - 0.3) ** 2
    pilot = Pilot.of_matrix(Decisions(LINE), means + np.array([[-0.1], [0.1]]), 1)
    K = (1 - OFFSET) * SquaredExponential(0.8)(LINE, LINE) + OFFSET
    ones = np.linalg.solve(30.0**2 * K + (0.1**2 * K + 0.1**2 * np.eye(12)) / 2, np.ones(12))
    assert ones @ means / ones.sum() > 1.5 * means.max()
    assert fitted(pilot, 0.8, 0.1, 0.1, 30.0).posterior.prior_mean == pytest.approx(means.max(), rel=1e-9)


def test_people_are_predicted_to_differ_as_much_as_they_do() -> None:
    """People who like everything s times as much differ in one direction, and the likelihood falls short of it."""
    rng = np.random.default_rng(4)
    f = 0.3 + np.exp(-8 * (LINE[:, 0] - 0.6) ** 2)
    answers = rng.exponential(size=(40, 1)) * f + 0.1 * rng.standard_normal((40, 12))
    pilot = Pilot.of_matrix(Decisions(LINE), answers, 4)
    fit = Fit.search("matern-5/2", LINE, {"x1": 1}, pilot.groups())
    found, seen = calibrate(pilot, kernel="matern-5/2"), answers.var(axis=0, ddof=1).mean()
    assert found.bias_std.value**2 + found.noise_std.value**2 / 4 == pytest.approx(seen, rel=1e-6)
    assert math.exp(2 * fit.theta[1]) + math.exp(2 * fit.theta[2]) / 4 < 0.9 * seen


def test_v_is_never_lowered_to_what_was_seen() -> None:
    generous = fitted(common_pilot(), LENGTH, 5.0, NOISE, TAU)
    assert generous.raised().theta == pytest.approx(generous.theta)


def test_the_calibration_hands_on_the_averages_of_groups() -> None:
    found = calibrate(common_pilot(), kernel="matern-5/2")
    expected = common_pilot().groups()
    assert [group.people for group in found.groups] == [group.people for group in expected]
    for group, given in zip(found.groups, expected, strict=True):
        np.testing.assert_allclose(group.mean, given.mean)


def test_a_choice_has_one_length_scale_over_all_its_dimensions() -> None:
    space = Space(price=Float(1, 3), tea=Choice(("black", "green", "white")))
    decisions = space.grid(5)
    pilot = pilot_of_model(4, decisions.points)
    found = calibrate(Pilot(decisions, pilot.people, pilot.actions, pilot.averages, pilot.counts), space, "matern-5/2")
    price, tea = found.length_scales["price"].value, found.length_scales["tea"].value
    assert list(found.length_scales) == ["price", "tea"]
    offset = found.offset.value
    assert found.kernel == (1 - offset) * Matern((price, tea, tea, tea), nu=2.5) + Constant(offset)


def test_people_who_differ_by_a_constant_are_recognised() -> None:
    rng = np.random.default_rng(3)
    f = 1.5 - 4 * (LINE[:, 0] - 0.4) ** 2
    answers = f + rng.normal(0, 0.5, (40, 1)) + rng.normal(0, 0.05, (40, 12))
    found = calibrate(Pilot.of_matrix(Decisions(LINE), answers, 1))
    assert found.offset.value > 0.9
    assert found.bias_std.value == pytest.approx(0.5, rel=0.3)


def test_the_problem_takes_its_constants_from_the_pilot() -> None:
    found = recovered()[0]
    problem = found.problem(Decisions(np.linspace(0, 1, 30)), horizon=500, beta=0.01)
    taken = (problem.noise_std, problem.bias_std, problem.norm_bound, problem.prior_mean)
    given = (found.noise_std, found.bias_std, found.norm_bound, found.prior_mean)
    assert taken == tuple(estimate.value for estimate in given)
    assert (problem.kernel, problem.horizon, problem.beta, problem.size) == (found.kernel, 500, 0.01, 30)


def test_the_rewards_at_the_pilot_s_actions_come_with_intervals() -> None:
    covered = 0
    for seed in range(5):
        rng = np.random.default_rng(100 + seed)
        f = 2 + draw(SquaredExponential(0.3)(LINE, LINE), rng)
        found = calibrate(pilot_of_model(seed, LINE, f), kernel="squared-exponential")
        covered += sum(reward.low <= value <= reward.high for reward, value in zip(found.rewards, f, strict=True))
    assert covered >= 45  # of 60, which are correlated within a pilot


def flat_noise() -> Pilot:
    """Every person gives the same answer for all actions: no noise at all."""
    rng = np.random.default_rng(0)
    return Pilot.of_matrix(Decisions(LINE), np.repeat(rng.normal(size=(20, 1)), 12, axis=1) + LINE[:, 0], 5)


def two_by_two() -> Pilot:
    return Pilot.of_matrix(Decisions([[0.0], [1.0]]), [[0.1, 0.5], [0.3, 0.2]], 1)


def clones() -> Pilot:
    """All people give the same answers: no bias, no noise."""
    return Pilot.of_matrix(Decisions(LINE), np.tile(np.sin(4 * LINE[:, 0]), (8, 1)), 5)


def far_apart() -> Pilot:
    """Actions so far apart for the kernel that bias and noise cannot be told apart."""
    answers = np.random.default_rng(2).normal(size=(10, 3))
    return Pilot.of_matrix(Decisions([[0.0], [100.0], [200.0]]), answers, 1)


@pytest.mark.parametrize("make", [flat_noise, two_by_two, clones, far_apart])
def test_a_pilot_that_does_not_determine_everything_still_gives_a_study(make: Any) -> None:
    found = calibrate(make())
    for estimate in (*found.length_scales.values(), found.bias_std, found.noise_std, found.norm_bound):
        assert 0 < estimate.value < math.inf
        assert 0 <= estimate.low <= estimate.high < math.inf
    assert found.problem(found.pilot, horizon=100).size == len(found.pilot)


@pytest.mark.parametrize("make", [flat_noise, two_by_two, clones, far_apart])
def test_an_interval_is_of_a_sensible_width_or_says_that_the_pilot_does_not_determine_the_constant(make: Any) -> None:
    found = calibrate(make(), kernel="matern-5/2")
    constants = (*found.length_scales.values(), found.bias_std, found.noise_std, found.offset)
    assert all(estimate.low > 1e-4 * estimate.high or estimate.range == "not determined" for estimate in constants)
    assert found.offset.range == "not determined"  # none of these pilots tells it


def test_bias_and_noise_that_cannot_be_told_apart_are_not_called_certain() -> None:
    found = calibrate(far_apart(), kernel="squared-exponential")
    assert any(estimate.high > 10 * estimate.low for estimate in (found.bias_std, found.noise_std))


DECISIONS = Decisions([[0.0], [0.5], [1.0]])
REFUSED: dict[str, tuple[Any, str]] = {
    "one person": (lambda: Pilot.of_matrix(DECISIONS, [[1, 2, 3]], 5), "at least two people, got 1"),
    "one action": (lambda: Pilot.of_matrix(Decisions([[0.0]]), [[1], [2]], 5), "at least two actions, got 1"),
    "no one": (lambda: Pilot.of_matrix(DECISIONS, np.empty((0, 3)), 5), "at least two people, got 0"),
    "constant": (lambda: Pilot.of_matrix(DECISIONS, [[2.5] * 3] * 4, 5), "every reward in the pilot is 2.5"),
    "no rounds": (lambda: Pilot.of_matrix(DECISIONS, np.eye(3), 0), "positive count of rounds, got 0"),
    "negative rounds": (lambda: Pilot.of_matrix(DECISIONS, np.eye(3), -2), "positive count of rounds, got -2"),
    "nan": (lambda: Pilot.of_matrix(DECISIONS, [[1, 2, NAN], [1, 2, 3]], 5), "must be finite, got nan"),
    "shape": (lambda: Pilot.of_matrix(DECISIONS, np.ones((4, 2)), 5), r"shape \(people, 3\), got \(4, 2\)"),
    "counts": (lambda: Pilot.of_matrix(DECISIONS, np.eye(3), [1, 2]), "counts"),
    "twice": (
        lambda: Pilot(DECISIONS, np.array([0, 0, 1]), np.array([1, 1, 0]), np.arange(3.0), np.ones(3)),
        "answered twice",
    ),
    "lengths": (
        lambda: Pilot(DECISIONS, np.array([0, 1]), np.array([0, 1, 2]), np.arange(3.0), np.ones(3)),
        "people|actions",
    ),
    "unknown action": (
        lambda: Pilot(DECISIONS, np.array([0, 1, 1]), np.array([0, 1, 7]), np.arange(3.0), np.ones(3)),
        "7",
    ),
    "other space": (lambda: calibrate(common_pilot(), Space(a=Float(0, 1), b=Float(0, 1))), "space|parameters"),
    "margin": (lambda: calibrate(common_pilot(), margin=0.5), "margin must be a number at least 1, got 0.5"),
    "kernel": (lambda: calibrate(common_pilot(), kernel="matern-3/4"), "did you mean 'matern-3/2'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_pilot_from_which_nothing_can_be_learned_is_refused(case: str) -> None:
    make, said = REFUSED[case]
    with pytest.raises(InputError, match=said) as caught:
        make()
    refusal(caught)


def test_too_many_actions_are_refused_before_the_work_begins() -> None:
    actions = np.arange(3002)
    answers = np.random.default_rng(0).normal(size=3002)
    pilot = Pilot(Decisions(actions / 3001), actions // 2, actions, answers, np.ones(3002))
    with pytest.raises(InputError, match="3002 different actions, too many to solve for, of 3000") as caught:
        calibrate(pilot)
    refusal(caught)


def test_many_patterns_of_few_actions_are_not_refused() -> None:
    people, actions = np.indices((400, 12))
    counts = (1 + people).astype(np.float64)  # every person has a pattern of their own
    columns = people.ravel(), actions.ravel(), np.random.default_rng(0).normal(size=4800), counts.ravel()
    assert calibrate(Pilot(Decisions(LINE), *columns), kernel="matern-5/2").people == 400
