"""The cases that could refute the certificate: they leave nothing to spare, and the tables count what they should."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.certificates import certificates
from benchmarks.robustness import ASKED, DELTA, ROUNDS, Case, Fixed, always, cases, outcome, unrelated, worst
from voxpop.gp.widths import AffineEstimator
from voxpop.policies.waves.sealing import LEVELS, SEALED, Evidence, Model, Part, factor
from voxpop.policies.waves.state import LOOK
from voxpop.simulation.scenarios import least_norm


def test_the_worst_function_leaves_nothing_but_the_noise() -> None:
    scenario = worst(waves=2, people=100)
    problem, f = scenario.problem, scenario.f
    noise, level = problem.answer_noise(ASKED, ROUNDS, 200 * SEALED), (1 - LOOK) ** 3 * DELTA
    quiet = Part(ASKED, (f - problem.means)[ASKED], noise, None, np.inf)  # answers without errors
    gap = Evidence(problem, (quiet,), Model(problem.norm_bound)).state(0, level).gaps[2]
    noise = noise + LEVELS * noise.diagonal().max()
    found = AffineEstimator(problem, ASKED, noise, None, factor(level))
    weights = found.values_and_gaps(np.arange(3), 0, problem.norm_bound)[1].weights[2]
    assert least_norm(problem, f) == pytest.approx(problem.norm_bound)
    assert gap - (f[2] - f[0]) == pytest.approx(factor(level) * np.sqrt(weights @ noise @ weights), rel=1e-6)


def test_a_statement_that_is_broken_is_counted() -> None:
    """With a chance of error of 40 %, many statements about the worst function are."""
    case = Case("careless", always(worst(1, 100)), Fixed(most_waves=1, delta=0.4))
    broken, lost, false, *_ = np.mean([outcome(case, seed) for seed in range(40)], axis=0)
    assert broken >= max(lost, false) > 0.2
    careful = Case("careful", always(unrelated(0.9, 0.1)), Fixed(most_waves=1, delta=1e-6))
    assert not any(outcome(careful, 0)[:4])


def test_cases_have_names_of_their_own() -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)


def test_certificates_are_compared_with_the_open_ones() -> None:
    headings, plain, private = certificates(seeds=2, study=["light"], epsilon=[5.0])
    assert len(headings) == len(plain) == len(private)
    assert plain[:2] == ("light", "open")
    assert plain[3] == "1.00"
