"""Estimates of the model's constants from a pilot: a few dozen people, a dozen actions, averages with counts.

The pilot's averages follow the model of the study itself (`likelihood.py`) with the kernel k = (1 - w) k_l + w, smooth
plus constant: people often differ in how much they like anything at all. The length-scales l, v, sigma, tau and w
maximise the marginal likelihood under weak priors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from voxpop.calibration.likelihood import Evaluation
from voxpop.calibration.pilot import Group, Pilot
from voxpop.calibration.protected import Protection
from voxpop.calibration.search import KERNELS, Fit
from voxpop.calibration.shocks import ShockEstimate, estimate_shocks, shocks_of_rounds
from voxpop.calibration.tails import skewness
from voxpop.errors import InputError, require_choice, require_number
from voxpop.model.decisions import Decisions, Space
from voxpop.model.direction import Direction, of_rule
from voxpop.model.guardrails import Guardrail, Rule
from voxpop.model.kernels import Kernel
from voxpop.model.problem import Evidence, Problem, reward_range_of
from voxpop.model.words import describe, number
from voxpop.privacy.sources import Secure, Source
from voxpop.runtime.html import html_table
from voxpop.runtime.machine import one_thread

AUTOMATIC = ("matern-5/2", "matern-3/2", "matern-1/2")  # what "auto" chooses from, the smoothest first
CLOSE = 2.0  # kernels whose log-densities are this close to the largest are not told apart
TOLD = 0.8  # a constant counts as determined if its error is less than this share of the prior's
CYCLES = 50  # in a study, at least, for decisions to be played in whole cycles


@dataclass(frozen=True)
class Estimate:
    """A constant and its 95 % interval; where the pilot does not determine it, the interval is the prior's."""

    value: float
    low: float
    high: float
    determined: bool = True

    @property
    def range(self) -> str:
        """The interval as text."""
        return f"{self.low:.3g} to {self.high:.3g}" if self.determined else "not determined"

    def within(self, reward_range: str) -> Estimate:
        """Return the estimate with what is outside of the limits at the limit."""
        least, most = reward_range_of(reward_range)
        value, low, high = (min(max(number, least), most) for number in (self.value, self.low, self.high))
        return Estimate(value, low, high, self.determined)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A guardrail with the constants of its metric."""

    rule: Rule
    calibration: Calibration
    correlations: tuple[float, ...]  # of people's answers, with the objective's and earlier guardrails'


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """What a pilot says about the model, and how sure it is.

    >>> rows = [{"person": who, "price": p, "reward": who % 3 - (p - 2) ** 2} for who in range(9) for p in (1, 2, 4)]
    >>> calibration = calibrate(rows)
    >>> calibration  # doctest: +ELLIPSIS
    <Calibration from 9 people and 3 actions: ...>
    >>> list(calibration.constants)[:2]
    ['length-scale of price (share of its range)', 'personal deviation v']
    """

    kernel_name: str
    length_scales: dict[str, Estimate]  # by parameter
    offset: Estimate  # the share of a person's deviation that is the same for every action
    bias_std: Estimate
    noise_std: Estimate
    prior_mean: Estimate
    norm_bound: Estimate
    margin: float
    people: int
    log_likelihood: float
    kernel: Kernel
    pilot: Decisions
    rewards: tuple[Estimate, ...]  # f at the pilot's actions
    groups: tuple[Group, ...]  # what a study keeps of the answers: averages of several people
    skewness: float | None  # the largest of single answers, over the pilot's actions; None if they are protected
    protection: Protection | None = None
    space: Space | None = None  # the parameters, if the pilot or its owner named them
    direction: Direction = Direction.MAXIMIZE  # whether rewards and prior mean are rewards or costs
    reward_range: str = ":"  # the limits of rewards or costs
    range_found: bool = False  # by the answers, as nobody gave any
    shocks: ShockEstimate | None = None  # that everybody shares in a round; None if nothing is known of them
    notes: tuple[str, ...] = ()  # how the pilot's table was read
    guardrails: tuple[Calibrated, ...] = ()
    today: Mapping[str, Any] | None = None  # the decision in force, if it is known

    @property
    def ridge(self) -> float:
        """sigma^2 / B^2: the noise of a round, compared with what there is to learn about f.

        The paper's sigma^2 / v^2 compares it with one person's deviation. Where people differ little, or only by a
        constant, f would then count as known after a handful of actions, long before it is.
        """
        return (self.noise_std.value / self.norm_bound.value) ** 2

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The pilot's average answers, for the study to learn from."""
        points, promised = self.pilot.points, self.protection
        epsilon, delta = (None, None) if promised is None else (promised.epsilon, promised.delta)
        return tuple(
            Evidence(
                points[group.actions],
                group.counts,
                group.people,
                group.mean,
                group.noise_std,
                epsilon,
                delta,
                group.answers,
                group.covariance,
                group.variances,
            )
            for group in self.groups
        )

    @property
    def known_shocks(self) -> dict[str, Any]:
        """What a problem is told of shocks: nothing if nothing is known."""
        found = self.shocks
        return {} if found is None else {"shock_std": found.shock_std, "shock_freedom": found.freedom}

    def in_cycles(self, horizon: int) -> tuple[Calibration, dict[str, Any]]:
        """Return the calibration for a study that plays whole cycles of its history, and the setting that says so.

        Without a cycle, or in a study that is too short for it, nothing changes.
        """
        if self.shocks is None or not self.shocks.period or horizon < CYCLES * self.shocks.period:
            return self, {}
        return replace(self, shocks=self.shocks.balanced), {"cycle": self.shocks.period}

    @property
    def widened(self) -> float:
        """At least how many times as large the pilot's errors are as without the noise of a protection.

        The deviation v of a protected pilot is an upper value, so this is a lower one.
        """
        own = sum(
            float((self.bias_std.value**2 + self.noise_std.value**2 / group.counts).sum()) / group.people
            for group in self.groups
        )
        noise = sum(len(group.mean) * group.noise_std**2 for group in self.groups)
        return math.sqrt(1 + noise / own)

    @property
    def constants(self) -> dict[str, Estimate]:
        """What a study will assume, by name."""
        return {
            **{f"length-scale of {name} (share of its range)": value for name, value in self.length_scales.items()},
            "personal deviation v": self.bias_std,
            "share of v that is the same for every action": self.offset,
            "per-round noise sigma": self.noise_std,
            "prior mean": self.prior_mean,
            f"norm bound B (margin {self.margin:g} included)": self.norm_bound,
        }

    def __repr__(self) -> str:
        """Say in one line where the constants come from."""
        said = ", ".join(
            f"{name} {number(value.value)}"
            for name, value in (("v", self.bias_std), ("sigma", self.noise_std), ("B", self.norm_bound))
        )
        return f"<Calibration from {self.people} people and {len(self.pilot)} actions: {self.kernel_name}, {said}>"

    def _repr_html_(self) -> str:
        """Show a notebook the constants with their intervals."""
        rows = [(name, number(value.value), value.range) for name, value in self.constants.items()]
        caption = f"{self.kernel_name} kernel, from {self.people} people and {len(self.pilot)} actions"
        return html_table(rows, ("constant", "estimate", "95 % interval"), caption)

    def require_space(self) -> Space:
        """Return the space of the parameters, or refuse a calibration that does not know it."""
        if self.space is None:
            raise InputError("the calibration does not know its parameters; calibrate with a space")
        return self.space

    def problem(self, decisions: Decisions, horizon: int, beta: float | None = None) -> Problem:
        """Make the study's problem, in the pilot's units; the norm bound includes the margin."""
        guardrails = [
            Guardrail(
                one.rule,
                of_rule(one.rule).problem(one.calibration.problem(decisions, horizon, beta)),
                one.correlations,
            )
            for one in self.guardrails
        ]
        today = None if self.today is None else todays(decisions, self.today)
        return Problem(
            decisions,
            self.kernel,
            self.noise_std.value,
            self.bias_std.value,
            self.norm_bound.value,
            horizon,
            prior_mean=self.prior_mean.value,
            beta=beta,
            ridge=self.ridge,
            pilot=self.evidence,
            reward_range=self.reward_range,
            guardrails=guardrails,
            today=today,
            **self.known_shocks,
        )


