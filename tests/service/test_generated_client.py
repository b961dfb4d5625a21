"""A client that a generator made from the OpenAPI document alone takes a study from its creation to its end.

The generator is openapi-python-client. It wants other versions of packages than the tests have, so it is installed from
the package index into a folder of its own, without its dependencies.
"""

import json
import subprocess
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.helpers_cli import ENVIRONMENT
from tests.helpers_waiting import HANGING
from tests.service.test_http import KEY, Site
from tests.service.world import STUDY, definition
from voxpop.service.keys import new_key

GENERATOR = ["openapi-python-client==0.29.1", "ruamel.yaml==0.18.10"]
NAME = "generated_voxpop_client"


def run(*command: object, **environment: str) -> None:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, **environment},
        timeout=HANGING,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Unable to" not in done.stdout + done.stderr  # what the generator says of a schema that it leaves out


class Generated:
    """The operations and models of the client."""

    def __init__(self, folder: Path, document: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        tools, described = folder / "tools", folder / "openapi.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", tools]
        run(*pip, *GENERATOR)
        described.write_text(json.dumps(document))
        make = "from openapi_python_client.cli import app; app()"
        options = ["generate", "--path", described, "--output-path", folder / NAME, "--meta", "none"]
        # Its post-processing is a matter of looks: an empty PATH but for Python leaves it out.
        run(sys.executable, "-c", make, *options, PYTHONPATH=str(tools), PATH=str(Path(sys.executable).parent))
        monkeypatch.syspath_prepend(str(folder))
        self._opened = ExitStack()

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(f"{NAME}.models"), name)

    def call(self, client: Any, role: str, operation: str, *path: Any, **named: Any) -> Any:
        return import_module(f"{NAME}.api.{role}.{operation}").sync(*path, client=client, **named)

    def client(self, url: str, key: str) -> Any:
        client = import_module(NAME).AuthenticatedClient(
            base_url=url, token=key, raise_on_unexpected_status=True, verify_ssl=False
        )
        return self._opened.enter_context(client)

    def close(self) -> None:
        self._opened.close()


def test_a_generated_client_runs_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    made = Generated(tmp_path, site.client.get("/openapi.json").json(), monkeypatch)
    url = str(site.client.base_url)
    operator = made.client(url, KEY)
    devices = {key: made.client(url, key) for key in (new_key() for _ in range(12))}
    study = made.NewStudy.from_dict({"definition": definition(horizon=7).encode()})
    assert made.call(operator, "operator", "create_study", STUDY, body=study).study == STUDY
    for device in devices.values():
        assert made.call(device, "participant", "register", STUDY).status == "registered"
    seen: set[str] = set()
    for turn in range(50):
        site.step()
        now = made.call(operator, "reader", "decision", STUDY)
        if now.stage == "finished":
            break
        if now.rounds:
            rounds = made.Rounds(wave=now.wave, rounds=now.rounds)
            assert made.call(operator, "application", "play", STUDY, f"turn-{turn}", body=rounds).counted == now.rounds
            continue
        for device in devices.values():
            found = made.call(device, "participant", "check_in", STUDY)
            seen.add(type(found).__name__)
            if isinstance(found, made.Invitation):
                assert isinstance(found.wave.release, made.PlainRelease)
                report = made.Report(report=[0.5 + 0.1 * arm for arm in found.wave.arms])
                sender = made.client(url, found.token)
                receipt = made.call(sender, "token", "upload_report", STUDY, found.wave.wave, body=report)
                assert receipt.status == "counted"
    assert seen == {"Invitation", "Waiting"}
    assert made.call(operator, "viewer", "status", STUDY).stage == "finished"
    events = made.call(operator, "viewer", "log", STUDY).events
    assert [type(event).__name__ for event in events[:3]] == ["CreatedEvent", "OpenedEvent", "ClosedEvent"]
    assert isinstance(events[0].body.problem.kernel, made.SquaredExponentialKernel)
    watched = made.call(operator, "viewer", "watch", STUDY)
    assert len(watched.estimates) == 6
    assert made.call(next(iter(devices.values())), "participant", "check_in", STUDY).status == "finished"
    assert isinstance(made.call(operator, "reader", "decision", "nothing"), made.Error)
    made.close()
    site.close()
