"""The aggregate model: exact calibration, shares that tell nothing and never wrap around, and what joining refuses."""

import itertools
import json
import math
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from tests.helpers_privacy import DELTA, Silent, first_wave, hockey_stick, released, simulated
from voxpop.errors import Array, InputError
from voxpop.model.waves import Tally
from voxpop.privacy import Private, Secure, Source
from voxpop.privacy.aggregate import FAIR, LIKED_TRIALS, Aggregated, calibrated_encoding
from voxpop.privacy.audit import attack, audit_shares, specimen
from voxpop.privacy.encoded import MOST_BITS, MOST_LEVELS, MOST_TRIALS, Encoding
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.release import Batch
from voxpop.privacy.sources import Integers

CASE = first_wave()


def release_of(epsilon: float = 5.0, people: int = 40, honest: float = 1.0) -> Aggregated:
    made = first_wave(people).release(Private("aggregate", epsilon, honest=honest))
    assert isinstance(made, Aggregated)
    return made


# Calibration


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0, 20.0])
@pytest.mark.parametrize(("people", "arms"), [(40, 4), (100, 10), (5000, 2), (300_000, 12)])
def test_calibrated_coins_keep_the_promise_and_hardly_fewer_would(epsilon: float, people: int, arms: int) -> None:
    code = calibrated_encoding(epsilon, DELTA, people, arms)
    assert code.chance == FAIR
    assert code.noise(arms).delta(epsilon) <= DELTA
    fewer = replace(code, trials=math.floor(code.trials * 0.998) - 1)
    assert fewer.noise(arms).delta(epsilon) > DELTA * 0.999


@pytest.mark.parametrize("epsilon", [1.0, 5.0])
@pytest.mark.parametrize(("people", "arms"), [(100, 8), (1000, 10), (100_000, 10)])
def test_the_noise_is_within_three_percent_of_gaussian_noise_that_is_added_once(
    epsilon: float, people: int, arms: int
) -> None:
    code = calibrated_encoding(epsilon, DELTA, people, arms)
    gaussian = noise_multiplier(epsilon, DELTA) * code.levels
    assert 1 <= math.sqrt(code.variance) / gaussian < 1.03


@pytest.mark.parametrize(("epsilon", "people"), [(0.05, 60), (0.01, 2000), (0.01, 10**6), (0.5, 20), (5.0, 2)])
def test_devices_toss_no_more_coins_than_they_can_and_accept_what_is_calibrated(epsilon: float, people: int) -> None:
    release = release_of(epsilon, people)
    code = release.encoding
    assert code.trials <= MOST_TRIALS
    assert code.people * code.trials <= MOST_BITS
    assert code.trials <= 2 * LIKED_TRIALS or code.levels <= math.ceil(10 * math.sqrt(release.arms))
    assert release.weakness(epsilon, DELTA) is None


def test_too_few_people_are_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"3 people are too few to hide in for epsilon 0\.001"):
        calibrated_encoding(0.001, DELTA, 3, 4)
    with pytest.raises(InputError, match=r"delta must be at most 0\.01 in the aggregate model, got 0\.1"):
        calibrated_encoding(1.0, 0.1, 100, 4)


@pytest.mark.parametrize(("epsilon", "delta"), [(5.0, 1e-6), (5.0, 0.01), (20.0, 1e-6)])
def test_no_allocation_of_a_person_s_influence_breaks_a_calibrated_release(epsilon: float, delta: float) -> None:
    people, code = 50, Encoding(12, 1, FAIR, 50)
    while code.noise(2).delta(epsilon) > delta:
        code = replace(code, trials=code.trials + 1)
    reach = code.levels + math.sqrt(2)
    for angle in np.linspace(0, math.pi / 2, 7):
        corner = (math.floor(reach * math.cos(angle)), math.floor(reach * math.sin(angle)))
        for signs in itertools.product((1, -1), repeat=2):
            shift = [sign * part for sign, part in zip(signs, corner, strict=True)]
            assert hockey_stick(people * code.trials, FAIR, shift, epsilon) <= delta


def test_a_share_of_honest_devices_carries_the_noise_of_all() -> None:
    all_of_them, half = release_of(5.0, 100), release_of(5.0, 100, honest=0.5)
    assert half.encoding.noise(half.arms, 0.5).delta(5.0) <= DELTA
    assert all_of_them.weakness(5.0, DELTA) is None
    assert "less noise" in str(all_of_them.weakness(5.0, DELTA, honest=0.9))
    assert half.weakness(5.0, DELTA, honest=0.5) is None


