"""What a user might use instead: other libraries round by round, and our own other policies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np

from benchmarks.measure import Curve, Figure, Results, seconds, together
from voxpop.errors import Array
from voxpop.policies import make_policy
from voxpop.simulation.runs import simulate
from voxpop.simulation.scenarios import Options, make_scenario

Bounds = Callable[[Array, Array, Array], Array]  # upper confidence bounds at some points, from points and answers
LENGTH, NOISE, WIDTH = 0.2, 0.0101, 3.0  # of the synthetic study, and of the bounds
ROUNDS = 300


def round_by_round(horizons: list[int]) -> Results:
    """Time GP-UCB against libraries that fit their Gaussian process to all rounds so far, and its growth with T."""
    scenarios = [make_scenario("synthetic", Options(horizon=horizon)) for horizon in (ROUNDS, *horizons)]
    ours, *times = together([partial(simulate, scenario, make_policy("gp-ucb"), 0) for scenario in scenarios], 2)
    curve = Curve.of("rounds T (gp-ucb)", horizons, times, 1.1)
    results = Results([curve.figure], [curve])
    peers: dict[str, tuple[str, Bounds]] = {
        "scikit-learn's refit": ("sklearn", sklearn_bounds),
        "BoTorch's refit": ("botorch", botorch_bounds),
    }
    for name, (module, bounds) in peers.items():
        if find_spec(module) is None:
            results.absent.append(module)
            continue
        refit = seconds(partial(refitted, bounds, ROUNDS), 1)
        results.figures.append(Figure(f"{name} / gp-ucb, {ROUNDS} rounds", refit / ours, 5.0, note=f"{refit:.2g} s"))
    return results


def refitted(bounds: Bounds, horizon: int) -> None:
    """Run GP-UCB as it is written with a library: fit and predict, every round."""
    scenario = make_scenario("synthetic", Options(horizon=horizon))
    points, rng = scenario.problem.decisions.points, np.random.default_rng(0)
    played, answers, arm = np.empty((0, points.shape[1])), np.empty(0), 0
    for _ in range(horizon):
        played = np.vstack([played, points[arm]])
        answers = np.append(answers, scenario.f[arm] + 0.1 * rng.standard_normal())
        arm = int(np.argmax(bounds(played, answers, points)))


def sklearn_bounds(played: Array, answers: Array, points: Array) -> Array:
    """Compute the bounds with scikit-learn's Gaussian process."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    model = GaussianProcessRegressor(RBF(LENGTH), alpha=NOISE, optimizer=None)
    mean, std = model.fit(played, answers).predict(points, return_std=True)
    return np.asarray(mean + WIDTH * std)


def botorch_bounds(played: Array, answers: Array, points: Array) -> Array:
    """Compute the bounds with BoTorch's Gaussian process and its upper confidence bound."""
    import torch
    from botorch.acquisition import UpperConfidenceBound
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import RBFKernel
    from gpytorch.means import ZeroMean

    kernel = RBFKernel()
    kernel.lengthscale = LENGTH
    x, y = torch.tensor(played), torch.tensor(answers)[:, None]
    noise = torch.full_like(y, NOISE)
    model = SingleTaskGP(x, y, noise, covar_module=kernel, mean_module=ZeroMean(), outcome_transform=None)
    with torch.no_grad():
        found = UpperConfidenceBound(model.double(), beta=WIDTH**2)(torch.tensor(points)[:, None])
    return np.asarray(found.numpy())


def other_policies(horizon: int) -> Results:
    """Time other policies, as multiples of dpbe's time on the same study."""
    scenario = make_scenario("synthetic", Options(horizon=horizon))
    names = ("dpbe", "dpbe-paper", "gp-ucb", "bpe", "bbkb", "mini-gp-opt")
    ours, *others = together([partial(simulate, scenario, make_policy(name), 0) for name in names], 2)
    pairs = zip(names[1:], others, strict=True)
    return Results([Figure(f"{name} / dpbe, T = {horizon:,}", other / ours) for name, other in pairs])
