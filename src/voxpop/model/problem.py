"""The problem: what is known before the first question is asked. It never contains the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from voxpop.errors import Array, InputError, require_array, require_integer, require_number
from voxpop.model.decisions import Decisions
from voxpop.model.guardrails import Guardrail, correlation_of, require_guardrails
from voxpop.model.kernels import Kernel, Precomputed
from voxpop.model.noise import ALIKE, ASSUMED, NEARBY, SHOCK, TRUST, Manner, Shocks, Shown
from voxpop.model.options import Option


@dataclass(frozen=True, eq=False)
class Evidence:
    """The average answers of people who tried the same actions for the same numbers of rounds.

    The actions are points of the kernel's space and need not belong to the decision set.

    >>> Evidence([[0.0], [0.5]], [20, 20], 40, [1.2, 1.9]).mean
    array([1.2, 1.9])
    """

    points: Array  # (actions, dimensions)
    rounds: Array  # (actions,) behind each person's averages
    people: int
    mean: Array  # (actions,)
    noise_std: float = 0.0  # of the noise that privacy added to each average
    epsilon: float | None = None  # what these people were promised; None: nothing
    delta: float | None = None
    answers: Array | None = None  # (actions,) behind each average, and the covariance of the averages around f,
    covariance: Array | None = None  # (actions, actions), if people tried different actions
    variances: Array | None = None  # (actions,) of single people's averages, where they were seen

    def __post_init__(self) -> None:
        for name in ("points", "rounds", "mean", "answers", "covariance", "variances"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, require_array(f"the pilot's {name}", getattr(self, name)))
        object.__setattr__(self, "people", require_integer("the pilot's people", self.people, least=1))
        object.__setattr__(self, "noise_std", require_number("the pilot's noise_std", self.noise_std, least=0))
        for name in ("epsilon", "delta"):
            if (value := getattr(self, name)) is not None:
                require_number(f"the pilot's {name}", value, above=0)
        length = len(self.points) if self.points.ndim == 2 else 0
        if not length or self.rounds.shape != (length,) or self.mean.shape != (length,):
            raise InputError(
                "a pilot needs one row of coordinates, one number of rounds and one average per action, got the shapes "
                f"{self.points.shape}, {self.rounds.shape} and {self.mean.shape}"
            )
        if self.rounds.min() <= 0:
            raise InputError(f"every average of a pilot needs a positive number of rounds, got {self.rounds.min():g}")
        if self.variances is not None and (self.variances.shape != (length,) or self.variances.min() < 0):
            raise InputError(f"the pilot's variances must be {length} numbers of at least 0, got {self.variances}")
        if (self.answers is None) != (self.covariance is None):
            raise InputError("the pilot's answers and their covariance belong together; give both or neither")
        if self.answers is not None and self.covariance is not None:
            if self.answers.shape != (length,) or self.covariance.shape != (length, length):
                raise InputError(
                    f"a pilot of {length} actions needs as many numbers of answers, and a covariance of that many rows "
                    f"and columns, got the shapes {self.answers.shape} and {self.covariance.shape}"
                )
            if np.linalg.eigvalsh(self.covariance)[0] <= 0:
                raise InputError("the pilot's covariance is not positive definite; calibrate again")

    @property
    def numbers(self) -> int:
        """The numbers that these people sent."""
        return self.people * len(self.mean) if self.answers is None else int(self.answers.sum())

    @property
    def freedom(self) -> Array:
        """The degrees of freedom of the variances, (actions,)."""
        behind = np.full(len(self.mean), float(self.people)) if self.answers is None else self.answers
        return np.maximum(behind - 1, 0.0)

    def check(self, dimensions: int) -> None:
        """Refuse a pilot on other decisions than the study's."""
        if self.points.shape[1] != dimensions:
            raise InputError(
                f"the pilot's actions have {self.points.shape[1]} dimensions and the study's have {dimensions}; "
                "use a pilot on the same parameters, or none"
            )


