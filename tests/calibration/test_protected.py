"""A protected pilot: only clipped sums with noise leave the answers, and everything is computed from these."""

import math
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tests.helpers_cli import pilot_of_model, refusal
from voxpop.calibration import fit
from voxpop.calibration import pilot as pilots
from voxpop.calibration.fit import Calibration, calibrate
from voxpop.calibration.likelihood import Design, Evaluation
from voxpop.calibration.pilot import Group, Pilot
from voxpop.calibration.protected import NARROWEST, STEP, WIDEST, Protection
from voxpop.errors import Array, InputError
from voxpop.gp.belief import pilot_rows
from voxpop.io.schema import decode, encode
from voxpop.io.studyfile import read_study, write_study
from voxpop.model.decisions import Decisions, Float, Space
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Evidence, Problem
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.sources import Integers, Simulated

POINTS = np.linspace(0, 1, 6)[:, None]
WIDE = Protection(-4.0, 8.0, 1.0)


@dataclass
class Silent:
    """A source without noise that remembers how much was asked of it."""

    asked: list[tuple[int, int, float]] = field(default_factory=list)

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        self.asked.append((rows, columns, std))
        return np.zeros((rows, columns), dtype=np.int64)

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        raise NotImplementedError

    def bernoulli(self, chances: Array) -> Integers:
        raise NotImplementedError

    def bytes(self, count: int) -> bytes:
        raise NotImplementedError


def pilot(matrix: object) -> Pilot:
    """A pilot of people who all tried the same actions, with answers of any value."""
    answers = np.asarray(matrix, dtype=float)
    people, actions = np.indices(answers.shape)
    counts = np.full(answers.size, 10.0)
    decisions = Decisions(POINTS[: answers.shape[1]])
    return Pilot(decisions, people.ravel(), actions.ravel(), answers.ravel(), counts, protected=True)


WILD = [-4.0, 8.0, 2.0, math.nan, math.inf, -math.inf, 1e300, -1e300]


@pytest.mark.parametrize("size", [2, 6])
def test_replacing_one_person_moves_the_sums_by_no_more_than_the_noise_is_made_for(size: int) -> None:
    rng = np.random.default_rng(0)
    others = rng.normal(2, 3, size=(3, size))
    rows = [np.full(size, value) for value in WILD] + [rng.choice(WILD, size=size) for _ in range(8)]
    sums = [WIDE.grid(np.vstack([others, row])).sum(axis=0).astype(float) for row in rows]
    moved = max(float(np.linalg.norm(a - b)) for a in sums for b in sums)
    limit = 1 / STEP + math.sqrt(size + 2)
    assert 0.5 / STEP < moved <= limit
    source = Silent()
    WIDE.release(pilot(np.vstack([others, rows[0]])), source)
    ((rows_asked, columns, std),) = source.asked
    assert (rows_asked, columns) == (1, size + 2)
    assert std == pytest.approx(noise_multiplier(1.0, 1e-6) * limit, rel=1e-12)


def test_every_group_has_noise_of_its_own() -> None:
    """Groups share no person, so each spends the whole budget on its own people."""
    first, second = (pilot_of_model(seed, POINTS, people=5) for seed in (1, 2))
    both = Pilot(
        first.decisions,
        np.concatenate([first.people, second.people + 5]),
        np.concatenate([first.actions, second.actions]),
        np.concatenate([first.averages, second.averages]),
        np.concatenate([first.counts, second.counts + 1]),
    )
    source = Silent()
    assert [group.people for group in WIDE.release(both, source)] == [5, 5]
    assert [asked[:2] for asked in source.asked] == [(1, 8), (1, 8)]


def test_without_noise_the_sums_are_those_of_the_answers() -> None:
    plain = pilot_of_model(3, POINTS, people=50)
    (group,), (exact,) = WIDE.release(plain, Silent()), plain.groups()
    np.testing.assert_allclose(group.mean, exact.mean, atol=1e-7)
    assert group.moments is not None
    covariance = exact.scatter / 49
    expected = [np.trace(covariance) / 6, covariance.sum() / 36]
    # What the noise, which is not there, would have added to squares has been taken off.
    taken = np.array([1, 1 / 6]) * group.noise_std**2 * 50 / 49
    np.testing.assert_allclose(group.moments.variances - taken, expected, rtol=1e-4)


def test_the_errors_are_those_of_the_noise() -> None:
    plain = pilot_of_model(3, POINTS, people=50)
    source = Simulated(np.random.default_rng(0))
    groups = [Protection(-4.0, 8.0, 5.0).release(plain, source)[0] for _ in range(1000)]
    means = np.array([group.mean for group in groups])
    assert means.std(axis=0) == pytest.approx(np.full(6, groups[0].noise_std), rel=0.08)
    variances = np.array([group.moments.variances for group in groups if group.moments])
    errors = np.array([group.moments.errors for group in groups if group.moments]).mean(axis=0)
    covariance = plain.groups()[0].scatter / 49
    assert variances.mean(axis=0) == pytest.approx(
        np.array([np.trace(covariance) / 6, covariance.sum() / 36]), abs=4 * float(errors.max()) ** 0.5 / 1000**0.5
    )
    assert variances.var(axis=0) == pytest.approx(errors, rel=0.25)


