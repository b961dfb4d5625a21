"""The promise: a proposal that a device accepts has enough noise; any other is refused in one sentence."""

import copy
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from tests.helpers_privacy import first_wave, promised
from voxpop.errors import InputError
from voxpop.io.schema import decode_release, encode, for_devices
from voxpop.privacy import Private
from voxpop.privacy.encoded import MOST_BITS

EPSILON, DELTA = 5.0, 1e-6
NAN = float("nan")
HONEST = {
    model: for_devices(encode(first_wave(40).release(Private(model, EPSILON))))
    for model in ("local", "shuffle", "aggregate")
}
Proposal = dict[str, Any]


def proposed(model: str, changes: dict[str, Any]) -> Proposal:
    """Return the honest release with other values at dotted paths."""
    data = copy.deepcopy(HONEST[model])
    for place, value in changes.items():
        *path, last = place.split(".")
        part = data
        for name in path:
            part = part[name]
        part[last] = value
    return data


def accepted(model: str, data: Any) -> Any:
    """Return the release if a device would answer it, else None; anything but an `InputError` is a failure."""
    try:
        release = decode_release(data)
        promised(model, EPSILON, DELTA).check(release)
    except InputError:
        return None
    return release


NOISELESS = [
    ("local", {"step": -1e-6, "std": 0.0}),
    ("local", {"step": -1e-6, "std": 1e-9}),
    ("local", {"step": -1e-6, "std": NAN}),
    ("local", {"std": NAN}),
    ("local", {"std": math.inf, "step": math.inf}),
    ("local", {"std": True}),
    ("local", {"std": "9"}),
    ("local", {"std": 10**400}),
    ("local", {"step": 0}),
    ("local", {"step": 1e300, "std": 30.0}),  # so coarse that a discrete Gaussian differs from a continuous one
    ("local", {"step": 1e-300, "std": 1e308}),
    ("local", {"ball.radius": -5.0, "step": 1e-6, "std": 1e-9}),
    ("local", {"ball.radius": NAN}),
    ("local", {"ball.radius": 0.0}),
    ("local", {"ball.radius": None}),
    ("local", {"ball.radius": 1e-320, "step": 1e-323}),
    ("local", {"ball.centre": [0.5]}),
    ("local", {"ball.centre": [0.5, NAN, 0.5, 0.5]}),
    ("local", {"ball.centre": []}),
    ("local", {"ball.centre": "what"}),
    ("local", {"ball.root": [[1.0, 0.0], [0.0, 1.0]]}),
    ("local", {"ball.root": (-np.eye(4)).tolist()}),
    ("local", {"ball.root": np.zeros((4, 4)).tolist()}),
    ("local", {"ball.root": np.full((4, 4), NAN).tolist()}),
    ("local", {"ball.root": np.ones((4, 4)).tolist()}),
    ("local", {"ball.tail": [[1.0], []]}),
    ("local", {"ball.tail": 3}),
    ("local", {"beta": -1.0}),
    ("local", {"cost": None}),
    ("local", {"cost": {}}),
    ("local", {"model": ["local"]}),
    ("local", {"model": "lokal"}),
    ("shuffle", {"encoding.people": -10_000, "encoding.trials": -10_000, "encoding.chance": 0.5}),
    ("shuffle", {"encoding.people": 10**6, "encoding.trials": 0.5, "encoding.chance": 0.5}),
    ("shuffle", {"encoding.people": 10**12, "encoding.trials": 0}),
    ("shuffle", {"encoding.people": MOST_BITS, "encoding.trials": 2, "encoding.chance": 0.5}),
    ("shuffle", {"encoding.people": 10**400}),
    ("shuffle", {"encoding.people": True}),
    ("shuffle", {"encoding.people": NAN}),
    ("shuffle", {"encoding.levels": 0}),
    ("shuffle", {"encoding.levels": -3, "encoding.trials": 1}),
    ("shuffle", {"encoding.levels": 10**9, "encoding.people": 10**9}),
    ("shuffle", {"encoding.levels": "3"}),
    *(("shuffle", {"encoding.chance": chance}) for chance in (0, 0.0, 1, 1.0, 1 - 1e-17, 2.0, -0.5, NAN, None, "0.5")),
    ("shuffle", {"encoding.more": 1}),
    ("shuffle", {"encoding": None}),
    ("shuffle", {"encoding": []}),
    ("shuffle", {"ball.radius": -1.0}),
    *(("aggregate", {"encoding.chance": chance}) for chance in (math.nextafter(0.5, 1), 0.49, 1, NAN, None, "0.5")),
    ("aggregate", {"encoding.people": 10**8, "encoding.levels": 10**7}),
    ("aggregate", {"encoding.trials": 1}),
    ("aggregate", {"encoding.people": 1}),
    ("aggregate", {"ball.radius": -1.0}),
]


@pytest.mark.parametrize(("model", "changes"), NOISELESS)
def test_nonsense_is_refused_in_one_sentence(model: str, changes: dict[str, Any]) -> None:
    assert accepted(model, proposed(model, changes)) is None


@pytest.mark.parametrize("data", [None, [], 3, "local", {}, {"model": "local"}, {"model": None}], ids=str)
def test_what_is_not_a_release_is_refused(data: Any) -> None:
    with pytest.raises(InputError, match="not a release"):
        decode_release(data)