Indices = NDArray[np.intp]
Range = tuple[float, float]


def reward_range_of(text: str) -> Range:
    """Read the limits of a reward; either may be left out.

    >>> reward_range_of("0:1"), reward_range_of("0:"), reward_range_of(":")
    ((0.0, 1.0), (0.0, inf), (-inf, inf))
    """
    try:
        low, high = (part.strip() for part in text.split(":"))
        limits = float(low or "-inf"), float(high or "inf")
    except (AttributeError, ValueError):
        limits = math.nan, math.nan
    if not limits[0] < limits[1]:
        raise InputError(f"reward_range must be two rising numbers such as 0:1 or 0:, got {text!r}")
    return limits


def require_range(values: ArrayLike, limits: Range, name: Callable[[tuple[int, ...]], str]) -> None:
    """Refuse values that break limits by more than rounding; `name` says what the one at a place is."""
    array = np.asarray(values, dtype=float)
    low, high = (limit + sign * 1e-9 * abs(limit) for limit, sign in zip(limits, (-1, 1), strict=True))
    broken = np.argwhere((array < low) | (array > high))
    if len(broken):
        place = tuple(broken[0].tolist())
        text = ":".join(f"{limit:g}" if math.isfinite(limit) else "" for limit in limits)
        raise InputError(
            f"{name(place)} is {array[place]:g}, outside of the reward_range {text}; correct it, or give wider limits"
        )