def test_the_likelihood_knows_the_noise() -> None:
    gram = SquaredExponential(0.3)(POINTS, POINTS)
    mean, counts = np.linspace(1, 2, 6), np.full(6, 10.0)
    group = Group(np.arange(6), counts, 1, mean, np.zeros((6, 6)), noise_std=0.7)
    found = Evaluation.at(gram, 0.5, 1.0, 0.8, Design.of([group]))
    covariance = (0.8**2 + 0.5**2) * gram + (1.0 / 10 + 0.7**2) * np.eye(6)
    expected = multivariate_normal(np.full(6, found.prior_mean), covariance).logpdf(mean)
    assert found.log_likelihood == pytest.approx(float(expected))


def test_a_large_protected_pilot_finds_the_constants() -> None:
    plain = pilot_of_model(5, POINTS, people=4000, bias=0.5, noise=1.0)
    open_, found = (calibrate(plain, kernel="squared-exponential", protection=p, source=Silent()) for p in (None, WIDE))
    (group,) = found.groups
    assert group.moments is not None
    assert found.bias_std.value == pytest.approx(math.sqrt(group.moments.upper))  # an upper value
    assert open_.bias_std.value < found.bias_std.value < 1.5 * open_.bias_std.value
    for name in ("noise_std", "norm_bound", "prior_mean"):
        assert getattr(found, name).value == pytest.approx(getattr(open_, name).value, rel=0.25), name
    truth = np.array([estimate.value for estimate in open_.rewards])
    assert np.array([estimate.value for estimate in found.rewards]) == pytest.approx(truth, abs=0.15)
    assert found.skewness is None
    assert found.widened > open_.widened == 1.0


def text(found: Calibration) -> str:
    return write_study(found, Space(x=Float(0, 1)), 100, 11, "tea", {"name": "waves"})


def labelled(seed: int) -> Pilot:
    made = pilot_of_model(seed, POINTS, people=30)
    decisions = Decisions(POINTS, [{"x": float(x)} for x in POINTS[:, 0]])
    return Pilot(decisions, made.people, made.actions, made.averages, made.counts, protected=True)


def test_nothing_but_the_release_reaches_the_study_file(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = WIDE.release(labelled(1), Simulated(np.random.default_rng(0)))
    monkeypatch.setattr(Protection, "release", lambda *_: groups)
    one, other = (text(calibrate(labelled(seed), protection=WIDE)) for seed in (1, 2))
    assert one == other


def test_the_noise_comes_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (calibrate(labelled(1), kernel="matern-5/2", protection=WIDE).groups[0].mean for _ in range(2))
    assert not np.array_equal(one, other)

    class Unused:
        def __init__(self) -> None:
            raise NotImplementedError

    monkeypatch.setattr(fit, "Secure", Unused)
    with pytest.raises(NotImplementedError):
        calibrate(labelled(1), kernel="matern-5/2", protection=WIDE)


def test_released_groups_are_used_instead_of_new_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    first = calibrate(labelled(1), kernel="matern-5/2", protection=WIDE)
    monkeypatch.setattr(Protection, "release", None)
    again = calibrate(labelled(1), kernel="matern-5/2", protection=WIDE, released=first.groups)
    assert text(again) == text(first)
    other = calibrate(labelled(1), kernel="matern-3/2", margin=2.0, protection=WIDE, released=first.groups)
    assert np.array_equal(other.groups[0].mean, first.groups[0].mean)
    assert other.skewness is None


def test_released_groups_of_another_pilot_or_promise_are_refused() -> None:
    groups = WIDE.release(labelled(1), Silent())
    with pytest.raises(InputError, match="give the protection") as caught:
        calibrate(labelled(1), released=groups)
    refusal(caught)
    for other in (groups * 2, [replace(groups[0], people=31)], [replace(groups[0], actions=np.arange(5, -1, -1))]):
        with pytest.raises(InputError, match="other actions, counts or people") as caught:
            calibrate(labelled(1), protection=WIDE, released=other)
        refusal(caught)


def test_too_many_patterns_are_refused_before_noise_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pilots, "MOST_ACTIONS", 5)
    source = Silent()
    with pytest.raises(InputError, match="6 different actions, too many to solve for, of 5"):
        calibrate(labelled(1), protection=WIDE, source=source)
    assert not source.asked


NARROW = [
    (2.0**53, 2.0**53 + 2),
    (2.0**53, 2.0**53 + 6),
    (-(2.0**60) - 2**8, -(2.0**60)),
    (0.1, math.nextafter(0.1, 1)),
]


