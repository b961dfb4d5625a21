"""Print bits, noise and true eps of the shuffle protocol with printed and with calibrated parameters.

Noise is the standard deviation of the average's error per coordinate, in units of the clipping radius; the last columns
are the noise of the central and the local model. 50 arms, delta = 1e-6.

    python benchmarks/shuffle_table.py
"""

from __future__ import annotations

import math

from voxpop.privacy.gaussian import noise_multiplier
from voxpop.privacy.shuffle import Encoding, calibrated_encoding, printed_encoding

ARMS, DELTA = 50, 1e-6


def cells(encoding: Encoding) -> str:
    noise = 2 * math.sqrt(encoding.variance) / (encoding.levels * encoding.people)
    return f"{encoding.bits * ARMS:,} | {noise:.2g} | {encoding.noise(ARMS).epsilon(DELTA):.2f}"


def main() -> None:
    print("| people | eps | printed: bits | noise | true eps | calibrated: bits | noise | true eps | central | local |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for people in (100, 1000, 10_000, 100_000):
        for epsilon in (1, 5, 15):
            printed = printed_encoding(epsilon, DELTA / 2, people, ARMS)
            calibrated = calibrated_encoding(epsilon, DELTA, people, ARMS)
            central = 2 * noise_multiplier(epsilon, DELTA) / people
            local = central * math.sqrt(people)
            row = f"| {people:,} | {epsilon} | {cells(printed)} | {cells(calibrated)} | {central:.2g} | {local:.2g} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