def calibrate(
    pilot: Pilot | object,
    space: Space | None = None,
    kernel: str = "auto",
    margin: float = 1.5,
    protection: Protection | None = None,
    source: Source | None = None,
    released: Sequence[Group] | None = None,
    direction: str = Direction.MAXIMIZE,
    watch: Callable[[], None] = lambda: None,
    reward_range: str | None = None,
    history: Any = None,
) -> Calibration:
    """Estimate the model's constants by marginal likelihood.

    The pilot is a `Pilot`, or a table that `Pilot.from_table` makes one of, with this space and direction.

    >>> rows = [{"person": who, "price": p, "reward": who % 3 - (p - 2) ** 2} for who in range(9) for p in (1, 2, 4)]
    >>> found = calibrate(rows)
    >>> found.people, list(found.length_scales)
    (9, ['price'])

    `kernel` is a name from `KERNELS`, or "auto" for the roughest Matern kernel about as likely as the likeliest: its
    RKHS contains the others'. With a space, each parameter has one length-scale (a choice too, though it takes several
    dimensions). The norm bound is the root of the expected squared RKHS norm of f at the pilot's actions, times the
    margin. With a protection, all of this is computed from private sums, whose noise comes from the operating system
    unless a source is given. Each call draws new noise, and what all calls reveal adds up; to calibrate again at no
    further cost, hand over the `groups` of the first calibration as `released`. For each kernel, `watch` is called
    `likelihood.SEARCHES` times.

    `reward_range` has the limits that no reward is outside of, such as "0:1" or "0:". Unless given, answers of yes and
    no (0 and 1) mean "0:1" and answers that are never negative mean "0:"; ":" switches that off.

    `history` has the values of a metric under one decision, one a round and NaN for a gap, or what `estimate_shocks`
    made of them: it says what happens to everybody alike in a round. Without it, a pilot that knows when its rows were
    tried may say so.
    """
    names = require_settings(kernel, margin, reward_range)
    shocks = None if history is None else estimate_shocks(history)
    if not isinstance(pilot, Pilot):
        pilot = Pilot.from_table(pilot, space=space, direction=direction, protected=protection is not None)
    elif Direction.of(direction) is Direction.MINIMIZE:
        pilot = replace(pilot, direction=Direction.MINIMIZE)
    pilot.require_range(reward_range)
    limits = pilot.found_range if reward_range is None else reward_range
    space = space or pilot.space
    points = pilot.decisions.points
    axes = _axes(space, points.shape[1])
    if released is not None:
        groups = _require_released(pilot, protection, released)
    else:
        groups = pilot.groups() if protection is None else protection.release(pilot, source or Secure())
    with one_thread():
        fits = [Fit.search(name, points, axes, groups, watch) for name in names]
        densities = [fit.log_density for fit in fits]
        close = [fit for fit, density in zip(fits, densities, strict=True) if density >= max(densities) - CLOSE]
        found = _calibration(close[-1], pilot, margin, protection)
    if shocks is not None:
        shocks.require_unit(np.array([reward.value for reward in found.rewards]))
    elif protection is None:
        deviations = found.bias_std.value**2 * found.kernel(points, points)
        shocks = shocks_of_rounds(pilot, deviations, found.noise_std.value)
    return replace(
        found,
        prior_mean=found.prior_mean.within(limits),
        rewards=tuple(reward.within(limits) for reward in found.rewards),
        space=space,
        direction=pilot.direction,
        reward_range=limits,
        range_found=reward_range is None and limits != ":",
        shocks=shocks,
    )


