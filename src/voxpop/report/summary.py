"""A study in words that a manager understands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from voxpop.core.errors import Array
from voxpop.core.evidence import Evidence
from voxpop.core.phases import Forecast
from voxpop.core.problem import Problem
from voxpop.core.words import certified as certified
from voxpop.core.words import describe as describe
from voxpop.core.words import number as number
from voxpop.drivers.course import Course
from voxpop.lab.metrics import measure
from voxpop.policies import Policy


@dataclass(frozen=True)
class Line:
    """One fact: its name, its value, and what it means."""

    name: str
    value: str
    note: str = ""


def failure_chance(policy: Policy, problem: Problem, phases: int) -> float:
    """Bound the probability that anything certified is wrong: delta, or beta for every bound of every phase."""
    printed = 2 * problem.size * max(1, phases) * problem.beta
    return float(min(1.0, policy.settings().get("delta", printed)))


def confidence(policy: Policy, problem: Problem, phases: int) -> str:
    """Say how sure everything is that is certified after this number of phases."""
    chance = failure_chance(policy, problem, phases)
    return f"{100 * (1 - chance):.4g} % confidence" if chance >= 5e-6 else f"wrong with probability below {chance:.2g}"


def expectation(forecast: Forecast) -> str:
    """Say what a wave is expected to bring and to cost.

    >>> expectation(Forecast(120.0, 12.0, 30.0))
    'expected to bring 120 over the rounds left; answers cost 12, trying poorer decisions costs 30'
    """
    aim = f"to bring {number(forecast.gain)} over the rounds left"
    if forecast.certificate is not None:
        aim = f"to certify that {certified(forecast.certificate, certain=False)}"
    return (
        f"expected {aim}; answers cost {number(forecast.answers)}, "
        f"trying poorer decisions costs {number(forecast.exploring)}"
    )


def summarise(course: Course, truth: Array | None = None) -> list[Line]:
    """Say what to do, how sure that is, what it cost, and why asking stopped; `truth` is known of simulations only."""
    return [*_decision(course, truth), *_cost(course), *_loss(course, truth), *_promise(course), *_notes(course)]


def _decision(course: Course, truth: Array | None) -> Iterator[Line]:
    answer, state, problem = course.answer, course.state, course.problem
    over, left = course.ended is not None, len(state.active)
    yield Line("Do this" if over else "Do this for now", describe(answer.decision))
    if course.phases or course.problem.pilot:
        expected = f"a {course.reward} of {number(answer.low)} to {number(answer.high)}"
        true = "" if truth is None else f"the truth is {number(course.direction.turn(truth)[answer.index])}"
        yield Line("Expect", expected, true)
    yield Line(
        "Certified",
        certified(answer.regret, answer.certain),
        f"{confidence(course.policy, problem, len(course.phases))}, if the model holds; "
        + ("one action is left" if left == 1 else f"{left} of {problem.size} actions could still be best"),
    )
    if answer.expected_loss is not None:
        yield Line(
            "Expected loss",
            f"{number(answer.expected_loss)} per round",
            "what the model expects this choice to lose against the best; asking stops when it no longer pays, long "
            "before everything is certain",
        )


def _cost(course: Course) -> Iterator[Line]:
    waves = len(course.phases)
    yield Line(
        "Asked",
        f"{course.people:,} people, {course.numbers:,} numbers, in {waves:,} wave{'s' * (waves != 1)}",
        f"and {course.pilot_numbers:,} numbers in the pilot" if course.pilot_numbers else "",
    )
    if course.pending is not None:
        plan = course.pending
        yield Line("Open", f"wave {plan.phase} asks {plan.people:,} people about {len(plan.arms)} decisions")
    if course.ended is not None:
        yield Line("Stopped because", course.ended)


def _loss(course: Course, truth: Array | None) -> Iterator[Line]:
    if truth is None:
        return
    horizon = course.problem.horizon
    regret = measure(course.plans, course.answer.index, horizon, truth).regret
    yield Line(
        "Lost while learning",
        f"{regret:,.0f} over {horizon:,} rounds",
        "compared with knowing the best action from the start" + _share(regret, horizon * float(truth.max())),
    )


def _promise(course: Course) -> Iterator[Line]:
    trust = course.privacy.describe()
    if trust["privacy"] != "none":
        yield Line(
            "Claimed" if trust["caveats"] else "Promised",
            f"({trust['epsilon']:g}, {trust['delta']:g})-differential privacy, in the {trust['privacy']} model",
            "; ".join(trust["caveats"])
            or "to everyone, whatever they answer; each person is asked once" + _pilot_promise(course.problem.pilot),
        )


def _pilot_promise(pilot: Iterable[Evidence]) -> str:
    """Say what the people of the pilot were promised, who are others than those of the study."""
    promised = [group.epsilon for group in pilot]
    if not promised:
        return ""
    covered = [epsilon for epsilon in promised if epsilon is not None]
    whole = len(covered) == len(promised)
    return f"; the pilot cost its people epsilon {max(covered):g}" if whole else "; the pilot is not covered"


def _notes(course: Course) -> Iterator[Line]:
    given, final = course.problem.norm_bound, course.state.norm_bound
    if final != given:
        yield Line(
            "Note",
            f"the norm bound {number(given)} was too small for the answers",
            f"it was raised to {number(final)} during the study",
        )
    if course.warning:
        yield Line("Model check", course.warning)


def _share(part: float, whole: float) -> str:
    return f": {part / whole:.1%} of the best possible total" if whole > 0 else ""
