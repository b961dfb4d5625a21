"""The exhibits of compared policies: which policies, and what can be promised beside what was measured."""

from functools import partial

import numpy as np
import pytest

from reproduction.compare import contenders, draw_least, exhibits, promises
from reproduction.exhibits import FULL, QUICK
from reproduction.wave_theory import least_regret
from tests.simulation.test_compare import cell, crowd
from voxpop.model.problem import Problem
from voxpop.simulation.comparison import COSTS, quantity
from voxpop.simulation.pictures import picture
from voxpop.simulation.trials import Trial


def test_one_study_has_a_pilot_and_the_other_has_none() -> None:
    pricing, synthetic, *_ = exhibits(FULL)
    assert (pricing.name, synthetic.name) == ("compare/pricing", "compare/synthetic")
    assert list(pricing.series) == contenders("pricing")
    assert set(pricing.series) - set(synthetic.series) == {"pilot-only"}
    for exhibit in (pricing, synthetic):
        scenario = exhibit.trials[0].scenario()
        assert bool(scenario.problem.pilot) == ("pilot-only" in exhibit.series)
        assert {trial.policy for trial in exhibit.trials} == set(exhibit.series)
    assert [exhibit.trials[0].horizon for exhibit in (pricing, synthetic)] == [20_000, 40_000]
    assert {exhibit.trials[0].horizon for exhibit in exhibits(QUICK)} == {4_000}


def problem() -> Problem:
    return Trial("sphere", size=10, horizon=1000).scenario().problem


def test_the_least_regret_is_drawn_against_people_where_it_can_be_seen() -> None:
    without, drawn = (picture("tea", crowd(4), bound=given).axes for given in (None, partial(draw_least, problem())))
    for old, new, cost in zip(without, drawn, COSTS, strict=True):
        assert new.get_ylim()[1] == pytest.approx(old.get_ylim()[1])
        assert new.get_xlim() == pytest.approx(old.get_xlim())
        dotted = [line for line in new.get_lines() if line.get_linestyle() == ":"]
        assert len(dotted) == (cost == "people")
        for line in dotted:
            people, regret = (np.asarray(data, dtype=float) for data in (line.get_xdata(), line.get_ydata()))
            assert new.get_ylim()[0] < regret[0]
            assert regret[7] == pytest.approx(least_regret(problem(), float(people[7])))


def test_what_can_be_promised_stands_beside_what_was_measured() -> None:
    made = promises("tea", problem(), {"waves": cell({"regret": 5.0, "people": 100, "numbers": 700})})
    assert made.rows[-1] == ("waves, measured", "100", "700", "5", quantity(least_regret(problem(), 100)))
    bounds = [[float(text.replace(",", "")) for text in row[1:]] for row in made.rows[:-1]]
    for people, numbers, most, least in bounds:
        assert least < most
        assert people <= numbers
    assert [bound[0] for bound in bounds] == sorted(bound[0] for bound in bounds)
    assert [bound[2] for bound in bounds] == sorted((bound[2] for bound in bounds), reverse=True)
    assert len(promises("tea", problem(), crowd(2)).rows) == len(bounds)
