"""A study in one line, and as a small table for notebooks."""

from __future__ import annotations

from voxpop.errors import Array
from voxpop.journal.course import Course
from voxpop.model.words import certified, describe, html_table, number
from voxpop.report.summary import summarise
from voxpop.report.waves import wave_table


def one_line(course: Course) -> str:
    """Say what a study is about, what to do, how sure that is, and how far it is.

    >>> from voxpop import Problem, SquaredExponential, Study
    >>> study = Study(Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50))
    >>> one_line(study.course)
    "'study': 3 decisions, 50 rounds; nobody asked yet"
    >>> study.tell(study.ask().wave, [[0.3, 0.6, 0.2]] * 20)
    >>> print(one_line(study.course).split("; over")[0])
    'study': (0.5), nothing is better by more than 0; 20 people asked in 1 wave
    """
    answer, count = course.answer, len(course.closed)
    facts = []
    if course.closed or course.problem.pilot:
        facts.append(f"{describe(answer.decision)}, {certified(answer.regret, answer.certain)}")
    else:
        facts.append(f"{course.problem.size:,} decisions, {number(course.problem.horizon)} rounds")
    asked = f"{course.people:,} people asked in {count:,} wave{'s' * (count != 1)}"
    facts.append(asked if course.closed else "nobody asked yet")
    if course.pending is not None:
        facts.append(f"wave {course.pending.wave} is open")
    if course.ended is not None:
        facts.append(f"over: {course.ended}")
    return f"{course.name!r}: {'; '.join(facts)}"


def small_page(course: Course, truth: Array | None = None) -> str:
    """Write what to do, how sure that is and what was asked as HTML tables, for a notebook."""
    facts = [(line.name, line.value, line.note) for line in summarise(course, truth)]
    waves = wave_table(course)
    tables = [html_table(facts, caption=course.name)]
    if waves.rows:
        tables.append(html_table(waves.rows, waves.headings))
    return "\n".join(tables)
