"""The operator's side: create studies, play their rounds, and read their logs, over a network that loses replies."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.service.chaos import Lossy
from voxpop.service.keys import new_key
from voxpop.service.study.definition import Definition
from voxpop.service.study.log import Record


@dataclass
class Application:
    """An operator who asks whichever coordinator answers."""

    urls: list[str]
    key: str
    lossy: Lossy
    server_errors: int = 0
    _turn: int = 0
    _http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self._http = httpx.Client(transport=self.lossy)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request to the coordinator whose turn it is; return None if there is no answer or not now."""
        self._turn += 1
        url = self.urls[self._turn % len(self.urls)]
        with suppress(httpx.TransportError):
            headers = {"authorization": f"Bearer {self.key}"}
            answer = self._http.request(method, f"{url}/v2/studies{path}", json=body, headers=headers)
            self.server_errors += answer.status_code == 500
            if answer.status_code in (200, 201):
                return answer.json()
        return None

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def create(self, study: str, definition: Definition) -> None:
        """Create a study, however often it takes."""
        while self.ask("PUT", f"/{study}", {"definition": definition.encode()}) is None:
            time.sleep(0.1)

    def play(self, study: str, now: dict[str, Any]) -> None:
        """Play all rounds of the decision in force, once."""
        self.ask("PUT", f"/{study}/rounds/{new_key()}", {"wave": now["wave"], "rounds": now["rounds"]})

    def log(self, study: str) -> list[Record] | None:
        """Read the log of a study; None if nobody answers."""
        found = self.ask("GET", f"/{study}/log")
        if found is None:
            return None
        return [Record(**one) for one in found["events"]]
