"""Write the figures of the light-sensor study that voxpop ships, from a folder of the readings.

FOLDER holds light_train_601x41.csv (one line per sample, one column per sensor) and light_coords_41x2.csv (the
position of each sensor). Without FILE the shipped figures are replaced. On another kind of processor the last digits of
a correlation may differ, because sums are taken in another order.

    python -m benchmarks.light_figures FOLDER [FILE]
"""

import sys
from pathlib import Path

from voxpop.errors import InputError
from voxpop.simulation.paper import SHIPPED, derive, write


def main(folder: Path, file: Path = SHIPPED) -> None:
    write(derive(folder), file)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python -m benchmarks.light_figures FOLDER [FILE]")
    try:
        main(*map(Path, sys.argv[1:]))
    except InputError as error:
        sys.exit(f"error: {error}")