# What a device refuses


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"chance": 0.5 + 1e-16}, "not fair"),
        ({"chance": 0.4999}, "not fair"),
        ({"trials": 3}, "less noise than epsilon 5"),
        ({"people": 10**14}, "cannot be computed"),
        ({"levels": 10**9}, "cannot be computed"),
    ],
)
def test_a_device_refuses_what_would_not_be_private(changes: dict[str, float], said: str | None) -> None:
    release = release_of()
    weakness = replace(release, encoding=replace(release.encoding, **changes)).weakness(5.0, DELTA)  # type: ignore[arg-type]
    assert weakness is None if said is None else said in str(weakness)


# Shares


@settings(max_examples=200)
@given(st.integers(1, MOST_LEVELS), st.integers(1, 2 * MOST_TRIALS))
def test_no_total_that_a_device_helps_to_make_reaches_the_modulus(levels: int, trials: int) -> None:
    people = MOST_BITS // trials  # the most for which a device computes the privacy of a total
    assert people * (levels + trials) < Batch(people, 1, levels, trials, FAIR, shared=True).modulus


def stored(share: bytes) -> Array:
    """A share as a server stores it."""
    return np.frombuffer(share, dtype="<f8")[None, :]


def totals(release: Aggregated, reports: Array, source: Source) -> tuple[Tally, Tally]:
    """What the two servers add up of these reports."""
    shares = [release.split(report, source) for report in reports]
    ours, theirs = (np.concatenate([stored(one[holder]) for one in shares]) for holder in (0, 1))
    release.accept(ours)
    return release.gather(ours), release.batch.gather(theirs)


class Extreme(Silent):
    """A source of the largest noise that there is, and of shares next to the modulus."""

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        return np.full((rows, columns), trials, dtype=np.int64)

    def bytes(self, count: int) -> bytes:
        return b"\xff" * count


@pytest.mark.parametrize("source", [Extreme(), Silent(), simulated(4), Secure()], ids=lambda s: type(s).__name__)
def test_the_two_totals_join_to_the_total_of_the_reports_at_the_extremes_too(source: Extreme) -> None:
    release = release_of()
    answers = CASE.answers(40)
    answers[:20] = release.ball.centre + 1e6  # clipped to the rim
    reports = release.randomize(answers, source)
    joined = release.join(*totals(release, reports, source))
    assert joined.total == tuple(int(ones) for ones in reports.sum(axis=0))
    assert joined.count == 40


def test_a_release_from_shares_is_the_release_from_reports() -> None:
    release, answers = release_of(), CASE.answers(40)
    reports = release.randomize(answers, simulated(2))
    joined = release.join(*totals(release, reports, simulated(3)))
    direct, shared = (release.analyze(tally, Silent()) for tally in (release.tally(reports), joined))
    np.testing.assert_array_equal(direct.mean, shared.mean)
    np.testing.assert_array_equal(released(release, answers, simulated(2)).mean, direct.mean)


def test_the_parts_of_a_report_are_bytes_for_two_servers() -> None:
    release = release_of()
    report = release.randomize(CASE.answers(1), simulated(1))[0]
    parts = release.parts(report, simulated(1))
    assert isinstance(parts.coordinator, bytes)
    assert parts.helper is not None
    theirs = b64decode(parts.helper.pop("report"))
    assert (len(parts.coordinator), len(theirs)) == (8 * release.words, 8 * release.batch.words(1))
    both = [release.batch.prio3.outputs(holder, [share])[0] for holder, share in enumerate((parts.coordinator, theirs))]
    assert [(int(a) + int(b)) % release.batch.modulus for a, b in zip(*both, strict=True)] == report.tolist()
    assert Batch(**parts.helper) == release.batch
    assert release.batch.shared


def test_what_is_sent_has_the_same_length_whatever_the_answer() -> None:
    release = release_of()
    answers = np.vstack([release.ball.centre + side * 1e3 for side in (-1, 0, 1)])
    sent = [release.parts(report, Secure()) for report in release.randomize(answers, Secure())]
    assert len({(len(one.coordinator or b""), len(json.dumps(one.helper))) for one in sent}) == 1


