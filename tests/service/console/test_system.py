"""The screen about the service itself: what it says when all is well, and when something is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.service.console.browser import Browser, Desk, desk_at
from tests.service.served import served
from voxpop import __version__
from voxpop.service.keys import Keyring
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.shuffler_app import ShufflerApp

PLACE = "/system"
KEYS = Keyring((b"k" * 32,))


@contextmanager
def signed_in(desk: Desk) -> Iterator[Browser]:
    with desk.served() as url, Browser(url) as browser:
        browser.sign_in()
        yield browser


def test_the_database_is_described_whatever_it_is(address: str) -> None:
    with desk_at(address) as desk, signed_in(desk) as browser:
        page = browser.get(PLACE).text
    assert ("PostgreSQL" if "://" in address else "SQLite") in page
    assert "coordinator_9" in page
    assert __version__ in page
    assert "iB</dd>" in page  # its size


def test_a_password_of_the_database_is_not_shown(desk: Desk) -> None:
    engine = desk.coordinator.database.engine
    assert engine.url.password is None  # SQLite has none; the name of any other hides it
    shown = engine.url.set(drivername="postgresql", password="hunter2").render_as_string(hide_password=True)
    assert "hunter2" not in shown


def test_what_keeps_the_service_from_working_is_said(operator: Browser) -> None:
    """Nothing runs in the background of the test's service."""
    assert "the scheduler has stopped; restart the service" in operator.get(PLACE).text


def test_a_service_that_works_says_so(desk: Desk) -> None:
    with desk.served(lifespan="on") as url, Browser(url) as browser:
        browser.sign_in()
        assert "<strong>Ready:</strong>" in browser.get(PLACE).text


def test_a_shuffler_that_cannot_be_reached_is_said(desk: Desk, operator: Browser) -> None:
    assert "None is configured" in operator.get(PLACE).text
    link = HttpShuffler("http://127.0.0.1:1", KEYS, "http://127.0.0.1:1")
    with link.client:
        desk.coordinator.context.shuffler = link
        page = operator.get(PLACE).text
    assert "http://127.0.0.1:1" in page
    assert "it does not answer" in page


def test_a_shuffler_that_is_ready_is_said(desk: Desk, operator: Browser, tmp_path: Path) -> None:
    database = open_store(str(tmp_path / "s.db"), "shuffler")
    service = ShufflerApp(Shuffler(database, lambda kind, **values: None), "http://127.0.0.1:1", KEYS)
    with served(service.guarded(RateLimit(0, 1), 4096), "on") as url:
        link = HttpShuffler(url, KEYS, url)
        with link.client:
            desk.coordinator.context.shuffler = link
            assert link.problem() is None
            assert "<dd>ready</dd>" in operator.get(PLACE).text
    database.close()


def test_a_database_that_fails_is_said_on_the_page(desk: Desk, operator: Browser) -> None:
    with desk.coordinator.database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE marks RENAME TO others")
    page = operator.get(PLACE)
    assert page.status_code == 200
    assert "<strong>Not ready:</strong> the database takes no writes" in page.text
