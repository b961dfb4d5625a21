"""Write the figures of the light-sensor study that voxpop ships, from a folder of the readings.

FOLDER holds light_train_601x41.csv (one line per sample, one column per sensor) and light_coords_41x2.csv (the
position of each sensor). Without FILE the shipped figures are replaced. On another kind of processor the last digits of
a correlation may differ, because sums are taken in another order.

    python -m benchmarks.light_figures FOLDER [FILE]
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks.real_people import write_table
from voxpop.errors import Array, InputError
from voxpop.simulation.paper import SHIPPED, find, moments, numbers_in


def derive(folder: Path) -> Array:
    """Compute the figures from the training samples and the positions in a folder."""
    means, correlation = moments(folder)
    path = find(folder, "light_coords_41x2.csv")
    positions = numbers_in(path)
    if positions.shape != (len(means), 2):
        raise InputError(f"{path} needs two coordinates for each of {len(means)} sensors; get a fresh copy of it")
    return np.column_stack([positions, means, correlation])


def main(folder: Path, file: Path = SHIPPED) -> None:
    write_table(derive(folder), SHIPPED, file, "%s")  # the shortest decimals that are exact


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python -m benchmarks.light_figures FOLDER [FILE]")
    try:
        main(*map(Path, sys.argv[1:]))
    except InputError as error:
        sys.exit(f"error: {error}")