@pytest.mark.parametrize("limits", NARROW)
def test_a_narrow_range_far_from_zero_moves_the_sums_no_more_than_another(limits: tuple[float, float]) -> None:
    narrow = Protection(*limits, 1.0)
    answers = np.array([[limits[0]] * 6, [limits[1]] * 6, [math.nan] * 6, [math.inf] * 6, [-math.inf] * 6, [0.0] * 6])
    scaled = narrow.scale(answers)
    assert np.all(np.abs(scaled) <= 1)
    people = narrow.grid(answers).astype(float)
    moved = max(float(np.linalg.norm(a - b)) for a in people for b in people)
    assert 0.3 / STEP < moved <= 1 / STEP + math.sqrt(8)


def test_a_matrix_of_a_protected_pilot_may_hold_any_answer() -> None:
    answers = np.resize(WILD, (8, 6))
    made = Pilot.of_matrix(Decisions(POINTS), answers, 10, protected=True)
    assert made.protected
    np.testing.assert_array_equal(made.averages, answers.ravel())
    (group,) = WIDE.release(made, Silent())
    assert np.isfinite(group.mean).all()
    missing = Pilot.of_matrix(Decisions(POINTS), [[None] * 6, [1.0] * 6], 10, protected=True)
    assert np.isnan(missing.averages[:6]).all()
    for refused, protected in ((answers, False), ([["much"] * 6] * 2, True)):
        with pytest.raises(InputError, match="averages must be") as caught:
            Pilot.of_matrix(Decisions(POINTS), refused, 10, protected=protected)
        refusal(caught)


@pytest.mark.parametrize("half", [NARROWEST, WIDEST])
def test_the_widest_and_the_narrowest_range_can_be_calibrated(half: float) -> None:
    """With so small an epsilon, all that is left is noise of many times the range."""
    plain = pilot(np.random.default_rng(0).uniform(-half, half, size=(20, 6)))
    for promise in (Protection(-half, half, 1e-6), Protection(-half, half, 1.0)):
        found = calibrate(plain, kernel="matern-5/2", protection=promise, source=Simulated(np.random.default_rng(0)))
        assert all(0 < value.value < math.inf for value in (found.bias_std, found.norm_bound, found.noise_std))


@pytest.mark.parametrize("value", WILD)
def test_no_answer_is_refused_for_its_value(value: float) -> None:
    constant = pilot(np.full((5, 6), value))
    found = calibrate(constant, kernel="matern-5/2", protection=WIDE, source=Silent())
    assert math.isfinite(found.bias_std.value)
    with pytest.raises(InputError):
        Pilot(constant.decisions, constant.people, constant.actions, constant.averages, constant.counts)


def test_the_study_knows_the_noise_and_the_promise(tmp_path: Path) -> None:
    found = calibrate(labelled(1), kernel="matern-5/2", protection=WIDE, source=Simulated(np.random.default_rng(0)))
    (tmp_path / "tea.toml").write_text(text(found))
    (table,) = tomllib.loads(text(found))["pilot"]
    assert (table["epsilon"], table["delta"], table["noise_std"]) == (1.0, 1e-6, found.groups[0].noise_std)
    problem, _, _ = read_study(tmp_path / "tea.toml")
    assert (problem.pilot[0].epsilon, problem.pilot[0].delta) == (1.0, 1e-6)
    again = decode(Problem, encode(problem))
    assert encode(again.pilot) == encode(problem.pilot)
    noise = problem.bias_std**2 * problem.kernel(POINTS, POINTS) / 30
    noise += (problem.noise_std**2 / 10 / 30 + found.groups[0].noise_std ** 2) * np.eye(6)
    noise += problem.shock_std**2 * (np.eye(6) + 1)  # as if shocks lasted for all rounds of a decision
    np.testing.assert_allclose(pilot_rows(again).noise, noise, rtol=1e-6, atol=1e-9)


def test_an_unprotected_pilot_is_written_as_before() -> None:
    evidence = Evidence(np.array([[0.0], [0.5]]), np.array([20.0, 20.0]), 40, np.array([1.2, 1.9]))
    assert set(encode(evidence)) == {"points", "rounds", "people", "mean"}
    assert (evidence.noise_std, evidence.epsilon) == (0.0, None)
    noisy = replace(evidence, noise_std=0.1)  # of a mechanism of one's own
    assert decode(Evidence, encode(noisy)).noise_std == 0.1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((1.0, 1.0, 1.0), "highest reward must be a number above 1"),
        ((math.nan, 1.0, 1.0), "lowest reward"),
        ((-1.7e308, 1.7e308, 1.0), "between 2e-60 and 2e\\+60 wide, got -1.7e\\+308 to 1.7e\\+308; measure"),
        ((1.6e308, 1.7e308, 1.0), "measure rewards in another unit"),
        ((0.0, 1e-300, 1.0), "measure rewards in another unit"),
        ((0.0, 1.0, 0.0), "epsilon must be a number above 0"),
        ((0.0, 1.0, 1.0, 1.0), "delta"),
    ],
)
def test_a_promise_that_makes_no_sense_is_refused(arguments: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        Protection(*arguments)
    refusal(caught)
