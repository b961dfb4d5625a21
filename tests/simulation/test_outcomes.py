import numpy as np
import pytest

from voxpop import InputError, Problem, SquaredExponential, make_policy
from voxpop.gp.belief import believe
from voxpop.model.problem import Evidence
from voxpop.privacy import NoPrivacy, Private
from voxpop.simulation.rehearsals import MOST_DRAWN, rehearse, truth_of


def problem(people: int = 0, size: int = 5) -> Problem:
    at, rounds, means = np.array([[0.0], [0.5], [1.0]]), np.array([20.0, 20.0, 20.0]), np.array([0.1, 1.0, 0.3])
    pilot = [Evidence(at, rounds, people, means)] if people else []
    points = np.linspace(0, 1, size)
    return Problem(points, SquaredExponential(0.4), 0.1, 0.2, norm_bound=2.0, horizon=2000, pilot=pilot)


def test_truths_follow_what_the_pilot_says() -> None:
    made = problem(people=50)
    truths = np.array([truth_of(made, seed) for seed in range(300)])
    belief = believe(made)
    assert truths.mean(axis=0) == pytest.approx(belief.mean, abs=0.1)
    assert truths.std(axis=0) == pytest.approx(belief.deviation, rel=0.2, abs=0.01)


def test_every_promise_is_rehearsed_with_the_same_truth() -> None:
    made, policy = problem(people=50), make_policy()
    plain, private = (rehearse(made, policy, trust, 1) for trust in (NoPrivacy(), Private("local", 1.0)))
    assert plain.not_asking == private.not_asking
    assert plain.waves >= 0
    assert private.people != plain.people


def test_too_many_decisions_are_refused_with_the_way_out() -> None:
    with pytest.raises(InputError, match="voxpop run"):
        truth_of(problem(size=MOST_DRAWN + 1), 0)
