"""Prices of promises: in the time there is, and with words for what could not be rehearsed."""

from pathlib import Path
from typing import Any

import pytest

from tests.service.console.test_new_study import FILE
from voxpop.io.studyfile import parse_study
from voxpop.service.console import computations
from voxpop.service.console.computations import FEWEST, NO_TIME, Price, prices
from voxpop.service.console.pages import render
from voxpop.simulation.rehearsals import Outcome

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


class Clockwork:
    """Rehearsals that take a second each; a loss says which truth it is about, and which promise was made."""

    def __init__(self) -> None:
        self.now, self.seeds = 0.0, dict[str, list[int]]()

    def rehearse(self, problem: object, policy: object, privacy: Any, seed: int) -> Outcome:
        self.now += 1.0
        self.seeds.setdefault(privacy.model, []).append(seed)
        return Outcome(30, 2, float(seed), 100.0 + seed)


@pytest.fixture
def clockwork(monkeypatch: pytest.MonkeyPatch) -> Clockwork:
    made = Clockwork()
    monkeypatch.setattr(computations, "monotonic", lambda: made.now)
    monkeypatch.setattr(computations, "rehearse", made.rehearse)
    return made


PROMISES = [("nothing", None), ("central", {"model": "central", "epsilon": 5.0, "delta": 1e-6})]


def test_promises_are_compared_on_the_same_truths(clockwork: Clockwork) -> None:
    """There is time for nine rehearsals, and so for four of each promise."""
    found = prices(TABLES, PROMISES, 50, 9.0)
    assert [price.runs for price in found] == [4, 4]
    assert [(price.lost, price.most_lost, price.not_asking) for price in found] == [(1.5, 3.0, 101.5)] * 2


def test_a_comparison_of_too_few_rehearsals_is_not_shown(clockwork: Clockwork) -> None:
    found = prices(TABLES, PROMISES, 50, 2.0 * FEWEST - 1)
    assert {(price.runs, price.error) for price in found} == {(0, NO_TIME)}


def test_that_nobody_would_be_asked_is_said_in_words() -> None:
    asked, nobody = Price("central", 5, 456.4, 1.5, 0.61, 1.0, 120.0), Price("local", 5, lost=126.0, not_asking=120.0)
    found = {"job": None, "error": "", "older": False, "prices": [asked, nobody], "most": 5}
    found |= {"compare": True, "reward": "profit", "dates": None}
    page = render("parts/rehearsal", None, "/new", rehearsal=found)
    assert page.count("nobody would be asked") == 1
    assert page.count("Without asking anybody, 120 profit would be lost") == 1
    assert '<td class="right">456</td><td class="right">1.5</td>' in page
