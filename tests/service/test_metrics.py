"""Metrics: what the service counts is for anyone, what a study's numbers are only for those who may see the study."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from tests.service.test_http import KEY, Site, as_
from tests.service.world import STUDY, definition, private, world
from voxpop.service import operators
from voxpop.service.keys import new_key
from voxpop.service.operators import Principal
from voxpop.service.stores.schema import summaries
from voxpop.service.study import life, overview
from voxpop.service.study.life import Wanted
from voxpop.service.web import guard
from voxpop.service.web.connections import Connections
from voxpop.service.web.guard import ENDLESS
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.metrics import SHARED_SECONDS, StudyMetrics, Telemetry
from voxpop.service.web.metrics import STUDY_GAUGES as GAUGES

ME = Principal("me")


def samples(text: str, study: str = STUDY) -> dict[str, float]:
    """Return the values of a study's gauges by name, without the beginning that all have."""
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        sample.name.removeprefix("voxpop_study_"): sample.value
        for sample in found
        if sample.labels.get("study") == study
    }


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def test_studies_are_for_those_with_a_key(site: Site) -> None:
    site.collect()
    operators.add_key(site.coordinator.database, "guest", guest := new_key(), 1.0, "viewer", STUDY)
    site.coordinator.create("cocoa", definition())
    public = site.client.get("/metrics").text
    assert "voxpop_database_up 1.0" in public
    assert "voxpop_build_info{" in public
    assert "voxpop_scheduler_lag_seconds" in public
    assert "voxpop_connections_refused_total 0.0" in public
    assert STUDY not in public
    assert "cocoa" not in public
    full, partly = (site.client.get("/metrics", headers=as_(key)).text for key in (KEY, guest))
    assert samples(full)["asked"] == samples(partly)["asked"] > 0
    assert samples(full, "cocoa")
    assert not samples(partly, "cocoa")
    assert site.client.get("/metrics", headers=as_(new_key())).status_code == 401


def test_a_database_that_is_away_leaves_the_other_metrics(site: Site, tmp_path: Path) -> None:
    (tmp_path / "c.db").rename(tmp_path / "elsewhere")
    answer = site.client.get("/metrics", headers=as_(KEY))
    (tmp_path / "elsewhere").rename(tmp_path / "c.db")
    assert answer.status_code == 200
    assert "voxpop_database_up 0.0" in answer.text


def test_the_gauges_follow_a_study(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with world(address, definition(private("central"), horizon=7), 3) as it:
        now = [0.0]
        metrics = StudyMetrics(it.coordinator.context, lambda: now[0])

        def look() -> dict[str, float]:
            now[0] += SHARED_SECONDS
            return samples(metrics.text(ME).decode())

        it.settle()
        needed = it.status.people
        found = look()
        assert (found["people_needed"], found["people_missing"], found["registered"]) == (needed, needed - 3, 3)
        assert (found["wave"], found["budget_spent_ratio"], found["model_warning"]) == (1, 0, 0)
        assert "seconds_left" not in found
        it.register(needed)
        it.settle()
        assert look()["people_missing"] == 0
        it.play_all()
        it.settle()
        key, invitation = next(it.invited())
        it.answer(key, invitation)
        found = look()
        assert (found["asked"], found["answered"], found["lapsed"]) == (needed, 1, 0)
        assert 0 < found["seconds_left"] <= 86_400
        it.clock.now += 86_401
        assert look()["seconds_left"] < 0
        it.clock.now -= 86_401
        it.answer_all()
        it.settle()
        assert look()["budget_spent_ratio"] == pytest.approx(1.0)
        summary = overview.look(it.coordinator.context)[0].summary
        assert summary is not None
        warned = replace(summary, warning="something")
        monkeypatch.setattr(overview.Summary, "of", lambda *_: warned)
        it.settle()
        with it.coordinator.database.write() as connection:
            connection.execute(sa.delete(summaries))
        assert look()["model_warning"] == 1
        life.change(it.coordinator.context, STUDY, Wanted.ENDED)
        assert look()["model_warning"] == 0  # or the alert would never end
        assert 'voxpop_study_stage{life="running",stage="finished",study="tea"} 1.0' in (
            look() and metrics.text(ME).decode()
        )


def test_every_gauge_is_shown_of_some_study(address: str) -> None:
    with world(address, definition(private("central"), horizon=7), 60) as it:
        it.settle()
        it.play_all()
        it.settle()
        assert set(samples(StudyMetrics(it.coordinator.context).text(ME).decode())) == set(GAUGES)


def test_a_hundred_studies_cost_a_handful_of_queries(tmp_path: Path) -> None:
    """What follows from logs is kept: a look after the first one reads no log."""
    with world(str(tmp_path / "c.db"), definition()) as it:
        for number in range(100):
            it.coordinator.create(f"s{number}", definition())
        now = [0.0]
        metrics = StudyMetrics(it.coordinator.context, lambda: now[0])
        for _ in range(4):
            metrics.text(ME)
            now[0] += SHARED_SECONDS
        asked: list[str] = []
        sa.event.listen(
            it.coordinator.database.engine, "before_cursor_execute", lambda *said: asked.append(str(said[2]))
        )
        assert len(metrics.text(ME).decode().splitlines()) > 900
        assert len(asked) <= 2
        metrics.text(ME)  # within the same seconds
        assert len(asked) <= 2


def test_connections_beyond_the_limits_are_counted() -> None:
    class Caller:
        address, unsent = "192.0.2.1", 0

    limits, refused = Connections(1), []
    limits.note_refusal = lambda: refused.append(1)
    assert [limits.admit(Caller()) for _ in range(3)] == [True, False, False]  # type: ignore[arg-type]
    assert len(refused) == 2


@pytest.mark.parametrize(("endless", "seconds"), [(True, 1.0), (False, 3601.0)])
def test_how_long_somebody_looks_at_a_live_page_is_no_time_to_answer(
    monkeypatch: pytest.MonkeyPatch, endless: bool, seconds: float
) -> None:
    clock, noted = SimpleNamespace(now=0.0), list[tuple[int, float]]()
    monkeypatch.setattr(guard, "time", SimpleNamespace(perf_counter=lambda: clock.now))

    async def page(scope: Any, receive: Any, send: Any) -> None:
        scope[ENDLESS] = endless
        clock.now += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        clock.now += 3600
        await send({"type": "http.response.body", "body": b""})

    async def nowhere(*_: Any) -> Any: ...

    telemetry = Telemetry()
    monkeypatch.setattr(telemetry, "request", lambda method, route, status, took: noted.append((status, took)))
    wrapped = guard.Guard(page, telemetry, RateLimit(0, 1))
    asyncio.run(wrapped({"type": "http", "method": "GET", "path": "/live", "headers": []}, nowhere, nowhere))
    assert noted == [(200, seconds)]
