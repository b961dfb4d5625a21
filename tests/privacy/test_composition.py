"""Several releases with binomial noise about one person: never more private than they are."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom

from voxpop.errors import Array
from voxpop.io.schema import decode, encode
from voxpop.privacy import Entry, Private
from voxpop.privacy.binomial import GAP, ORDERS, Binomial, _moves
from voxpop.privacy.gaussian import epsilon_of, noise_multiplier
from voxpop.privacy.ledger import compose, compose_any
from voxpop.privacy.shuffle import calibrated_encoding

DELTA = 1e-6


def shuffled(epsilon: float, people: int = 200, arms: int = 4, delta: float = DELTA) -> Entry:
    noise = calibrated_encoding(epsilon, delta, people, arms).noise(arms)
    return Entry("shuffle", people, epsilon, delta, binomial=noise)


def losses(noise: Binomial, move: int) -> tuple[Array, Array]:
    """Return the probabilities of a coordinate's outcomes without the move, and with it."""
    x = np.arange(-abs(move), noise.trials + abs(move) + 1)
    return binom.pmf(x, noise.trials, noise.chance), binom.pmf(x - move, noise.trials, noise.chance)


def exact_delta(noise: Binomial, moves: tuple[int, ...], epsilon: float) -> float:
    """Sum (P - e^eps Q)+ over all outcomes of independent coordinates, each moved by its own amount."""
    P = Q = np.ones(1)
    for move in moves:
        p, q = losses(noise, move)
        keep = p > 0
        P, Q = np.outer(P, p[keep]).ravel(), np.outer(Q, q[keep]).ravel()
    return float(np.maximum(P - math.exp(epsilon) * Q, 0).sum())


SMALL = [(Binomial(40, 0.4, 5), 1e-2), (Binomial(60, 0.5, 5), 1e-3), (Binomial(60, 0.25, 3), 1e-3)]


@pytest.mark.parametrize(("noise", "delta"), SMALL)
def test_two_releases_keep_what_the_composition_says_whichever_way_a_person_moves_them(
    noise: Binomial, delta: float
) -> None:
    entry = Entry("shuffle", 10, 1.0, 1e-9, binomial=noise)
    together = compose([entry, entry], delta)
    assert 0 < together < 30
    spread = (3, 4) if noise.shift == 5 else (2, 2)
    for one, other in itertools.product([(noise.shift, 0), spread], repeat=2):
        for signs in itertools.product((1, -1), repeat=2):
            moves = tuple(signs[0] * part for part in one if part) + tuple(signs[1] * part for part in other if part)
            assert exact_delta(noise, moves, together) <= delta
    # and it is not far from what the worst of them needs
    assert exact_delta(noise, (noise.shift, noise.shift), 0.75 * together) > delta


@pytest.mark.parametrize("epsilon", [0.5, 5.0, 15.0])
@pytest.mark.parametrize("times", [2, 4])
def test_binomial_releases_cost_a_little_more_than_gaussian_ones(epsilon: float, times: int) -> None:
    gaussian = epsilon_of(noise_multiplier(epsilon, DELTA) / math.sqrt(times), DELTA)
    together = compose([shuffled(epsilon)] * times, DELTA)
    assert 1.0 < together / gaussian < 1.2
    assert together < times * epsilon


def test_one_release_costs_what_it_was_calibrated_for() -> None:
    entry = shuffled(5.0)
    assert compose([entry], DELTA) == 5.0
    assert entry.binomial is not None
    assert entry.binomial.epsilon(DELTA) == pytest.approx(5.0, rel=1e-3)


def test_the_divergence_grows_with_the_move_so_that_moves_may_be_skipped() -> None:
    noise, window = Binomial(4000, 0.35, 90), 3000
    x = np.arange(window)
    log_p = binom.logpmf(x, noise.trials, noise.chance)
    before = np.zeros(len(ORDERS))
    for move in range(1, noise.shift + 1, 7):
        here, there = log_p[200 + move : 2800], log_p[200 : 2800 - move]
        found = logsumexp(np.outer(ORDERS, here) + np.outer(1 - ORDERS, there), axis=1) / (ORDERS - 1)
        assert (found >= before).all()
        before = found


