"""A study in words: its state, when its wave closes, and what is wrong with it."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from voxpop.service.console.pages import render
from voxpop.service.console.studies import line_of
from voxpop.service.study.invitations import Funnel
from voxpop.service.study.overview import Glance, Summary
from voxpop.service.study.released import LastRelease

NOW = 1_000_000.0
SUMMARY = Summary(5.0, "2.1 EUR", 0.25, True, 20, 600, None, "", "")
GLANCE = Glance(
    "tea", "collecting", "running", 3, NOW - 60, NOW - 600, True, 0, None, False, 60, 40, 2, NOW + 7200,
    Funnel(25, 12, 5, 1), SUMMARY,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"life": "draft", "stage": "new"}, "draft"),
        ({"stage": "new"}, "planning"),
        ({"stage": "open", "begun": False}, "waiting for people"),
        ({"stage": "open"}, "playing"),
        ({"stage": "playing"}, "playing"),
        ({}, "collecting"),
        ({"short": 3}, "waiting for people"),
        ({"stage": "closed"}, "planning"),
        ({"life": "paused"}, "paused"),
        ({"life": "paused", "stage": "open", "begun": False}, "paused"),
        ({"stage": "finished"}, "finished"),
        ({"stage": "finished", "life": "archived"}, "archived"),
    ],
)
def test_every_state_has_a_word(changes: dict[str, object], state: str) -> None:
    assert replace(GLANCE, **changes).state == state  # type: ignore[arg-type]


def best_of(stage: str = "collecting", **changes: object) -> list[str]:
    """Return what the list shows as the best decision so far, line by line."""
    glance = replace(GLANCE, stage=stage, summary=replace(SUMMARY, **changes))  # type: ignore[arg-type]
    page = render("parts/studies", None, "/", studies={"lines": [line_of(glance, NOW)], "found": 1})
    (cell,) = re.findall(r'<td data-label="Best so far">(.*?)</td>', page, re.DOTALL)
    return [text.strip() for text in re.split(r"<[^>]+>", cell) if text.strip()]


def test_a_line_says_how_far_the_wave_is_and_what_is_best() -> None:
    line = line_of(GLANCE, NOW)
    assert (line.glance.answered, line.glance.wanted, line.alerts) == (12, 20, ())
    assert line.closes == "in 2 hours, by 1970-01-12 15:46 UTC"
    assert best_of() == ["2.1 EUR", "nothing is better by more than 0.25"]
    assert best_of(certified=0.0) == ["2.1 EUR", "nothing is better"]
    assert best_of(certified=None) == ["2.1 EUR"]


def test_what_is_only_a_guess_is_not_called_the_best() -> None:
    assert best_of(answered=False) == ["nobody has answered yet"]
    assert best_of("finished", answered=False) == ["nobody was asked"]


def test_the_pilot_s_choice_is_listed_before_anybody_has_answered() -> None:
    assert best_of("finished", answered=False, pilot=True) == ["2.1 EUR", "from the pilot"]
    assert "from the pilot" not in best_of(pilot=True)


def test_a_clock_says_when_people_are_asked() -> None:
    playing = replace(GLANCE, stage="playing", closes_at=None, summary=replace(SUMMARY, rate=1.0))
    assert line_of(playing, NOW).closes == "people are asked in 9 minutes"
    assert line_of(replace(playing, life="paused"), NOW).closes == ""


def alerts(changes: Mapping[str, object], now: float = NOW, last: LastRelease | None = None) -> str:
    return " ".join(line_of(replace(GLANCE, **changes), now, last).alerts)  # type: ignore[arg-type]


def test_what_a_wave_waits_for_is_said() -> None:
    assert alerts({"short": 1}).startswith("Waiting: 1 more person must register;")
    waiting = alerts({"stage": "open", "begun": False})
    assert waiting == "Waiting: wave 3 begins when 20 people who can be asked are registered."


def test_a_wave_that_should_have_gone_on_is_overdue() -> None:
    assert alerts({}, NOW + 7200 + 59) == ""
    assert "Overdue" in alerts({}, NOW + 7200 + 61)


def test_a_clock_that_was_set_back_is_said() -> None:
    clocked = {"stage": "playing", "closes_at": None, "summary": replace(SUMMARY, rate=1.0)}
    assert alerts(clocked) == ""
    assert "clock was set back" in alerts(clocked, NOW - 3600)


def test_a_failed_model_check_is_said() -> None:
    assert alerts({"summary": replace(SUMMARY, warning="the noise is larger than assumed")}) == (
        "Model check: the noise is larger than assumed"
    )


@pytest.mark.parametrize(
    ("wave", "attempt", "created", "lost"),
    [(2, "", 5.0, False), (3, "a", 5.0, False), (3, "b", 5.0, True), (4, "a", 5.0, True), (4, "a", 6.0, False)],
)
def test_a_database_that_is_older_than_what_was_released_is_noticed(
    wave: int, attempt: str, created: float, lost: bool
) -> None:
    said = alerts({"attempt": "a"}, last=LastRelease("tea", created, wave, attempt))
    assert ("restore the newer database" in said) is lost
