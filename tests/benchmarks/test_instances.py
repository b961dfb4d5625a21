"""Studies drawn by seed, and tables of who costs what on them."""

from collections.abc import Callable, Iterator
from dataclasses import fields

import numpy as np
import pytest

from benchmarks import instances
from benchmarks.instances import Features, Outcome, duels, groups, losses, skewed, study, summary
from voxpop.model.waves import Plan
from voxpop.simulation.runs import simulate

Table = Callable[..., Iterator[tuple[object, ...]]]


def test_a_seed_is_a_study_and_seeds_differ_in_everything() -> None:
    drawn = [Features.of(seed) for seed in range(40)]
    assert drawn[7] == Features.of(7)
    for each in fields(Features):
        kinds = {getattr(like, each.name) for like in drawn}
        assert len(kinds) >= (2 if each.name in ("dimensions", "kernel") else 25), each.name


def test_a_study_has_the_people_that_its_features_describe() -> None:
    like, made = Features.of(3), study(3)
    assert np.ptp(made.f) == pytest.approx(1.0)
    assert (made.problem.size, made.problem.horizon) == (like.decisions, like.horizon)
    assert made.problem.pilot[0].people == 40
    arms = np.array([0, like.decisions // 2])
    plan = Plan(1, arms, np.array([1, 4]), 10)
    found = made.population.observe(plan, 40_000, np.random.default_rng(0))
    np.testing.assert_allclose(found.mean(axis=0), made.f[arms], atol=0.03)
    deviation = like.people * np.sqrt(1 + like.noise**2 / np.array([1, 4]))
    np.testing.assert_allclose(found.std(axis=0), deviation, rtol=0.03)


def test_the_cost_of_an_answer_is_known_to_policies_that_ask_for_it() -> None:
    made, like = study(3), Features.of(3)
    for policy in ("waves", "dbcare"):
        assert made.make_policy(policy).settings()["answer_cost"] == like.answer_cost * like.people
    run = simulate(made, "dbcare", 3)
    found, unit = Outcome.of(run), 100 / like.horizon
    assert found.regret == pytest.approx(unit * run.metrics.regret)
    assert found.cost == pytest.approx(found.regret + unit * like.answer_cost * like.people * run.metrics.numbers)


@pytest.mark.parametrize("skew", [0.0, 0.5, 2.0])
def test_skewed_numbers_have_the_moments_they_should_have(skew: float) -> None:
    found = skewed(skew, (1000, 400), np.random.default_rng(0))
    assert found.mean() == pytest.approx(0, abs=0.01)
    assert found.var() == pytest.approx(1, abs=0.02)
    assert np.mean(found**3) == pytest.approx(skew, abs=0.06)


FOUND = {
    0: {"waves": Outcome(1.0, 2.0, 10), "a": Outcome(2.0, 3.0, 20), "b": Outcome(4.0, 4.0, 0)},
    1: {"waves": Outcome(1.0, 4.0, 30), "a": Outcome(0.5, 2.0, 20), "b": Outcome(0.0, 1.0, 0)},
    2: {"waves": Outcome(3.0, 3.0, 0), "a": Outcome(2.0, 2.0, 0), "b": Outcome(6.0, 9.0, 0)},
}


def rows(table: Table) -> dict[object, tuple[object, ...]]:
    headings, *lines = table(FOUND)
    assert {len(line) for line in lines} == {len(headings)}
    return {line[0]: line[1:] for line in lines}


def test_the_summary_says_who_costs_least() -> None:
    found = rows(summary)
    assert found["`waves`"] == ("1.67", "1", "34.2", "1.5", "13", "3", "3", "1 of 3")
    assert found["`b`"] == ("3.33", "4", "2.67", "3", "0", "4.67", "4", "1 of 3")


def test_a_duel_says_how_much_the_loser_pays() -> None:
    found = rows(duels)
    assert found["`a`"] == ("2 of 3", "1.75 x", "2.00 x", "1.50 x")
    assert found["`b`"] == ("1 of 3", "4.00 x", "4.00 x", "2.50 x")


def test_losses_are_listed_by_feature() -> None:
    listed = list(groups(list(FOUND)))
    headings, *lines = losses(FOUND)
    assert [line[:2] for line in lines] == [name for name, _ in listed]
    assert {name for (name, _), _ in listed} == {each.name.replace("_", " ") for each in fields(Features)}
    for each in {name for (name, _), _ in listed}:  # every study belongs to one group of each feature
        assert sorted(seed for (name, _), seeds in listed if name == each for seed in seeds) == [0, 1, 2]
    (alone,) = [line for line, (_, seeds) in zip(lines, listed, strict=True) if seeds == [1]][:1]
    assert dict(zip(headings, alone, strict=True)) == {
        "studies with": alone[0],
        "": alone[1],
        "`waves`": "4",
        "cheapest peer": "`b` 1",
        "`waves` is cheapest in": "0 of 1",
        "else mostly": "`b` 1",
        "and pays, median": "4.00 x",
    }


def test_the_program_prints_three_tables(capsys: pytest.CaptureFixture[str]) -> None:
    instances.main(["--count", "2", "--first", "5", "--policies", "waves,pilot-only"])
    out = capsys.readouterr().out
    assert out.count("|---|") == 3
    assert "| `waves` |" in out
    assert "| `pilot-only` |" in out
