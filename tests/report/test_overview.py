"""The first screen as a sheet: its words stay above its pictures, however long they are."""

from typing import Any

import pytest

from voxpop.report.figures import overview
from voxpop.simulation.runs import Run


@pytest.mark.parametrize("reward", ["profit", "profit of a customer in the year after the first purchase " * 4])
def test_words_end_above_the_pictures(waves: Run, reward: str) -> None:
    made: Any = overview(waves.course.named("study", reward), waves.scenario.f)
    made.canvas.draw()
    words, below = made.subfigs
    lowest = min(text.get_window_extent().y0 for text in words.texts)
    assert lowest > below.bbox.y1
