"""What privacy costs and protects: the trust models, and the shuffle protocol in numbers."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from voxpop.policies import make_policy
from voxpop.privacy import Entry, NoPrivacy, Privacy, Private, aggregate
from voxpop.privacy.encoded import Encoding
from voxpop.privacy.gaussian import epsilon_of, noise_multiplier
from voxpop.privacy.ledger import compose
from voxpop.privacy.shuffle import calibrated_encoding, printed_encoding
from voxpop.simulation.runs import simulate
from voxpop.simulation.scenarios import Options, make_scenario

Rows = Iterator[tuple[object, ...]]
HORIZON, DELTA, ARMS, FEW_ARMS = 10**6, 1e-6, 50, 10
PEOPLE, EPSILONS, TIMES = (100, 1000, 10_000, 100_000), (1.0, 5.0, 15.0), (2, 3, 5)


def trust(seeds: int = 10) -> Rows:
    """Run the synthetic study; a cell is mean regret / numbers sent / people, and how often the optimum was lost."""

    def cell(policy: str, privacy: Privacy) -> str:
        scenarios = [make_scenario("synthetic", Options(seed, horizon=HORIZON)) for seed in range(seeds)]
        chosen = make_policy(policy, alpha=0.7)
        results = [simulate(scenario, chosen, seed, privacy) for seed, scenario in enumerate(scenarios)]
        means = [np.mean([getattr(run.metrics, name) for run in results]) for name in ("regret", "numbers", "people")]
        lost = sum(not run.optimum_kept for run in results)
        return " / ".join(f"{mean:,.0f}" for mean in means) + (f" (optimum lost: {lost})" if lost else "")

    epsilons = (1, 5, 15, 30)
    yield "", *(f"eps = {epsilon}" for epsilon in epsilons)
    yield "without privacy", cell("dpbe", NoPrivacy()), *[""] * (len(epsilons) - 1)
    for words, model in itertools.product(
        ("own floor", "printed schedule", "as printed"), ("central", "shuffle", "local")
    ):
        policy, calibration = ("dpbe-paper", "paper") if words == "as printed" else ("dpbe", "exact")
        floor = 0 if words == "printed schedule" else None
        cells = []
        for epsilon in epsilons:
            tried = epsilon > 1 or (model, policy) == ("central", "dpbe")
            privacy = Private(model, epsilon, DELTA, calibration=calibration, floor=floor)
            cells.append(cell(policy, privacy) if tried else "")
        yield f"{model}, {words}", *cells


# The shuffle protocol


def costs() -> Rows:
    """Compare bits, noise and true eps of printed and of calibrated parameters.

    Noise is the standard deviation of the average per coordinate, in units of the clipping radius; the last columns are
    the noise of the other models.
    """

    def cells(encoding: Encoding) -> tuple[str, str, str]:
        noise = 2 * math.sqrt(encoding.variance) / (encoding.levels * encoding.people)
        return f"{encoding.bits * ARMS:,}", f"{noise:.2g}", f"{encoding.noise(ARMS).epsilon(DELTA):.2f}"

    names = ("printed: bits", "noise", "true eps", "calibrated: bits", "noise", "true eps", "central", "local")
    yield "people", "eps", *names
    for people, epsilon in itertools.product(PEOPLE, EPSILONS):
        printed = printed_encoding(epsilon, DELTA / 2, people, ARMS)
        calibrated = calibrated_encoding(epsilon, DELTA, people, ARMS)
        central = 2 * noise_multiplier(epsilon, DELTA) / people
        others = (f"{central:.2g}", f"{central * math.sqrt(people):.2g}")
        yield f"{people:,}", f"{epsilon:g}", *cells(printed), *cells(calibrated), *others


def single_reports() -> Rows:
    """Say what the shuffler sees: a single report has the noise of one device, which was made for the total of all."""
    yield "people", "eps of the total", "bits of a number", "of them noise", "noise / range", "eps of a single report"
    for people, epsilon in itertools.product(PEOPLE, EPSILONS):
        code = calibrated_encoding(epsilon, DELTA, people, ARMS)
        std = math.sqrt(code.trials * code.chance * (1 - code.chance))
        alone = replace(code, people=1).noise(ARMS).epsilon(DELTA)
        shown = "unbounded" if math.isinf(alone) else f"{alone:.1f}"
        yield f"{people:,}", f"{epsilon:g}", code.bits, code.trials, f"{100 * std / code.levels:.1f} %", shown


def alone() -> Rows:
    """Say what is left of the promise if all others are made up: the noise of the one real device, if it adds any."""
    yield "people", "eps", "central", "shuffle", "aggregate", "local"
    for people, epsilon in itertools.product((20, 100, 1000), EPSILONS):
        left = []
        for calibrate in (calibrated_encoding, aggregate.calibrated_encoding):
            found = replace(calibrate(epsilon, DELTA, people, FEW_ARMS), people=1).noise(FEW_ARMS).epsilon(DELTA)
            left.append("unbounded" if math.isinf(found) else f"{found:.1f}")
        yield f"{people:,}", f"{epsilon:g}", f"{epsilon:g}", *left, f"{epsilon:g}"


def honest_shares() -> Rows:
    """Compute the true eps if fewer devices add noise than the calibration counts on."""
    shares = (1.0, 0.9, 0.8, 0.5)
    yield "eps", *(f"{share:.0%} add noise" for share in shares), "noise with honest = 0.5"
    for epsilon in EPSILONS:
        code = calibrated_encoding(epsilon, DELTA, 1000, ARMS)
        half = calibrated_encoding(epsilon, DELTA, 1000, ARMS, 0.5)
        found = [f"{code.noise(ARMS, share).epsilon(DELTA):.2f}" for share in shares]
        yield f"{epsilon:g}", *found, f"{math.sqrt(half.variance / code.variance):.2f} times"


def several() -> Rows:
    """Add up several participations of one person."""
    yield "eps of one", "model", *(f"{times} releases" for times in TIMES)
    for epsilon in EPSILONS:
        for model, calibrate in (("shuffle", calibrated_encoding), ("aggregate", aggregate.calibrated_encoding)):
            noise = calibrate(epsilon, DELTA, 1000, ARMS).noise(ARMS)
            entry = Entry(model, 1000, epsilon, DELTA, binomial=noise)
            yield f"{epsilon:g}", model, *(f"{compose([entry] * times, DELTA):.2f}" for times in TIMES)
        multiplier = noise_multiplier(epsilon, DELTA)
        gaussian = [epsilon_of(multiplier / math.sqrt(times), DELTA) for times in TIMES]
        yield f"{epsilon:g}", "central, local", *(f"{found:.2f}" for found in gaussian)
