"""Prices of promises: in the time there is, and with words for what could not be rehearsed."""

from pathlib import Path

from tests.service.console.test_new_study import FILE
from voxpop.formats.studyfile import parse_study
from voxpop.service.console.rehearsal import NO_TIME, prices

TABLES = parse_study(Path("tea.toml"), FILE)
HANGING = 600.0  # seconds


def test_a_promise_is_rehearsed_as_often_as_wanted() -> None:
    (found,) = prices(TABLES, [("nothing", None)], 2, HANGING)
    assert (found.label, found.runs, found.error) == ("nothing", 2, "")
    assert found.people > 0
    assert found.lost >= 0


def test_without_time_nothing_is_rehearsed_and_that_is_said() -> None:
    found = list(prices(TABLES, [("nothing", None), ("something", None)], 2, 0.0))
    assert [(price.label, price.runs, price.error) for price in found] == [
        ("nothing", 0, NO_TIME),
        ("something", 0, NO_TIME),
    ]


def test_a_promise_that_cannot_be_made_does_not_hide_the_others() -> None:
    wrong = {"model": "central", "epsilon": -1.0}
    first, second = prices(TABLES, [("wrong", wrong), ("nothing", None)], 1, HANGING)
    assert (first.runs, second.runs) == (0, 1)
    assert "epsilon" in first.error
