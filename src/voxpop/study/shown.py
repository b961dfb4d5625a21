"""What anything with a course can show: tables, pictures, a page, and itself in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from voxpop.errors import Array
from voxpop.io.files import write_atomically
from voxpop.io.frames import data_frame
from voxpop.journal.course import Course
from voxpop.journal.tables import answer_rows, decision_rows, wave_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Shown(ABC):
    """A study that is conducted, or a simulated run: whatever has a course, and perhaps a truth to compare it with.

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
        """Draw one of the report's pictures, as a matplotlib figure; `voxpop.report.figures.DRAWINGS` lists them.

        >>> from voxpop import make_policy, make_scenario, simulate
        >>> run = simulate(make_scenario("sphere"), make_policy())
        >>> run.plot()  # doctest: +ELLIPSIS
        <Figure size ...>
        """
        from voxpop.report.figures import figure

        return figure(self.course, name, self.truth)

    def report(self, path: str | PathLike[str]) -> None:
        """Write the report, one HTML page that needs nothing else."""
        from voxpop.report.page import render

        write_atomically(Path(path), render(self.course, self.truth))

    def __repr__(self) -> str:
        """Say in one line what it is about, what to do, and how far it is."""
        from voxpop.report.notebook import one_line

        return f"<{type(self).__name__} {one_line(self.course)}>"

    def _repr_html_(self) -> str:
        """Show a notebook what to do, how sure that is, and the waves."""
        from voxpop.report.notebook import small_page

        return small_page(self.course, self.truth)
