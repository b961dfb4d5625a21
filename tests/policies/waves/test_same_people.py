"""People who answer in every wave: a panel of a population, or everybody there is."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.census import stated
from tests.helpers import random_problem
from tests.policies.waves.test_sealing import few_enough
from voxpop.errors import Array, InputError
from voxpop.gp.belief import missing_part, own_noise, shown_in, total_noise
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Evidence as Pilot
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import Answered, Feedback, Plan, Tally, changed, in_blocks
from voxpop.policies.waves.policy import Waves
from voxpop.policies.waves.sealing import (
    APART,
    DRAWN,
    SEALED,
    Evidence,
    Model,
    rank,
    reach,
    split_pilot,
    split_wave,
)
from voxpop.policies.waves.state import WavesState

ARMS, LEVEL, STAYING = np.array([0, 3, 7]), 0.05, ("panel", "everybody")


def plan(people: int, same: int = 0, blocks: int = 1, wave: int = 1) -> Plan:
    return Plan(wave, ARMS, np.full(3, 4), people, 7, sealed=SEALED, blocks=blocks, same=same)


def census(problem: Problem, who: str, people: int, *counts: int, mean: Array | None = None) -> Evidence:
    """Return what is sealed of waves of so many people each."""
    known = problem if who == "fresh" else problem.about_people()
    mean = np.array([0.1, 0.5, 0.3]) if mean is None else mean
    parts = []
    for wave, count in enumerate(counts, start=1):
        asked = plan(people, 0 if who == "fresh" else people, wave=wave)
        part = split_wave(known, asked, Feedback(mean, count), 0)[1]
        parts.append(part)
    whole = None if who == "fresh" else people
    return Evidence(
        problem, tuple(part for part in parts if part), Model(2.0), whole, problem.shocks, 0.0, 0, who, problem.bias_std
    )


# Noise


def test_how_the_same_people_differ_is_no_noise() -> None:
    problem = random_problem(0)
    same = problem.about_people()
    people = same.answer_noise(ARMS, np.full(3, 4), 60)
    np.testing.assert_allclose(people, np.diag(np.full(3, problem.noise_std**2 / 4 / 60)))
    assert not problem.of_people
    assert same.showing([]).of_people


def test_everyone_answers_about_every_block_and_counts_once() -> None:
    rng, asked = np.random.default_rng(0), plan(30, same=30, blocks=4)
    parts = [Tally.of(rng.normal(size=(30, 3)), 2.0**-30).feedback() for _ in range(4)]
    told = in_blocks(parts, same=True)
    assert (told.count, told.effective, told.freedom) == (30, 120, 29)
    assert (asked.answers, asked.numbers) == (120, 360)
    np.testing.assert_allclose(told.mean, np.mean([part.mean for part in parts], axis=0))
    problem = random_problem(0).about_people()
    noise = problem.answer_noise(ARMS, asked.lived, told.effective)  # of 4 blocks of one round: as of 4 rounds
    np.testing.assert_allclose(noise, problem.answer_noise(ARMS, asked.pulls, 30))


def test_what_people_differ_by_is_not_taken_for_shocks_nor_for_noise() -> None:
    problem = replace(random_problem(0), shock_std=0.2)
    rng, people = np.random.default_rng(1), 50
    own = 3 * rng.normal(size=(people, 1)) * np.array([-1.0, 0.0, 1.0])  # which cancels in no block
    shocks, noise = 0.2 * rng.normal(size=(4, 3)), problem.noise_std * rng.normal(size=(4, people, 3))
    parts = [Tally.of(own + shocks[block] + noise[block], 2.0**-30).feedback() for block in range(4)]
    told, asked = in_blocks(parts, same=True), plan(people, same=people, blocks=4)
    seen = shown_in(problem.about_people(), [Answered(asked, told)]).shocks
    rest = np.array([part.mean for part in parts])
    rest = rest - rest.mean(axis=0)
    square = np.square(rest - rest.mean(axis=1, keepdims=True)).sum() / 6
    assert seen.people == pytest.approx(problem.noise_std**2 / people)
    assert seen.variance == pytest.approx(square - seen.people)
    assert own_noise(problem.about_people(), asked, told)[1] == math.inf


def test_those_who_are_missing_are_noise_to_plan_with_and_no_noise_to_split_with() -> None:
    problem, asked, told = random_problem(0).about_people(), plan(40, same=40), Feedback(np.zeros(3), 25)
    assert missing_part(asked, told) == pytest.approx(1 / 25 - 1 / 40)
    assert missing_part(plan(40), told) == missing_part(asked, Feedback(np.zeros(3), 40)) == 0
    more = total_noise(problem, asked, told) - own_noise(problem, asked, told)[0]
    np.testing.assert_allclose(more, (1 / 25 - 1 / 40) * problem.bias_std**2 * problem.covariance(ARMS, ARMS))


# Statements


@pytest.mark.parametrize(("who", "share"), [("panel", 1 - DRAWN - APART), ("everybody", 1 - DRAWN)])
def test_without_deviations_all_three_agree(who: str, share: float) -> None:
    problem = replace(random_problem(0), bias_std=1e-9)
    fresh, same = (census(problem, each, 40, 40, 40) for each in ("fresh", who))
    said, again = same.state(5, LEVEL), fresh.state(5, share * LEVEL)
    np.testing.assert_allclose(said.gaps, again.gaps, rtol=1e-6)
    np.testing.assert_allclose(said.lower, again.lower, rtol=1e-6)
    np.testing.assert_allclose(same.widths(ARMS, 5, LEVEL), fresh.widths(ARMS, 5, share * LEVEL), rtol=1e-6)


def test_a_census_of_very_many_is_what_fresh_people_say_without_sampling_error() -> None:
    problem, many = replace(random_problem(0), shock_std=0.1), 10**12
    fresh, everybody = (census(problem, who, many, many).state(5, level) for who, level in CASES)
    np.testing.assert_allclose(everybody.gaps, fresh.gaps, atol=1e-4)
    np.testing.assert_allclose(everybody.upper, fresh.upper, atol=1e-4)


CASES = (("fresh", (1 - DRAWN) * LEVEL), ("everybody", LEVEL))


def test_the_norm_of_the_peoples_own_mean_is_covered() -> None:
    problem = random_problem(0)
    assert rank(problem) == np.linalg.matrix_rank(problem.covariance(np.arange(problem.size), np.arange(problem.size)))
    rng, every = np.random.default_rng(0), np.arange(problem.size)
    values, vectors = np.linalg.eigh(problem.covariance(every, every))
    kept = values > values[-1] * problem.size * np.finfo(float).eps
    drawn = rng.standard_normal((20_000, problem.size)) * np.sqrt(np.maximum(values, 0)) @ vectors.T
    norms = np.sqrt((np.square(drawn @ vectors[:, kept]) / values[kept]).sum(axis=1))
    assert few_enough(int((norms > reach(problem, 0.01)).sum()), 0.01)
    assert reach(problem, 0.01) < 1.7 * float(np.median(norms))


def test_a_panel_adds_its_distance_to_the_population_once() -> None:
    problem = random_problem(0)
    panel, everybody = (census(problem, who, 40, 40) for who in STAYING)
    far = panel.widths(np.arange(problem.size), 5, LEVEL) - everybody.widths(np.arange(problem.size), 5, LEVEL)
    assert far[5] == pytest.approx(0, abs=1e-9)
    gram = problem.covariance(np.arange(problem.size), np.arange(problem.size))
    apart = np.sqrt(np.maximum(gram.diagonal() + gram[5, 5] - 2 * gram[5], 0))
    assert (far >= 1.96 * problem.bias_std * apart / math.sqrt(40) - 1e-9).all()
    more = census(problem, "panel", 40, *[40] * 50).widths(np.array([0]), 5, LEVEL)[0]
    assert more > 1.96 * problem.bias_std * apart[0] / math.sqrt(40)  # however often they answer


def covered(problem: Problem, variance: float, parts: int) -> float:
    """Return how far a mean of other people may be from that of all, in the difference of the actions 0 and 3."""
    gram = problem.covariance(np.array([0, 3]), np.array([0, 3]))
    apart = math.sqrt(gram[0, 0] + gram[1, 1] - 2 * gram[0, 1])
    return problem.bias_std * reach(problem, DRAWN * LEVEL / (1 + parts)) * math.sqrt(variance) * apart


@pytest.mark.parametrize("who", STAYING)
def test_those_who_are_missing_are_a_bias_that_is_counted(who: str) -> None:
    problem, pair = replace(random_problem(0), noise_std=1e-6, bias_std=0.03, ridge=1.0), np.array([0])
    whole, fewer, few = (census(problem, who, 40, count, count).widths(pair, 3, LEVEL)[0] for count in (40, 38, 10))
    assert fewer - whole > 0.9 * covered(problem, 1 / 38 - 1 / 40, 2)
    assert few - whole > 0.9 * covered(problem, 1 / 10 - 1 / 40, 2)
    assert census(problem, who, 40, 40, 10).widths(pair, 3, LEVEL)[0] < whole + 0.1 * (few - whole)  # one was whole


def test_the_pilot_of_others_is_a_bias_that_is_counted() -> None:
    problem = replace(random_problem(0), noise_std=1e-6, bias_std=0.03, ridge=1.0)
    points, pair = problem.decisions.points[ARMS], np.array([0])
    problem = replace(problem, pilot=(Pilot(points, np.full(3, 4.0), 10**9, np.array([0.1, 0.5, 0.3])),))
    part = split_pilot(problem, 0)[1]
    assert part is not None
    about: dict[str, Any] = {"who": "everybody", "differing": problem.bias_std}
    few, many = (replace(Evidence(problem, (part,), Model(2.0), people), **about) for people in (5, 10**12))
    fresh = Evidence(problem, (part,), Model(2.0)).widths(pair, 3, (1 - DRAWN) * LEVEL)
    np.testing.assert_allclose(many.widths(pair, 3, LEVEL), fresh, atol=1e-4)
    assert few.widths(pair, 3, LEVEL)[0] > 0.9 * covered(problem, 1 / 5, 1)


@pytest.mark.parametrize("case", [(2, 0, False), (4, 5, False), (3, 25, False), (2, 0, True)])
@pytest.mark.parametrize("who", STAYING)
def test_statements_about_people_who_stay_are_true(who: str, case: tuple[int, int, bool]) -> None:
    rng, runs = np.random.default_rng([*case, len(who)]), 300
    assert few_enough(sum(stated(who, rng, *case)[0] for _ in range(runs)), LEVEL, runs)


def test_people_who_stay_are_no_fresh_people() -> None:
    rng, runs = np.random.default_rng(0), 400
    assert not few_enough(sum(stated("fresh", rng, 4)[0] for _ in range(runs)), LEVEL, runs)


# The policy


def stores(horizon: int = 104, bias_std: float = 0.3) -> Problem:
    points = np.linspace(0, 1, 21)[:, None]
    return Problem(points, SquaredExponential(0.2), 0.3, bias_std, norm_bound=2.0, horizon=horizon)


def learned(policy: Waves, problem: Problem, *counts: int) -> tuple[WavesState, list[str]]:
    """Conduct as many waves as there are numbers of people who answer."""
    state, warnings, rng = policy.init(problem), [], np.random.default_rng(0)
    for count in counts:
        asked = policy.plan(problem, state)
        assert isinstance(asked, Plan)
        means = np.sin(5 * problem.decisions.points[asked.arms, 0]) + 0.01 * rng.standard_normal(len(asked.arms))
        state, info = policy.advance(problem, state, asked, Feedback(means, count))
        warnings.append(info.warning)
    assert isinstance(state, WavesState)
    return state, warnings


@pytest.mark.parametrize("who", STAYING)
def test_all_of_them_are_asked_in_every_wave(who: str) -> None:
    policy, problem = Waves(who=who, population=60, answer_cost=0.0), stores(10**5)
    for waves in range(3):
        asked = policy.plan(problem, learned(policy, problem, *[60] * waves)[0])
        assert isinstance(asked, Plan)
        assert (asked.people, asked.same) == (60, 60)


def test_the_rest_of_a_panel_goes_on_and_the_missing_are_named() -> None:
    policy, problem = Waves(who="panel", population=60, answer_cost=0.0), stores(10**5)
    state, warnings = learned(policy, problem, 60, 50, 50)
    asked = policy.plan(problem, state)
    assert isinstance(asked, Plan)
    assert (asked.people, asked.same) == (50, 60)
    assert "did not answer" not in warnings[0]
    assert warnings[1].startswith("10 of the 60 people who answer in every wave did not answer in wave 2: the mean of")
    assert [part.missing for part in state.parts] == pytest.approx([0, 1 / 50 - 1 / 60, 1 / 50 - 1 / 60])
    spent = [learned(policy, problem, *counts)[0].spent for counts in ((60, 50), (60, 50, 50))]
    assert spent[1] - spent[0] < 1e-3 * policy.delta  # who is known to be gone was not left out for what was said


def test_a_panel_is_expected_to_lose_more_than_a_census() -> None:
    panel, everybody = (learned(Waves(who=who, population=20), stores(bias_std=0.6), 20, 20)[0] for who in STAYING)
    assert panel.best == everybody.best
    assert panel.expected_loss is not None
    assert everybody.expected_loss is not None
    assert panel.expected_loss > 1.2 * everybody.expected_loss
    assert panel.concluded().expected_loss > everybody.concluded().expected_loss  # type: ignore[operator]


def test_the_model_check_allows_what_the_people_differ_by() -> None:
    problem = replace(stores(bias_std=3.0), norm_bound=0.3, shock_std=0.0)
    rng, every = np.random.default_rng(2), np.arange(problem.size)
    root = np.linalg.cholesky(problem.covariance(every, every) + 1e-9 * np.eye(problem.size))
    raised = {"fresh": 0, "everybody": 0}
    for _ in range(20):
        mean = 3.0 / math.sqrt(20) * root @ rng.standard_normal(problem.size)
        for who in raised:
            policy = Waves(who="everybody", population=20) if who != "fresh" else Waves()
            asked = Plan(1, every[::4], np.full(6, 1), 20, sealed=SEALED, same=20 if who != "fresh" else 0)
            noise = 0.3 / math.sqrt(20) * rng.standard_normal(6)
            told = Feedback(mean[every[::4]] + noise, 20 if who != "fresh" else 10**6)
            state = policy.advance(problem, policy.init(problem), asked, told)[0]
            raised[who] += state.norm_bound > problem.norm_bound
    assert raised["everybody"] == 0
    assert raised["fresh"] > 5


def test_a_person_sends_a_number_for_every_block() -> None:
    policy, problem = Waves(who="everybody", population=60, answer_cost=1e-6), stores()
    asked = policy.plan(problem, learned(policy, problem, 60)[0])  # shocks are measured in the second wave
    assert isinstance(asked, Plan)
    assert asked.blocks > 1
    assert asked.numbers == 60 * len(asked.arms) * asked.blocks
    assert asked.forecast is not None
    assert asked.forecast.answers == pytest.approx(asked.numbers * max(1e-6, 0.3 * 0.007 * 1e-3))
    dear = Waves(who="everybody", population=60, answer_cost=1e9)
    assert not isinstance(dear.plan(problem, dear.init(problem)), Plan)


def test_a_tolerance_is_certified_by_everybody() -> None:
    policy, problem = Waves(who="everybody", population=60, tolerance=1.0, answer_cost=0.0), stores(horizon=2000)
    state: State = policy.init(problem)
    for _ in range(8):
        asked = policy.plan(problem, state)
        if not isinstance(asked, Plan):
            break
        assert (asked.people, asked.same) == (60, 60)
        means = np.sin(5 * problem.decisions.points[asked.arms, 0])
        told = replace(Feedback(means, 60), by_block=np.tile(means, (asked.blocks, 1)) if asked.blocks > 1 else None)
        state, _ = policy.advance(problem, state, asked, told)
    assert state.concluded().certificate <= 1.0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"who": "panel"}, "give their number as population"),
        ({"who": "everybody"}, "give their number as population"),
        ({"who": "panel", "population": 60, "most_people": 50}, "leave out most_people"),
        ({"who": "some"}, "who"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Waves(**settings)


def test_fresh_people_are_not_mentioned_in_settings() -> None:
    assert "who" not in Waves(population=60).settings()
    assert Waves(who="panel", population=60).settings().items() >= {"who": "panel", "population": 60}.items()
    assert changed(plan(60), same=0).answers == 60