@pytest.mark.parametrize("model", ["local", "shuffle", "aggregate"])
def test_an_honest_proposal_passes(model: str) -> None:
    assert accepted(model, json.loads(json.dumps(HONEST[model]))) is not None


def gaussian_delta(shift: float, std: float) -> float:
    """Compute the delta at eps of two Gaussians `shift` apart, from their tails beyond the point of ratio e^eps."""
    point = EPSILON * std / shift - shift / (2 * std)
    return float(norm.sf(point) - math.exp(EPSILON) * norm.sf(point + shift / std))


def binomial_delta(trials: int, chance: float, shift: int) -> float:
    """Compute the larger delta of both directions, summed over the support without its negligible tails."""
    low, high = (float(binom.ppf(level, trials, chance)) for level in (1e-18, 1 - 1e-16))
    x = np.arange(max(0, low - 2 * shift - 50), min(trials, high + 2 * shift + 50) + 1)
    p, up, down = (binom.pmf(x - move, trials, chance) for move in (0, shift, -shift))
    return float(max(np.maximum(p - math.exp(EPSILON) * q, 0).sum() for q in (up, down)))


ODD: Any = st.one_of(
    st.sampled_from([0, -1, 1, True, None, "1", [], NAN, math.inf, -math.inf, 1e-308, 1e308, 10**400]),
    st.floats(),
    st.integers(-(10**12), 10**12),
)


def near(value: float) -> Any:
    return st.one_of(st.just(value), st.floats(0.01, 100).map(lambda factor: value * factor), ODD)


def around(value: int) -> Any:
    return st.one_of(st.just(value), st.integers(1, 100 * value), ODD)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(near(HONEST["local"]["step"]), near(HONEST["local"]["std"]), near(HONEST["local"]["ball"]["radius"]))
@example(-1e-6, 0.0, 1.0)
@example(1e-6, 1e-9, -5.0)
def test_a_local_release_that_passes_has_the_noise(step: Any, std: Any, radius: Any) -> None:
    release = accepted("local", proposed("local", {"step": step, "std": std, "ball.radius": radius}))
    if release is not None:
        corners = radius * np.array([np.eye(4)[0], -np.eye(4)[0], np.full(4, 0.5), np.full(4, -0.5)])
        inside = release.ball.clip(10 * corners)  # what the farthest people send, before the noise
        grid = np.rint(inside / step)
        apart = max(float(np.linalg.norm(a - b)) for a in grid for b in grid)
        assert std >= 1
        assert gaussian_delta(apart, std) <= DELTA * (1 + 1e-3)


CODE = HONEST["shuffle"]["encoding"]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    around(CODE["levels"]),
    around(CODE["trials"]),
    st.one_of(st.just(CODE["chance"]), st.floats(1e-6, 1 - 1e-6), ODD),
    around(CODE["people"]),
)
@example(20, -10_000, 0.5, -10_000)
@example(-3, 0, 0.5, 40)
def test_a_shuffled_release_that_passes_has_the_noise(levels: Any, trials: Any, chance: Any, people: Any) -> None:
    changes = {"levels": levels, "trials": trials, "chance": chance, "people": people}
    release = accepted("shuffle", proposed("shuffle", {f"encoding.{name}": value for name, value in changes.items()}))
    if release is not None:
        assert all(type(value) is int and value >= 1 for value in (levels, trials, people))
        # One coordinate may move by all levels, and rounding moves it by less than sqrt(H) = 2 more.
        assert binomial_delta(people * trials, chance, levels + 2) <= DELTA * (1 + 1e-3)


@pytest.mark.parametrize(
    ("study", "promise", "keeps"),
    [(1.0, 1.0, True), (1.0, 0.8, False), (0.5, 0.5, True), (0.5, 0.8, True), (0.8, 0.5, False)],
)
def test_a_release_counts_on_no_more_honest_people_than_the_promise_does(
    study: float, promise: float, keeps: bool
) -> None:
    made = first_wave(40).release(Private("shuffle", EPSILON, honest=study))
    assert (made.weakness(EPSILON, DELTA, promise) is None) is keeps
    if keeps:
        promised("shuffle", EPSILON, honest=promise).check(made)
    else:
        with pytest.raises(InputError, match="less noise than epsilon 5 takes"):
            promised("shuffle", EPSILON, honest=promise).check(made)


@pytest.mark.parametrize("share", [0, -0.5, 1.5, NAN, True, None])
def test_an_honest_share_is_above_zero_and_at_most_one(share: Any) -> None:
    for make in (lambda: promised("shuffle", 5.0, honest=share), lambda: Private("shuffle", 5.0, honest=share)):
        with pytest.raises(InputError, match="honest must be a number above 0 and at most 1"):
            make()


@pytest.mark.parametrize(("model", "calibration"), [("central", "exact"), ("local", "exact"), ("shuffle", "paper")])
def test_an_honest_share_is_refused_where_it_means_nothing(model: str, calibration: str) -> None:
    with pytest.raises(InputError, match=r"honest 0\.5 means nothing"):
        Private(model, 5.0, calibration=calibration, honest=0.5)


def test_a_delta_for_which_the_analysis_does_not_hold_is_not_promised() -> None:
    with pytest.raises(InputError, match=r"at most 0\.01"):
        promised("shuffle", 5.0, 0.1)
    with pytest.raises(InputError, match=r"at most 0\.01"):
        promised("aggregate", 5.0, 0.1)
