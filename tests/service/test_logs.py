"""Logs say the cause of a fault and nothing that people sent, and a flood stays readable."""

import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, redirect_stderr
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import structlog

from tests.service.world import Clock
from voxpop.service import logs
from voxpop.service.logs import MOST, PERIOD, LogLimit
from voxpop.service.refusals import DATABASE_AWAY
from voxpop.service.stores.database import cause
from voxpop.service.stores.migrate import open_store
from voxpop.service.web.guard import refusal_of
from voxpop.service.web.metrics import Telemetry


class Heard:
    """Collects what is logged, by a clock that the test turns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, level: str = "info") -> None:
        self.text, self.clock = io.StringIO(), Clock()
        monkeypatch.setattr(logs, "LogLimit", lambda: LogLimit(self.clock))
        with redirect_stderr(self.text):
            logs.set_up(level)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.getvalue().splitlines()]


def failing(database: Any, statement: str) -> Exception:
    with pytest.raises(DATABASE_AWAY) as call, database.write() as connection:
        connection.exec_driver_sql(statement)
    return call.value


def test_a_full_disk_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch)
    with closing(open_store(str(tmp_path / "c.db"), "coordinator")) as database:
        with database.write() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}").scalar_one()
        error = failing(database, "INSERT INTO marks VALUES ('sesame', zeroblob(99999))")
    assert refusal_of(error, "/v1").status == 503
    (line,) = heard.lines
    assert (line["error"], line["cause"]) == ("OperationalError", "SQLITE_FULL")
    assert "sesame" not in heard.text.getvalue()


def test_postgresql_gives_its_state_and_the_name_of_it(
    new_postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard(monkeypatch)
    with closing(open_store(new_postgres(), "coordinator")) as database:
        full = "DO $$ BEGIN RAISE EXCEPTION 'no room for sesame' USING ERRCODE = 'disk_full'; END $$"
        logs.fault("database", failing(database, full))
    (line,) = heard.lines
    assert line["cause"] == "53100 DiskFull"
    assert "sesame" not in heard.text.getvalue()


def test_refusals_do_not_flood_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch)
    telemetry = Telemetry()
    for _ in range(1000):
        telemetry.request("PUT", "/v2/studies/{study}/participant", 403, 0.001)
    telemetry.request("PUT", "/v2/studies/{study}/participant", 404, 0.001)  # another kind
    assert [line["status"] for line in heard.lines] == [403] * MOST + [404]
    heard.clock.now += PERIOD
    logs.event_logger("coordinator")("closed", study="tea", wave=1)  # any line at all
    *_, said, closed = heard.lines
    assert (said["event"], said["of"], said["status"], said["count"]) == ("suppressed", "request", 403, 1000 - MOST)
    assert closed["event"] == "closed"
    telemetry.request("PUT", "/v2/studies/{study}/participant", 403, 0.001)
    assert heard.lines[-1]["status"] == 403


def test_faults_do_not_flood_the_log_and_different_ones_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch)
    for _ in range(100):
        for error in (OSError(28, "x"), OSError(5, "x")):
            logs.fault("step", error, study="tea")
    assert [line["cause"] for line in heard.lines] == ["ENOSPC", "EIO"] * MOST


def test_what_happens_to_studies_is_always_said(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch)
    note = logs.event_logger("coordinator")
    for wave in range(50):
        note("closed", study="tea", wave=wave)
    assert len(heard.lines) == 50


def test_at_the_level_of_debug_every_request_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch, "debug")
    telemetry = Telemetry()
    for _ in range(50):
        telemetry.request("GET", "/healthz", 200, 0.001)
    assert len(heard.lines) == 50
    structlog.reset_defaults()


def test_sqlite_errors_outside_of_transactions_have_a_cause_too() -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(sqlite3.OperationalError) as call:
        connection.execute("SELECT * FROM nothing")
    assert cause(call.value) == "SQLITE_ERROR"
    assert cause(sa.exc.OperationalError("x", {}, call.value)) == "SQLITE_ERROR"
    assert cause(ValueError("sesame")) == "ValueError"
