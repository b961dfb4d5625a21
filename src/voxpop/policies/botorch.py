"""BoTorch's qLogNEI, as a practitioner would run it: a few batches of decisions, and then the best posterior mean.

The acquisition is noisy expected improvement in batches, on a logarithmic scale (Ament et al., Unexpected improvements
to expected improvement for Bayesian optimization, 2023, arXiv:2310.20708). The model is BoTorch's own `SingleTaskGP`
with its default priors: it learns from the averages of the pilot and of all waves, whose variances are given to it as
known, and does not know that the same people answered about several decisions. BoTorch is imported when it is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError
from voxpop.gp.belief import all_rows, pilot_rows, prior_means
from voxpop.model.options import option
from voxpop.model.problem import Problem
from voxpop.model.state import OPEN, Channel, State
from voxpop.model.waves import End, Feedback, Info, Plan, changed
from voxpop.policies.peers import short_plan, spread, unproven
from voxpop.policies.protocol import OVER, Configured, prior_state

SAMPLES = 128  # of the posterior, for the value of a batch


@dataclass(frozen=True, eq=False)
class Modelled(State):
    """The state, with BoTorch's model of all averages; None before the first of them."""

    gp: Any = None


@dataclass(frozen=True)
class BoTorch(Configured):
    """Batches of decisions by BoTorch's qLogNEI."""

    batches: int = option(4, least=1, help="The waves.")
    arms: int = option(8, least=1, help="The decisions in each wave.")
    people: int = option(100, least=1, help="The people in each wave, who are asked about all of its decisions.")
    seed: int = option(0, least=0, help="The seed of the samples of the posterior.")
    name = "botorch"
    aggregates = True

    def init(self, problem: Problem) -> State:
        """Return the state after the pilot; refuse, in one sentence, if BoTorch is not installed."""
        if not installed():
            raise InputError(f"the policy {self.name!r} needs BoTorch; install it with: pip install botorch")
        return _modelled(problem, Modelled(**vars(prior_state(problem))), self.seed)

    def plan(self, problem: Problem, state: State, channel: Channel = OPEN) -> Plan | End:
        """Plan the batch of largest expected improvement; without a pilot, the first is spread evenly."""
        left = problem.horizon - state.rounds
        if left == 0:
            return OVER
        if state.wave >= self.batches:
            return End("every batch is played")
        assert isinstance(state, Modelled)
        count = min(self.arms, problem.size, left)
        arms = spread(problem, count) if state.gp is None else self._batch(problem, state, count)
        return channel.enlist(problem, state, short_plan(problem, state, arms, self.people))

    def advance(self, problem: Problem, state: State, plan: Plan, feedback: Feedback) -> tuple[State, Info]:
        """Fit the model to all averages, and use the decision of largest posterior mean."""
        feedback.check(plan)
        assert isinstance(state, Modelled)
        after = _modelled(problem, state.record(plan, feedback), self.seed)
        return after, unproven(problem, after, plan)

    def _batch(self, problem: Problem, state: Modelled, count: int) -> Any:
        """Return the decisions of the batch of largest acquisition, one after the other."""
        import torch
        from botorch.acquisition import qLogNoisyExpectedImprovement
        from botorch.optim import optimize_acqf_discrete
        from botorch.sampling import SobolQMCNormalSampler
        from botorch.utils.sampling import manual_seed

        sampler = SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=self.seed + state.wave)
        seen = state.gp.train_inputs[0]
        choices = torch.tensor(in_unit_cube(problem, problem.decisions.points))
        with quiet(), manual_seed(self.seed + state.wave):  # which baseline to prune is drawn
            acquisition = qLogNoisyExpectedImprovement(state.gp, seen, sampler, prune_baseline=True)
            chosen, _ = optimize_acqf_discrete(acquisition, count, choices, unique=True)
        places = (chosen[:, None] == choices).all(dim=2).numpy()
        return np.sort(places.argmax(axis=1))


def installed() -> bool:
    """Return True if BoTorch can be imported."""
    try:
        with quiet():
            import botorch  # noqa: F401
    except ImportError:
        return False
    return True


@contextmanager
def quiet() -> Iterator[None]:
    """Keep to itself what BoTorch and PyTorch warn of: added jitter, and parts of their own that will go."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _modelled(problem: Problem, state: Modelled, seed: int) -> Modelled:
    """Return the state with a model of the pilot's averages and of all waves', and the decision that follows."""
    rows = all_rows(problem, state.history, pilot_rows(problem))
    if not len(rows):
        return state
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Standardize
    from botorch.utils.sampling import manual_seed
    from gpytorch.mlls import ExactMarginalLogLikelihood

    averages = rows.residual + prior_means(problem, rows.points)
    known = in_unit_cube(problem, rows.points), averages[:, None], rows.noise.diagonal()[:, None]
    gp = SingleTaskGP(*map(torch.tensor, known), outcome_transform=Standardize(m=1))
    with quiet(), manual_seed(seed):  # a fit that fails begins again where a draw says
        fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
    with torch.no_grad():
        mean = gp.posterior(torch.tensor(in_unit_cube(problem, problem.decisions.points))).mean.numpy()
    return changed(state, gp=gp, decision=int(mean.argmax()))


def in_unit_cube(problem: Problem, points: Array) -> Array:
    """Scale points so that the decisions fill the unit cube, as BoTorch's priors expect."""
    low, high = problem.decisions.points.min(axis=0), problem.decisions.points.max(axis=0)
    return np.asarray((points - low) / np.where(high > low, high - low, 1.0))
