"""The page on Flower: its programs run, and its nodes answer."""

import re
import secrets
from pathlib import Path
from typing import Any

import pytest
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from tests.flower.direct import context_of
from tests.flower.test_client import question
from voxpop import Promise

PAGE = (Path(__file__).resolve().parents[2] / "docs/flower.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


class Diary:
    def average(self, price: float) -> float:
        return price / 2


def priced(told: dict[str, Any]) -> None:
    told["decisions"] = [{"price": decision[0]} for decision in told["decisions"]]


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.key").write_text(secrets.token_urlsafe(48), encoding="ascii")
    node, handler, server, aggregate = PROGRAMS
    names: dict[str, Any] = {"diary": Diary()}
    for number, program in enumerate((node, handler)):
        exec(program, names)
        assert isinstance(names["app"], ClientApp)
        reply = names["app"](question("local", priced), context_of(tmp_path, number))
        assert "report" in reply.content["voxpop"]
    for program in (server, aggregate):
        exec(program, names)
        assert isinstance(names["app"], ServerApp)
    assert names["promise"] == Promise("aggregate", epsilon=5.0, helper="https://helper.example")
