"""The light-sensor data of the paper (sec:real_world_data): 41 sensors as actions, their readings as rewards."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from voxpop.core.errors import Array, InputError
from voxpop.formats.files import read_text


def load_light(folder: Path) -> tuple[Array, Array]:
    """The reward of each sensor and the kernel matrix, from the folder's training samples.

    The paper's "normalised" readings cannot be z-scores, whose mean is zero for every sensor: the reward is the
    sensor's mean reading divided by the largest mean. The kernel is the covariance of the z-scored samples.
    """
    found = sorted(folder.glob("light_train_*.csv"))
    if not found:
        raise InputError(f"no light-sensor data in {str(folder)!r}; give a folder that holds light_train_601x41.csv")
    lines = [line.split(",") for line in read_text(found[0]).splitlines() if line.strip()]
    try:
        train = np.array(lines, dtype=float).reshape(len(lines), -1)
    except ValueError as error:
        raise InputError(f"{found[0]} is not a table of numbers ({error}); get a fresh copy of it") from None
    if len(train) < 2:
        raise InputError(f"{found[0]} has {len(train)} samples and needs at least two; get a fresh copy of it")
    if not np.isfinite(train).all() or not (train.std(axis=0) > 0).all():
        raise InputError(f"{found[0]} needs finite samples that vary for every sensor; get a fresh copy of it")
    means = train.mean(axis=0)
    return means / means.max(), np.asarray(np.corrcoef(train.T))
