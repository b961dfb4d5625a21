"""What studies and simulated runs show in Python and in notebooks: tables, pictures, a page, and themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from voxpop.errors import Array
from voxpop.io.files import write_atomically
from voxpop.io.frames import data_frame
from voxpop.journal.journal import Course
from voxpop.journal.tables import answer_rows, decision_rows, wave_rows
from voxpop.model.words import certified, counted, describe, number
from voxpop.report.summary import summarise
from voxpop.report.tables import wave_table
from voxpop.runtime.html import html_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class HasCourse(ABC):
    """Whatever has a course, and perhaps a truth to compare it with: a study, or a simulated run.

    Tables are pandas DataFrames and need `voxpop[tables]`; `voxpop.journal.tables` has the same rows as dictionaries.
    Pictures and pages need `voxpop[report]`.
    """

    @property
    @abstractmethod
    def course(self) -> Course:
        """How it has gone so far."""

    @property
    def truth(self) -> Array | None:
        """The truth, where it is known: in simulations."""
        return None

    @property
    def decisions(self) -> pd.DataFrame:
        """Every decision: its estimate, its certified bounds, whether it could still be best, and who was asked."""
        return data_frame(decision_rows(self.course))

    @property
    def waves(self) -> pd.DataFrame:
        """Every wave, the pilot as wave 0: whom it asked about how much, what it was expected to bring and to cost."""
        return data_frame(wave_rows(self.course))

    @property
    def answers(self) -> pd.DataFrame:
        """The average answer about each decision of each wave, with its error; nothing is kept about single people."""
        return data_frame(answer_rows(self.course))

    def plot(self, name: str = "decision") -> Figure:
        """Draw one of `voxpop.report.figures.DRAWINGS`, as a matplotlib figure that notebooks show by themselves.

        >>> from voxpop import make_policy, make_scenario, simulate
        >>> run = simulate(make_scenario("sphere"), make_policy())
        >>> run.plot()  # doctest: +ELLIPSIS
        <Picture size ...>
        """
        from voxpop.report.figures import figure

        return figure(self.course, name, self.truth)

    def report(self, path: str | PathLike[str]) -> None:
        """Write the report, one HTML page that needs nothing else."""
        from voxpop.report.page import render

        write_atomically(Path(path), render(self.course, self.truth))

    def __repr__(self) -> str:
        """Say in one line what it is about, what to do, how sure that is, and how far it is.

        >>> from voxpop import Problem, SquaredExponential, Study
        >>> problem = Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50)
        >>> study = Study(problem)
        >>> study
        <Study 'study': 3 decisions, 50 rounds; nobody asked yet>
        >>> study.tell(study.ask().wave, [[0.3, 0.6, 0.2]] * 20)
        >>> print(repr(study).split("; over")[0])
        <Study 'study': (0.5), nothing else can be best; 20 people asked in 1 wave
        """
        course, answer = self.course, self.course.answer
        facts = [f"{course.problem.size:,} decisions, {number(course.problem.horizon)} rounds", "nobody asked yet"]
        if course.closed or course.problem.pilot:
            facts[0] = f"{describe(answer.decision)}, {certified(answer.regret, answer.certain)}"
        if course.closed:
            facts[1] = f"{course.people:,} people asked in {counted(len(course.closed), 'wave')}"
        if course.pending is not None:
            facts.append(f"wave {course.pending.wave} is open")
        if course.ended is not None:
            facts.append(f"over: {course.ended}")
        return f"<{type(self).__name__} {course.name!r}: {'; '.join(facts)}>"

    def _repr_html_(self) -> str:
        """Show a notebook what to do, how sure that is, and the waves."""
        facts = [(line.name, line.value, line.note) for line in summarise(self.course, self.truth)]
        tables, waves = [html_table(facts, caption=self.course.name)], wave_table(self.course)
        if waves.rows:
            tables.append(html_table(waves.rows, waves.headings))
        return "\n".join(tables)
