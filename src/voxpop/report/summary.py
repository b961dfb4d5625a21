"""A study in words that a manager understands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from voxpop.calibration.fit import Calibration
from voxpop.errors import Array
from voxpop.io.schema import asks_again
from voxpop.journal.journal import Course
from voxpop.journal.question import failure_chance
from voxpop.journal.schedule import wave_dates
from voxpop.journal.watch import watched
from voxpop.model.money import Money
from voxpop.model.problem import reward_range_of
from voxpop.model.waves import Forecast
from voxpop.model.words import certified, counted, describe, limits, number
from voxpop.policies.waves.policy import PRICE
from voxpop.privacy.models import doubts
from voxpop.report.stakes import measure
from voxpop.report.view import View

NOTHING = 1e-4  # of the differences between decisions


@dataclass(frozen=True)
class Line:
    """One fact: its name, its value, and what it means."""

    name: str
    value: str
    note: str = ""
    first: bool = False  # for whoever has ten seconds


def expectation(forecast: Forecast, money: Money | None = None) -> str:
    """Say what a wave is expected to bring and to cost, in money if it is.

    >>> expectation(Forecast(120.0, 12.0, 30.0))
    'expected to bring 120 over the rounds left; answers cost 12, trying poorer decisions costs 30'
    """
    said = number if money is None else money.said
    aim = f"to bring {said(forecast.gain)} over the rounds left"
    if forecast.certificate is not None:
        aim = f"to certify that {certified(forecast.certificate, certain=False)}"
    answers, exploring = said(forecast.answers), said(forecast.exploring)
    return f"expected {aim}; answers cost {answers}, trying poorer decisions costs {exploring}"


def summarise(course: Course, truth: Array | None = None) -> list[Line]:
    """Say what to do, how sure that is, what it cost, and why asking stopped; `truth` is known of simulations only.

    The lines that a manager reads first have `first` set.

    >>> from voxpop.simulation.trials import Trial
    >>> run = Trial("pricing", size=25, horizon=2000).run()
    >>> [line.name for line in summarise(run.course) if line.first][:3]
    ['Do this', 'Expect', 'Expected loss']
    """
    view = View(course, truth)
    parts = (_decision, _expected, _certified, _guarded, _cost, _asked, _dates, _loss, _promise, _notes)
    return [line for part in parts for line in part(view)]


def headline(course: Course) -> str:
    """Say in one sentence what to use, what to expect of it, how sure that is, and what the next wave brings.

    >>> from voxpop.simulation.trials import Trial
    >>> run = Trial("pricing", size=25, horizon=2000).run()
    >>> headline(run.course).split(": ")[0].startswith("Use price = ")
    True
    """
    view = View(course)
    answer, said = view.answer, view.said
    use = f"Use {view.choice}" + ("" if course.ended is not None else " for now")
    if answer.estimate is None:
        return f"{use}: nobody has answered, so this is a start and not a recommendation."
    expect = f"expect {said(answer.estimate)} {course.reward} per person and round"
    if (likely := view.likely()) is not None:
        low, high = course.direction.bounds(*(float(ends[answer.index]) for ends in likely))
        expect += f", likely {said(low)} to {said(high)}"
    parts = [expect, "nothing is certified yet"]
    if answer.certain or answer.regret is not None:
        parts[1] = certified(answer.regret, answer.certain, answer.confidence, _noun(view))
    plan = course.pending
    if plan is not None and (forecast := course.forecast(plan)) is not None:
        parts.append(f"wave {plan.wave} is {expectation(forecast, course.money).split(';')[0]}")
    return f"{use}: {'; '.join(parts)}."


def _noun(view: View) -> str:
    """Say what the decisions are called of which something is certified."""
    noun = view.layout.label
    return f"{noun or 'decision'} that keeps the guardrails" if view.course.problem.guardrails else noun


def _decision(view: View) -> Iterator[Line]:
    course, rests_on = view.course, ""
    if not course.closed:
        nobody = "nobody has answered yet" if course.ended is None else "nobody was asked"
        rests_on = f"{nobody}; this rests on the pilot of {course.pilot_people:,} people alone"
        if not view.informed:
            rests_on = f"{nobody}, and there was no pilot: this is a start, not a recommendation"
    yield Line("Do this" if course.ended is not None else "Do this for now", view.choice, rests_on, first=True)


def _expected(view: View) -> Iterator[Line]:
    """Say what to expect of the decision, and what it is expected to lose."""
    course, answer = view.course, view.answer
    if answer.estimate is None:
        return
    notes = [course.reward]
    if course.money is not None:
        notes[0] += f" per person and round, {_per_round(course, answer.estimate)} in all"
    if (likely := view.likely()) is not None:
        low, high = course.direction.bounds(*(float(ends[answer.index]) for ends in likely))
        notes.append(f"likely {number(low)} to {number(high)}")
    if answer.low is not None and answer.high is not None:
        notes.append(f"certified {number(answer.low)} to {number(answer.high)}")
    if view.truth is not None:
        notes.append(f"simulated truth {number(course.direction.turn(view.truth)[answer.index])}")
    yield Line("Expect", number(answer.estimate), "; ".join(notes), first=True)
    if answer.expected_loss is not None:
        nothing = answer.expected_loss < NOTHING * np.ptp(course.state.centre)
        lost = "practically nothing" if nothing else _per_round(course, answer.expected_loss)
        yield Line("Expected loss", lost, "what the model expects this choice to lose against the best", first=True)


def _per_round(course: Course, reward: float) -> str:
    """Say what comes or goes with every round: of all people and a year, if that is known."""
    if (money := course.money) is None:
        return f"{number(reward)} per round"
    if course.calendar is None:
        return f"{money.total(reward)} per round"
    return f"{money.total(reward * course.calendar.yearly(course.problem.horizon))} a year"


def _certified(view: View) -> Iterator[Line]:
    """Say what is proved, in words that can be repeated, or what it would take."""
    course, answer = view.course, view.answer
    if answer.estimate is None:
        return
    said = certified(answer.regret, answer.certain, answer.confidence, _noun(view))
    if answer.regret is None and not answer.certain:
        yield Line("Certified", said, _lacking(view), first=True)
        return
    share = min((plan.sealed for plan in course.plans), default=0.0)
    checked = f"{100 * share:.0f} % of the answers was kept aside to check this" if share else ""
    left = f"{len(course.state.active):,} of {course.problem.size:,} decisions could still be best"
    yield Line("Certified", said, "; ".join(filter(None, [checked, "if the model holds", left])), first=True)


def _guarded(view: View) -> Iterator[Line]:
    """Say how the decision keeps each guardrail, and which comes nearest if none is likely to keep them all."""
    course = view.course
    guards = course.state.guards
    for guard in guards:
        yield Line("Guardrail", guard.said, guard.note, first=True)
    if guards and not guards[0].possible:
        near = guards[0].nearest
        missing = [f"{guard.rule.name} by {number(-guard.slack)}" for guard in guards if guard.slack < 0]
        short = (
            f"expected to miss {' and '.join(missing)}" if missing else "expected to keep them, and not surely enough"
        )
        said = "no decision keeps all guardrails with 95 %"
        stays = "the decision in force stays" if course.problem.today == course.answer.index else "it is the decision"
        nearest = f"nearest is {view.layout.name(near)}, {short}; {stays}; loosen a rule, or let other decisions exist"
        yield Line("Take note", said, nearest, first=True)


def _lacking(view: View) -> str:
    """Say why nothing is certified, and what it would take."""
    course, enough = view.course, f"{np.ptp(view.course.estimates) / 10:.1g}"
    if not course.closed:
        return "that takes the answers of a wave" if course.ended is None else "nobody was asked"
    if course.warning:
        return "the answers do not fit the model: see the model check"
    more = (
        f"tolerance = {enough} asks until nothing is better by more than that, and voxpop run --tolerance {enough} "
        "rehearses how many numbers it takes"
    )
    more = more if "delta" in course.policy.settings() else "more waves narrow the bounds"
    return f"the answers prove no more than was assumed before; {more}"


def _cost(view: View) -> Iterator[Line]:
    """Compare what asking costs with what not knowing would cost."""
    course, stakes = view.course, view.stakes
    if stakes is None:
        return
    said = number if course.money is None else course.money.said
    if course.closed:
        parts = [f"answers {said(stakes.answers)}"] if stakes.answers else []
        parts.append(f"trying poorer decisions {said(stakes.trying)}")
        unit = f"; in {course.reward}" if course.money is None else ""
        yield Line("Asking cost", said(stakes.asking), f"{', '.join(parts)}{unit}", first=True)
    source = "by the simulated truth" if stakes.measured else "by what is known now"
    after = f"with what was learned {said(stakes.ahead)}; " if course.closed and stakes.measured else ""
    over = f"{after}over {course.problem.horizon:,} rounds, {source}"
    most = "" if course.closed or stakes.measured else "at most "
    if stakes.pilot is None or stakes.pilot_choice is None:
        yield Line("Guessing would cost", f"{most}{said(stakes.guessing)}", over, first=True)
        return
    confirmed = course.closed and stakes.pilot_choice == view.answer.index
    kept = "which the answers confirm" if confirmed else view.layout.name(stakes.pilot_choice)
    note = f"with the pilot's choice, {kept}; at random {said(stakes.guessing)}; {over}"
    caveat = f" ({stakes.caveat})" if stakes.caveat else ""
    yield Line("Not asking would cost", f"{most}{said(stakes.pilot)}", note + caveat, first=True)


def _asked(view: View) -> Iterator[Line]:
    course, plan = view.course, view.course.pending
    yield Line(
        "Asked",
        f"{course.people:,} people, {course.numbers:,} numbers, in {counted(len(course.closed), 'wave')}",
        f"and {course.pilot_numbers:,} numbers in the pilot" if course.pilot_numbers else "",
    )
    if who := asks_again(course.policy):
        meant = "these very people" if who == "everybody" else "the population that they were drawn from at random"
        yield Line("Who answers", "the same people in every wave", f"what is certified is about {meant}")
    if plan is not None:
        said = f"wave {plan.wave} asks {plan.people:,} people about {len(plan.arms)} decisions"
        if plan.blocks > 1 and plan.counts is None:
            said += f", played for {plan.pulls[0]:,} rounds each, in {plan.blocks} blocks"
        forecast = course.forecast(plan)
        yield Line("Open", said, "" if forecast is None else expectation(forecast, course.money))
    for each in course.all_plans:
        if each.planned is not None and each.played is not None:
            differ = int(np.count_nonzero(each.played != each.planned.sequence))
            used = f"of its {len(each.planned.arms)} decisions and {counted(each.planned.blocks, 'block')}, "
            used += f"{len(np.intersect1d(each.arms, each.planned.arms))} and {each.blocks} are used"
            yield Line("Played otherwise", f"{counted(differ, 'round')} of wave {each.wave}", used)
    if course.ended is not None:
        yield Line("Stopped because", course.ended, _priced(course))
    if course.alert:
        yield Line("Alert", course.alert, "by the last wave of the watch", first=True)
    if course.passed:
        yield Line("Watched", str(watched(course)))
    if course.state.spent > 0:
        chance = failure_chance(course.policy, course.problem, 1)
        said = f"{100 * course.state.spent / chance:.0f} % of {100 * chance:g} % is spent"
        since = "since the watch last paused, of its own" if course.passed else "so far"
        yield Line("Chance of error", said, f"by what was certified {since}")


def _priced(course: Course) -> str:
    """Say at which price of a number asking did not pay, if nobody was asked and nobody gave one."""
    if course.closed or course.early or getattr(course.policy, "answer_cost", 0.0) is not None:
        return ""
    return (
        f"a number was taken to cost {PRICE:g} v, which an average person must gain in {course.problem.horizon:,} "
        "rounds; if the decision is for many people, say for how many (people and unit in [money])"
    )


def _dates(view: View) -> Iterator[Line]:
    """Say when the open wave is played, and when the study ends, if it has a calendar."""
    course, calendar, horizon = view.course, view.course.calendar, view.course.problem.horizon
    if calendar is None:
        return
    if (plan := course.pending) is not None:
        until, takes = wave_dates(course)[plan.wave]
        rounds = course.rounds + 1, plan.length
        begins = f"from {calendar.written(calendar.span(*rounds).begins)} on, time of {calendar.zone}"
        note = "; ".join([begins, *calendar.changes(*rounds)])
        yield Line("Played", f"wave {plan.wave} takes {takes}, until {until}", note)
    yield Line("Horizon", f"until {calendar.until(1, horizon)}", f"{calendar.lasting(1, horizon)} in all")


def _loss(view: View) -> Iterator[Line]:
    if view.truth is None:
        return
    horizon = view.course.problem.horizon
    regret, best = measure(view.course.plans, view.answer.index, horizon, view.truth).regret, float(view.truth.max())
    share = f": {regret / (horizon * best):.1%} of the best possible total" if best > 0 else ""
    note = f"compared with knowing the best decision from the start{share}"
    yield Line("Lost while learning", f"{regret:,.0f} over {horizon:,} rounds", note)


def _promise(view: View) -> Iterator[Line]:
    trust = view.course.privacy.describe()
    if trust["privacy"] == "none":
        return
    promised = [group.epsilon for group in view.course.problem.pilot]  # to other people than those of the study
    covered = [epsilon for epsilon in promised if epsilon is not None]
    pilot = f"; the pilot cost its people epsilon {max(covered):g}" if covered else ""
    pilot = pilot if len(covered) == len(promised) else "; the pilot is not covered"
    yield Line(
        "Claimed" if trust["caveats"] else "Promised",
        f"({trust['epsilon']:g}, {trust['delta']:g})-differential privacy, in the {trust['privacy']} model",
        "; ".join(trust["caveats"]) or f"to everyone, whatever they answer; each person is asked once{pilot}",
    )
    asked = sum(plan.people for plan in view.course.plans)
    yield from (Line("Doubt", said) for said in doubts(trust["epsilon"], trust["delta"], asked))


def _notes(view: View) -> Iterator[Line]:
    course = view.course
    given, final = course.problem.norm_bound, course.state.norm_bound
    if final != given:
        said = f"the norm bound {number(given)} was too small for the answers"
        yield Line("Note", said, f"it was raised to {number(final)} during the study")
    if course.warning:
        yield Line("Model check", course.warning)
    elif course.closed and course.policy.name == "waves":  # other policies do not check
        yield Line("Model check", "the answers fit the model", "it notices some of what can be wrong, not all")


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
    return [tried, spread, *_limits_found(found)]


def shock_sentences(found: Calibration) -> list[str]:
    """Say what is known of shocks that everybody shares, and how many rounds of a decision they make worth playing."""
    if found.shocks is None:
        assumed = number(found.problem(found.pilot, horizon=1).shock_std)
        said = "Nothing is known of shocks that everybody shares; they are assumed to be a hundredth of people's spread"
        return [f"{said} ({assumed}) until the first wave shows them; --history estimates them."]
    worth = found.shocks.rounds_worth(found.bias_std.value, found.noise_std.value)
    more = (
        f"With 100 people, about {counted(worth, 'round')} of each decision make shocks as small as people's "
        "differences; more are hardly worth it."
    )
    return [*found.shocks.advice, more]


def _limits_found(found: Calibration) -> list[str]:
    """Say which limits a study will count on, and how to switch off those that nobody gave."""
    if found.reward_range == ":":
        return []
    low, high = reward_range_of(found.reward_range)
    kept = f"No {found.direction.measure} is {limits(low, high)}, and nothing is certified or drawn beyond that."
    if not found.range_found:
        return [kept]
    why = "All answers are yes or no (1 or 0)" if high == 1 else "No answer is negative"
    return [f"{why}: {kept[0].lower()}{kept[1:-1]}. If that is not so, add --reward-range : (no limits)."]


def constant_rows(found: Calibration) -> list[tuple[str, str, str]]:
    """List what the study will assume: the constant, its estimate, and its 95 % interval."""
    return [(name, number(value.value), value.range) for name, value in found.constants.items()]
