"""Print what the shuffle protocol costs and protects, with 50 arms and delta = 1e-6: four tables for docs/privacy.md.

1. Bits, noise and true eps with printed and with calibrated parameters. Noise is the standard deviation of the average
   per coordinate, in units of the clipping radius; the last columns are the noise of the other models.
2. What the shuffler sees: how much noise a single report has, and the eps of a single report.
3. The true eps if fewer devices add noise than the calibration counts on.
4. What several participations of one person add up to.

    python -m benchmarks.shuffle_table
"""

from __future__ import annotations

import math
from dataclasses import replace

from voxpop.privacy import Entry, aggregate
from voxpop.privacy.encoded import Encoding
from voxpop.privacy.gaussian import epsilon_of, noise_multiplier
from voxpop.privacy.ledger import compose
from voxpop.privacy.shuffle import calibrated_encoding, printed_encoding

ARMS, DELTA = 50, 1e-6
PEOPLE, EPSILONS = (100, 1000, 10_000, 100_000), (1.0, 5.0, 15.0)


def head(*names: str) -> None:
    print(f"\n| {' | '.join(names)} |\n|{'---:|' * len(names)}", flush=True)


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def cells(encoding: Encoding) -> tuple[str, str, str]:
    noise = 2 * math.sqrt(encoding.variance) / (encoding.levels * encoding.people)
    return f"{encoding.bits * ARMS:,}", f"{noise:.2g}", f"{encoding.noise(ARMS).epsilon(DELTA):.2f}"


def costs() -> None:
    names = ("printed: bits", "noise", "true eps", "calibrated: bits", "noise", "true eps", "central", "local")
    head("people", "eps", *names)
    for people in PEOPLE:
        for epsilon in EPSILONS:
            printed = printed_encoding(epsilon, DELTA / 2, people, ARMS)
            calibrated = calibrated_encoding(epsilon, DELTA, people, ARMS)
            central = 2 * noise_multiplier(epsilon, DELTA) / people
            others = (f"{central:.2g}", f"{central * math.sqrt(people):.2g}")
            row(f"{people:,}", f"{epsilon:g}", *cells(printed), *cells(calibrated), *others)


def single_reports() -> None:
    """A single report has the noise of one device, which was made for the total of all."""
    head("people", "eps of the total", "bits of a number", "of them noise", "noise / range", "eps of a single report")
    for people in PEOPLE:
        for epsilon in EPSILONS:
            code = calibrated_encoding(epsilon, DELTA, people, ARMS)
            std = math.sqrt(code.trials * code.chance * (1 - code.chance))
            alone = replace(code, people=1).noise(ARMS).epsilon(DELTA)
            shown = "unbounded" if math.isinf(alone) else f"{alone:.1f}"
            row(f"{people:,}", f"{epsilon:g}", code.bits, code.trials, f"{100 * std / code.levels:.1f} %", shown)


def honest_shares() -> None:
    shares = (1.0, 0.9, 0.8, 0.5)
    head("eps", *(f"{share:.0%} add noise" for share in shares), "noise with honest = 0.5")
    for epsilon in EPSILONS:
        code = calibrated_encoding(epsilon, DELTA, 1000, ARMS)
        half = calibrated_encoding(epsilon, DELTA, 1000, ARMS, 0.5)
        found = [f"{code.noise(ARMS, share).epsilon(DELTA):.2f}" for share in shares]
        row(f"{epsilon:g}", *found, f"{math.sqrt(half.variance / code.variance):.2f} times")


def several() -> None:
    head("eps of one", "model", *(f"{times} releases" for times in (2, 3, 5)))
    for epsilon in EPSILONS:
        for model, calibrate in (("shuffle", calibrated_encoding), ("aggregate", aggregate.calibrated_encoding)):
            noise = calibrate(epsilon, DELTA, 1000, ARMS).noise(ARMS)
            entry = Entry(model, 1000, epsilon, DELTA, binomial=noise)
            row(f"{epsilon:g}", model, *(f"{compose([entry] * times, DELTA):.2f}" for times in (2, 3, 5)))
        multiplier = noise_multiplier(epsilon, DELTA)
        gaussian = [epsilon_of(multiplier / math.sqrt(times), DELTA) for times in (2, 3, 5)]
        row(f"{epsilon:g}", "central, local", *(f"{found:.2f}" for found in gaussian))


def main() -> None:
    costs()
    single_reports()
    honest_shares()
    several()


if __name__ == "__main__":
    main()