def with_guardrails(
    found: Calibration, pilot: Pilot, rules: Sequence[Rule], metrics: Sequence[Pilot], kernel: str, margin: float
) -> Calibration:
    """Calibrate the metrics of guardrails, which the pilot's people answered about as well."""
    told = [pilot.deviations, *(metric.deviations for metric in metrics)]
    alike = np.corrcoef(np.stack(told)) * (1 - 1 / len(told[0]))  # a little less, so that none follows from others
    less = (pilot.direction is Direction.MINIMIZE, *(rule.less for rule in rules))
    signs = np.where(less, -1.0, 1.0)
    alike = alike * np.outer(signs, signs)
    made = [
        Calibrated(rule, calibrate(metric, kernel=kernel, margin=margin), tuple(alike[place, :place].tolist()))
        for place, (rule, metric) in enumerate(zip(rules, metrics, strict=True), start=1)
    ]
    return replace(found, guardrails=tuple(made))


def todays(decisions: Decisions, label: Any) -> int:
    """Return the number of the decision in force today, or say that it does not exist."""
    try:
        return decisions.find(label)
    except InputError:
        raise InputError(
            f"the decision in force today, {describe(label)}, is not one of the {len(decisions):,} decisions; add it "
            "to the values that exist, or correct it"
        ) from None


