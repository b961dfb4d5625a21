"""The tables of a study, as lists of plain rows: its decisions, its waves, and the averages that people answered.

They are what `voxpop export` writes and what a study returns in Python. Every row of a table has the same columns. A
parameter that is called like one of a table's own columns gets the prefix `decision_`.

>>> from voxpop import Float, Problem, Space, SquaredExponential, Study
>>> decisions = Space(price=Float(1.0, 3.0)).grid(3)
>>> study = Study(Problem(decisions, SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50))
>>> study.tell(study.ask().wave, [[0.3, 0.6, 0.2]] * 20)
>>> [(row["price"], row["best"], row["waves"], row["people"]) for row in decision_rows(study.course)]
[(1.0, False, 1, 20), (2.0, True, 1, 20), (3.0, False, 1, 20)]
>>> [(row["wave"], row["status"], row["people"], row["numbers"]) for row in wave_rows(study.course)]
[(1, 'answered', 20, 60)]
>>> [(row["wave"], row["price"], round(row["average"], 6)) for row in answer_rows(study.course)]
[(1, 1.0, 0.3), (1, 2.0, 0.6), (1, 3.0, 0.2)]
>>> said = headline(study.course)
>>> said["decision"], said["people"], said["waves"], said["ended"]
({'price': 2.0}, 20, 1, 'nothing else can be best')
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np

from voxpop.gp.belief import own_noise
from voxpop.journal.journal import Course
from voxpop.journal.question import parameters_of
from voxpop.model.waves import Plan

Row = dict[str, Any]

DECISION_COLUMNS = {  # after one for each parameter
    "estimate": "the reward to expect",
    "error": "the standard deviation of the estimate, if the policy knows one",
    "low": "the reward is certified to be at least this; empty if nothing is certified",
    "high": "and at most this",
    "open": "True if it could still be the best",
    "best": "True for the decision to use now",
    "waves": "in how many waves it was asked about",
    "people": "how many people answered about it, without the pilot",
}
WAVE_COLUMNS = {
    "wave": "its number; the pilot is wave 0",
    "status": "pilot, answered or open",
    "decisions": "how many decisions were asked about",
    "rounds": "the rounds that it took; the pilot's are none of the study's",
    "blocks": "how many blocks the rounds are divided into; a person is asked about one of them",
    "asked": "how many people were to be asked",
    "people": "how many of them answered",
    "numbers": "the numbers that they sent",
    "expected_gain": "what it was expected to bring, in units of the reward",
    "answers_cost": "what the answers were expected to cost",
    "trying_cost": "what trying poorer decisions was expected to cost",
    "left": "how many decisions could still be best afterwards",
    "warning": "what the model check found, and what to do about it",
}
ANSWER_COLUMNS = {  # those of the parameters come after the first
    "wave": "the wave's number",
    "rounds": "the rounds that each person's answer is about",
    "people": "how many people answered",
    "average": "their average reward; in a private study, as it was released",
    "error": "the standard deviation of that average: people and rounds differ, and privacy adds noise",
}
_BLANK: Row = {**dict.fromkeys(WAVE_COLUMNS), "warning": ""}


def decision_rows(course: Course, only: Iterable[int] | None = None) -> list[Row]:
    """List the decisions, or only some of them, with what is known of each: the `DECISION_COLUMNS`."""
    problem, state, best = course.problem, course.state, course.answer.index
    estimates, (low, high) = course.estimates, course.bounds
    waves, people = Counter[int](), Counter[int]()
    for wave in course.closed:
        for arm in wave.plan.arms.tolist():
            waves[arm] += 1
            people[arm] += wave.people
    still_open, pooled = set(state.active.tolist()), state.expected_loss is not None
    return [
        {
            **_parameters(problem.decisions[index], DECISION_COLUMNS),
            "estimate": float(estimates[index]),
            "error": float(state.lead_width[index]) if pooled else None,
            "low": None if np.isnan(low[index]) else float(low[index]),
            "high": None if np.isnan(high[index]) else float(high[index]),
            "open": index in still_open,
            "best": index == best,
            "waves": waves[index],
            "people": people[index],
        }
        for index in (range(problem.size) if only is None else only)
    ]


def best_rows(course: Course, count: int) -> list[Row]:
    """List the decisions that could still be best, at most `count` of them, the best estimate first."""
    active = course.state.active
    leading = active[np.argsort(-course.state.centre[active], kind="stable")][:count]
    return decision_rows(course, leading.tolist())


def wave_rows(course: Course) -> list[Row]:
    """List what was asked, by the `WAVE_COLUMNS`: the pilot, every wave that was answered, and the one that is open."""
    rows = [_pilot_row(course)] if course.problem.pilot else []
    for wave in course.closed:
        done = {"people": wave.people, "numbers": wave.numbers, "left": wave.info.active_after}
        rows.append({**_wave_row(wave.plan, "answered"), **done, "warning": wave.info.warning})
    return rows if course.pending is None else [*rows, _wave_row(course.pending, "open")]


def answer_rows(course: Course) -> list[Row]:
    """List the average answer about each decision of each wave. Nothing is kept about single people."""
    rows = []
    for wave in course.closed:
        plan, feedback = wave.plan, wave.objective
        errors = np.sqrt(own_noise(course.problem, plan, feedback)[0].diagonal())
        averages = course.direction.turn(feedback.mean)
        others = {
            guardrail.name: guardrail.rule.turn(wave.feedback.of_metric(plan, metric).mean)
            for metric, guardrail in enumerate(course.problem.guardrails, start=1)
        }
        every = enumerate(zip(plan.arms.tolist(), plan.lived.tolist(), averages.tolist(), errors.tolist(), strict=True))
        rows += [
            {
                "wave": plan.wave,
                **_parameters(course.problem.decisions[arm], ANSWER_COLUMNS),
                "rounds": rounds,
                "people": wave.people,
                "average": average,
                "error": error,
                **{name: float(values[place]) for name, values in others.items()},
            }
            for place, (arm, rounds, average, error) in every
        ]
    return rows


TABLES: dict[str, Callable[[Course], list[Row]]] = {
    "decisions": decision_rows,
    "waves": wave_rows,
    "answers": answer_rows,
}


def columns_of(course: Course, table: str) -> list[str]:
    """Return the columns of one of the `TABLES`, which has them even if it has no rows."""
    first, (wave, *others) = course.problem.decisions[0], ANSWER_COLUMNS
    metrics = [guardrail.name for guardrail in course.problem.guardrails]
    return {
        "decisions": [*_parameters(first, DECISION_COLUMNS), *DECISION_COLUMNS],
        "waves": list(WAVE_COLUMNS),
        "answers": [wave, *_parameters(first, ANSWER_COLUMNS), *others, *metrics],
    }[table]


def headline(course: Course) -> Row:
    """Return what to do, how sure that is, what it cost, and why asking stopped, as one row with plain values."""
    answer = course.answer
    return {
        "study": course.name,
        "reward": course.reward,
        "decision": answer.decision,
        "estimate": answer.estimate,
        "low": answer.low,
        "high": answer.high,
        "certified": answer.regret,
        "expected_loss": answer.expected_loss,
        "certain": answer.certain,
        "left": len(course.state.active),
        "decisions": course.problem.size,
        "waves": len(course.closed),
        "people": course.people,
        "numbers": course.numbers,
        "pilot_people": course.pilot_people,
        "pilot_numbers": course.pilot_numbers,
        "ended": course.ended,
        "warning": course.warning,
        "ledger": _ledger(course),
    }


def _ledger(course: Course) -> Row | None:
    """Return what the releases of a private study cost the person who is exposed the most; never any names."""
    budget = course.ledger.budget
    if budget is None:
        return None
    trust = course.privacy.describe()
    promised = {"model": trust["privacy"], "budget": budget.epsilon, "caveats": trust["caveats"]}
    return {**promised, **course.ledger.totals(budget.delta)}


def _wave_row(plan: Plan, status: str) -> Row:
    """Write a wave as it was planned."""
    expected = {}
    if (forecast := plan.forecast) is not None:
        costs = {"answers_cost": forecast.answers, "trying_cost": forecast.exploring}
        expected = {"expected_gain": forecast.gain, **costs}
    planned = {"decisions": len(plan.arms), "rounds": plan.length, "blocks": plan.blocks, "asked": plan.people}
    return {**_BLANK, "wave": plan.wave, "status": status, **planned, "people": 0, "numbers": 0, **expected}


def _pilot_row(course: Course) -> Row:
    """Write the pilot as wave 0."""
    tried = {tuple(point) for group in course.problem.pilot for point in group.points.tolist()}
    left = course.closed[0].info.active_before if course.closed else len(course.state.active)
    people, numbers = course.pilot_people, course.pilot_numbers
    asked = {"decisions": len(tried), "rounds": 0, "asked": people, "people": people, "numbers": numbers}
    return {**_BLANK, "wave": 0, "status": "pilot", **asked, "left": left}


def _parameters(decision: Any, taken: Collection[str]) -> Row:
    """Return a decision as columns, whose names differ from those that are taken."""
    columns: Row = {}
    for name, value in parameters_of(decision).items():
        column = str(name)
        while column in taken or column in columns:
            column = f"decision_{column}"
        columns[column] = value
    return columns