REWARD_RANGE = Option(
    "reward_range",
    ":",
    str,
    label="Limits of the reward",
    help="What no reward is outside of: 0:1 for yes and no, 0: if none is negative, : without limits.",
)
GRID_BITS = 40  # answers are added up on a grid of 2^-40 of the problem's scale
GRAM_LIMIT = 2048  # up to this many actions the whole kernel matrix is kept (32 MiB)


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """A population's unknown reward f over a finite decision set, seen through biased people.

    | argument | symbol | meaning |
    |---|---|---|
    | decisions | D | `Decisions`, or an (n, d) array |
    | kernel | k | similarity of actions |
    | noise_std | sigma | per-round noise of a person (ass:noise) |
    | bias_std | v | scale of a person's deviation, f_u ~ GP(f, v^2 k) (ass:local_func) |
    | norm_bound | B | bound on the RKHS norm of f - prior_mean (ass:global_func) |
    | horizon | T | rounds |
    | prior_mean | m | what to expect of f before any answer: a number or one per action |
    | beta | beta | each bound fails with at most this probability; 1/(n T) unless given |
    | ridge | lambda | sigma^2 / v^2 unless given |
    | pilot | | what people answered before the study, at points of the kernel's space |
    | reward_range | | limits that f is known to keep, such as "0:1" or "0:" |
    | shock_std | | what happens to everybody in a round: its standard deviation; a hundredth of v unless given |
    | shock_freedom | | the degrees of freedom with which it is known |
    | guardrails | | metrics that decisions must keep, each with a problem of its own |
    | today | | the decision in force before the study, as a number from 0 |

    >>> from voxpop.model.kernels import SquaredExponential
    >>> p = Problem([0.0, 0.5, 1.0], SquaredExponential(0.2), 0.01, 0.1, norm_bound=1.0, horizon=100)
    >>> p.size, round(p.ridge, 6), round(p.beta, 6)
    (3, 0.01, 0.003333)
    """

    decisions: Decisions
    kernel: Kernel
    noise_std: float
    bias_std: float
    norm_bound: float
    horizon: int
    prior_mean: float | Array
    beta: float
    ridge: float
    pilot: tuple[Evidence, ...]
    reward_range: str
    shock_std: float
    shock_freedom: float
    guardrails: tuple[Guardrail, ...]
    today: int | None

    def __init__(
        self,
        decisions: Decisions | ArrayLike,
        kernel: Kernel,
        noise_std: float,
        bias_std: float,
        norm_bound: float,
        horizon: int,
        prior_mean: ArrayLike = 0.0,
        beta: float | None = None,
        ridge: float | None = None,
        pilot: Iterable[Evidence] = (),
        reward_range: str = ":",
        shock_std: float | None = None,
        shock_freedom: float = ASSUMED,
        guardrails: Iterable[Guardrail] = (),
        today: int | None = None,
    ) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("decisions", decisions if isinstance(decisions, Decisions) else Decisions(decisions))
        if not isinstance(kernel, Kernel):
            raise InputError(f"kernel must be a voxpop kernel, got {kernel!r}; see voxpop.model.kernels")
        put("kernel", kernel)
        kernel.check(self.decisions.points)
        put("noise_std", require_number("noise_std", noise_std, above=0))
        put("bias_std", require_number("bias_std", bias_std, above=0))
        put("norm_bound", require_number("norm_bound", norm_bound, above=0))
        put("horizon", require_integer("horizon", horizon, least=1, most=10**15))
        mean = require_array("prior_mean", prior_mean)
        if mean.ndim > 0 and mean.shape != (self.size,):
            raise InputError(f"prior_mean must be one number or {self.size}, got shape {mean.shape}")
        put("prior_mean", float(mean) if mean.ndim == 0 else mean)
        beta = min(1 / (self.size * self.horizon), 0.5) if beta is None else beta
        put("beta", require_number("beta", beta, above=0, below=1))
        share = self.noise_std / self.bias_std
        ridge = share * share if ridge is None else ridge
        put("ridge", require_number("ridge", ridge, above=0))
        put("pilot", tuple(pilot))
        for group in self.pilot:
            group.check(self.decisions.points.shape[1])
            self.kernel.check(group.points)
        put("reward_range", reward_range)
        exact = [group.mean for group in self.pilot if group.noise_std == 0 and group.covariance is None]
        for name, values in (("prior_mean", self.means), *(("the pilot's mean", mean) for mean in exact)):
            require_range(values, self.limits, lambda _, name=name: name)  # type: ignore[misc]
        if not self.prior_variance.max() > 0:
            raise InputError("the kernel gives every action a variance of zero; choose another kernel")
        shock_std = SHOCK * self.bias_std * math.sqrt(self.largest_variance) if shock_std is None else shock_std
        put("shock_std", require_number("shock_std", shock_std, least=0))
        put("shock_freedom", require_number("shock_freedom", shock_freedom, above=0))
        put("guardrails", tuple(guardrails))
        if today is not None:
            require_integer("today, the number of the decision in force,", today, least=0, most=self.size - 1)
        put("today", today)
        require_guardrails(self)

    @classmethod
    def of_matrix(cls, matrix: ArrayLike, *args: Any, **named: Any) -> Problem:
        """Make a problem whose actions are the rows of a covariance matrix; the other arguments are as usual."""
        kernel = Precomputed(require_array("kernel matrix", matrix))
        return cls(Decisions(np.arange(len(kernel.matrix), dtype=float)), kernel, *args, **named)

    @property
    def metrics(self) -> tuple[Problem, ...]:
        """The objective and the metrics of all guardrails."""
        return (self, *(guardrail.problem for guardrail in self.guardrails))

    @cached_property
    def correlation(self) -> Array:
        """How people's answers about all metrics vary together, (metrics, metrics)."""
        return correlation_of(self.guardrails)

    def among(self, decisions: Decisions) -> Problem:
        """Return the problem with other decisions, among them the one in force today, in its guardrails as well."""
        rails = tuple(replace(one, problem=replace(one.problem, decisions=decisions)) for one in self.guardrails)
        today = self.today
        if today is not None:
            today = decisions.points.tolist().index(self.decisions.points[today].tolist())
        return replace(self, decisions=decisions, guardrails=rails, today=today)

    @property
    def size(self) -> int:
        """n, the number of actions."""
        return len(self.decisions)

    @cached_property
    def prior_variance(self) -> Array:
        """k(x, x) for every action."""
        return self.kernel.diagonal(self.decisions.points)

    @cached_property
    def largest_variance(self) -> float:
        """The largest k(x, x)."""
        return float(self.prior_variance.max())

    @cached_property
    def means(self) -> Array:
        """The prior mean of every action."""
        return np.broadcast_to(np.asarray(self.prior_mean, dtype=float), (self.size,))

    @cached_property
    def limits(self) -> Range:
        """What f is known to keep within; infinite where nothing is known."""
        return reward_range_of(self.reward_range)

    def within(self, values: ArrayLike) -> Array:
        """Return estimates or bounds as they are shown: those outside of the limits are at the limit."""
        return np.asarray(np.clip(values, *self.limits))

    @cached_property
    def grid_step(self) -> float:
        """The step of the grid on which answers are added up: a power of two."""
        spread = (self.norm_bound + self.bias_std) * math.sqrt(float(self.prior_variance.max()))
        scale = max(spread, self.noise_std, float(np.abs(self.means).max()))
        return float(2.0 ** (math.ceil(math.log2(scale)) - GRID_BITS))

    def covariance(self, rows: Indices | slice, columns: Indices) -> Array:
        """Compute the kernel matrix of two lists of action numbers, of shape (rows, columns)."""
        if self._gram is not None:
            return np.asarray(self._gram[rows][:, columns])
        x, y = self.decisions.points[rows], self.decisions.points[columns]
        matrix = np.empty((len(x), len(y)))
        self.kernel.fill(matrix, x, y)
        return matrix

    def regularised(self, arms: Indices, pulls: Indices | Array) -> Array:
        """Compute K + lambda W^-1."""
        matrix = self.covariance(arms, arms).copy()
        matrix.flat[:: len(arms) + 1] += self.ridge / pulls
        return matrix

    def answer_noise(self, arms: Indices, pulls: Indices, count: float = 1) -> Array:
        """Compute N = D (v^2 K + sigma^2 W^-1) D / |U|, the covariance of the average of `count` people's answers.

        D is the spread, by which people vary more at some actions and less at others. Where the unknown is the mean of
        these very people, how they differ is no noise.
        """
        if self.of_people:
            return np.diag(np.full(len(arms), self.noise_std**2) / pulls) / count
        spread = np.ones(len(arms)) if self.spread is None else self.spread[arms]
        return self.varying(arms, pulls, self.manner) * np.outer(spread, spread) / count

    def varying(self, arms: Indices, pulls: Indices | Array, manner: Manner) -> Array:
        """Compute v^2 K + sigma^2 W^-1 for people who vary as much, but in another manner."""
        rough, own = manner
        covariance, variances = self.covariance(arms, arms), np.full(len(arms), self.noise_std**2) / pulls
        deviation = np.sqrt(np.maximum(covariance.diagonal(), np.finfo(float).tiny))
        usual = self.bias_std**2 * covariance.diagonal() + variances
        if rough > 1:
            covariance = covariance * (covariance / np.outer(deviation, deviation)) ** (rough - 1)
        elif rough < 1:
            alike = np.outer(deviation, deviation)
            covariance = alike - rough * (alike - covariance)
        covariance = self.bias_std**2 * covariance
        covariance.flat[:: len(arms) + 1] += own * variances
        scale = np.sqrt(usual / covariance.diagonal())
        return np.asarray(covariance * np.outer(scale, scale))

    @property
    def most_differing(self) -> float:
        """D v: how much people deviate from their mean, where they do most, in units of sqrt(k(x, x))."""
        return self.bias_std * (1.0 if self.spread is None else float(self.spread.max()))

    @cached_property
    def shown(self) -> Shown | None:
        """What the pilot's people showed of how much they vary; None if it is not known."""
        seen = [
            self.show(group.points, group.rounds, group.variances, group.freedom)
            for group in self.pilot
            if group.variances is not None
        ]
        return Shown.joined(seen) if seen else None

    @cached_property
    def spread(self) -> Array | None:
        """How many times as much as v and sigma say people vary at each action, (n,); None: as much everywhere."""
        return None if self.shown is None else self.spread_at(self.decisions.points)

    def show(self, points: Array, rounds: Array | Indices, variances: Array, freedom: Array | float) -> Shown:
        """Compare the variances of people's averages with the model's."""
        model = self.bias_std**2 * self.kernel.diagonal(points) + self.noise_std**2 / rounds
        return Shown(points, variances / model, np.broadcast_to(freedom, model.shape))

    @cached_property
    def shocks(self) -> Shocks:
        """What is known of what happens to everybody alike in a round."""
        return Shocks(self.shock_std**2, freedom=self.shock_freedom)

    manner = Manner()

    def in_manner(self, manner: Manner) -> Problem:
        """Return the same problem, in which people vary as much, but in another manner."""
        new = copy(self)
        new.__dict__["manner"] = manner
        return new

    of_people = False  # True: the unknown is the mean of the very people who answer, and not that of a population

    def about_people(self) -> Problem:
        """Return the same problem, in which the unknown is the mean of the very people who answer in every wave."""
        new = copy(self)
        new.__dict__["of_people"] = True
        return new

    def showing(self, seen: Sequence[Shown], shocks: Shocks | None = None) -> Problem:
        """Return the same problem, in which people vary as the pilot's and these have shown, and rounds like this."""
        new = copy(self)
        if seen:
            new.__dict__.pop("spread", None)
            new.__dict__["shown"] = Shown.joined([*seen] if self.shown is None else [self.shown, *seen])
        if shocks is not None:
            new.__dict__["shocks"] = shocks
        return new

    def shock_noise(self, pulls: Indices) -> Array:
        """Compute what rounds do to the averages of a wave, for a shock of variance 1 in each, (arms, arms).

        Every arm has shocks of its own, as orders are random. What the whole wave has in common is that of all its
        rounds, as if so many that follow each other were alike.
        """
        return np.diag(1 / np.asarray(pulls, dtype=float)) + min(1.0, ALIKE / float(pulls.sum()))

    def pilot_spread(self, points: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the spread with which the pilot's averages count, and where its own people were seen to vary.

        Where they vary more than people nearby and the model say, they count as they are seen.
        """
        spread, seen = self.spread_at(points), np.zeros(len(points), dtype=bool)
        if self.shown is not None:
            same = (points[:, None, :] == self.shown.points).all(axis=2) & (self.shown.freedom > 0)  # (points, rows)
            spread = np.maximum(spread, np.sqrt(np.max(same * self.shown.ratios, axis=1, initial=0.0)))
            seen = same.any(axis=1)
        return spread, seen

    def spread_at(self, points: Array) -> Array:
        """Return the spread at points: what was shown nearby, and the model as so many people more, averaged."""
        if self.shown is None or not len(points):
            return np.ones(len(points))
        found, own = [], np.maximum(self.kernel.diagonal(self.shown.points), np.finfo(float).tiny)
        for start in range(0, len(points), GRAM_LIMIT):
            some = points[start : start + GRAM_LIMIT]
            scale = np.sqrt(np.outer(np.maximum(self.kernel.diagonal(some), np.finfo(float).tiny), own))
            alike = np.clip(self.kernel(some, self.shown.points) / scale, 0.0, 1.0) ** NEARBY
            weights = alike * self.shown.freedom  # (points, rows)
            found.append(np.sqrt((TRUST + weights @ self.shown.ratios) / (TRUST + weights.sum(axis=1))))
        return np.concatenate(found)

    @cached_property
    def _gram(self) -> Array | None:
        if isinstance(self.kernel, Precomputed):
            return self.kernel.matrix
        if self.size > GRAM_LIMIT:
            return None
        points = self.decisions.points
        return self.kernel(points, points)
