"""A coordinator that asks for anything at all: what a device sends hides the answer, or the device sends nothing.

Whatever constants a device accepts, its report is a whole number for each coordinate, clipped answer plus noise, with
nothing rounded afterwards. Then the report is as private as noise of that size is, which `test_promise` computes.
"""

import copy
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.client.test_promise import EPSILON, HONEST, accepted, proposed
from tests.helpers_fuzzing import fuzz
from voxpop.errors import Array
from voxpop.privacy.encoded import Encoded
from voxpop.privacy.local import Local
from voxpop.privacy.sources import Integers

Path = tuple[Any, ...]


@dataclass(frozen=True)
class Scripted:
    """A source whose noise is chosen by the test: `draw` times the standard deviation, or of the trials."""

    draw: float

    def gaussian(self, rows: int, columns: int, std: float) -> Integers:
        low = int(self.draw * std)
        return np.array([[low + column for column in range(columns)]] * rows, dtype=np.int64)

    def binomial(self, rows: int, columns: int, trials: int, chance: float) -> Integers:
        return np.full((rows, columns), int(abs(self.draw) / 40 * trials), dtype=np.int64)

    def bernoulli(self, chances: Array) -> Integers:
        return (chances > 0.5).astype(np.int64)

    def bytes(self, count: int) -> bytes:
        return b"\xff" * count


ANSWERS = np.array(
    [[0.5, 0.5, 0.5, 0.5], [1.3, -0.4, 0.9, 0.0], [1e308, -1e308, 1.0, 0.0], [math.inf, -math.inf, math.nan, 0.0]]
)


def hides(release: Any) -> None:
    """Check that noise is added to each answer as it is, for noise of any size."""
    for draw in (0.0, 1e-3, 1.0, -1.0, 7.3, -39.9):
        sent = release.randomize(ANSWERS, Scripted(draw))
        assert sent.shape == ANSWERS.shape
        assert np.isfinite(sent).all()
        if isinstance(release, Local):
            steps = [[int(value) for value in row] for row in release.grid(ANSWERS)]
            people, arms = ANSWERS.shape
            noise = Scripted(draw).gaussian(people, arms, release.std).tolist()
            assert [[int(value) for value in row] for row in sent] == [
                [answer + extra for answer, extra in zip(*rows, strict=True)] for rows in zip(steps, noise, strict=True)
            ]
            assert np.linalg.norm(release.clipped(ANSWERS), axis=1).max() <= release.ball.radius * (1 + 1e-9)
        if isinstance(release, Encoded):
            added = Scripted(draw).binomial(1, 1, release.encoding.trials, release.encoding.chance)[0, 0]
            assert sent.min() >= added
            assert sent.max() <= added + release.encoding.levels


def test_noise_too_large_for_exact_sums_is_refused() -> None:
    """Above 2^53 a float has no room for the answer: how a sum is rounded would tell it."""
    steps = HONEST["local"]["ball"]["radius"] / HONEST["local"]["step"]
    for std in (2.0**45, 2.0**50, 2.0**53, 2.0**55, 2.0**62, 1e300):
        assert accepted("local", proposed("local", {"std": std})) is None
    assert accepted("local", proposed("local", {"std": 2.0**43})) is not None
    for finer in (2.0**3, 2.0**10, 2.0**20):
        step, std = HONEST["local"]["step"] / finer, HONEST["local"]["std"] * finer
        assert accepted("local", proposed("local", {"step": step, "std": std})) is None, steps * finer


def test_a_report_does_not_depend_on_how_a_float_rounds() -> None:
    """The attack: one odd answer of a single step, and noise of which only the rounding matters."""
    made = accepted("local", HONEST["local"])
    large = Local(made.ball, made.beta, made.cost, made.step, 2.0**54)  # which a device would refuse
    for draw in (1.0, 1.25, 1.7):
        noise = Scripted(draw).gaussian(1, 4, large.std)[0].tolist()
        for steps in range(-3, 4):
            y = made.ball.centre + made.ball.root @ np.full(4, steps * made.step)
            sent = large.randomize(y[None], Scripted(draw))[0]
            assert sent.tolist() == [float(steps + extra) for extra in noise]  # Python rounds once, after the sum


