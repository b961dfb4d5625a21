"""How far a reproduction is: a bar on a terminal, and else lines."""

import io

import pytest
from rich.console import Console

from reproduction.__main__ import LINES, counted_progress
from voxpop.cli import display


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return what is written to standard error, which is no terminal."""
    written = io.StringIO()
    monkeypatch.setattr(display, "errors", Console(file=written))
    return written


def test_progress_without_a_terminal_is_a_line_now_and_then(piped: io.StringIO) -> None:
    with counted_progress(1000, "runs") as advance:
        advance(120)  # known from before
        for _ in range(880):
            advance(1)
    lines = piped.getvalue().splitlines()
    assert lines[:4] == ["0 of 1,000 runs", "120 of 1,000 runs", "150 of 1,000 runs", "200 of 1,000 runs"]
    assert lines[-1] == "1,000 of 1,000 runs"
    assert len(lines) <= LINES + 1


def test_progress_counts_a_few_things_one_by_one(piped: io.StringIO) -> None:
    with counted_progress(3, "figures") as advance:
        for _ in range(3):
            advance(1)
    assert piped.getvalue().splitlines() == [f"{done} of 3 figures" for done in range(4)]


def test_progress_on_a_terminal_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(display, "errors", Console(file=written, force_terminal=True, width=80))
    with counted_progress(10, "runs") as advance:
        advance(10)
    assert "of 10 runs" not in written.getvalue()
    assert "10/10" in written.getvalue()
