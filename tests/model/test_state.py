"""The decision in force and its certificate."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import random_problem
from voxpop.model.state import State


def ranked(lead: list[float], width: list[float], active: list[int] | None = None) -> State:
    """Make a state in which the bounds say less than the leads."""
    state = State.prior(random_problem(0, n=len(lead)), 100.0)
    state = replace(state, lead=np.array(lead), lead_width=np.array(width))
    return state if active is None else replace(state, active=np.array(active))


def test_the_leader_is_the_decision_unless_another_was_settled_on() -> None:
    state = ranked([0.0, 2.0, 1.0], [0.1, 0.1, 0.1])
    assert (state.leader, state.best) == (1, 1)
    assert replace(state, decision=2).best == 2


def test_what_an_action_can_lose_at_most_is_computed_from_the_leads() -> None:
    state = ranked([0.0, 2.0, 1.5], [0.1, 0.2, 0.4])
    assert state.most_lost(1) == pytest.approx(1.5 + 0.4 - (2.0 - 0.2))
    assert state.most_lost(0) == pytest.approx(2.0 + 0.2 - (0.0 - 0.1))
    assert state.certificate == state.most_lost(1)


def test_what_an_action_can_lose_at_most_is_computed_from_the_bounds_if_they_say_more() -> None:
    state = replace(
        ranked([0.0, 0.0], [9.0, 9.0]), lower=np.array([1.0, 0.0]), upper=np.array([2.0, 1.25]), lead=np.array([1.0, 0])
    )
    assert state.most_lost(0) == pytest.approx(0.25)


def test_actions_that_were_dropped_are_not_compared_with() -> None:
    assert ranked([0.0, 2.0, 1.5], [0.1, 0.2, 0.4], active=[0, 1]).most_lost(1) == 0.0
    assert ranked([0.0, 2.0, 1.5], [0.1, 0.2, 0.4], active=[1]).most_lost(1) == 0.0


def test_settling_takes_the_leader_if_it_is_certified_better() -> None:
    settled = ranked([0.0, 2.0, 1.9], [0.1, 0.1, 0.1]).settle()
    assert settled.best == 1
    assert settled.certificate == pytest.approx(0.1)
    sharper = replace(settled, lead=np.array([0.0, 1.9, 2.0]), lead_width=np.full(3, 0.06)).settle()
    assert sharper.best == 2
    assert sharper.certificate == pytest.approx(0.02)


def test_settling_keeps_a_decision_that_an_earlier_wave_certified_better() -> None:
    settled = ranked([0.0, 2.0, 1.9], [0.1, 0.1, 0.1]).settle()
    vague = replace(settled, lead=np.array([0.0, 1.9, 2.0]), lead_width=np.full(3, 0.5)).settle()
    assert (vague.leader, vague.best) == (2, 1)
    assert vague.certificate == pytest.approx(0.1)


def test_settling_gives_up_a_decision_that_was_eliminated() -> None:
    settled = ranked([0.0, 2.0, 1.9], [0.1, 0.1, 0.1]).settle()
    without = replace(settled, active=np.array([0, 2]), lead_width=np.full(3, 1.5)).settle()
    assert without.best == 2
    assert without.certificate == pytest.approx(0.0 + 1.5 - (1.9 - 1.5))