def test_each_share_is_uniform_whatever_the_answer() -> None:
    """Every byte of the elements of 60 shares of two people who could not differ more: a chi-square test."""
    release = release_of()
    elements = slice(16 + 64, -32)
    for side in (-1, 1):
        answers = np.tile(release.ball.centre + side * 1e3, (60, 1))
        shares = [release.split(report, Secure()) for report in release.randomize(answers, simulated(5))]
        ours = np.frombuffer(b"".join(one[0][elements] for one in shares), dtype="<u8")
        theirs = release.batch.prio3.outputs(1, [one[1] for one in shares]).ravel()
        for words in (ours, theirs):
            for byte in (0, 3, 7):
                counts = np.bincount((words >> np.uint64(8 * byte) & np.uint64(255)).astype(int), minlength=256)
                assert chisquare(counts).pvalue > 1e-9


def test_a_share_is_of_its_length_and_its_numbers_of_the_field() -> None:
    release = release_of()
    ours, theirs = release.split(release.randomize(CASE.answers(1), simulated(1))[0], Secure())
    release.accept(stored(ours))
    for wrong in (ours[8:], ours + bytes(8), theirs, np.array([1.0, 2.0, 3.0, 4.0]).tobytes()):
        with pytest.raises(InputError, match="a report has"):
            release.accept(stored(wrong))
    with pytest.raises(InputError, match="too large for its field"):
        release.accept(stored(ours[:80] + b"\xff" * 8 + ours[88:]))


def test_totals_that_no_people_can_have_are_refused() -> None:
    release = release_of()
    ours, theirs = totals(release, release.randomize(CASE.answers(40), Silent()), Secure())
    with pytest.raises(InputError, match="one server adds up 40 shares, the other 39"):
        release.join(ours, replace(theirs, count=39))
    with pytest.raises(InputError, match="more ones than the batch has bits"):
        release.join(ours, replace(theirs, total=(theirs.total[0] - 10**6, *theirs.total[1:])))
    with pytest.raises(InputError, match="not that of the announced batch"):
        release.join(replace(ours, count=39), replace(theirs, count=39))
    assert release.join(replace(ours, count=41), replace(theirs, count=41)).count == 41  # of more people, more noise
    with pytest.raises(InputError, match="same plan"):
        release.join(ours, Tally(40, theirs.total[:3], 1.0))


# Noise


@pytest.mark.parametrize("trials", [1, 7, 8, 9, 64, 1000])
def test_coins_are_binomial(trials: int) -> None:
    drawn = Secure().binomial(500, 40, trials, FAIR).ravel()
    low, high = (int(binom.ppf(tail, trials, 0.5)) for tail in (0.001, 0.999))
    inner = binom.pmf(np.arange(low, high + 1), trials, 0.5)
    expected = np.append(inner, max(1 - inner.sum(), 0.0)) * drawn.size
    counts = np.bincount(np.clip(drawn - low, -1, high - low + 1) + 1, minlength=high - low + 3)
    observed = np.append(counts[1:-1], counts[0] + counts[-1])
    if expected[-1] < 1e-6:
        observed, expected = observed[:-1], expected[:-1]
    assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-9
    assert drawn.min() >= 0
    assert drawn.max() <= trials


def test_the_last_byte_of_coins_counts_only_its_low_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    given_bytes = iter([bytes([0xFF, 0xF8, 0x00, 0x07, 0xAA, 0xFF])])
    monkeypatch.setattr("os.urandom", lambda count: next(given_bytes)[:count])
    assert Secure().binomial(1, 3, 11, FAIR).tolist() == [[8, 3, 7]]


# The auditor


def test_shares_that_are_honest_tell_an_attacker_nothing() -> None:
    findings = audit_shares(Private("aggregate", 5.0), simulated(1), 600)
    assert [finding.model for finding in findings] == ["aggregate, coordinator", "aggregate, helper"]
    assert not any(finding.violated for finding in findings)
    assert all((finding.claimed_mu, finding.claimed_epsilon) == (0.0, 0.0) for finding in findings)
    assert audit_shares(Private("shuffle", 5.0), simulated(1), 600) == []


class Narrow(Aggregated):
    """Devices whose helper's share is the report itself."""

    def _glimpse(self, holder: int, answers: Array, source: Source) -> Array:
        return np.asarray(self.randomize(answers[:1], source)[0] / self.batch.bits)


def test_a_mask_that_does_not_cover_the_report_is_caught() -> None:
    made = Private("aggregate", 5.0).calibrate(*specimen(50))
    assert isinstance(made, Aggregated)
    narrow = Narrow(made.ball, made.beta, made.cost, made.encoding)
    finding = attack(narrow, simulated(1), 50, 600, view=narrow.glimpses["helper"])
    assert finding.certain_mu > 0
