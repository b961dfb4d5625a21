"""The errata of docs/errata.md: what is printed fails here, and what is right does not."""

import math
import re

import numpy as np
import pytest
from scipy.special import gamma, jv, kv

from reproduction import theory
from reproduction.readings import Reading, make, play
from tests.helpers import everything
from tests.helpers_cli import ROOT
from tests.reproduction.helpers import LABELS
from voxpop.gp.posterior import regress
from voxpop.gp.selection import select
from voxpop.model.kernels import Matern, SquaredExponential
from voxpop.model.problem import Problem
from voxpop.privacy.gaussian import classical_multiplier, delta_of
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.trials import Trial

PAGE = (ROOT / "docs/errata.md").read_text(encoding="utf-8")


def one_action(noise_std: float = 0.01, bias_std: float = 0.1) -> Problem:
    return Problem([0.5], SquaredExponential(0.2), noise_std, bias_std, norm_bound=1.0, horizon=100)


def test_every_erratum_names_a_test_that_is_here_and_labels_of_the_paper() -> None:
    named = re.findall(r"`(test_\w+)`", PAGE)
    assert len(named) >= 12
    assert [name for name in named if name not in globals()] == []
    here = {name for name in globals() if name.startswith("test_")} - {
        test_every_erratum_names_a_test_that_is_here_and_labels_of_the_paper.__name__
    }
    assert here == set(named)
    assert [
        label for label in re.findall(r"\b(?:alg|cor|eq|fig|lem|tab|thm):[\w-]+", PAGE) if label not in LABELS
    ] == []


def test_the_printed_se_kernel_is_not_smooth() -> None:
    """exp(-r / 2l^2) leaves 1 linearly, with a kink at 0; the squared exponential leaves it quadratically."""
    kernel, step = SquaredExponential(0.2), 1e-3
    right = 1 - float(kernel(np.array([[0.0]]), np.array([[step]]))[0, 0])
    assert right == pytest.approx(step**2 / (2 * 0.2**2), rel=1e-4)
    assert -math.expm1(-step / (2 * 0.2**2)) > 900 * right


def test_the_printed_matern_kernel_has_no_variance() -> None:
    """2^(1-nu) / Gamma(nu) z J_nu(z) lacks the power nu: 0 at z = 0, and with K_nu infinite for nu above 1."""
    nu, z = 2.5, 1e-6
    factor = 2 ** (1 - nu) / gamma(nu)
    assert factor * z * jv(nu, z) < 1e-15
    assert factor * z * kv(nu, z) > 1e8
    assert factor * z**nu * kv(nu, z) == pytest.approx(1.0, rel=1e-6)
    r = 0.13
    z = math.sqrt(2 * nu) * r / 0.2
    expected = factor * z**nu * kv(nu, z)
    assert float(Matern(0.2, nu)(np.array([[0.0]]), np.array([[r]]))[0, 0]) == pytest.approx(expected, rel=1e-9)


def test_the_printed_batch_may_have_no_round() -> None:
    """With C = 1.2 and k(x, x) = 1 the printed length is 0, and the phase of alg:DPBE never ends."""
    assert math.floor((1.2**2 - 1) / 1.0) == 0
    assert select(one_action(), everything(one_action()), 5, 1.2, "printed").pulls.tolist() == [5]


def test_the_variance_ratio_lacks_one_over_lambda() -> None:
    """One round of one action divides its variance by 1 + 1/lambda = 101, where lem:variance_ratio allows 2."""
    problem = one_action()
    after = float(regress(problem, everything(problem), np.array([1]), everything(problem))[1][0])
    assert problem.ridge == pytest.approx(0.01)
    assert 1 / after == pytest.approx(1 + 1 / problem.ridge, rel=1e-9)
    assert 1 / after > 1 + 1.0


def test_the_lemma_on_batches_is_false() -> None:
    """A phase of 2^15 rounds has 732 batches of the corrected length, where lem:bound_h allows 29.5."""
    problem, rounds = make_scenario("synthetic", Options()).problem, 2**15
    gain = theory.information_gain_bound(problem, rounds)
    corrected = select(problem, everything(problem), rounds, 1.6, "corrected")
    assert (corrected.batches, round(theory.printed_batches(problem, 1.6, gain), 1)) == (732, 29.5)
    assert corrected.batches <= theory.batches(problem, 1.6, gain, "corrected")


