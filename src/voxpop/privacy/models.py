"""The trust models with their parameters: how many people they enlist, and how they release a wave."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from voxpop.errors import Array, InputError, one_of, require_choice
from voxpop.gp.large_widths import affine_values
from voxpop.gp.widths import AffineEstimator
from voxpop.model.options import check, option, options_of
from voxpop.model.problem import Problem
from voxpop.model.state import Prospect, State
from voxpop.model.waves import Plan
from voxpop.privacy.aggregate import Aggregated
from voxpop.privacy.ball import Ball, candidates, unbounded
from voxpop.privacy.central import Central
from voxpop.privacy.clipped import Clipped
from voxpop.privacy.gaussian import classical_multiplier, delta_of
from voxpop.privacy.ledger import Budget, Entry
from voxpop.privacy.local import Local
from voxpop.privacy.none import NoPrivacy, PlainRelease
from voxpop.privacy.release import Privacy, Release
from voxpop.privacy.shuffle import Shuffled, printed_encoding
from voxpop.runtime.extensions import find

Calibrate = Callable[[Entry, Problem, Plan, float], Clipped]  # with v, or 1 as printed


def _gaussian(made: type[Central | Local]) -> Calibrate:
    """Return a function that calibrates the noise of eq:gaussian_noise.

    It is 2 sqrt(2 (kappa^2 + sigma^2) H log(2H/delta_1) ln(1.25/delta_2)) / (eps |U|).
    """

    def calibrate(cost: Entry, problem: Problem, plan: Plan, v: float) -> Clipped:
        std = 2 * _spread(cost, problem, plan, v) * math.sqrt(math.log(1.25 / (cost.delta / 2))) / cost.epsilon
        step = problem.grid_step
        return made(unbounded(problem, plan), problem.beta, cost, step, std / step)

    return calibrate


def _shuffled(cost: Entry, problem: Problem, plan: Plan, v: float) -> Clipped:
    """Calibrate by eq:gbp_set; answers are clipped to the sum of the norm bound and the spread."""
    arms = len(plan.arms)
    radius = problem.norm_bound * math.sqrt(problem.largest_variance * arms) + _spread(cost, problem, plan, v)
    encoding = printed_encoding(cost.epsilon, cost.delta / 2, plan.people, arms)
    return Shuffled(replace(unbounded(problem, plan), radius=radius), problem.beta, cost, encoding)


def _spread(cost: Entry, problem: Problem, plan: Plan, v: float) -> float:
    """Bound the length of a deviation of scale v, with probability 1 - delta_1."""
    arms = len(plan.arms)
    log_term = math.log(2 * arms / (cost.delta / 2))
    return math.sqrt(2 * (v**2 * problem.largest_variance + problem.noise_std**2) * arms * log_term)


PRINTED: dict[str, Calibrate] = {  # of DP-DPBE, LDP-DPBE and SDP-DPBE
    Central.model: _gaussian(Central),
    Local.model: _gaussian(Local),
    Shuffled.model: _shuffled,
}


def caveats(model: str, epsilon: float, delta: float) -> list[str]:
    """Say where the printed calibration does not give the promised guarantee, and whose combination it is."""
    found = ["the sensitivity holds for people who behave like the model only: others get no guarantee"]
    half = delta / 2
    actual = delta_of(classical_multiplier(epsilon, half), epsilon)
    if model != Shuffled.model and actual > half:
        found.append(f"the classical noise gives delta = {actual:.2g} at epsilon = {epsilon:g}, not {half:g}")
    return [*found, "the paper combines it with dpbe-paper and no floor; anything else is voxpop's own combination"]


SENSIBLE = 20.0  # above this epsilon an observer's odds may change half a billion times


def doubts(epsilon: float, delta: float, people: int) -> list[str]:
    """Say what makes little sense in a promise to this many people.

    >>> doubts(5.0, 1e-6, 1000)
    []
    """
    found = []
    if epsilon > SENSIBLE:
        odds = f"lets an observer's odds about a person change e^{epsilon:g} times, which promises next to nothing"
        found.append(f"epsilon {epsilon:g} {odds}; most studies promise 1 to 10")
    if delta * people > 1:
        shown = f"more than one in the {people:,} people asked, so that the promise may fail somebody"
        found.append(f"delta {delta:g} is {shown}; take one far below {1 / people:.0e}")
    return found


# To add a trust model, write its release in a file of its own and list it here.
RELEASES: dict[str, type[Clipped]] = {made.model: made for made in (Central, Local, Shuffled, Aggregated)}
SHARE = 2.0  # with the floor, privacy costs no more precision than asking this many times fewer people would
ANCHORS = 4  # noise is predicted from numbers of people that are powers of this
MOST_PEOPLE = 100_000  # the floor never asks for more people than this in a wave


@dataclass(frozen=True)
class Private:
    """A trust model that promises (eps, delta) to everyone, whatever they answer.

    Without a floor, the least number of people per wave is computed from public constants so that privacy does not
    dominate the error. `honest` matters where everyone's noise protects everyone.

    >>> Private("central", epsilon=5.0).budget
    Budget(epsilon=5.0, delta=1e-06, participations=1)
    """

    model: str = option(called="privacy model", help="Whom people trust.")
    epsilon: float = option(
        above=0, most=1000, help="The eps that everyone is promised; smaller is more private.", example=5.0
    )
    delta: float = option(1e-6, above=0, below=1, help="The probability with which the promise may fail.")
    calibration: str = option(
        "exact",
        choices=("exact", "paper", "paper-v"),
        help="exact; or as printed, which does not keep its promise: paper for v = 1, paper-v for the study's v.",
    )
    floor: int | None = option(
        None,
        least=0,
        unit="people",
        label="Fewest people in a wave",
        help="The least number of people per wave; 0 for the schedule alone; chosen unless given.",
    )
    honest: float = option(
        1.0,
        above=0,
        most=1,
        label="Share of honest devices",
        help="The share of the people whose devices are counted on to add noise: shuffle and aggregate.",
    )

    def __post_init__(self) -> None:
        find("privacy model", self.model, RELEASES)
        check(self)
        if self.printed:
            require_choice("model of the paper", self.model, PRINTED)
        if self.honest < 1 and not (self.release_type.second is not None and self.calibration == "exact"):
            raise InputError(
                f"honest {self.honest:g} means nothing in the {self.model} model with the {self.calibration} "
                "calibration, where nobody relies on the noise of others; leave it out"
            )

    def describe(self) -> dict[str, Any]:
        """Return the parameters and their caveats, for people to read."""
        return {
            "privacy": self.model,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "calibration": self.calibration,
            **({"honest": self.honest} if self.honest < 1 else {}),
            "caveats": caveats(self.model, self.epsilon, self.delta) if self.printed else [],
        }

    @property
    def printed(self) -> bool:
        """True if the noise is the paper's."""
        return self.calibration != "exact"

    def enlist(self, problem: Problem, state: State, plan: Plan) -> Plan:
        """Raise the number of people of the plan to the floor."""
        if self.printed and self.floor is None:
            return plan
        floor = self._floor(problem, state, plan) if self.floor is None else self.floor
        return replace(plan, people=max(plan.people, floor))

    def calibrate(self, problem: Problem, state: State, plan: Plan) -> Clipped:
        """Calibrate the release of a wave: of all candidate balls, take the one with the smallest predicted width."""
        if self.printed:
            if plan.forecast is not None:
                raise InputError(
                    "the paper's calibration has no policy that forecasts what a wave is worth, as waves does, which "
                    "counts on the exact noise; use dpbe-paper, or the exact calibration"
                )
            cost = Entry(self.model, 0, self.epsilon, self.delta, guaranteed=False)
            v = problem.bias_std if self.calibration == "paper-v" else 1.0  # the paper prints it for v = 1
            return PRINTED[self.model](cost, problem, plan, v)
        releases = self._releases(candidates(problem, plan, state), plan.people, problem.beta)
        return min(releases, key=lambda release: _mean_width(problem, state, plan, release))

    @property
    def least(self) -> int:
        """The least number of people in a wave, if one was chosen."""
        return self.floor or 0

    @property
    def splits(self) -> bool:
        """The people of a wave hide among all of them, and everybody reports on all rounds."""
        return False

    def prospect(self, problem: Problem, state: State, plan: Plan) -> Prospect | None:
        """Predict the noise of a release about the plan's arms, whose ball is the smallest candidate."""
        balls = candidates(problem, plan, state)
        at = slice(len(plan.arms))  # by the objective
        ball = min(balls, key=lambda ball: ball.radius**2 * float(np.trace(ball.shape[at, at])))
        return Prospect(ball.shape, lambda people: self._variances(ball, people))

    def _variances(self, ball: Ball, people: Array) -> Array:
        """Interpolate the variance per whitened coordinate between a few numbers of people, which are calibrated."""
        low, high = (math.floor(math.log(float(count), ANCHORS)) for count in (people.min(), people.max()))
        anchors = float(ANCHORS) ** np.arange(low, high + 2)
        found = np.array([self._variance(ball, int(count)) for count in anchors])
        log = np.interp(np.log(people), np.log(anchors), np.log(found))
        return np.where(people < anchors[np.isfinite(found)].min(initial=np.inf), np.inf, np.exp(log))

    def _variance(self, ball: Ball, people: int) -> float:
        try:
            return self._releases([ball], people, 0.5)[0].variance(people)
        except InputError:  # too few people to hide in
            return math.inf

    def settings(self) -> dict[str, Any]:
        """Return the parameters as plain data, from which `privacy_from_settings` makes the same trust model."""
        return asdict(self)

    @property
    def release_type(self) -> type[Clipped]:
        """The type of its releases."""
        return RELEASES[self.model]

    @property
    def budget(self) -> Budget | None:
        """What everyone is promised; None for the printed calibration, which does not keep its promise."""
        return None if self.printed else Budget(self.epsilon, self.delta)

    @property
    def cost(self) -> Entry | None:
        """What a release costs a person in it; None for the printed calibration."""
        if self.printed:
            return None
        return self.release_type.cost_of(self.epsilon, self.delta, self.honest)

    def _releases(self, balls: list[Ball], people: int, beta: float) -> list[Clipped]:
        """Calibrate a release for each ball."""
        make = self.release_type.make
        return [make(ball, self.epsilon, self.delta, people, beta, self.honest) for ball in balls]

    def _floor(self, problem: Problem, state: State, plan: Plan) -> int:
        """Find how many people it takes to get the widths of `plan.people / SHARE` people without privacy."""
        shrunk = SHARE * problem.answer_noise(plan.arms, plan.pulls, plan.people)
        target = _mean_width_of(problem, state, plan, shrunk)
        balls = candidates(problem, plan, state)

        def enough(people: int) -> bool:
            larger = replace(plan, people=people)
            try:
                releases = self._releases(balls, people, problem.beta)
            except InputError:  # too few people to hide in
                return False
            return any(_mean_width(problem, state, larger, release) <= target for release in releases)

        low, high = plan.people, min(MOST_PEOPLE, 2 * plan.people)
        while high < MOST_PEOPLE and not enough(high):
            low, high = high, min(MOST_PEOPLE, 2 * high)
        while high - low > max(1, high // 20):
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return max(high, plan.people)


def _mean_width(problem: Problem, state: State, plan: Plan, release: Clipped) -> float:
    """Predict the mean width of the active actions after a release, if everyone answers."""
    people = plan.people
    at = slice(len(plan.arms))  # by the objective
    noise = problem.answer_noise(plan.arms, plan.pulls, people)
    noise = noise + release.variance(people) * release.ball.shape[at, at]
    return _mean_width_of(problem, state, plan, noise)


def _mean_width_of(problem: Problem, state: State, plan: Plan, noise: Array) -> float:
    estimator = AffineEstimator(problem, plan.arms, noise)
    return float(affine_values(estimator, state.active, state.norm_bound)[1].mean())


def make_privacy(
    model: str,
    epsilon: float | None = None,
    delta: float = 1e-6,
    calibration: str = "exact",
    floor: int | None = None,
    honest: float | None = None,
) -> Privacy:
    """Make the trust model that the command line's options describe.

    >>> make_privacy("central", epsilon=5.0).budget
    Budget(epsilon=5.0, delta=1e-06, participations=1)
    """
    release_type_of(model)
    if model == NoPrivacy.model:
        if epsilon is not None:
            raise InputError(f"epsilon {epsilon:g} needs a trust model; add --privacy {one_of(RELEASES)}")
        if honest is not None:
            raise InputError(f"honest {honest:g} needs a trust model; add --privacy aggregate or shuffle")
        if calibration != Private.calibration:
            raise InputError(f"calibration {calibration!r} needs a trust model; add --privacy {one_of(PRINTED)}")
        return NoPrivacy()
    if epsilon is None:
        raise InputError(f"the {model} model needs to know what to promise; add --epsilon, such as --epsilon 5")
    return Private(model, epsilon, delta, calibration, floor, 1.0 if honest is None else honest)


def privacy_from_settings(data: Mapping[str, Any]) -> Privacy:
    """Make the trust model that `Privacy.settings` described."""
    if data.get("model") == NoPrivacy.model:
        return NoPrivacy()
    for name in data:
        require_choice("setting of privacy", name, [one.name for one in options_of(Private)])
    try:
        return Private(**data)
    except TypeError:
        raise InputError(f"privacy needs a model and an epsilon, got {sorted(data)}") from None


def release_type_of(model: object) -> type[Release]:
    """Return the type of the releases that a model makes."""
    known: dict[str, type[Release]] = {PlainRelease.model: PlainRelease, **RELEASES}
    return find("privacy model", model, known)
