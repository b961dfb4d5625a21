"""Trials: plain data that says everything about a run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import function_of_norm, gram, random_problem
from tests.helpers_cli import light_readings, refusal
from voxpop.errors import Array, InputError
from voxpop.model.kernels import Matern
from voxpop.model.problem import Problem
from voxpop.policies import make_policy, settings_of
from voxpop.policies.dpbe import DPBE, matching_people
from voxpop.policies.waves import Waves
from voxpop.privacy import NoPrivacy, Private
from voxpop.simulation.runs import Run, Scenario, simulate
from voxpop.simulation.scenarios import SCENARIOS, Options, least_norm, make_scenario
from voxpop.simulation.trials import Trial

SMALL: dict[str, Any] = {"size": 12, "horizon": 300}
STUDIES: dict[str, dict[str, Any]] = {
    "synthetic": SMALL,
    "sphere": SMALL,
    "camel": SMALL,
    "michalewicz": SMALL,
    "light": {"horizon": 300},
    "sphere-minimum": SMALL,
    "camel-minimum": SMALL,
    "pricing": {"size": 15, "horizon": 300},
    "train": {"size": 15, "horizon": 300},
    "tariff": {"size": 15, "horizon": 300},
    "voters": {"size": 15, "horizon": 300},
}
CONSTANTS = ("noise_std", "bias_std", "norm_bound", "horizon", "beta", "ridge")


def trial_of(study: str, **chosen: Any) -> Trial:
    return Trial(study, **{**STUDIES[study], **chosen})


def facts(run: Run) -> dict[str, Any]:
    return {key: value for key, value in run.as_dict().items() if key != "seconds"}


def constants(problem: Problem) -> dict[str, float]:
    return {name: getattr(problem, name) for name in CONSTANTS}


positive = st.floats(1e-3, 10)
free: dict[str, st.SearchStrategy[Any]] = {
    "policy": st.sampled_from(["dpbe", "dpbe-paper", "dpbe-fixed"]),
    "seed": st.integers(0, 2**40),
    "horizon": st.none() | st.integers(1, 10**9),
    "settings": st.fixed_dictionaries({}, optional={"alpha": st.floats(0.1, 2), "ratio": st.floats(1.1, 9)}),
    "noise_std": st.none() | positive,
    "bias_std": st.none() | positive,
    "true_norm": st.booleans(),
}
private: dict[str, st.SearchStrategy[Any]] = {
    "privacy": st.sampled_from(["central", "local", "shuffle"]),
    "epsilon": positive,
    "delta": st.floats(1e-9, 1e-3),
    "calibration": st.sampled_from(["exact", "paper"]),
    "floor": st.none() | st.integers(0, 10**4),
}
sized = {"study": st.sampled_from(["synthetic", "camel"]), "size": st.none() | st.integers(1, 500)}
trials = st.one_of(
    st.builds(Trial, **sized, **free),
    st.builds(Trial, **sized, **free, **private),
    st.builds(Trial, study=st.just("light"), data=st.sampled_from(["light", "/a/b", "été"]), **free),
)


@given(trial=trials)
def test_a_trial_is_its_plain_data(trial: Trial) -> None:
    data = trial.as_dict()
    assert Trial(**data) == trial
    assert Trial(**json.loads(json.dumps(data, allow_nan=False))) == trial
    assert None not in data.values()
    assert len({trial, Trial(**data)}) == 1


@pytest.mark.parametrize("study", ["synthetic", "light"])
def test_the_same_trial_gives_the_same_run(study: str) -> None:
    trial = trial_of(study, seed=3)
    assert facts(trial.run()) == facts(Trial(**trial.as_dict()).run())


def test_every_study_is_tested() -> None:
    assert set(STUDIES) == set(SCENARIOS)


@pytest.mark.parametrize(
    ("study", "policy"),
    [
        *(("sphere", policy) for policy in ("dpbe", "dpbe-nobatching", "mini-gp-opt")),
        *((study, "dpbe-paper") for study in STUDIES),
    ],
)
def test_a_trial_is_the_simulation_of_its_study_with_the_study_s_settings(study: str, policy: str) -> None:
    scenario = make_scenario(study, Options(seed=5, size=STUDIES[study].get("size"), horizon=300))
    settings = {} if policy == "mini-gp-opt" else {"alpha": scenario.settings["alpha"]}
    by_hand = simulate(scenario, make_policy(policy, ratio=scenario.settings["ratio"], **settings), seed=5)
    assert facts(trial_of(study, policy=policy, seed=5).run()) == facts(by_hand)


def test_a_trial_reads_the_folder_that_it_names(tmp_path: Path) -> None:
    folder = light_readings(tmp_path)
    scenario = make_scenario("light", Options(seed=5, horizon=300, data=folder))
    by_hand = facts(simulate(scenario, make_policy("dpbe", **scenario.settings), seed=5))
    assert facts(trial_of("light", policy="dpbe", seed=5, data=str(folder)).run()) == by_hand
    assert facts(trial_of("light", policy="dpbe", seed=5).run()) != by_hand


def test_settings_chosen_here_go_before_the_study_s() -> None:
    policy = trial_of("sphere", policy="dpbe", settings={"alpha": 0.4, "ratio": 2.5}).run().policy
    assert isinstance(policy, DPBE)
    assert (policy.alpha, policy.ratio) == (0.4, 2.5)
    policy = trial_of("michalewicz", policy="dpbe", settings={"ratio": 2.5}).run().policy
    assert isinstance(policy, DPBE)
    assert (policy.alpha, policy.ratio) == (0.6, 2.5)


def test_the_policy_is_waves_unless_named_and_the_study_s_settings_are_dpbe_s_alone() -> None:
    assert trial_of("sphere").run().policy == Waves()


LIMITS: dict[str, Any] = {
    "answer_cost": 0.5,
    "tolerance": 0.2,
    "most_people": 90,
    "most_numbers": 900,
    "most_waves": 3,
    "population": 1000,
    "answer_delay": 7,
}


def test_every_limit_of_waves_can_be_chosen() -> None:
    trial = trial_of("sphere", settings={**LIMITS, "delta": 0.1})
    assert trial.make_policy(trial.scenario()) == Waves(**LIMITS, delta=0.1)
    assert {*LIMITS, "delta"} <= set(settings_of("waves"))


@pytest.mark.parametrize("model", ["central", "local", "shuffle"])
def test_a_private_trial_is_the_simulation_with_that_trust_model(model: str) -> None:
    trial = trial_of("sphere", policy="dpbe", seed=2, horizon=60, privacy=model, epsilon=8.0, delta=1e-5, floor=40)
    trust = Private(model, 8.0, 1e-5, "exact", 40)
    assert trial.make_privacy() == trust
    scenario = make_scenario("sphere", Options(seed=2, size=12, horizon=60))
    by_hand = simulate(scenario, make_policy("dpbe", **scenario.settings), 2, trust)
    assert facts(trial.run()) == facts(by_hand)
    assert min(plan.people for plan in by_hand.plans) >= 40


def test_the_paper_s_calibration_is_passed_on() -> None:
    trial = trial_of("sphere", privacy="central", epsilon=8.0, calibration="paper")
    assert trial.make_privacy() == Private("central", 8.0, 1e-6, "paper")


def test_without_a_trust_model_there_is_none() -> None:
    assert trial_of("sphere").make_privacy() == NoPrivacy()


def test_watching_sees_every_wave() -> None:
    seen: list[int] = []
    run = trial_of("sphere").run(lambda step: seen.append(step.plan.wave))
    assert seen == list(range(1, len(run.closed) + 1))


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("alpha", [None, 0.9])
def test_dpbe_fixed_asks_the_weighted_mean_of_the_people_that_dpbe_paper_asks(seed: int, alpha: float | None) -> None:
    settings = {} if alpha is None else {"alpha": alpha}
    chosen: dict[str, Any] = {"seed": seed, "settings": settings, "size": 30, "horizon": 2000}
    reference = trial_of("synthetic", policy="dpbe-paper", **chosen).run()
    sent = [(step.plan.people, len(step.plan.arms)) for step in reference.closed]
    expected = sum(people * arms for people, arms in sent) // sum(arms for _, arms in sent)
    run = trial_of("synthetic", policy="dpbe-fixed", **chosen).run()
    assert isinstance(run.policy, DPBE)
    assert run.policy.people == expected == matching_people(reference.plans)
    assert run.policy.alpha == (0.7 if alpha is None else alpha)
    assert {plan.people for plan in run.plans} == {expected}
    assert expected not in {1, sent[0][0], sent[-1][0]}


@pytest.mark.parametrize("study", ["synthetic", "sphere", "camel", "michalewicz", "light"])
@pytest.mark.parametrize(
    "chosen", [{"noise_std": 0.5}, {"bias_std": 0.25}, {"noise_std": 0.5, "bias_std": 0.25}], ids=str
)
def test_noise_and_bias_can_be_chosen(study: str, chosen: dict[str, float]) -> None:
    usual, other = trial_of(study).scenario(), trial_of(study, **chosen).scenario()
    expected = {**constants(usual.problem), **chosen}
    expected["ridge"] = (expected["noise_std"] / expected["bias_std"]) ** 2
    assert constants(other.problem) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(other.f, usual.f)
    np.testing.assert_array_equal(gram_of(other), gram_of(usual))


def gram_of(scenario: Scenario) -> Array:
    every = np.arange(scenario.problem.size)
    return scenario.problem.covariance(every, every)


def test_the_people_have_the_noise_and_the_bias_that_were_chosen() -> None:
    """One answer of many people: variance v^2 k(x, x) + sigma^2 / rounds."""
    scenario = trial_of("sphere", noise_std=3.0, bias_std=2.0).scenario()
    plan = trial_of("sphere").run().plans[0]
    answers = scenario.population.observe(plan, 40_000, np.random.default_rng(0))
    assert answers[:, 0].var() == pytest.approx(4.0 + 9.0 / plan.pulls[0], rel=0.03)
    assert answers[:, 0].mean() == pytest.approx(scenario.f[plan.arms[0]], abs=0.08)


def is_norm_bound(matrix: Array, f: Array, bound: float) -> bool:
    """Return True if a function of norm at most B has these values: [[K, f], [f', B^2]] has no negative eigenvalue."""
    whole = np.block([[matrix, f[:, None]], [f[None, :], np.array([[bound**2]])]])
    return float(np.linalg.eigvalsh(whole)[0]) >= 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("study", ["sphere", "camel", "michalewicz", "light"])
def test_the_true_norm_is_the_least_that_the_truth_allows(study: str, seed: int) -> None:
    scenario = trial_of(study, seed=seed, true_norm=True).scenario()
    usual = trial_of(study, seed=seed).scenario()
    bound, matrix = scenario.problem.norm_bound, gram_of(scenario)
    solution = scipy.linalg.lstsq(matrix, scenario.f)[0]
    assert np.linalg.cond(matrix) < 1e6
    assert bound == pytest.approx(np.sqrt(scenario.f @ solution), rel=1e-6)
    assert bound == pytest.approx(np.sqrt(scenario.f @ np.linalg.pinv(matrix) @ scenario.f), rel=1e-6)
    assert is_norm_bound(matrix, scenario.f, bound * 1.001)
    assert not is_norm_bound(matrix, scenario.f, bound * 0.999)
    assert bound > usual.problem.norm_bound  # the paper's is too small
    assert constants(scenario.problem) == {**constants(usual.problem), "norm_bound": bound}
    np.testing.assert_array_equal(scenario.f, usual.f)


@pytest.mark.parametrize("seed", range(3))
def test_the_synthetic_study_has_a_valid_norm_bound_as_it_is(seed: int) -> None:
    scenario, other = (trial_of("synthetic", seed=seed, true_norm=norm).scenario() for norm in (False, True))
    assert other.problem.norm_bound == scenario.problem.norm_bound
    assert is_norm_bound(gram_of(scenario), scenario.f, scenario.problem.norm_bound)
    assert least_norm(scenario.problem, scenario.f) <= scenario.problem.norm_bound


@pytest.mark.parametrize("study", ["sphere", "camel"])
def test_with_the_true_norm_no_bound_is_refuted(study: str) -> None:
    run = trial_of(study, size=30, horizon=3000, true_norm=True).run()
    assert not any(step.info.refuted for step in run.closed)
    assert run.optimum_kept


@given(seed=st.integers(0, 10**6), n=st.integers(1, 10), norm=st.floats(0.01, 100), mean=st.floats(-5, 5))
def test_the_least_norm_is_that_of_a_combination_of_kernels(seed: int, n: int, norm: float, mean: float) -> None:
    problem = random_problem(seed, n, kernel=3.0 * Matern(0.2, nu=0.5), prior_mean=mean)
    f = function_of_norm(problem, norm, np.random.default_rng(seed))
    assert least_norm(problem, f + mean) == pytest.approx(norm, rel=1e-6)
    assert least_norm(problem, 3 * f + mean) == pytest.approx(3 * norm, rel=1e-6)


def test_the_least_norm_of_a_singular_kernel_is_that_of_its_range() -> None:
    x = np.linspace(0.1, 1, 7)
    problem = Problem.of_matrix(np.outer(x, x), 0.1, 0.1, norm_bound=1.0, horizon=10)
    assert least_norm(problem, 2.5 * x) == pytest.approx(2.5, rel=1e-6)
    assert least_norm(problem, np.zeros(7)) == 0


def test_the_least_norm_grows_with_every_action() -> None:
    problem = random_problem(1, 9, kernel=Matern(0.3))
    f = np.sin(7 * problem.decisions.points.sum(axis=1))
    norms = [
        least_norm(Problem.of_matrix(gram(problem)[:n, :n], 0.1, 0.1, norm_bound=1.0, horizon=10), f[:n])
        for n in range(1, 10)
    ]
    assert norms == sorted(norms)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "study": ({"study": "spheer"}, "did you mean 'sphere'"),
    "policy": ({"policy": "dpbe-fix"}, "did you mean 'dpbe-fixed'"),
    "seed": ({"seed": -1}, "seed must be a whole number, at least 0, got -1"),
    "broken seed": ({"seed": 0.5}, "seed must be a whole number"),
    "horizon": ({"horizon": 0}, "horizon must be a whole number, at least 1"),
    "size": ({"size": 0}, "size must be a whole number, at least 1"),
    "alpha": ({"policy": "dpbe", "settings": {"alpha": -0.3}}, "alpha must be a number above 0"),
    "large alpha": ({"policy": "dpbe", "settings": {"alpha": 2.1}}, "alpha must be a number above 0 and at most 2"),
    "ratio": ({"policy": "dpbe", "settings": {"ratio": 1.0}}, "ratio must be a number above 1"),
    "noise": ({"noise_std": 0.0}, "noise_std must be a number above 0, got 0"),
    "no noise": ({"noise_std": float("nan")}, "noise_std must be a number above 0, got nan"),
    "bias": ({"bias_std": -1.0}, "bias_std must be a number above 0, got -1"),
    "word for bias": ({"bias_std": "much"}, "bias_std must be a number above 0, got 'much'"),
    "epsilon": ({"privacy": "central", "epsilon": 0.0}, "epsilon must be a number above 0"),
    "delta": ({"privacy": "central", "epsilon": 1.0, "delta": 1.0}, "delta must be a number above 0 and below 1"),
    "calibration": ({"privacy": "central", "epsilon": 1.0, "calibration": "rough"}, "unknown calibration 'rough'"),
    "floor": ({"privacy": "central", "epsilon": 1.0, "floor": -1}, "floor must be a whole number, at least 0"),
    "trust model": ({"privacy": "centrl", "epsilon": 1.0}, "did you mean 'central'"),
    "private and alone": ({"policy": "gp-ucb", "privacy": "central", "epsilon": 1.0}, "use waves"),
    "a setting of others": ({"policy": "gp-ucb", "settings": {"alpha": 0.5}}, "does not take alpha"),
    "a limit of waves": ({"policy": "dpbe", "settings": {"most_people": 5}}, "does not take most_people"),
    "a setting of dpbe": ({"settings": {"alpha": 0.5}}, "policy 'waves' does not take alpha"),
    "no such data": ({"study": "light", "size": None, "data": "/nowhere"}, "/nowhere"),
    "size of light": ({"study": "light"}, "leave out the size of 12"),
    # silently dropped, they would give a run other than the one asked for
    "trust model without its epsilon": ({"privacy": "central"}, "epsilon"),
    "unknown trust model without epsilon": ({"privacy": "centrl"}, "central"),
    "epsilon without a trust model": ({"epsilon": 5.0}, "epsilon"),
    "noise of pricing": ({"study": "pricing", "noise_std": 0.5}, "noise"),
    "bias of pricing": ({"study": "pricing", "bias_std": 0.5}, "bias"),
    "norm of pricing": ({"study": "pricing", "true_norm": True}, "norm"),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_trials_are_refused_in_one_sentence(name: str) -> None:
    chosen, said = BAD[name]
    values: dict[str, Any] = {"study": "sphere", "size": 12, "horizon": 20, **chosen}
    with pytest.raises(InputError) as refused:
        Trial(**values).run()
    assert said in refusal(refused)


def test_a_flat_truth_has_no_norm_to_bound_with() -> None:
    with pytest.raises(InputError, match="norm_bound must be a number above 0"):
        Trial("sphere", size=1, horizon=10, true_norm=True).run()