def test_the_clock_of_the_printed_loop_stands_still() -> None:
    """The loop of alg:DPBE runs while t_l < T; its last line advances t, which nothing reads."""
    horizon, clock, length, t, phases = 100, {1: 0}, 1, 0, 0
    while clock[1] < horizon and phases < 1000:  # t_1 = 0 is the only t_l that is ever set
        t, length, phases = t + length, 2 * length, phases + 1
    assert phases == 1000
    assert t > horizon


def test_the_proof_s_variance_needs_the_square_of_eps() -> None:
    """2 Delta^2 ln(1.25/delta) / eps is too little below eps = 1; over eps^2, as in eq:gaussian_noise, it is enough."""
    epsilon, delta = 0.1, 1e-6
    printed = math.sqrt(2 * math.log(1.25 / delta) / epsilon)
    assert delta_of(printed, epsilon) > 10 * delta
    assert delta_of(classical_multiplier(epsilon, delta), epsilon) < delta


def test_the_printed_definition_protects_nobody() -> None:
    """With M(U) on both sides every mechanism is private, one that publishes the answers among them."""
    epsilon, delta, answers = 0.1, 0.0, {"with Ann": 1.0, "without": 0.0}  # P[M(U) = "Ann said yes"]
    assert all(chance <= math.exp(epsilon) * chance + delta for chance in answers.values())
    assert answers["with Ann"] > math.exp(epsilon) * answers["without"] + delta


def test_delta_1_covers_one_pair_of_people() -> None:
    """lem:global_sensitivity spends delta_1 on one pair of people: the farthest of 100 nearly always exceed it."""
    share, bound = 0.1, 2 * math.sqrt(math.log(2 / 0.1))  # kappa^2 + sigma^2 = 1, H = 1
    people = np.random.default_rng(0).standard_normal((2000, 100))
    assert (np.abs(people[:, 0] - people[:, 1]) > bound).mean() < share
    assert (np.ptp(people, axis=1) > bound).mean() > 0.95


def test_bpe_s_nested_root_takes_hundreds_of_batches() -> None:
    """N = sqrt(T sqrt(N)) stays below T^(2/3), so there are more than T^(1/3) batches; ceil(sqrt(T N)) takes 5."""

    def batches(horizon: int, nested: bool) -> int:
        size, left, count = 1.0, horizon, 0
        while left > 0:
            size = math.ceil(math.sqrt(horizon * (math.sqrt(size) if nested else size)))
            left, count = left - int(size), count + 1
        return count

    assert batches(40_000, nested=True) > 40_000 ** (1 / 3)
    assert batches(10**9, nested=True) > 10**3
    assert batches(40_000, nested=False) <= 5


def test_michalewicz_comes_out_with_the_appendix_s_sigma_only() -> None:
    """With sigma = 0.1 DPBE-NoBatching never ends within its 27,300 numbers; with 0.01 it mostly does."""
    found: dict[float | None, list[int]] = {None: [], 0.01: []}
    for sigma, numbers in found.items():
        for function in range(8):
            reading = Reading(noise_std=sigma, batches="single")
            problem, f, alpha, ratio = make("michalewicz", reading, function)
            numbers.append(play(problem, f, reading, alpha, ratio, np.random.default_rng(function))[0])
    assert min(found[None]) > 40_000
    assert sum(number < 27_300 for number in found[0.01]) >= 4


def test_the_noise_needs_v() -> None:
    """With v kappa for the printed kappa, regret per round at T = 10^6 falls below a tenth, and one action is left."""
    runs = [
        Trial("light", "dpbe-paper", horizon=10**6, privacy="central", epsilon=15.0, calibration=calibration).run()
        for calibration in ("paper", "paper-v")
    ]
    printed, scaled = (run.metrics.regret / 10**6 for run in runs)
    assert scaled < 0.02 < 0.1 < printed
    assert len(runs[1].state.active) == 1
