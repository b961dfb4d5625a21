"""Waves from outside: limits that are kept, studies that end, plans that can be repeated, and bad settings."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import evidence, own, random_problem, unordered
from tests.helpers_waves import everyone, played, truth
from voxpop.errors import Array, InputError
from voxpop.gp.belief import Rows, belief_of, believe, dimensions, rows_of, shown_in
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem
from voxpop.model.state import State
from voxpop.model.waves import End, Feedback, Plan, Tally
from voxpop.policies import make_policy
from voxpop.policies.waves.outlook import Outlook
from voxpop.policies.waves.policy import MOST_WAVES, Waves
from voxpop.policies.waves.sealing import SEALED
from voxpop.policies.waves.state import WavesState
from voxpop.privacy import Private
from voxpop.study.study import Study

# Limits

LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "most_people": st.integers(1, 500),
        "most_numbers": st.integers(1, 3000),
        "most_waves": st.integers(1, 5),
        "population": st.integers(1, 500),
        "answer_delay": st.integers(0, 40),
        "checks": st.integers(0, 4),
        "tolerance": st.sampled_from([0.01, 0.3]),
        "answer_cost": st.sampled_from([0.0, 1e-4, 0.1]),
    },
)


@settings(max_examples=60)
@given(limits=LIMITS, seed=st.integers(0, 50), horizon=st.sampled_from([1, 2, 3, 5, 17, 200, 5000]))
def test_no_limit_is_ever_exceeded(limits: dict[str, Any], seed: int, horizon: int) -> None:
    problem = random_problem(seed, n=8, horizon=horizon)
    study = played(Waves(**limits), problem, everyone(problem, truth(problem, seed), seed, most=200))
    assert study.rounds < horizon  # so that the last answers are of use
    assert study.people <= min(limits.get("most_people", np.inf), limits.get("population", np.inf))
    assert study.numbers <= limits.get("most_numbers", np.inf)
    assert len(study.plans) <= min(limits.get("most_waves", MOST_WAVES), MOST_WAVES)
    assert all(plan.rest == limits.get("answer_delay", 0) for plan in study.plans)


@pytest.mark.parametrize("limit", ["most_people", "population", "most_numbers"])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 19, 30, 39])
def test_a_budget_smaller_than_a_wave_buys_a_smaller_wave(limit: str, size: int) -> None:
    problem = random_problem(3, horizon=3000)
    limits: dict[str, Any] = {limit: size}
    study = played(Waves(**limits), problem, everyone(problem, truth(problem, 3), 3))
    spent = study.numbers if limit == "most_numbers" else study.people
    if limit == "most_numbers" and size == 1:  # one number compares nothing
        assert study.end == "1 of 1 numbers are left, too few for a wave"
    else:
        assert size - 1 <= spent <= size  # an odd number cannot be shared by two arms
        assert "were asked" in study.end or "too few for a wave" in study.end


def test_budgets_last_for_several_waves_unless_few_are_allowed() -> None:
    problem = random_problem(3, horizon=10**6)
    free, one = (
        played(Waves(most_people=200, most_waves=waves), problem, everyone(problem, np.zeros(12), 3))
        for waves in (None, 1)
    )
    assert free.plans[0].people <= 100
    assert len(one.plans) == 1
    assert one.end == "the budget of 1 wave is used up"


@pytest.mark.parametrize("horizon", range(1, 13))
def test_a_horizon_may_end_inside_a_wave(horizon: int) -> None:
    """What a wave would cost in rounds counts; with one round left there is nothing to decide."""
    problem = random_problem(3, horizon=horizon)
    for delay in (0, 2):
        study = played(Waves(answer_delay=delay), problem, everyone(problem, truth(problem, 3), 3))
        assert study.rounds <= horizon
        if horizon <= 1 + delay:
            assert study.plans == []
            assert "leaves none in which a wave would be of use" in study.end or "are left to play it" in study.end


def test_a_longer_horizon_is_worth_more_people() -> None:
    asked = []
    for horizon in (10, 1000, 10**6):
        problem = random_problem(3, horizon=horizon)
        asked.append(played(Waves(), problem, everyone(problem, truth(problem, 3), 3)).numbers)
    assert asked[0] < asked[1] < asked[2]


def test_the_rounds_that_pass_while_people_answer_are_the_incumbents() -> None:
    problem = random_problem(3, horizon=1000)
    study = played(Waves(answer_delay=10), problem, everyone(problem, truth(problem, 3), 3))
    assert study.plans
    assert all(plan.rest == 10 for plan in study.plans)
    assert study.rounds == sum(plan.asked for plan in study.plans) + 10 * len(study.plans)


@pytest.mark.parametrize("delay", [999, 1000, 10**6])
def test_answers_that_come_too_late_are_not_asked_for(delay: int) -> None:
    problem = random_problem(3, horizon=1000)
    for policy in (Waves(answer_delay=delay), Waves(washout=delay // 2 + 1)):
        plan = policy.plan(problem, policy.init(problem))
        assert isinstance(plan, End)
        assert re.fullmatch("a wave takes .* rounds or more, and 1,000 are left to play it and to use it", plan.reason)


# What an answer costs


def test_answers_that_cost_nothing_do_not_make_a_study_endless() -> None:
    problem = random_problem(3, horizon=1000)
    study = played(Waves(answer_cost=0), problem, everyone(problem, np.zeros(12), 3, most=1000))
    usual = played(Waves(), problem, everyone(problem, np.zeros(12), 3, most=1000))
    assert usual.numbers < study.numbers < 10**8
    assert study.end


@pytest.mark.parametrize("answer_cost", [1e4, 1e300])
def test_answers_that_cost_more_than_the_horizon_is_worth_are_not_asked_for(answer_cost: float) -> None:
    problem = random_problem(3, horizon=1000)
    study = played(Waves(answer_cost=answer_cost), problem, everyone(problem, truth(problem, 3), 3))
    assert study.plans == []
    assert study.end == "asking people does not pay"


def test_dearer_answers_are_fewer() -> None:
    """In all: one study may happen to ask more, as it learns something else."""
    problems = [random_problem(seed, horizon=3000) for seed in range(3, 9)]
    numbers = [
        sum(played(Waves(answer_cost=cost), each, everyone(each, truth(each, 3), 3)).numbers for each in problems)
        for cost in (1e-4, 1e-2, 0.3)
    ]
    assert numbers[0] > numbers[1] > numbers[2] > 0


@pytest.mark.parametrize("seed", range(4))
def test_every_wave_is_expected_to_bring_more_than_it_costs(seed: int) -> None:
    problem = random_problem(seed, horizon=1000)
    policy = Waves(answer_cost=0.01)
    study = played(policy, problem, everyone(problem, truth(problem, seed), seed))
    measuring = [plan for plan in study.plans if plan.blocks > 1][:1]  # what rounds do to everybody, before it ends
    for plan in study.plans:
        assert plan.forecast is not None
        assert plan.forecast.gain > plan.forecast.answers + plan.forecast.exploring or plan in measuring
        assert plan.forecast.answers == pytest.approx(0.01 * plan.numbers, rel=1e-9)
        assert plan.forecast.exploring >= 0
        assert plan.reference in plan.arms


# Few actions, many actions, and what they answer


def test_a_single_action_needs_no_question() -> None:
    problem = random_problem(0, n=1, horizon=1000)
    for policy in (Waves(), Waves(tolerance=0.1), Waves(answer_cost=0)):
        state = policy.init(problem)
        assert policy.plan(problem, state) == End("nothing else can be best")
        assert (state.best, state.certificate, state.expected_loss) == (0, 0.0, 0.0)


@pytest.mark.parametrize("better", [0, 1])
def test_of_two_actions_the_better_one_is_found(better: int) -> None:
    problem = Problem([[0.0], [1.0]], SquaredExponential(0.3), 0.1, 0.3, norm_bound=1.0, horizon=2000)
    f = np.where(np.arange(2) == better, 0.5, -0.5)
    study = played(Waves(), problem, everyone(problem, f, 0))
    assert study.state.best == better
    assert study.plans[0].arms.tolist() == [0, 1]
    assert study.state.certificate < 0.1


def test_answers_that_are_all_equal_end_the_study() -> None:
    problem = random_problem(2, horizon=50)
    study = played(Waves(), problem, lambda plan: Tally.of(np.full((50, len(plan.arms)), 0.25), 2.0**-40).feedback())
    assert study.end == "asking more people no longer pays"
    assert not any(info.warning for info in study.infos)


@pytest.mark.parametrize("seed", range(4))
def test_all_answers_choose_among_a_few_decisions_that_were_listed_without_sealed_ones(seed: int) -> None:
    problem = random_problem(seed, horizon=3000)
    study = played(Waves(), problem, everyone(problem, truth(problem, seed), seed))
    asked = list(zip(study.plans, study.feedbacks, strict=True))
    shown = own(study.state).problem  # with people and rounds as they are believed to be
    rows = [rows_of(shown, *wave) for wave in asked]
    pooled = belief_of(problem, Rows.joined(rows, dimensions(problem))).mean
    assert study.state.centre == pytest.approx(pooled, rel=1e-6)
    assert isinstance(study.state, WavesState)
    listed = study.state.outlook.shortlist(4)
    assert study.state.best == listed[np.argmax(pooled[listed])]
    hidden = study.state.unsealed
    assert hidden.best == listed[0] == np.argmax(hidden.centre)
    assert hidden.centre != pytest.approx(pooled, rel=1e-6)


def test_what_could_be_best_is_listed_as_long_as_it_adds_to_the_expected_best() -> None:
    problem = random_problem(3, horizon=3000)
    outlook = Outlook.of(believe(problem), np.arange(problem.size), 0, 0)
    assert len(outlook.shortlist(1)) == 1
    assert [outlook.shortlist(most).tolist() for most in (2, 3)] == [outlook.shortlist(4).tolist()[:n] for n in (2, 3)]
    assert len(set(outlook.shortlist(4).tolist())) == 4
    objective, flat = outlook.metrics[0], np.zeros_like(outlook.covariance)
    sure = replace(outlook, metrics=(replace(objective, mean=np.zeros(len(outlook.mean)), covariance=flat),))
    assert sure.shortlist(4).tolist() == [outlook.actions[outlook.incumbent]]


def test_more_than_one_round_is_played_if_rounds_are_noisy() -> None:
    noisy, quiet = (random_problem(0, n=3, horizon=10**5, noise_std=s, bias_std=0.1) for s in (3.0, 0.01))
    for problem, several in ((noisy, True), (quiet, False)):
        plan = Waves(answer_cost=0.1).plan(problem, Waves(answer_cost=0.1).init(problem))
        assert isinstance(plan, Plan)
        assert bool(plan.pulls.max() > 1) is several


def test_twenty_thousand_actions_are_enough_to_plan_for() -> None:
    problem = random_problem(0, n=20_000, horizon=3000)
    policy = Waves(most_waves=1)
    study = played(policy, problem, everyone(problem, np.zeros(20_000), 0))
    assert len(study.plans) == 1
    assert len(study.plans[0].arms) < 50
    assert study.state.certificate < State.prior(problem, 1.0).most_lost(0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tolerance", [None, 0.2])
@pytest.mark.parametrize("scale", [1e3, 1e6])
@pytest.mark.parametrize("seed", range(2))
def test_answers_out_of_all_proportion_are_survived_with_a_warning(
    seed: int, scale: float, tolerance: float | None
) -> None:
    problem, rng = random_problem(seed, n=6, horizon=300), np.random.default_rng(seed)

    def answer(plan: Plan) -> Feedback:
        answers = scale * (rng.standard_normal(len(plan.arms)) + rng.standard_normal((30, len(plan.arms))))
        return Tally.of(answers, problem.grid_step).feedback()

    study = played(Waves(tolerance=tolerance, most_waves=6), problem, answer)
    assert "calibrate again" in study.infos[0].warning
    assert study.state.norm_bound > problem.norm_bound or "people differ" in study.infos[0].warning


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(12))
def test_waves_that_contradict_each_other_are_survived(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(seed, n=int(rng.integers(2, 12)), horizon=500)

    def answer(plan: Plan) -> Feedback:
        scale = 10 ** rng.uniform(-2, 5)
        return Tally.of(
            scale * rng.standard_normal(len(plan.arms)) + 0.3 * rng.standard_normal((40, len(plan.arms))),
            problem.grid_step,
        ).feedback()

    played(Waves(tolerance=0.05 if seed % 2 else None, most_waves=8), problem, answer)


def test_a_single_answer_is_enough_to_go_on() -> None:
    problem = random_problem(0, horizon=60)
    study = played(Waves(), problem, everyone(problem, truth(problem, 0), 0, most=1))
    assert study.state.history[0].feedback.count == 1


# The same again


def same_plan(one: Plan | End, other: Plan | End) -> None:
    assert type(one) is type(other)
    if isinstance(one, Plan) and isinstance(other, Plan):
        assert one.arms.tolist() == other.arms.tolist()
        assert one.pulls.tolist() == other.pulls.tolist()
        rest = [(plan.wave, plan.people, plan.reference, plan.rest, plan.forecast) for plan in (one, other)]
        assert rest[0] == rest[1]
    else:
        assert one == other


def same_state(one: State, other: State) -> None:
    for name in ("active", "lower", "upper", "centre", "lead", "lead_width"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in ("wave", "rounds", "norm_bound", "decision", "certified", "expected_loss"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize("settings", [{}, {"tolerance": 0.05}, {"checks": 2, "seed": 7, "answer_delay": 3}])
def test_a_log_played_again_gives_the_same_states_and_plans(settings: dict[str, Any]) -> None:
    problem = random_problem(6, horizon=2000)
    policy = Waves(**settings)
    study = played(policy, problem, everyone(problem, truth(problem, 6), 6))
    other = random_problem(6, horizon=2000)  # nothing may hang on the object
    state = policy.init(other)
    for plan, feedback in zip(study.plans, study.feedbacks, strict=True):
        same_plan(policy.plan(other, state), plan)
        same_plan(policy.plan(other, state), plan)
        state, _ = policy.advance(other, state, plan, feedback)
    same_state(state.concluded(), study.state)
    assert policy.plan(other, state) == End(study.end)


def test_planning_changes_nothing() -> None:
    problem = random_problem(6, horizon=2000)
    policy = Waves()
    state = policy.init(problem)
    before = (own(state).outlook.mean.copy(), own(state).outlook.covariance.copy(), state.centre.copy())
    policy.plan(problem, state)
    after = (own(state).outlook.mean, own(state).outlook.covariance, state.centre)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_saved_study_goes_on_where_it_was(tmp_path: Any) -> None:
    problem = random_problem(6, horizon=2000)
    study = Study(problem, "waves", tmp_path / "study.json", checks=1, tolerance=0.05)
    rng = np.random.default_rng(0)
    for _ in range(2):
        question = study.ask()
        assert question is not None
        study.tell(question.wave, rng.normal(size=(question.people, len(question.decisions))))
    same_state(Study.load(tmp_path / "study.json").state, study.state)
    study.save(tmp_path / "copy.json")  # because only one of two programs may go on with a file
    loaded = Study.load(tmp_path / "copy.json")
    assert unordered(loaded.ask()) == unordered(study.ask())
    assert loaded.best == study.best
    assert loaded.policy == study.policy


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"answer_cost": 0.0},
        {"answer_cost": 0.2, "tolerance": 0.1, "most_people": 7, "most_numbers": 9, "most_waves": 2},
        {"population": 50, "answer_delay": 3, "checks": 2, "delta": 0.2, "seed": 9},
    ],
)
def test_settings_make_the_same_policy_again(settings: dict[str, Any]) -> None:
    policy = make_policy("waves", **settings)
    assert policy == Waves(**settings)
    assert make_policy(**policy.settings()) == policy
    assert policy.settings().items() >= settings.items()


# Bad settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": 0}, "tolerance must be a number above 0, got 0"),
        ({"tolerance": -0.1}, "tolerance must be a number above 0, got -0.1"),
        ({"tolerance": float("nan")}, "tolerance must be a number above 0, got nan"),
        ({"answer_cost": -1}, "answer_cost must be a number at least 0, got -1"),
        ({"answer_cost": float("inf")}, "answer_cost must be a number at least 0, got inf"),
        ({"answer_cost": "cheap"}, "answer_cost must be a number at least 0, got 'cheap'"),
        ({"most_people": 0}, "most_people must be a whole number, at least 1, got 0"),
        ({"most_numbers": 0}, "most_numbers must be a whole number, at least 1, got 0"),
        ({"most_waves": -2}, "most_waves must be a whole number, at least 1, got -2"),
        ({"population": 2.5}, "population must be a whole number, at least 1, got 2.5"),
        ({"answer_delay": -1}, "answer_delay must be a whole number, at least 0, got -1"),
        ({"checks": -1}, "checks must be a whole number, at least 0, got -1"),
        ({"delta": 0}, "delta must be a number above 0 and below 1, got 0"),
        ({"delta": 1}, "delta must be a number above 0 and below 1, got 1"),
        ({"seed": -1}, "seed must be a whole number, at least 0, got -1"),
        ({"budget": 3}, "policy 'waves' does not take budget; it takes answer_cost, tolerance, "),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        make_policy("waves", **settings)


def test_feedback_about_other_arms_is_refused() -> None:
    problem = random_problem(0, horizon=1000)
    policy = Waves()
    state = policy.init(problem)
    plan = policy.plan(problem, state)
    assert isinstance(plan, Plan)
    with pytest.raises(InputError, match="give one number for each arm"):
        policy.advance(problem, state, plan, Feedback(np.zeros(len(plan.arms) + 1), 20))


# The pilot


def piloted(mean: Array, people: int = 300, seed: int = 3, **changes: Any) -> Problem:
    """A problem whose pilot asked about every action."""
    bare = random_problem(seed, **{"horizon": 3000, **changes})
    group = evidence(bare.decisions.points, np.full(bare.size, 5), people, mean)
    return random_problem(seed, **{"horizon": 3000, **changes}, pilot=[group])


def test_a_pilot_that_says_everything_leaves_nothing_to_ask() -> None:
    bare = random_problem(3, horizon=3000)
    f = truth(bare, 3)
    problem = piloted(f, people=10**9)
    state = Waves().init(problem)
    assert state.best == np.argmax(f)
    assert state.expected_loss == pytest.approx(0.0, abs=1e-3)
    assert isinstance(Waves().plan(problem, state), End)


def test_a_good_pilot_saves_answers_and_stays_in_use() -> None:
    with_it, without = 0, 0
    for seed in range(5):
        bare = random_problem(seed, horizon=3000)
        f = truth(bare, seed)
        without += played(Waves(answer_cost=0.001), bare, everyone(bare, f, 0)).numbers
        problem = piloted(f, seed=seed)
        study = played(Waves(answer_cost=0.001), problem, everyone(problem, f, 0))
        with_it += study.numbers
        assert "pilot" not in study.warnings
        assert own(study.state).pilot
    assert with_it < without


@pytest.mark.parametrize("seed", range(3))
def test_a_pilot_that_contradicts_the_first_wave_is_set_aside_with_a_warning(seed: int) -> None:
    bare = random_problem(seed, horizon=3000)
    f = truth(bare, seed)
    problem = piloted(-f, seed=seed)
    policy = Waves(answer_cost=1e-5)
    answer = everyone(problem, f, seed)
    state = policy.init(problem)
    arms = state.active
    plan = Plan(1, arms, np.ones(len(arms), int), 400, state.best)
    state, info = policy.advance(problem, state, plan, answer(plan))
    assert "the pilot contradicts the waves" in info.warning
    assert not own(state).pilot
    alone = believe(shown_in(bare, state.history), state.history).mean
    assert state.centre == pytest.approx(alone, rel=1e-6, abs=1e-9)
    assert np.argmax(f) in state.active


def test_a_pilot_once_set_aside_stays_so_and_the_study_ends() -> None:
    f = truth(random_problem(0), 0)
    problem = piloted(-2 * f, people=40, seed=0)
    study = played(Waves(answer_cost=1e-4), problem, everyone(problem, f, 0))
    flags = ["pilot contradicts" in info.warning for info in study.infos]
    assert flags == sorted(flags)
    assert any(flags)
    assert f.max() - f[study.state.best] <= study.state.certificate + 1e-12


def test_a_pilot_on_other_decisions_is_refused_or_counts_where_it_was_taken() -> None:
    far = evidence([[0.1, 0.2, 0.3]], [5], 30, [0.4])
    with pytest.raises(InputError, match="3 dimensions and the study's have 2; use a pilot on the same parameters"):
        random_problem(3, pilot=[far])
    elsewhere = random_problem(3, pilot=[evidence([[0.111, 0.222], [0.9, 0.8]], [5, 5], 30, [0.4, -0.3])], horizon=500)
    study = played(Waves(), elsewhere, everyone(elsewhere, truth(elsewhere, 3), 3))
    assert study.end


def test_a_small_population_proves_less() -> None:
    """Its own mean is meant, which differs from that of the people it was drawn from, and so does its best action."""
    problem = piloted(truth(random_problem(3), 3), people=30, noise_std=0.02, bias_std=0.3)
    plan = Plan(1, np.arange(5), np.ones(5, int), 200, 2, sealed=SEALED)
    bounds = []
    for size in (None, 400):
        policy = Waves(population=size)
        after, _ = policy.advance(problem, policy.init(problem), plan, Feedback(np.linspace(-0.1, 0.1, 5), 200))
        bounds.append((after.certificate, after.upper - after.lower))
    (everybody, band), (few, wider) = bounds
    assert few > everybody
    assert (wider[plan.arms] > band[plan.arms]).all()


# Privacy

MODELS = ("central", "local", "shuffle")


@pytest.mark.parametrize("model", MODELS)
def test_with_privacy_more_people_are_asked(model: str) -> None:
    problem = random_problem(3, n=3, horizon=5000)
    policy = Waves()
    state = policy.init(problem)
    plain, private = policy.plan(problem, state), policy.plan(problem, state, Private(model, 3.0))
    assert isinstance(plain, Plan)
    assert isinstance(private, Plan)
    assert private.people >= plain.people
    stricter = Private(model, 1.0)
    more = policy.plan(problem, state, stricter)
    assert isinstance(more, Plan)
    assert more.people > private.people
    stricter.calibrate(problem, state, more)  # they are enough to hide in


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("floor", "budget"), [(100, None), (100, 150), (100, 100), (100, 99), (64, 300)])
def test_a_floor_is_kept_whatever_the_budget(model: str, floor: int, budget: int | None) -> None:
    problem = random_problem(3, n=4, horizon=10_000)
    policy, channel = Waves(most_people=budget), Private(model, 3.0, floor=floor)
    study = played(policy, problem, everyone(problem, truth(problem, 3), 3, most=300), channel)
    assert all(plan.people >= floor for plan in study.plans)
    if budget is not None:
        assert study.people <= budget
        assert study.plans or budget < floor
    if budget == 99:
        assert study.end == "99 people are left, fewer than the 100 that privacy takes in every wave"


def test_a_floor_that_the_budget_of_numbers_cannot_pay_ends_the_study() -> None:
    problem = random_problem(3, horizon=30_000)
    channel = Private("central", 3.0, floor=100)
    policy = Waves(most_numbers=199)
    assert policy.plan(problem, policy.init(problem), channel) == End("199 of 199 numbers are left, too few for a wave")
    plan = Waves(most_numbers=200).plan(problem, policy.init(problem), channel)
    assert isinstance(plan, Plan)
    assert (plan.people, len(plan.arms)) == (100, 2)


# Random arms


def test_random_arms_are_added_within_the_limits() -> None:
    problem = random_problem(3, horizon=3000)
    state = Waves().init(problem)
    bare, checked = (Waves(checks=checks).plan(problem, state) for checks in (0, 3))
    assert isinstance(bare, Plan)
    assert isinstance(checked, Plan)
    assert set(bare.arms.tolist()) < set(checked.arms.tolist())
    assert len(checked.arms) == len(bare.arms) + 3
    assert checked.people == bare.people
    assert bare.forecast is not None
    assert checked.forecast is not None
    assert checked.forecast.answers == pytest.approx(bare.forecast.answers * len(checked.arms) / len(bare.arms))
    most = Waves(checks=100).plan(problem, state)
    assert isinstance(most, Plan)
    assert len(most.arms) == problem.size


def test_waves_that_contradict_each_other_certify_nothing() -> None:
    problem, policy = random_problem(1, noise_std=0.02, bias_std=0.05, horizon=20_000), Waves()
    state = policy.init(problem)
    first = policy.plan(problem, state)
    assert isinstance(first, Plan)
    warnings = []
    for sign in (1, -1, 1):
        plan = replace(first, wave=state.wave + 1)
        state, info = policy.advance(problem, state, plan, Feedback(np.full(len(plan.arms), sign * 0.5), 500))
        warnings.append(info.warning)
    assert "contradict each other" in warnings[-1]
    assert math.isinf(state.certificate)
    assert math.isinf(state.concluded().certificate)
    assert len(state.active) == problem.size


def test_a_study_that_asks_nobody_decides_by_its_whole_pilot_and_certifies_nothing() -> None:
    f = truth(random_problem(1), 1)
    problem = piloted(f, people=8, seed=1, horizon=2)
    policy = Waves()
    state = policy.init(problem)
    assert isinstance(policy.plan(problem, state), End)
    end = state.concluded()
    assert end.best == np.argmax(believe(problem).mean)
    assert math.isinf(end.certificate)
    assert end.spent == 0


def test_a_pilot_that_was_split_with_far_too_little_noise_is_not_used_to_certify() -> None:
    """People of whom only averages are known vary three times as much as the model says; the first wave shows it."""
    wild = random_problem(0, bias_std=0.9, noise_std=0.3)
    f = truth(wild, 0)
    plan = Plan(1, np.arange(wild.size), np.ones(wild.size, dtype=np.intp), 60, sealed=SEALED)
    for people, parts in ((random_problem(0, bias_std=0.3, noise_std=0.1), 2), (wild, 1)):
        problem = piloted(f, people=200, seed=0, bias_std=0.3, noise_std=0.1)
        policy = Waves()
        state, _ = policy.advance(problem, policy.init(problem), plan, everyone(people, f, 0)(plan))
        evidence = own(state).evidence
        assert evidence is not None
        assert len(evidence.parts) == parts
