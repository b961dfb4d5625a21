import itertools
import math

import numpy as np
import pytest

from tests.helpers_privacy import DELTA, first_wave, hockey_stick, simulated
from voxpop.errors import Array
from voxpop.privacy import Private
from voxpop.privacy.binomial import Binomial
from voxpop.privacy.encoded import Encoding, shift_of
from voxpop.privacy.shuffle import Shuffled, calibrated_encoding, printed_encoding

CASE = first_wave()


def bits_of(ones: Array, encoding: Encoding, rng: np.random.Generator) -> Array:
    """Write reports out as bits, shuffled coordinate by coordinate, of shape (bits of all people, arms)."""
    people, arms = ones.shape
    bits = np.zeros((people, encoding.bits, arms))
    bits[np.arange(encoding.bits)[None, :, None] < ones[:, None, :]] = 1
    return np.asarray(rng.permuted(bits.reshape(-1, arms), axis=0))


def release_of(calibration: str, epsilon: float = 8.0) -> Shuffled:
    made = CASE.release(Private("shuffle", epsilon, calibration=calibration))
    assert isinstance(made, Shuffled)
    return made


@pytest.mark.parametrize(("people", "arms"), [(40, 4), (40, 400), (10**9, 4), (3, 1), (2500, 30)])
@pytest.mark.parametrize("epsilon", [0.5, 5.0, 30.0])
def test_printed_parameters_are_the_printed_equation(epsilon: float, people: int, arms: int) -> None:
    """eq:gbp_set; g is rounded up to a whole number, and b and p follow from the rounded g."""
    eps_hat = epsilon / (18 * math.sqrt(math.log(2 / DELTA)))
    ln = math.log(4 * arms / DELTA)
    g = math.ceil(max(eps_hat * math.sqrt(people) / (6 * math.sqrt(5 * ln)), math.sqrt(arms), 10))
    b = math.ceil(180 * g**2 * ln / (eps_hat**2 * people))
    found = printed_encoding(epsilon, DELTA, people, arms)
    assert (found.levels, found.trials, found.people) == (g, b, people)
    assert found.chance == pytest.approx(90 * g**2 * ln / (b * eps_hat**2 * people), rel=1e-12)
    assert found.chance <= 0.5


def test_each_term_of_the_printed_levels_can_be_the_largest() -> None:
    levels = [printed_encoding(5.0, DELTA, people, arms).levels for people, arms in ((40, 4), (40, 400), (10**9, 4))]
    assert levels[0] == 10
    assert levels[1] == 20
    assert levels[2] > 20


@pytest.mark.parametrize("calibration", ["exact", "paper"])
def test_the_protocol_bit_for_bit(calibration: str) -> None:
    """alg:shuffler, the shuffler and the analyzer, on actual bits."""
    release, rng = release_of(calibration), np.random.default_rng(3)
    code, ball = release.encoding, release.ball
    g, b, p, U, Delta = code.levels, code.trials, code.chance, 40, ball.radius
    if calibration == "paper":
        code = Encoding(g, 500, p, U)  # the printed b is tens of thousands of bits; any b will do here
        b = 500
        release = Shuffled(ball, release.beta, release.cost, code)
    ones = release.randomize(CASE.answers(U), simulated())
    phi = bits_of(ones, code, rng)
    assert phi.shape == ((g + b) * U, 4)
    assert set(np.unique(phi)) <= {0.0, 1.0}
    z = 2 * Delta / (g * U) * (phi.sum(axis=0) - b * U * p)
    o = z - Delta
    feedback = release.analyze(release.tally(ones), simulated())
    np.testing.assert_allclose(feedback.mean, ball.centre + ball.root @ o, rtol=1e-9, atol=1e-12)


def test_shuffled_bits_tell_nothing_of_whose_they_were() -> None:
    code = Encoding(10, 20, 0.5, 2)
    bits = bits_of(np.array([[30.0], [0.0]]), code, np.random.default_rng(0))[:, 0]
    assert bits.sum() == 30
    assert 5 <= bits[:30].sum() <= 25  # in order it would be 30


def test_a_report_is_the_scaled_coordinate_rounded_at_random_plus_binomial_noise() -> None:
    """alg:shuffler, the local randomizer: E ones = (y + Delta) g / (2 Delta) + b p, and rounding goes up or down."""
    release = release_of("exact")
    g, b, p = release.encoding.levels, release.encoding.trials, release.encoding.chance
    z = np.array([0.31, -0.2, 0.05, 0.4]) * release.ball.radius
    answers = np.tile(release.ball.centre + release.ball.root @ z, (40_000, 1))
    ones = release.randomize(answers, simulated(1))
    scaled = (z + release.ball.radius) * g / (2 * release.ball.radius)
    share = scaled % 1
    deviation = np.sqrt(b * p * (1 - p) + share * (1 - share))
    np.testing.assert_allclose(ones.mean(axis=0), scaled + b * p, atol=4.5 * deviation.max() / 200)
    np.testing.assert_allclose(ones.var(axis=0), deviation**2, rtol=0.04)


@pytest.mark.parametrize("direction", range(4))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_no_answer_overflows_the_bits(direction: int, sign: float) -> None:
    release = release_of("exact")
    far = np.zeros(4)
    far[direction] = sign * 1e6
    ones = release.randomize(np.tile(release.ball.centre + release.ball.root @ far, (200, 1)), simulated())
    assert ones.min() >= 0
    assert ones.max() <= release.encoding.bits
    release.tally(ones)


CODES = [(0.5, 1e-3, 30, 2), (2.0, 1e-6, 40, 4), (5.0, 1e-6, 50, 9), (15.0, 1e-6, 12, 3), (30.0, 1e-9, 200, 4)]


