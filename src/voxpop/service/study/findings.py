"""What a study has found so far: the best decision and how sure that is, in numbers and in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from voxpop.model.waves import Forecast, latest_warning
from voxpop.report.summary import describe, expectation, failure_chance, number
from voxpop.service.study.snapshot import Snapshot, Standing

Status = Mapping[str, Any]


def best_decision(snapshot: Snapshot) -> dict[str, Any]:
    """Return the best decision so far, what is certified about it, and what it is expected to lose."""
    now = Standing.of(snapshot.definition, snapshot.state)
    return {
        "index": now.best,
        "decision": snapshot.definition.problem.decisions[now.best],
        "certified": now.certified if math.isfinite(now.certified) else None,  # JSON has no infinity
        "confidence": _confidence(snapshot),
        "expected_loss": now.expected_loss,
    }


def outlook(snapshot: Snapshot) -> dict[str, Any]:
    """Return what is expected of the open wave, why the study ended, and what the model check found."""
    forecast = snapshot.current.plan.forecast if snapshot.current else None
    return {
        "forecast": None if forecast is None else asdict(forecast),
        "arms": len(snapshot.current.plan.arms) if snapshot.current else 0,
        "reason": snapshot.reason if snapshot.finished else None,
        "warning": latest_warning(wave.info for wave in snapshot.closed),
    }


def _confidence(snapshot: Snapshot) -> float | None:
    """Compute the probability with which the certificate holds at least; None if it may always fail."""
    chance = failure_chance(snapshot.definition.policy, snapshot.definition.problem, len(snapshot.closed))
    return 1 - chance if chance < 1 else None


def sentences(status: Status, askable: int | None, behind: float = 0.0, unanswered: str = "") -> list[str]:
    """Say in sentences what a status says in numbers.

    `askable` people can be asked, if the wave waits for more of them, and the clock is `behind` by this many seconds.
    `unanswered` says what the best decision rests on, if nobody has answered yet.
    """
    said = [_in_force(status, unanswered), _certified(status), _expected_loss(status)]
    if status["stage"] == "finished":
        said.append(f"Finished: {status['reason'] or 'no further wave is planned'}.")
    said += [_life(status), _forecast(status), _waiting(status, askable), _clock(status, behind)]
    if status["warning"]:
        said.append(f"Warning: {status['warning']}")
    return [sentence for sentence in said if sentence]


def restored(lost: str) -> list[str]:
    """Say that released waves are not in the database, and what to do about it."""
    if not lost:
        return []
    return [f"Stopped: {lost} was released before, and the database does not know it; restore the newer database."]


def _life(status: Status) -> str:
    if status["life"] == "draft":
        return "Draft: devices do not see it, and it can be changed until it is started."
    if status["life"] == "paused":
        return "Paused: nobody is asked and nothing is tried out until it is resumed; reports are still taken."
    return ""


def _in_force(status: Status, unanswered: str) -> str:
    now, best = status["in_force"], status["best"]
    sentence = f"In force: {describe(now['decision'])}"
    if now["rounds"]:
        sentence += f", for {counted(now['rounds'], 'more round')} of wave {status['wave']}"
    another = now["index"] != best["index"]
    if unanswered:
        chosen = f", otherwise {describe(best['decision'])}" if another else ""
        return f"{sentence}{chosen}; {unanswered}."
    return (
        f"{sentence}; best so far: {describe(best['decision'])}." if another else f"{sentence}; it is the best so far."
    )


def _certified(status: Status) -> str:
    best = status["best"]
    if best["certified"] is None or best["confidence"] is None:
        return "Certified: nothing yet."
    limit = f" by more than {number(best['certified'])}" if best["certified"] > 0 else ""
    percent = math.floor(1e4 * best["confidence"] + 1e-6) / 100  # never more than is promised
    return f"Certified: no decision is better than {describe(best['decision'])}{limit}, with {percent:g} % confidence."


def _expected_loss(status: Status) -> str:
    loss = status["best"]["expected_loss"]
    return "" if loss is None else f"Expected loss: {number(loss)} per round, compared with the best possible decision."


def _forecast(status: Status) -> str:
    expected = status["forecast"]
    if expected is None:
        return ""
    asked = f"{counted(status['people'], 'person', 'people')} about {counted(status['arms'], 'decision')}"
    return f"Wave {status['wave']} asks {asked}; it is {expectation(Forecast(**expected))}."


def _clock(status: Status, behind: float) -> str:
    if not behind:
        return ""
    return (
        f"Stopped: the coordinator's clock was set back, and is {behind:,.0f} s before the beginning of wave "
        f"{status['wave']}; its rounds go on when the clock has caught up, so set it right."
    )


def _waiting(status: Status, askable: int | None) -> str:
    if status["short"]:
        more = counted(status["short"], "more person", "more people")
        return (
            f"Waiting: {more} must register; everyone else who may be asked in wave {status['wave']} has been, and "
            "its rounds are played again for the new ones."
        )
    if askable is not None and askable < status["people"]:
        return (
            f"Waiting: wave {status['wave']} needs {counted(status['people'], 'person', 'people')}, and {askable:,} "
            f"who can be asked are registered; its rounds begin when {status['people'] - askable:,} more are."
        )
    return ""


def counted(count: int, one: str, many: str = "") -> str:
    """Write a number with its noun.

    >>> counted(1, "round"), counted(2000, "round"), counted(2, "person", "people")
    ('1 round', '2,000 rounds', '2 people')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
