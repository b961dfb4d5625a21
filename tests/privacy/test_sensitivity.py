"""How far one person moves a sum, also where rounding counts, and whether the noise hides a move either way."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers_privacy import DELTA, Silent, first_wave
from voxpop.privacy import Private
from voxpop.privacy import clipped as additive
from voxpop.privacy.central import Central
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.local import Local
from voxpop.privacy.shuffle import Shuffled

CASE = first_wave(40)


@pytest.mark.parametrize("model", ["central", "local"])
def test_the_sensitivity_covers_rounding_to_the_grid(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a grid so coarse that rounding shows, two answers on opposite sides are farther apart than the diameter."""
    monkeypatch.setattr(additive, "GRID", 2.0**-5)
    release = CASE.release(Private(model, 5.0))
    assert isinstance(release, Central | Local)
    directions = np.random.default_rng(0).standard_normal((2000, 4))
    far = 1e3 * (directions / np.linalg.norm(directions, axis=1, keepdims=True)) @ release.ball.root.T
    ends = [np.asarray(release.randomize(release.ball.centre + sign * far, Silent()), dtype=float) for sign in (1, -1)]
    if model == "central":  # the agent rounds, one report at a time
        ends = [np.array([release.tally(row[None]).total for row in end], dtype=float) for end in ends]
    apart = float(np.linalg.norm(ends[0] - ends[1], axis=1).max())
    sensitivity = release.std / noise_multiplier(5.0, DELTA)
    diameter = 2 * release.ball.radius / release.step
    assert diameter + 1 < apart <= sensitivity * (1 + 1e-9)


def test_bits_that_are_mostly_ones_hide_as_much_as_bits_that_are_mostly_zeros() -> None:
    """With the chance 1 - p the totals are those of p, upside down; the worse direction is then the other one."""
    release = CASE.release(Private("shuffle", 5.0))
    assert isinstance(release, Shuffled)
    code, promises = replace(release.encoding, trials=4 * release.encoding.trials), np.geomspace(1, 15, 80)
    kept = []
    for chance in (0.1, 0.9):
        made = replace(release, encoding=replace(code, chance=chance))
        kept.append([made.weakness(float(epsilon), DELTA) is None for epsilon in promises])
    assert kept[0] == kept[1]
    assert set(kept[0]) == {False, True}


def test_a_device_counts_rounding_when_it_compares_noise_with_its_promise() -> None:
    release = CASE.release(Private("local", 5.0))
    assert isinstance(release, Local)
    step = release.ball.radius / 2.0**10
    for steps, weak in ((2 * 2.0**10, True), (2 * 2.0**10 + 2, False)):  # without and with sqrt(4) steps of rounding
        made = replace(release, step=step, std=noise_multiplier(5.0, DELTA) * steps)
        assert (made.weakness(5.0, DELTA) is not None) == weak
