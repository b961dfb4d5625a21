"""Guardrails: what is tried and recommended keeps them, as often as is said, and what is sealed stays sealed."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from tests.helpers import everything, function_of_norm, own, random_problem
from voxpop.errors import Array, InputError
from voxpop.gp.belief import Belief, believe
from voxpop.model.guardrails import Guardrail, Rule
from voxpop.model.problem import Evidence, Indices, Problem
from voxpop.model.waves import End, Feedback, Plan, Tally, changed
from voxpop.policies.waves.outlook import Outlook
from voxpop.policies.waves.policy import Waves
from voxpop.policies.waves.rails import Rail, kept, nearest, rails_of, recommended, trials
from voxpop.policies.waves.sealing import PILOT_SEALED, Model, Statement, split_metrics, split_pilots, split_wave
from voxpop.policies.waves.sealing import Evidence as Sealed
from voxpop.simulation.people import GPPeople, SeveralMetrics
from voxpop.simulation.runs import Run, Scenario, simulate

ARMS, ALIKE = np.array([0, 3, 7]), 0.8
TODAY = 2


def guarded(text: str = "retention >= 0.0", alike: float = ALIKE, today: int | None = TODAY, **said: object) -> Problem:
    problem, metric = random_problem(1, n=12), random_problem(1, n=12, bias_std=0.4)
    return replace(problem, guardrails=(Guardrail(Rule.of(text), metric, (alike,)),), today=today, **said)  # type: ignore[arg-type]


def people_of(problem: Problem, seed: int) -> SeveralMetrics:
    rng = np.random.default_rng(seed)
    truths = [function_of_norm(each, 0.8 * each.norm_bound, rng) for each in problem.metrics]
    made = tuple(GPPeople(each, f) for each, f in zip(problem.metrics, truths, strict=True))
    return SeveralMetrics(made, problem.correlation)


def answered(problem: Problem, seed: int = 0, people: int = 200) -> Problem:
    """Return the problem with a pilot about every other decision."""
    rng, arms = np.random.default_rng(seed), np.arange(0, problem.size, 2)
    told = people_of(problem, seed).observe(Plan(0, arms, np.full(len(arms), 5), people), people, rng)
    points, rounds = problem.decisions.points[arms], np.full(len(arms), 5)
    groups = [
        Evidence(points, rounds, people, part.mean(axis=0)) for part in np.split(told, len(problem.metrics), axis=1)
    ]
    rails = [
        replace(one, problem=replace(one.problem, pilot=(group,)))
        for one, group in zip(problem.guardrails, groups[1:], strict=True)
    ]
    return replace(problem, pilot=(groups[0],), guardrails=tuple(rails))


# What is sealed


@pytest.mark.parametrize("seen", [True, False])
def test_what_is_planned_with_tells_nothing_of_the_sealed_part_of_another_metric(seen: bool) -> None:
    problem, count, draws = guarded(), 40, 1200
    people, rng = people_of(problem, 0), np.random.default_rng(0)
    plan = Plan(1, ARMS, np.full(3, 2), count, sealed=0.25, also=1)
    together, apart = [], []
    for seed in range(draws):
        told = Tally.of(people.observe(plan, count, rng), problem.grid_step).feedback()
        told = told if seen else replace(told, scatter=None)
        (first, _), (_, second) = split_metrics(problem.metrics, plan, told, seed)
        assert second is not None
        together.append((first.feedback.mean[0], second.residual[0]))
        alone = changed(plan, also=0)
        planned = split_wave(problem, alone, told.of_metric(plan, 0), seed)[0]
        sealed = split_wave(problem.metrics[1], alone, told.of_metric(plan, 1), seed + draws)[1]
        assert sealed is not None
        apart.append((planned.feedback.mean[0], sealed.residual[0]))
    assert abs(np.corrcoef(np.array(together).T)[0, 1]) < 5 / np.sqrt(draws)
    assert np.corrcoef(np.array(apart).T)[0, 1] > 0.2  # as it would be if each metric were split by itself


def test_one_metric_is_split_as_before() -> None:
    problem = random_problem(0)
    plan = Plan(1, ARMS, np.full(3, 2), 30, sealed=0.25)
    told = Feedback(np.array([0.1, 0.2, 0.3]), 30)
    one, other = split_wave(problem, plan, told, 5)[1], split_metrics([problem], plan, told, 5)[0][1]
    assert one is not None
    assert other is not None
    assert np.array_equal(one.residual, other.residual)


def test_the_pilot_is_split_by_one_draw() -> None:
    made = [answered(guarded(), seed, people=30) for seed in range(400)]
    halves = [split_pilots(problem, 0) for problem in made]
    rows = np.array([(parts[0][0].residual[1], parts[1][1].residual[1]) for parts in halves if parts[1][1] is not None])
    truths = np.array(
        [
            [f.f[2] - p.means[2] for p, f in zip(m.metrics, people_of(m, s).metrics, strict=True)]
            for s, m in enumerate(made)
        ]
    )
    assert abs(np.corrcoef((rows - truths).T)[0, 1]) < 5 / np.sqrt(len(rows))


@pytest.mark.parametrize("alone", [True, False])
def test_how_much_of_the_pilots_noise_is_shocks_is_known_of_every_metric(alone: bool) -> None:
    problem = answered(guarded(), people=30)
    problem = replace(problem, guardrails=()) if alone else problem
    for planned, _ in split_pilots(problem, 0):
        assert planned.rounds == pytest.approx((np.eye(len(planned)) + 1) / (1 - PILOT_SEALED))


@pytest.mark.parametrize(("text", "side"), [("g >= 0.1", -1), ("g >= today - 0.1", -1), ("g >= -10%", 1)])
def test_a_bound_on_a_rule_fails_as_often_as_it_may(text: str, side: int) -> None:
    problem, level, draws = random_problem(0), 0.1, 1000
    metric, rule = replace(problem, norm_bound=1e-3), Rule.of(text)  # so that hardly anything but noise can fail
    rng, plan = np.random.default_rng(0), Plan(1, np.array([TODAY, 5]), np.full(2, 2), 30, sealed=0.25)
    noise = metric.answer_noise(plan.arms, plan.pulls, 30)
    failed = 0
    for seed in range(draws):
        y = metric.means[plan.arms] + np.linalg.cholesky(noise) @ rng.standard_normal(2)
        part = split_wave(metric, plan, Feedback(y, 30), seed)[1]
        assert part is not None
        bound = Sealed(metric, (part,), Model(10.0)).kept(rule, np.array([5]), TODAY, level, side)[0]
        true = metric.means[5] - rule.share * metric.means[TODAY] - rule.floor
        failed += side * (true - bound) > 0
    assert binom.ppf(1e-6, draws, level) <= failed <= binom.isf(1e-6, draws, level)  # it is tight, too


# What is believed


def believed(problem: Problem, most_loss: float | None = None) -> tuple[list[Belief], tuple[Rail, ...]]:
    beliefs = [believe(each) for each in problem.metrics]
    return beliefs, rails_of(problem, beliefs, most_loss)


@pytest.mark.parametrize("text", ["g >= 0.1", "g >= today - 0.1", "g >= -10%"])
def test_the_chance_of_a_rule_is_that_of_draws_from_the_belief(text: str) -> None:
    problem = answered(guarded(text))
    beliefs, (rail,) = believed(problem)
    rule, every = rail.rule, everything(problem)
    root = np.linalg.cholesky(beliefs[1].covariance(every) + 1e-12 * np.eye(problem.size))
    drawn = beliefs[1].mean + np.random.default_rng(0).standard_normal((20_000, problem.size)) @ root.T
    slack = drawn - rule.share * drawn[:, [TODAY]] - rule.floor
    assert rail.chances == pytest.approx((slack >= 0).mean(axis=0), abs=0.02)
    assert rail.deviation == pytest.approx(slack.std(axis=0), rel=0.05, abs=1e-4)
    assert kept([rail], problem.size).tolist() == (rail.chances >= 0.95).tolist()


def test_the_recommendation_is_the_best_that_keeps_the_rules_and_today_if_none_does() -> None:
    problem = answered(guarded())
    beliefs, rails = believed(problem)
    keeps = kept(rails, problem.size)
    assert 0 < keeps.sum() < problem.size
    best = recommended(beliefs[0], rails, TODAY)
    assert keeps[best]
    assert beliefs[0].mean[best] == beliefs[0].mean[keeps].max()
    hopeless = [replace(rail, rule=Rule("retention", 0.0, 1e6)) for rail in rails]
    assert recommended(beliefs[0], hopeless, TODAY) == TODAY
    assert recommended(beliefs[0], hopeless, None) == nearest(hopeless)
    assert np.flatnonzero(trials(beliefs[0], hopeless, TODAY, TODAY)).tolist() == [TODAY]


def test_what_may_lose_too_much_is_a_rule_about_the_objective() -> None:
    problem = answered(random_problem_with_today())
    (belief,), (rail,) = believed(problem, most_loss=0.2)
    difference = belief.mean - belief.mean[TODAY] + 0.2
    assert rail.mean == pytest.approx(difference)
    assert rail.chances[TODAY] == 1.0


def random_problem_with_today() -> Problem:
    return replace(guarded(), guardrails=())


# What a wave is worth


def looked(problem: Problem, most_loss: float | None = None) -> tuple[list[Belief], tuple[Rail, ...], Outlook]:
    beliefs, rails = believed(problem, most_loss)
    best = recommended(beliefs[0], rails, TODAY)
    safe = trials(beliefs[0], rails, best, TODAY)
    made = Outlook.of(beliefs[0], everything(problem), best, 0, beliefs[1:], rails, TODAY, safe)
    return beliefs, rails, made


@pytest.mark.parametrize("most_loss", [None, 0.3])
def test_a_wave_is_worth_what_the_best_decision_that_keeps_the_rules_gains(most_loss: float | None) -> None:
    problem = answered(guarded("retention >= today - 0.3"))
    beliefs, rails, outlook = looked(problem, most_loss)
    places, people, rng = outlook.pool[:3], 60, np.random.default_rng(3)
    arms, every = outlook.actions[places], everything(problem)
    noises = [each.answer_noise(arms, np.full(len(arms), 2), people) for each in problem.metrics]
    means, left = [], []
    for belief, noise in zip(beliefs, noises, strict=True):  # the posterior after the wave, in full
        cross = belief.covariance(every)[:, arms]
        inner = belief.covariance(arms) + noise
        gain = np.linalg.solve(inner, cross.T).T
        y = rng.standard_normal((4000, len(arms))) @ np.linalg.cholesky(inner).T
        means.append(belief.mean + y @ gain.T)
        left.append(belief.covariance(every) - gain @ cross.T)
    allowed = np.ones((4000, problem.size), dtype=bool)
    for rail in rails:
        rule, covariance = rail.rule, left[rail.metric]
        slack = means[rail.metric] - rule.share * means[rail.metric][:, [TODAY]] - rule.floor
        variance = (
            covariance.diagonal() - 2 * rule.share * covariance[:, TODAY] + rule.share**2 * covariance[TODAY, TODAY]
        )
        allowed &= slack >= rail.z * np.sqrt(np.maximum(variance, 0.0)) - 1e-9
    gained = np.where(allowed, means[0], -np.inf).max(axis=1)
    value = max(float(gained.mean() - beliefs[0].mean[outlook.actions[outlook.incumbent]]), 0.0)
    assert allowed.any(axis=1).all()  # today's decision always is
    found = outlook.values(places, [noise[None] for noise in noises], fresh=True)[0]
    assert found == pytest.approx(value, abs=0.05 * max(value, 0.05))
    single = [each.answer_noise(arms, np.full(len(arms), 2)) for each in problem.metrics]
    nothing = [np.zeros_like(each) for each in single]
    again = outlook.values_of_people(places, single, nothing, np.array([float(people)]), fresh=True)[0]
    assert again == pytest.approx(found, abs=0.05 * max(found, 0.05))


def test_only_what_is_safe_is_asked_about() -> None:
    problem = answered(guarded())
    beliefs, rails, outlook = looked(problem)
    safe = trials(beliefs[0], rails, outlook.actions[outlook.incumbent], TODAY)
    assert not safe.all()
    assert safe[outlook.actions[outlook.pool]].all()
    noises = [each.answer_noise(outlook.actions, np.full(len(outlook.actions), 2), 60) for each in problem.metrics]
    assert set(outlook.by_value(noises, 50)) <= set(outlook.pool.tolist())


def test_more_people_open_more_decisions() -> None:
    problem = answered(guarded(), people=15)
    outlook = looked(problem)[2]
    places = outlook.pool
    arms = outlook.actions[places]
    noises = [
        each.answer_noise(arms, np.full(len(arms), 2)) / np.array([20.0, 10_000.0])[:, None, None]
        for each in problem.metrics
    ]
    few, many = outlook.opened(places, noises)
    assert 0 <= few <= many
    assert many > 0


# Whole studies


def run_of(problem: Problem, seed: int, **settings: object) -> tuple[Run, list[Array]]:
    people = people_of(problem, seed)
    truths = [metric.f for metric in people.metrics]
    population = people if problem.guardrails else people.metrics[0]
    return simulate(Scenario("guarded", problem, population, truths[0]), Waves(**settings), seed), truths  # type: ignore[arg-type]


def test_a_study_with_guardrails_counts_every_metric_and_certifies_both_statements() -> None:
    problem = answered(guarded("retention >= today - 0.5", horizon=3000), 3)
    run, (f, g) = run_of(problem, 3)
    assert run.plans
    assert all(plan.numbers == plan.people * len(plan.arms) * 2 for plan in run.plans)
    (guard,) = run.state.guards
    slack = g - g[TODAY] + 0.5
    assert guard.certified <= slack[run.best] + 1e-12
    assert f[slack >= 0].max() - f[run.best] <= run.state.certificate
    assert guard.possible


def test_the_parts_of_a_level_add_up_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = answered(guarded("retention >= today - 0.5", horizon=3000), 3)
    spent = list[float]()
    state, kept_of = Sealed.state, Sealed.kept

    def noted(evidence: Sealed, best: int, level: float) -> Statement:
        spent.append(level)
        return state(evidence, best, level)

    def noted_of(evidence: Sealed, rule: Rule, at: Indices, today: int, level: float, side: int) -> Array:
        spent.append(level)
        return kept_of(evidence, rule, at, today, level, side)

    monkeypatch.setattr(Sealed, "state", noted)
    monkeypatch.setattr(Sealed, "kept", noted_of)
    begun = own(Waves().init(problem))
    begun.opened(1.0)
    assert sum(spent) == pytest.approx(begun.delta - begun.spent)
    assert len(spent) == 3


def test_nothing_is_tried_that_may_break_a_rule_unless_the_owner_says_so() -> None:
    problem = answered(guarded("retention >= today - 0.5", horizon=30_000), 3, people=40)
    state = own(Waves().init(problem))
    assert state.view is not None
    safe = np.flatnonzero(state.view.safe)
    plan = Waves(checks=3).plan(problem, state)
    assert isinstance(plan, Plan)
    assert set(plan.arms.tolist()) <= set(safe.tolist())
    free = own(Waves(trials="any").init(problem))
    assert free.view is not None
    assert free.view.safe.all()


def test_a_study_with_a_limited_loss_starts_from_todays_decision() -> None:
    problem = random_problem_with_today()
    state = Waves(most_loss=0.01).init(problem)
    assert state.best == TODAY
    plan = Waves(most_loss=0.01).plan(problem, state)
    assert isinstance(plan, End) or plan.arms.tolist() == [TODAY]


@pytest.mark.parametrize(
    ("settings", "problem", "said"),
    [
        ({"most_loss": 0.1}, guarded(today=None), "most_loss 0.1 is against today's decision"),
        ({"most_loss": 0.1, "trials": "any"}, guarded(), "trials = 'any' contradicts most_loss 0.1"),
        ({"drift": 0.1}, guarded(), "drift 0.1 says how much the objective may change"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, object], problem: Problem, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Waves(**settings).init(problem)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: guarded("retention >= -2%", today=None), "compares with today's decision, which is not known"),
        (lambda p: replace(p, guardrails=p.guardrails * 2), "retention has two guardrails"),
        (lambda p: replace(p, pilot=()), "measured for other people or decisions of the pilot"),
        (lambda p: replace(p, today=99), "must be a whole number, at least 0 and at most 11"),
        (lambda p: replace(p, guardrails=(replace(p.guardrails[0], correlations=(2.0,)),)), "contradict each other"),
        (lambda p: replace(p, guardrails=(replace(p.guardrails[0], correlations=(0.1, 0.1)),)), "needs 1 correlations"),
    ],
)
def test_guardrails_that_cannot_be_meant_are_refused(change: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        change(answered(guarded()))  # type: ignore[operator]


@pytest.mark.parametrize(("limit", "said"), [("g >= 1.5", "out of reach"), ("g >= -0.5", "forbids nothing")])
def test_a_limit_outside_of_what_a_metric_can_be_is_refused(limit: str, said: str) -> None:
    metric = replace(random_problem(1, n=12), reward_range="0:1")
    with pytest.raises(InputError, match=said):
        replace(random_problem(1, n=12), guardrails=(Guardrail(Rule.of(limit), metric),))


@pytest.mark.parametrize(
    "text", ["retention", "retention > 3", ">= 3", "retention >= high", "a >= 1 % today", "a >= 1.2.3"]
)
def test_a_rule_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match=r"is no guardrail.*; write one such as"):
        Rule.of(text)


@pytest.mark.parametrize("text", ["a b >= 0.4", "b <= +10%", "c >= today -0.02", "d <= today +0.5", "e >= -2%"])
def test_a_rule_is_read_as_it_is_written(text: str) -> None:
    assert Rule.of(Rule.of(text).text) == Rule.of(text)
    assert Rule.of(text).text == text
