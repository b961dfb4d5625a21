from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.console.browser import VIEWER_KEY, Browser, Desk, desk_at, patience


@pytest.fixture(scope="package", autouse=True)
def _patience() -> Iterator[None]:
    with patience():
        yield


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_at(str(tmp_path / "c.db")) as made:
        yield made


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, Browser]]:
    """A desk and its operator for all tests of a module in which nothing may be stored."""
    path = tmp_path_factory.mktemp("counter") / "c.db"
    with desk_at(str(path)) as made, made.served() as found, Browser(found) as browser:
        assert browser.sign_in().status_code == 303
        yield made, browser


@pytest.fixture
def url(desk: Desk) -> Iterator[str]:
    with desk.served() as found:
        yield found


@pytest.fixture
def stranger(url: str) -> Iterator[Browser]:
    with Browser(url) as browser:
        yield browser


@pytest.fixture
def operator(url: str) -> Iterator[Browser]:
    with Browser(url) as browser:
        assert browser.sign_in().status_code == 303
        yield browser


@pytest.fixture
def viewer(url: str) -> Iterator[Browser]:
    with Browser(url) as browser:
        assert browser.sign_in(VIEWER_KEY).status_code == 303
        yield browser