def exact_delta(trials: int, chance: float, shift: int, epsilon: float) -> float:
    """Both directions, over the whole support, with scipy's binomial."""
    return max(hockey_stick(trials, chance, [shift], epsilon), hockey_stick(trials, chance, [-shift], epsilon))


@pytest.mark.parametrize(("epsilon", "delta", "people", "arms"), CODES)
def test_calibrated_noise_keeps_the_promise_and_no_less_would(
    epsilon: float, delta: float, people: int, arms: int
) -> None:
    code = calibrated_encoding(epsilon, delta, people, arms)
    shift = math.ceil(code.levels + math.sqrt(arms))
    actual = exact_delta(people * code.trials, code.chance, shift, epsilon)
    assert 0.99 * delta < actual <= delta * (1 + 1e-6)
    assert exact_delta(people * code.trials, 0.97 * code.chance, shift, epsilon) > delta


@pytest.mark.parametrize(
    ("trials", "chance", "shift", "epsilon"), [(300, 0.4, 15, 2.0), (40, 0.1, 3, 1.0), (9, 0.5, 9, 4.0)]
)
def test_binomial_delta_is_the_sum_over_the_support(trials: int, chance: float, shift: int, epsilon: float) -> None:
    expected = exact_delta(trials, chance, shift, epsilon)
    assert Binomial(trials, chance, shift).delta(epsilon) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("trials", "chance", "shift"), [(10, 0.5, 11), (10, 0.0, 1)])
def test_noise_that_hides_nothing_has_a_delta_of_one(trials: int, chance: float, shift: int) -> None:
    assert Binomial(trials, chance, shift).delta(5.0) == 1.0


SPREAD = [((3, 4), 5), ((5, 12), 13), ((2, 3, 6), 7), ((4, 4, 7), 9), ((2, 2, 2, 2), 4)]  # Euclidean lengths


@pytest.mark.parametrize(("spread", "length"), SPREAD)
@pytest.mark.parametrize("chance", [0.25, 0.5])
def test_a_shift_in_one_coordinate_is_the_worst_of_its_length_for_any_usable_delta(
    spread: tuple[int, ...], length: int, chance: float
) -> None:
    """For a delta that promises next to nothing, above a tenth, a spread shift can be a little worse."""
    trials = {2: 200, 3: 90, 4: 36}[len(spread)]
    assert sum(part**2 for part in spread) == length**2
    deltas = {epsilon: exact_delta(trials, chance, length, epsilon) for epsilon in np.arange(0.5, 30, 0.5)}
    usable = [(epsilon, delta) for epsilon, delta in deltas.items() if 1e-10 < delta < 0.02]
    assert len(usable) >= 3
    for epsilon, concentrated in (usable[0], usable[len(usable) // 2], usable[-1]):
        for signs in itertools.combinations_with_replacement((1, -1), len(spread)):
            shift = [sign * part for sign, part in zip(signs, spread, strict=True)]
            assert hockey_stick(trials, chance, shift, epsilon) <= concentrated


@pytest.mark.parametrize(("epsilon", "delta", "people"), [(5.0, 1e-6, 50), (5.0, 0.01, 50), (20.0, 1e-6, 50)])
def test_no_allocation_of_a_person_s_influence_breaks_a_calibrated_release(
    epsilon: float, delta: float, people: int
) -> None:
    code = calibrated_encoding(epsilon, delta, people, 2)
    reach = code.levels + math.sqrt(2)  # a shift is shorter than this
    for angle in np.linspace(0, math.pi / 2, 7):
        corner = (math.floor(reach * math.cos(angle)), math.floor(reach * math.sin(angle)))
        for signs in itertools.product((1, -1), repeat=2):
            shift = [sign * part for sign, part in zip(signs, corner, strict=True)]
            assert hockey_stick(people * code.trials, code.chance, shift, epsilon) <= delta


def noise_of(code: Encoding) -> float:
    """The standard deviation of the average, for a ball of radius 1."""
    return math.sqrt(code.people * code.trials * code.chance * (1 - code.chance)) * 2 / (code.levels * code.people)


@pytest.mark.parametrize(("people", "epsilon"), [(100, 1.0), (100, 15.0), (10_000, 5.0)])
def test_calibrated_parameters_take_far_fewer_bits_and_less_noise_than_printed(people: int, epsilon: float) -> None:
    printed, calibrated = (encode(epsilon, DELTA, people, 5) for encode in (printed_encoding, calibrated_encoding))
    assert calibrated.bits * 20 < printed.bits
    assert noise_of(calibrated) * 20 < noise_of(printed)


def test_the_printed_shuffle_is_noisier_than_local_privacy_for_ten_thousand_people() -> None:
    """It stays noisier until |U| is in the 100,000s."""
    people, spread = 10_000, math.sqrt(math.log(1.25 / DELTA) * 2) / 5.0
    assert noise_of(printed_encoding(5.0, DELTA, people, 5)) > 2 * spread / math.sqrt(people)


def test_the_shift_bound_covers_rounding_up_here_and_down_there() -> None:
    rng = np.random.default_rng(0)
    for g, arms in ((10, 1), (20, 4), (33, 9)):
        ends: Array = rng.standard_normal((500, arms))
        ends *= g / 2 / np.linalg.norm(ends, axis=1, keepdims=True)
        threshold = rng.random((500, arms))  # the same in both worlds
        up, down = (np.floor(g / 2 + sign * ends + threshold) for sign in (1, -1))
        assert np.linalg.norm(up - down, axis=1).max() <= shift_of(g, arms)
        assert shift_of(g, arms) == math.ceil(g + math.sqrt(arms))
