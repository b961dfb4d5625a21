"""A study in words that a manager understands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from voxpop.calibration.fit import Calibration
from voxpop.errors import Array
from voxpop.journal.journal import Course
from voxpop.model.problem import Evidence, Problem
from voxpop.model.waves import Forecast
from voxpop.model.words import certified as certified
from voxpop.model.words import describe as describe
from voxpop.model.words import number as number
from voxpop.policies import Policy
from voxpop.report.decisions import Layout
from voxpop.report.stakes import Stakes, measure, stakes_of

NOTHING = 1e-4  # of the differences between decisions


@dataclass(frozen=True)
class Line:
    """One fact: its name, its value, and what it means."""

    name: str
    value: str
    note: str = ""
    first: bool = False  # for whoever has ten seconds


def failure_chance(policy: Policy, problem: Problem, waves: int) -> float:
    """Bound the probability that anything certified is wrong: delta, or beta for every bound of every wave."""
    printed = 2 * problem.size * max(1, waves) * problem.beta
    return float(min(1.0, policy.settings().get("delta", printed)))


def confidence(policy: Policy, problem: Problem, waves: int) -> str:
    """Say how sure everything is that is certified after this number of waves."""
    chance = failure_chance(policy, problem, waves)
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
    """Say what to do, how sure that is, what it cost, and why asking stopped; `truth` is known of simulations only.

    The lines that a manager reads first have `first` set.

    >>> from voxpop.simulation.trials import Trial
    >>> run = Trial("pricing", size=25, horizon=2000).run()
    >>> [line.name for line in summarise(run.course) if line.first][:3]
    ['Do this', 'Expect', 'Certified']
    """
    return [
        *_decision(course),
        *_promised_reward(course, truth),
        *_cost(course, stakes_of(course, truth)),
        *_asked(course),
        *_loss(course, truth),
        *_promise(course),
        *_notes(course),
    ]


def _decision(course: Course) -> Iterator[Line]:
    name = "Do this" if course.ended is not None else "Do this for now"
    yield Line(name, Layout(course.problem).name(course.answer.index), _rests_on(course), first=True)


def _rests_on(course: Course) -> str:
    """Say what the decision rests on, as long as nobody has answered."""
    if course.closed:
        return ""
    nobody = "nobody has answered yet" if course.ended is None else "nobody was asked"
    if course.problem.pilot:
        return f"{nobody}; this rests on the pilot of {course.pilot_people:,} people alone"
    return f"{nobody}, and there was no pilot: this is a start, not a recommendation"


def _promised_reward(course: Course, truth: Array | None) -> Iterator[Line]:
    answer, state, problem = course.answer, course.state, course.problem
    if not course.closed and not problem.pilot:
        return
    sure = confidence(course.policy, problem, len(course.closed))
    notes = [] if state.expected_loss is None else [f"estimate {number(float(course.estimates[answer.index]))}"]
    if truth is not None:
        notes.append(f"simulated truth {number(course.direction.turn(truth)[answer.index])}")
    if course.closed:
        said = f"{number(answer.low)} to {number(answer.high)}"
        yield Line("Expect", said, "; ".join([course.reward, sure, *notes]), first=True)
    else:  # bounds of values come from waves
        yield Line("Expect", "nothing certain yet", "; ".join([course.reward, *notes]), first=True)
    left = len(state.active)
    yield Line(
        "Certified",
        certified(answer.regret, answer.certain),
        f"{sure}, if the model holds; "
        + ("one decision is left" if left == 1 else f"{left:,} of {problem.size:,} decisions could still be best")
        + f"; {state.spent / failure_chance(course.policy, problem, 1):.0%} of the chance of error is spent"
        * (state.spent > 0),
        first=True,
    )
    if answer.expected_loss is not None:
        yield Line(
            "Expected loss",
            _per_round(answer.expected_loss, state.centre),
            "what the model expects this choice to lose against the best",
            first=True,
        )


def _cost(course: Course, stakes: Stakes | None) -> Iterator[Line]:
    """Compare what asking costs with what not knowing would cost."""
    if stakes is None:
        return
    if course.closed:
        parts = [f"answers {number(stakes.answers)}"] if stakes.answers else []
        parts.append(f"trying poorer decisions {number(stakes.trying)}")
        yield Line("Asking cost", number(stakes.asking), f"{', '.join(parts)}; in {course.reward}", first=True)
    source = "by the simulated truth" if stakes.measured else "as the model estimates it"
    after = f"with what was learned {number(stakes.ahead)}; " if course.closed else ""
    over = f"{after}over {course.problem.horizon:,} rounds, {source}"
    if stakes.pilot is None:
        yield Line("Guessing would cost", number(stakes.guessing), over, first=True)
    else:
        assert stakes.pilot_choice is not None
        kept = Layout(course.problem).name(stakes.pilot_choice)
        if course.closed and stakes.pilot_choice == course.answer.index:
            kept = "which the answers confirm"
        note = f"with the pilot's choice, {kept}; at random {number(stakes.guessing)}; {over}"
        caveat = f" ({stakes.caveat})" if stakes.caveat else ""
        yield Line("Not asking would cost", number(stakes.pilot), note + caveat, first=True)


def _asked(course: Course) -> Iterator[Line]:
    count = len(course.closed)
    yield Line(
        "Asked",
        f"{course.people:,} people, {course.numbers:,} numbers, in {count:,} wave{'s' * (count != 1)}",
        f"and {course.pilot_numbers:,} numbers in the pilot" if course.pilot_numbers else "",
    )
    if course.pending is not None:
        plan = course.pending
        yield Line(
            "Open",
            f"wave {plan.wave} asks {plan.people:,} people about {len(plan.arms)} decisions",
            "" if plan.forecast is None else expectation(plan.forecast),
        )
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
        "compared with knowing the best decision from the start" + _share(regret, horizon * float(truth.max())),
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
    elif course.closed and course.policy.name == "waves":  # other policies do not check
        yield Line("Model check", "the answers fit the model", "it notices some of what can be wrong, not all")


def _per_round(loss: float, estimates: Array) -> str:
    """Write an expected loss; what is far below the differences between decisions is nothing."""
    return "practically nothing" if loss < NOTHING * np.ptp(estimates) else f"{number(loss)} per round"


def _share(part: float, whole: float) -> str:
    return f": {part / whole:.1%} of the best possible total" if whole > 0 else ""


def pilot_sentences(found: Calibration) -> list[str]:
    """Say what was best in the pilot, and how much people and rounds differ."""
    best = max(range(len(found.rewards)), key=lambda action: found.direction.turn(found.rewards[action].value))
    measure = found.direction.measure
    reward, differ, vary = found.rewards[best], number(found.bias_std.value), number(found.noise_std.value)
    tried = (
        f"{found.people} people tried {len(found.pilot)} decisions. Best in the pilot: {describe(found.pilot[best])}, "
        f"with a {measure} of about {number(reward.value)} ({number(reward.low)} to {number(reward.high)})."
    )
    spread = (
        f"People differ by about {differ} in what one decision brings them, and one person's {measure} by about {vary} "
        "from round to round."
    )
    return [tried, spread]


def constant_rows(found: Calibration) -> list[tuple[str, str, str]]:
    """List what the study will assume: the constant, its estimate, and its 95 % interval."""
    return [(name, number(value.value), value.range) for name, value in found.constants.items()]
