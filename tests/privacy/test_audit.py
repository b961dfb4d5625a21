import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from tests.helpers_privacy import DELTA, MODELS, AnyRelease, simulated
from voxpop.errors import Array, InputError
from voxpop.privacy import Private, Secure
from voxpop.privacy.audit import AuditResult, attack, audit, clopper_pearson, specimen
from voxpop.privacy.ball import Ball
from voxpop.privacy.central import Central
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.local import Local
from voxpop.privacy.shuffle import Shuffled, calibrated_encoding
from voxpop.privacy.sources import Integers, Source

USERS = 50


@cache
def honest(model: str, epsilon: float = 5.0, people: int = USERS) -> AnyRelease:
    release = Private(model, epsilon, DELTA).calibrate(*specimen(people))
    assert isinstance(release, AnyRelease)
    return release


def found(release: AnyRelease, trials: int) -> AuditResult:
    """Run an attack; the closer a release is to its promise, the more trials it takes."""
    return attack(release, simulated(1), USERS, trials)


class Unclipped(Ball):
    """A ball that lets everyone through."""

    def clip(self, z: Array) -> Array:
        return z


class Timid(Shuffled):
    """Devices that add a third of the binomial noise's variance without the analyzer knowing."""

    def randomize(self, y: Array, source: Source) -> Array:
        third = replace(self.encoding, trials=self.encoding.trials // 3)
        lost = (self.encoding.trials - third.trials) * self.encoding.chance
        return Shuffled(self.ball, self.beta, self.cost, third).randomize(y, source) + round(lost)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("epsilon", [1.0, 15.0])
def test_honest_releases_pass_and_the_attack_is_near_the_claim(model: str, epsilon: float) -> None:
    trials = 1000
    finding = found(honest(model, epsilon), trials)
    assert not finding.violated
    # No attack is better, except for rounding and the discrete ties of the shuffle model.
    error = 2.5 * math.sqrt(2 / trials) * math.exp(finding.claimed_mu**2 / 8)
    rounding = 0.2 if model == "shuffle" else 0.02
    assert (1 - rounding) * finding.claimed_mu - error < finding.measured_mu < finding.claimed_mu + error
    assert finding.certain_epsilon < epsilon
    assert (finding.model, finding.claimed_epsilon, finding.delta) == (model, epsilon, DELTA)
    assert finding.trials == 2 * trials


@pytest.mark.parametrize("model", MODELS)
def test_the_noise_of_real_people_passes(model: str) -> None:
    assert not audit(Private(model, 5.0), Secure(), trials=200, confidence=1 - 1e-9).violated


@pytest.mark.parametrize("model", ["central", "local"])
@pytest.mark.parametrize(
    ("why", "share", "trials"),
    [("noise at 0.7", 0.7, 1500), ("no factor 2 in the sensitivity", 0.5, 600), ("for 4 times the people", 0.25, 400)],
)
def test_too_little_gaussian_noise_is_caught(model: str, why: str, share: float, trials: int) -> None:
    release = honest(model)
    assert isinstance(release, Central | Local)
    finding = found(replace(release, std=share * release.std), trials)
    assert finding.violated, why
    assert finding.certain_epsilon > 5.0
    assert finding.measured_mu == pytest.approx(1 / share / noise_multiplier(5.0, DELTA), rel=0.2)


def test_local_noise_made_for_the_average_of_the_crowd_is_caught() -> None:
    release = honest("local")
    assert isinstance(release, Local)
    assert found(replace(release, std=release.std / math.sqrt(USERS)), 200).violated


@pytest.mark.parametrize("model", MODELS)
def test_missing_clipping_is_caught(model: str) -> None:
    release = honest(model)
    ball = Unclipped(**{name: getattr(release.ball, name) for name in release.ball.__dataclass_fields__})
    unclipped: AnyRelease = replace(release, ball=ball)
    # In the shuffle model the bits bound each coordinate, but only clipping bounds all of them together.
    assert found(unclipped, 1000 if model == "shuffle" else 200).violated


def test_devices_that_add_less_binomial_noise_than_they_say_are_caught() -> None:
    release = honest("shuffle")
    assert isinstance(release, Shuffled)
    timid = Timid(release.ball, release.beta, release.cost, release.encoding)
    assert found(timid, 1500).violated


@pytest.mark.parametrize(
    ("why", "share", "trials"), [("noise at 0.6", 0.36, 1500), ("for 4 times the people", 0.25, 800)]
)
def test_an_encoding_with_too_little_noise_for_its_promise_is_caught(why: str, share: float, trials: int) -> None:
    """The promise is (eps, delta); an encoding that does not keep it must not be measured by its own noise."""
    release = honest("shuffle")
    assert isinstance(release, Shuffled)
    weak = replace(release.encoding, trials=round(share * release.encoding.trials))
    assert found(replace(release, encoding=weak), trials).violated, why


def test_an_encoding_made_for_more_people_is_caught() -> None:
    release = honest("shuffle")
    assert isinstance(release, Shuffled)
    crowd = replace(calibrated_encoding(5.0, DELTA, 8 * USERS, 4), people=USERS)
    assert found(replace(release, encoding=crowd), 500).violated


@pytest.mark.parametrize("model", ["central", "local"])
def test_the_printed_calibration_protects_nobody_far_from_the_model(model: str) -> None:
    finding = audit(Private(model, 5.0, calibration="paper"), simulated(2), trials=400)
    assert finding.violated
    assert finding.certain_epsilon > 5.0


@pytest.mark.parametrize("misses", [0, 1, 17, 250, 499, 500])
@pytest.mark.parametrize("alpha", [0.05, 5e-5])
def test_the_bound_on_a_rate_is_clopper_and_pearson_s(misses: int, alpha: float) -> None:
    interval = binomtest(misses, 500, alternative="less").proportion_ci(1 - alpha, method="exact")
    assert clopper_pearson(misses, 500, alpha) == pytest.approx(float(interval.high), rel=1e-9)


class Broken:
    """A source without noise, except for what keeps the average right."""

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        return np.zeros((rows, columns), dtype=np.int64)

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        mean = trials * chance
        up = np.arange(rows) < round((mean % 1) * rows)  # this many people get one more than the others
        return np.tile((math.floor(mean) + up)[:, None], (1, columns))

    def bernoulli(self, chances: Array) -> Integers:
        return (chances > 0.5).astype(np.int64)

    def bytes(self, count: int) -> bytes:
        return bytes(count)


@dataclass(frozen=True)
class Mixed:
    """A source whose noise of one coordinate is also that of others: each takes the draw of the coordinate it names."""

    source: Source
    draws: tuple[int, ...]

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        return self.source.gaussian(rows, columns, std)[:, self.draws]

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        return self.source.binomial(rows, columns, trials, chance)[:, self.draws]

    def bernoulli(self, chances: Array) -> Integers:
        return self.source.bernoulli(chances)

    def bytes(self, count: int) -> bytes:
        return self.source.bytes(count)


@cache
def unmixed(model: str) -> AuditResult:
    return attack(honest(model), Mixed(simulated(1), (0, 1, 2, 3)), USERS, 600)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("draws", [(0, 0, 0, 0), (0, 1, 2, 0), (2, 1, 2, 3)], ids=str)
def test_a_draw_that_coordinates_share_is_caught(model: str, draws: tuple[int, ...]) -> None:
    """Every coordinate has the noise that it should, and their sum has more; only a difference has none at all."""
    finding = attack(honest(model), Mixed(simulated(1), draws), USERS, 600)
    assert finding.violated
    assert finding.measured_mu > 3 * finding.claimed_mu
    assert not unmixed(model).violated


class Cube(Ball):
    """A ball that cuts each coordinate off by itself."""

    def clip(self, z: Array) -> Array:
        return np.clip(z, -self.radius, self.radius)


class Slab(Ball):
    """A ball that lets the first coordinate through."""

    def clip(self, z: Array) -> Array:
        return np.hstack([z[:, :1], super().clip(z)[:, 1:]])


@pytest.mark.parametrize(("kind", "directions"), [(Cube, {"all", "all, -+"}), (Slab, {"1"})])
def test_the_direction_is_that_in_which_most_is_learned(kind: type[Ball], directions: set[str]) -> None:
    release = honest("central")
    ball = kind(**{name: getattr(release.ball, name) for name in release.ball.__dataclass_fields__})
    finding = found(replace(release, ball=ball), 1500)
    assert finding.violated
    assert finding.direction in directions


def test_a_release_about_one_arm_has_one_direction() -> None:
    problem, state, plan = specimen(USERS)
    one = replace(plan, arms=plan.arms[:1], pulls=plan.pulls[:1])
    finding = attack(Private("central", 5.0).calibrate(problem, state, one), simulated(1), USERS, 400)
    assert not finding.violated
    assert finding.direction in ("1", "least noise")


@pytest.mark.parametrize("model", MODELS)
def test_no_noise_at_all_is_caught_with_the_fewest_trials(model: str) -> None:
    assert audit(Private(model, 5.0), Broken(), trials=100).violated


def test_watching_counts_all_the_releases() -> None:
    seen: list[int] = []
    audit(Private("central", 5.0), simulated(), trials=200, watch=seen.append)
    assert sum(seen) == 400


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trials": 99}, "trials must be"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"confidence": 0.5}, "above 0.5"),
    ],
)
def test_an_attack_that_could_prove_nothing_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        audit(Private("central", 5.0), simulated(), **changes)
