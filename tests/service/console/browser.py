"""A browser without a screen: it keeps cookies, follows no redirect by itself, and sends forms as pages have them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import httpx
import pytest

from tests.helpers_waiting import HANGING
from tests.service.served import served
from tests.service.world import SECRET, STUDY, Clock, add_operator, definition, take_step
from voxpop.service import operators
from voxpop.service.console import computations, new_study
from voxpop.service.console.computations import Computations
from voxpop.service.keys import new_key
from voxpop.service.stores.migrate import open_store
from voxpop.service.study import participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.participants import Newcomer
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit

PAGE = {"accept": "text/html,application/xhtml+xml"}
KEY, VIEWER_KEY = new_key(), new_key()
OTHER = "coffee"  # a study that the viewer may not see


@contextmanager
def patience() -> Iterator[None]:
    """Let rehearsals be few and take any time: on a busy machine the usual seconds are not enough for any."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("REHEARSALS", "COMPARED"):
            patch.setattr(new_study, name, computations.FEWEST)
        for name in ("SECONDS", "COMPARE_SECONDS"):
            patch.setattr(new_study, name, HANGING)
        patch.setattr(Computations.__init__, "__defaults__", (HANGING,))
        yield


class Browser:
    """One browser at a console."""

    def __init__(self, url: str, **headers: str) -> None:
        # Nothing here is encrypted, and loading certificates takes longer than most tests.
        self.client = httpx.Client(base_url=url, headers={**PAGE, **headers}, timeout=HANGING, verify=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.client.get(path, headers=headers)

    def post(self, path: str, **fields: str) -> httpx.Response:
        """Send exactly these fields."""
        return self.post_with({}, path, **fields)

    def post_with(self, headers: dict[str, str], path: str, **fields: str) -> httpx.Response:
        """Send these fields with these headers."""
        return self.client.post(path, data=fields, headers=headers)

    def send(self, path: str, **fields: str) -> httpx.Response:
        """Send a form of this session."""
        return self.post(path, csrf=self.csrf, **fields)

    def sign_in(self, key: str = KEY, **fields: str) -> httpx.Response:
        return self.post("/sign-in", key=key, **fields)

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.get("/").text)
        assert found is not None
        return found[1]


class Desk:
    """A coordinator with an operator, a viewer of one study, and two studies; and its clock."""

    def __init__(self, address: str, open_to_all: bool = False) -> None:
        self.clock = Clock()
        self.coordinator = Coordinator(open_store(address, "coordinator"), SECRET, clock=self.clock)
        add_operator(self.coordinator, "me", KEY)
        self.coordinator.create(STUDY, definition())
        self.coordinator.create(OTHER, definition())
        self.add("visitor", VIEWER_KEY, "viewer", STUDY)
        self.service = CoordinatorApp(self.coordinator, open_dashboard=open_to_all)
        self.app = self.service.guarded(RateLimit(0, 1), 2**20)

    def add(self, name: str, key: str, role: operators.KeyRole = "operator", study: str | None = None) -> None:
        operators.add_key(self.coordinator.database, name, key, self.clock(), role, study)

    def register(self, people: int) -> None:
        new = [Newcomer(STUDY, new_key()) for _ in range(people)]
        assert participants.register(self.coordinator.context, new) == [True] * people
        while take_step(self.coordinator, STUDY):
            pass

    @contextmanager
    def served(self, **settings: Any) -> Iterator[str]:
        with served(self.app, **{"proxy_headers": False, **settings}) as url:
            yield url


@contextmanager
def desk_at(address: str, open_to_all: bool = False) -> Iterator[Desk]:
    desk = Desk(address, open_to_all)
    try:
        yield desk
    finally:
        desk.coordinator.database.close()
