"""How individuals weigh the attributes of what they choose from: a mixed logit, fitted by simulated likelihood.

Person u weighs attribute k with beta_uk and chooses alternative j with a chance proportional to exp(x_j . beta_u). Over
people, beta_uk is Gaussian with mean m_k and standard deviation s_k ("normal"), minus the exponential of such a number
("negative", for what nobody likes, such as a cost), or m_k for everyone ("same"). The m_k and s_k maximise the
likelihood of all choices, with the integral over beta_u replaced by the mean over quasi-random draws; a person's tastes
are the means of beta_u given that person's own choices, which are the same draws weighted by how well each explains
them. See Train (2009), Discrete Choice Methods with Simulation, chapters 6 and 11; Revelt and Train (2000).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

from voxpop.errors import Array
from voxpop.model.problem import Indices

Spread = Literal["normal", "negative", "same"]
CHUNK = 2**14  # draws in memory at once, for all people together


@dataclass(frozen=True, eq=False)
class Choices:
    """What people chose, situation by situation; the situations of a person follow each other."""

    attributes: Array  # (situations, alternatives, attributes)
    available: NDArray[np.bool_]  # (situations, alternatives)
    chosen: Indices  # (situations,)
    person: Indices  # (situations,) 0, 0, ..., 1, ...

    @cached_property
    def first(self) -> Indices:
        """The first situation of each person, and the number of situations."""
        return np.searchsorted(self.person, np.arange(self.person[-1] + 2))

    @property
    def people(self) -> int:
        """The number of people."""
        return len(self.first) - 1

    def mean(self, values: Array) -> Array:
        """Average over each person's situations."""
        return np.asarray(np.add.reduceat(values, self.first[:-1]).T / np.diff(self.first)).T


@dataclass(frozen=True, eq=False)
class Fitted:
    """The model of all people, and each person's tastes."""

    means: Array  # (attributes,) m_k
    deviations: Array  # (attributes,) s_k, zero where everyone has the same taste
    log_likelihood: float
    tastes: Array  # (people, attributes)


@dataclass(frozen=True, eq=False)
class Model:
    """The simulated likelihood of choices, as a function of all m_k and then the s_k that vary."""

    choices: Choices
    spreads: Sequence[Spread]
    draws: int = 512  # for each person: a power of two, so that they are balanced
    seed: int = 0

    def fit(self, start: Sequence[float]) -> Fitted:
        """Maximise the likelihood, from these m_k and from deviations of one half.

        The tastes are computed from 16 times as many draws, of which a person's choices leave few of weight.
        """
        count = len(self.choices.chosen)

        def loss(theta: Array) -> tuple[float, Array]:
            parts = list(self._parts(theta))
            return -sum(part[0] for part in parts) / count, -np.sum([part[1] for part in parts], axis=0) / count

        first = np.concatenate([start, np.full(len(self.varying), 0.5)])
        best = minimize(loss, first, jac=True, method="BFGS", options={"gtol": 1e-6, "maxiter": 500})
        deviations = np.zeros(len(self.spreads))
        deviations[self.varying] = np.abs(best.x[len(self.spreads) :])
        tastes = np.concatenate([part[2] for part in replace(self, draws=16 * self.draws)._parts(best.x)])
        return Fitted(best.x[: len(self.spreads)], deviations, -float(best.fun) * count, tastes)

    @cached_property
    def varying(self) -> list[int]:
        """The attributes that people weigh differently."""
        return [k for k, spread in enumerate(self.spreads) if spread != "same"]

    @cached_property
    def _draws(self) -> Array:  # (people, draws, varying)
        sampler = qmc.Sobol(len(self.varying), scramble=True, rng=np.random.default_rng(self.seed))
        count = self.choices.people * self.draws
        uniform = sampler.random_base2(int(np.ceil(np.log2(count))))[:count]
        return np.asarray(ndtri(uniform)).reshape(self.choices.people, self.draws, -1)

    def _parts(self, theta: Array) -> Iterator[tuple[float, Array, Array]]:
        """Compute the log-likelihood, its gradient and the tastes of a chunk of people after another."""
        count, negative = len(self.spreads), [k for k, spread in enumerate(self.spreads) if spread == "negative"]
        choices, step = self.choices, max(CHUNK // self.draws, 1)
        for begin in range(0, choices.people, step):
            people = np.arange(begin, min(begin + step, choices.people))
            rows = slice(choices.first[begin], choices.first[people[-1] + 1])
            starts = choices.first[people] - rows.start
            draws, attributes, chosen = self._draws[people], choices.attributes[rows], choices.chosen[rows]
            beta = np.tile(theta[:count], (*draws.shape[:2], 1))  # (people, draws, attributes)
            beta[..., self.varying] += theta[count:] * draws
            beta[..., negative] = -np.exp(beta[..., negative])
            utility = np.einsum("sak,srk->sra", attributes, beta[choices.person[rows] - begin])
            utility[~np.broadcast_to(choices.available[rows][:, None, :], utility.shape)] = -np.inf
            log_chance = utility - logsumexp(utility, axis=2, keepdims=True)
            at = np.arange(len(chosen))
            explained = np.add.reduceat(log_chance[at, :, chosen], starts)  # (people, draws)
            likelihood = logsumexp(explained, axis=1, keepdims=True)
            weight = np.exp(explained - likelihood)
            expected = np.einsum("sra,sak->srk", np.exp(log_chance), attributes)
            slope = np.add.reduceat(attributes[at, chosen][:, None, :] - expected, starts) * weight[..., None]
            slope[..., negative] *= beta[..., negative]
            gradient = np.concatenate([slope.sum((0, 1)), (slope[..., self.varying] * draws).sum((0, 1))])
            tastes = np.einsum("ur,urk->uk", weight, beta)
            yield float(likelihood.sum() - len(people) * np.log(self.draws)), gradient, tastes