def test_a_root_that_is_nearly_singular_is_refused() -> None:
    """With such a root, whitening is decided by rounding errors."""
    root = np.tril(np.ones((4, 4)))
    for model in ("local", "shuffle", "aggregate"):
        assert accepted(model, proposed(model, {"ball.root": root.tolist()})) is not None
        for small in (1e-10, 1e-100, 5e-324):
            root[3, 3] = small
            assert accepted(model, proposed(model, {"ball.root": root.tolist()})) is None
        root[3, 3] = 1.0
        root[3, 0] = 1e300
        assert accepted(model, proposed(model, {"ball.root": root.tolist()})) is None
        root[3, 0] = 1.0


def places(data: Any, path: Path = ()) -> Iterator[Path]:
    """List the paths to every value of a release, also inside lists."""
    yield path
    if isinstance(data, dict):
        for name, value in data.items():
            yield from places(value, (*path, name))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from places(value, (*path, number))


WHOLE = [0, -1, 1, 2**31, 2**53, 2**53 + 1, 2**62, 2**63, 2**64, 10**18, 10**30, 10**400]
SMALL = [0.0, -0.0, 5e-324, 1e-300, 1e-9, 0.5, 1 - 2**-53, 1 + 2**-52]
LARGE = [1e9, 2.0**53, 2.0**55, 1e100, 1e154, 1e300, -1e300, 1e308, math.inf, -math.inf, math.nan]
OTHER = [True, False, None, "", "1", "NaN", [], [1.0], [[1.0]], {}, {"model": "local"}]
EXTREME: list[Any] = [*WHOLE, *SMALL, *LARGE, *OTHER]
FACTORS = st.sampled_from([0.0, -1.0, 0.5, 0.999, 1.0, 1.001, 2.0, 1e3, 2.0**12, 2.0**24, 1e-3, 1e-12, 1e12, 1e200])


def changed(data: Any, path: Path, value: Any, scale: Any) -> Any:
    """Return the release with another value at a path; with a scale, the value there is multiplied by it."""
    if not path:
        return value
    data = copy.deepcopy(data)
    part = data
    for name in path[:-1]:
        part = part[name]
    before = part[path[-1]]
    scaled = scale is not None and type(before) in (int, float)
    part[path[-1]] = type(before)(before * scale) if scaled else value
    return data


@pytest.mark.parametrize("model", ["local", "shuffle", "aggregate"])
def test_whatever_a_device_accepts_hides_the_answer(model: str) -> None:
    """Several fields at once, since a hostile value often needs another to pass."""
    found = list(places(HONEST[model]))
    change = st.tuples(st.sampled_from(found), st.sampled_from(EXTREME), st.none() | FACTORS)
    seen = {"accepted": 0, "refused": 0}

    def attack(changes: list[tuple[Path, Any, Any]]) -> None:
        data = HONEST[model]
        for path, value, scale in changes:
            try:
                data = changed(data, path, value, scale)
            except (LookupError, TypeError, OverflowError, ValueError):
                return  # an earlier change has removed the place
        release = accepted(model, data)
        seen["refused" if release is None else "accepted"] += 1
        if release is not None:
            assert release.weakness(EPSILON, 1e-6) is None
            hides(release)

    fuzz(attack, st.lists(change, min_size=1, max_size=4), 400)
    assert min(seen.values()) > 20, seen


@pytest.mark.parametrize("model", ["local", "shuffle", "aggregate"])
def test_every_field_with_every_extreme_value(model: str) -> None:
    for path in places(HONEST[model]):
        for value in EXTREME:
            release = accepted(model, changed(HONEST[model], path, value, None))
            if release is not None:
                hides(release)


def test_honest_releases_hide_the_answer() -> None:
    for model in ("local", "shuffle", "aggregate"):
        hides(accepted(model, json.loads(json.dumps(HONEST[model]))))