def require_settings(kernel: str, margin: float, reward_range: str | None = None) -> tuple[str, ...]:
    """Return the names of the kernels to choose from, or refuse settings with which nothing can be calibrated."""
    require_number("margin", margin, least=1)
    reward_range_of(":" if reward_range is None else reward_range)
    return AUTOMATIC if kernel == "auto" else (require_choice("kernel", kernel, [*KERNELS, "auto"]),)


def _require_released(pilot: Pilot, protection: Protection | None, released: Sequence[Group]) -> list[Group]:
    """Return the groups that were released, or refuse those of another pilot."""
    if protection is None:
        raise InputError("released groups need the promise that they were released with; give the protection as well")
    design = [(actions.tolist(), counts.tolist(), len(answers)) for actions, counts, answers in pilot.patterns()]
    if design != [(group.actions.tolist(), group.counts.tolist(), group.people) for group in released]:
        raise InputError(
            "the released groups have other actions, counts or people than the pilot; give what was released of it"
        )
    return list(released)


def _axes(space: Space | None, dimension: int) -> dict[str, int]:
    """Return the number of dimensions that each parameter takes."""
    if space is None:
        return {f"x{i + 1}": 1 for i in range(dimension)}
    axes = {name: parameter.width for name, parameter in space.parameters.items()}
    if sum(axes.values()) != dimension:
        raise InputError(
            f"the space has {sum(axes.values())} dimensions and the pilot's actions have {dimension}; "
            "scale the pilot's actions with this space"
        )
    return axes


def _calibration(fit: Fit, pilot: Pilot, margin: float, protection: Protection | None) -> Calibration:
    """Return the constants with their intervals."""
    errors = fit.errors()
    raised = fit.raised()
    theta, posterior, reaches = raised.theta, raised.posterior, 1.96 * errors
    told = (errors < TOLD * fit.prior.spread).tolist()
    triples = np.stack([theta, theta - reaches, theta + reaches])
    positive = np.vstack([np.exp(triples[:, :-1].T), expit(triples[:, -1])]).tolist()
    estimates = [Estimate(value, low, high, known) for (value, low, high), known in zip(positive, told, strict=True)]
    bias, noise, _, offset = estimates[len(fit.axes) :]
    mean, reach = posterior.prior_mean, 1.96 * posterior.prior_mean_std
    deviations = np.sqrt(np.maximum(np.diag(posterior.covariance), 0.0))
    return Calibration(
        kernel_name=fit.name,
        length_scales=dict(zip(fit.axes, estimates, strict=False)),
        offset=offset,
        bias_std=bias,
        noise_std=noise,
        prior_mean=Estimate(mean, mean - reach, mean + reach),
        norm_bound=_norm(posterior, margin),
        margin=margin,
        people=pilot.person_count,
        log_likelihood=fit.posterior.log_likelihood,
        kernel=fit.kernel,
        pilot=pilot.decisions,
        rewards=tuple(
            Estimate(float(mean + m), float(mean + m - 1.96 * d), float(mean + m + 1.96 * d))
            for m, d in zip(posterior.mean, deviations, strict=True)
        ),
        groups=tuple(raised.averaged()),
        skewness=None if protection else skewness(pilot),
        protection=protection,
    )


def _norm(posterior: Evaluation, margin: float) -> Estimate:
    """Estimate the RKHS norm of f at the pilot's actions; its square has the moments of a quadratic form."""
    square = float(posterior.norm_mean @ posterior.norm_mean)
    covariance = posterior.norm_covariance
    expected = square + float(np.trace(covariance))
    variance = 2 * float(np.sum(covariance**2)) + 4 * float(posterior.norm_mean @ covariance @ posterior.norm_mean)
    reach = 1.96 * math.sqrt(max(variance, 0.0))
    low, value, high = (math.sqrt(max(square, 0.0)) for square in (expected - reach, expected, expected + reach))
    return Estimate(margin * value, margin * low, margin * high)
