"""The lemmas: no selection has more batches, or leaves more variance, than they allow."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduction import theory
from tests.helpers import everything, random_problem
from tests.reproduction.helpers_theory import APART, BATCHED, LINE, ROUNDING, RULES, left_variance, problems, synthetic
from voxpop.gp.selection import BatchRule, select
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Problem

# lem:bound_h


@given(
    problem=problems(),
    rounds=st.integers(1, 400),
    ratio=st.floats(1.01, 6),
    rule=st.sampled_from(BATCHED),
    data=st.data(),
)
def test_no_selection_has_more_batches_than_its_information_gain_allows(
    problem: Problem, rounds: int, ratio: float, rule: BatchRule, data: st.DataObject
) -> None:
    active = np.array(sorted(data.draw(st.sets(st.integers(0, problem.size - 1), min_size=1))))
    chosen = select(problem, active, rounds, ratio, rule)
    own = theory.batches(problem, ratio, chosen.information_gain, rule)
    assert chosen.batches <= own * ROUNDING
    gain = theory.information_gain_bound(problem, rounds)
    assert own <= theory.batches(problem, ratio, gain, rule) * ROUNDING


def test_the_bound_on_batches_is_nearly_reached() -> None:
    ratio = math.sqrt(1 + 1.999 / 0.3)  # corrected: floor(1.999) rounds of every action of variance 1
    chosen = select(APART, everything(APART), 8, ratio)
    bound = theory.batches(APART, ratio, theory.information_gain_bound(APART, 8))
    assert chosen.batches == 8
    assert 8 <= bound <= 9.01


def test_single_rounds_have_no_bound_on_batches_but_the_rounds() -> None:
    assert theory.batches(APART, 1.6, 1.0, "single") == math.inf
    phases = theory.phase_bounds(APART, 0.7, 1.6, "single")
    assert [phase.batches for phase in phases] == [phase.rounds for phase in phases]


@pytest.mark.parametrize("rule", BATCHED)
def test_the_printed_bound_on_batches_is_false(rule: BatchRule) -> None:
    problem = synthetic().problem
    rounds = 2**6  # phase 7
    gain = theory.information_gain_bound(problem, rounds)
    printed = 4 * problem.ridge * 1.6**2 / (1.6**2 - 1) * gain
    assert theory.printed_batches(problem, 1.6, gain) == pytest.approx(printed, rel=1e-12)
    chosen = select(problem, everything(problem), rounds, 1.6, rule)
    assert chosen.batches > 4 * printed
    assert chosen.batches <= theory.batches(problem, 1.6, gain, rule)


def test_the_printed_bound_on_numbers_sent_is_false() -> None:
    problem = synthetic().problem
    phases = [phase for phase in theory.phase_bounds(problem, 0.7, 1.6) if phase.rounds <= 2**6]
    printed = sum(theory.printed_batches(problem, 1.6, phase.gain) * (2 ** (0.7 * phase.wave) + 1) for phase in phases)
    sent = sum(
        phase.people * len(select(problem, everything(problem), phase.rounds, 1.6).arms) for phase in phases
    )  # nothing can be dropped for certain, so this is what seven phases may cost
    assert sent > 2 * printed


@given(
    seed=st.integers(0, 10**6), ridge=st.floats(1, 5), ratio=st.floats(1.5, 4), rounds=st.integers(1, 400)
)  # lambda >= 1 and C^2 - 1 >= k(x, x): where the variance ratio holds without 1/lambda and no batch is empty
def test_the_printed_lemmas_hold_where_their_proofs_do(seed: int, ridge: float, ratio: float, rounds: int) -> None:
    problem = random_problem(seed, n=6, ridge=ridge)
    chosen = select(problem, everything(problem), rounds, ratio, "printed")
    gain = theory.information_gain_bound(problem, rounds)
    assert chosen.batches - 1 <= theory.printed_batches(problem, ratio, gain) * ROUNDING  # the last may be cut
    left = left_variance(problem, chosen, everything(problem))
    assert left <= theory.printed_variance(problem, ratio, gain, rounds) * ROUNDING


# lem:max_variance


@given(
    problem=problems(),
    rounds=st.integers(1, 300),
    ratio=st.floats(1.01, 6),
    rule=st.sampled_from(RULES),
    data=st.data(),
)
def test_no_active_action_keeps_more_variance_than_the_information_gain_allows(
    problem: Problem, rounds: int, ratio: float, rule: BatchRule, data: st.DataObject
) -> None:
    active = np.array(sorted(data.draw(st.sets(st.integers(0, problem.size - 1), min_size=1))))
    chosen = select(problem, active, rounds, ratio, rule)
    own = theory.variance(problem, ratio, chosen.information_gain, rounds, rule)
    assert left_variance(problem, chosen, active) <= own * ROUNDING + 1e-12
    gain = theory.information_gain_bound(problem, rounds)
    assert own <= theory.variance(problem, ratio, gain, rounds, rule) * ROUNDING


def test_the_bound_on_the_variance_is_nearly_reached() -> None:
    """Seven actions get their 30 rounds, which gain 1/2 ln(1 + 3) each, and the eighth a single one."""
    problem = Problem(LINE, SquaredExponential(1e-3), math.sqrt(10), 1.0, norm_bound=1.0, horizon=211)
    chosen = select(problem, everything(problem), 211, 2.0)
    assert chosen.pulls.tolist() == [30] * 7 + [1]
    left = left_variance(problem, chosen, everything(problem))
    assert left == pytest.approx(10 / 11)
    assert left <= theory.variance(problem, 2.0, chosen.information_gain, 211) <= 1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rounds", [1, 50, 5000])
def test_the_variance_of_one_action_is_within_the_information_gain_of_its_rounds(rule: BatchRule, rounds: int) -> None:
    problem = Problem([0.5], SquaredExponential(0.2), 0.1, 0.1, norm_bound=1.0, horizon=5000, ridge=0.5)
    exact = 0.5 / (rounds + 0.5)
    gain = theory.information_gain_bound(problem, rounds)
    assert exact <= theory.variance(problem, 1.6, gain, rounds, rule) <= min(1.0, 8 * gain * exact)


@pytest.mark.parametrize("rule", RULES)
def test_the_printed_bound_on_the_variance_is_false(rule: BatchRule) -> None:
    problem = synthetic().problem
    rounds = 2**5  # phase 6
    gain = theory.information_gain_bound(problem, rounds)
    chosen = select(problem, everything(problem), rounds, 1.6, rule)
    left = left_variance(problem, chosen, everything(problem))
    printed = theory.printed_variance(problem, 1.6, gain, rounds)
    assert printed == pytest.approx(2 * problem.ridge * 1.6**2 * gain / rounds, rel=1e-12)
    assert left > 4 * printed
    assert left <= theory.variance(problem, 1.6, gain, rounds, rule)