def test_every_short_move_is_computed_and_the_longest() -> None:
    assert _moves(1) == [1]
    assert _moves(GAP) == list(range(1, GAP + 1))
    far = _moves(1000)
    assert far[-1] == 1000
    assert all(after <= before + max(1, before / GAP) for before, after in itertools.pairwise(far))


@pytest.mark.parametrize("noise", [Binomial(10, 0.5, 11), Binomial(10, 0.0, 1), Binomial(4, 0.5, 4)])
def test_noise_that_a_person_can_move_out_of_its_support_promises_nothing(noise: Binomial) -> None:
    """More than delta lies where the other distribution has nothing, so no eps is large enough."""
    assert math.isinf(noise.epsilon(DELTA))
    entry = Entry("shuffle", 10, 1.0, DELTA, binomial=noise)
    assert math.isinf(compose([entry, entry], DELTA))


def test_any_mixture_of_releases_costs_at_most_what_is_said_of_any() -> None:
    few, many = shuffled(5.0, 60, 2), shuffled(5.0, 5000, 30)
    bound = compose_any([few, many], 2, DELTA)
    for pair in itertools.combinations_with_replacement((few, many), 2):
        assert compose(pair, DELTA) <= bound
    assert bound <= 1.05 * compose([few, few], DELTA)
    assert compose_any([few, many], 1, DELTA) == 5.0
    assert compose_any([], 3, DELTA) == 0.0


def central(epsilon: float) -> Entry:
    return Entry("central", 10, epsilon, DELTA, noise_multiplier(epsilon, DELTA))


@pytest.mark.parametrize(("epsilons", "others"), [((2.0,), (5.0,)), ((5.0,), (5.0,)), ((1.0, 3.0), (5.0, 0.5))])
def test_gaussian_and_binomial_releases_add_up(epsilons: tuple[float, ...], others: tuple[float, ...]) -> None:
    """Binomial noise is almost Gaussian, so they cost a little more than Gaussian releases of the same eps."""
    mixed = compose([*map(central, epsilons), *map(shuffled, others)], DELTA)
    exact = compose(list(map(central, (*epsilons, *others))), DELTA)
    assert 1.0 < mixed / exact < 1.2


KINDS = {
    "central": central(5.3),
    "shuffle": shuffled(5.0),
    "few": shuffled(5.0, 60, 2),
    "stated": Entry("shuffle", 10, 2.0, DELTA / 4),
    "small": Entry("shuffle", 10, 0.1, DELTA / 3),
}


@pytest.mark.parametrize("chosen", [*itertools.combinations(KINDS, 2), *itertools.combinations(KINDS, 3)])
def test_no_mixture_of_any_kinds_costs_more_than_what_is_said_of_any(chosen: tuple[str, ...]) -> None:
    kinds = [KINDS[name] for name in chosen]
    bound = compose_any(kinds, 3, DELTA)
    for three in itertools.combinations_with_replacement(kinds, 3):
        assert compose(three, DELTA) <= bound * (1 + 1e-9)
    assert math.isinf(compose_any([*kinds, Entry("none", 3)], 2, DELTA))


def test_a_share_of_honest_devices_carries_the_noise_of_all() -> None:
    """With the noise of all, a fifth or half without noise would leave eps 5.7 or 7.5."""
    code = calibrated_encoding(5.0, DELTA, 1000, 50)
    weaker = [code.noise(50, honest).epsilon(DELTA) for honest in (1.0, 0.8, 0.5)]
    assert weaker == pytest.approx([5.0, 5.69, 7.5], abs=0.03)
    for honest in (0.8, 0.5):
        enough = calibrated_encoding(5.0, DELTA, 1000, 50, honest)
        assert enough.noise(50, honest).epsilon(DELTA) == pytest.approx(5.0, rel=1e-3)
        assert enough.variance == pytest.approx(code.variance / honest, rel=0.05)
        entry = Private("shuffle", 5.0, honest=honest).cost
        assert entry is not None
        assert (entry.honest, entry.epsilon) == (honest, 5.0)


def test_entries_survive_json() -> None:
    entry = Entry("shuffle", 7, 5.0, DELTA, binomial=Binomial(100, 0.3, 9), honest=0.8, names=("ada",) * 7)
    assert decode(Entry, encode(entry)) == entry
