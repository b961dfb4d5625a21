"""Browsers are told to insist on https only by a service that serves it itself, and for no longer than was said."""

import socket
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.service import serve
from voxpop.service.serve import Settings

PEM = Path(__file__).with_name("tls.pem")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, []),
        ({"hsts": 600}, []),
        ({"tls_cert": PEM, "tls_key": PEM}, [("strict-transport-security", "max-age=86400")]),
        ({"tls_cert": PEM, "tls_key": PEM, "hsts": 600}, [("strict-transport-security", "max-age=600")]),
        ({"tls_cert": PEM, "tls_key": PEM, "hsts": 0}, []),
    ],
)
def test_what_every_reply_says_of_https(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], said: list[tuple[str, str]]
) -> None:
    seen: list[uvicorn.Config] = []

    def noted(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        seen.append(server.config)
        sockets[0].close()

    monkeypatch.setattr(uvicorn.Server, "run", noted)
    settings = Settings(database=str(tmp_path / "c.db"), port=0, **given)
    app = serve.coordinator_of(settings)
    serve.run(app, settings)
    app.coordinator.database.close()
    assert seen[0].headers == said


def test_a_negative_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="hsts must be") as call:
        Settings(database=str(tmp_path / "c.db"), port=0, hsts=-1)
    refusal(call)
