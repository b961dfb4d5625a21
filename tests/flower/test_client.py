"""A node: it checks the promise, counts durably, and says nothing about what went wrong with its answers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from tests.flower.direct import answers_of, context_of, promise, study
from voxpop.client.storage import Memory, Outgoing
from voxpop.io.schema import encode, wave_for_devices
from voxpop.privacy import Secure
from voxpop_flower import messages, take_part


def question(model: str, change: Callable[[dict[str, Any]], object] = lambda told: None) -> Message:
    asked = study(model)
    wave = asked.open_wave()
    assert wave is not None
    told = wave_for_devices(asked.problem, wave.plan, encode(wave.release))
    change(told)
    message = messages.ask(7, told, 60.0)
    message.metadata.__dict__["_message_id"] = "1"  # as the SuperLink does
    return message


def answered(message: Message, folder: Path, model: str, answers: Any = None, **more: Any) -> dict[str, Any]:
    given = answers or (lambda *asked: answers_of(7, *asked))
    return dict(take_part(message, context_of(folder, 7), given, promise(model, **more)).content["voxpop"])


def asked_of(message: Message) -> tuple[list[Any], list[int]]:
    told = json.loads(message.content["voxpop"]["question"])
    return told["decisions"], told["rounds"]


@pytest.mark.parametrize("model", ["none", "central"])
def test_averages_are_sent_as_they_are_where_the_server_is_trusted(tmp_path: Path, model: str) -> None:
    message = question(model)
    assert answered(message, tmp_path, model) == {"report": answers_of(7, *asked_of(message))}


def test_costs_are_turned_where_the_study_minimises(tmp_path: Path) -> None:
    message = question("none", lambda told: told.update(direction="minimize"))
    costs = answers_of(7, *asked_of(message))
    assert answered(message, tmp_path, "none") == {"report": [0.0 - cost for cost in costs]}
    odd = question("none", lambda told: told.update(direction="less"))
    assert "unknown direction 'less'" in answered(odd, tmp_path, "none")["declined"]


def test_noise_on_nodes_is_that_of_the_operating_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, secure = list[Any](), Secure.gaussian

    def watched(*given: Any) -> Any:
        drawn.append(secure(*given))
        return drawn[-1]

    monkeypatch.setattr(Secure, "gaussian", watched)
    message = question("local")
    asked: Any = study("local").open_wave()
    said = answered(message, tmp_path, "local")["report"]
    grid = asked.release.grid(np.array([answers_of(7, *asked_of(message))]))
    assert np.array_equal(np.array(said), (grid + drawn[0])[0])


@pytest.mark.parametrize("model", ["none", "central", "local"])
def test_a_node_takes_part_once_whatever_comes_between(tmp_path: Path, model: str) -> None:
    assert "report" in answered(question(model), tmp_path, model)
    again = answered(question(model), tmp_path, model)  # another process, another run: only the file is the same
    assert again == {"declined": "this node has made as many reports as its promise allows, 1; nothing is sent"}
    assert Memory(tmp_path / "7.db").reports == 1


def test_every_report_is_counted_although_a_process_was_killed(tmp_path: Path) -> None:
    Memory(tmp_path / "7.db").keep(Outgoing(1, "", "of a process that was killed", b""))
    assert "report" in answered(question("none"), tmp_path, "none", participations=2)
    assert Memory(tmp_path / "7.db").reports == 2
    assert "declined" in answered(question("none"), tmp_path, "none", participations=2)


def test_a_report_is_counted_before_it_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "reply", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        answered(question("local"), tmp_path, "local")
    assert Memory(tmp_path / "7.db").reports == 1


COMPLAINTS = {"name": "complaints", "direction": "minimize"}
WEAKER: dict[str, tuple[str, Callable[[dict[str, Any]], object], str]] = {
    "another model": ("local", lambda told: told.update(question_of("none")), "the local model was promised"),
    "less noise": ("local", lambda told: told["release"].update(std=1.0), "nothing is sent"),
    "no release": ("local", lambda told: told.pop("release"), "this is not a voxpop question"),
    "other arms": ("none", lambda told: told["release"].update(arms=1), "a report has 1 numbers, got 4 decisions"),
    "a further metric": ("local", lambda told: told.update(metrics=[COMPLAINTS]), "decisions and 2 metrics"),
    "an odd metric": ("local", lambda told: told.update(metrics=[{}]), "asks about the metrics [{}]; nothing is sent"),
    "rounds": ("none", lambda told: told.update(rounds=[1]), "it needs a number of rounds for each decision"),
    "wave": ("none", lambda told: told.update(wave=0), "wave must be a whole number"),
}


def question_of(model: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(question(model).content["voxpop"]["question"])
    return told


@pytest.mark.parametrize("name", WEAKER)
def test_a_question_that_keeps_less_than_the_promise_is_declined_and_costs_nothing(tmp_path: Path, name: str) -> None:
    model, change, said = WEAKER[name]
    assert said in answered(question(model, change), tmp_path, model)["declined"]
    assert Memory(tmp_path / "7.db").reports == 0


def test_a_message_that_is_no_question_is_declined(tmp_path: Path) -> None:
    message = question("none")
    odd = Message(RecordDict({"voxpop": ConfigRecord({"question": "{"})}), 7, messages.MESSAGE_TYPE)
    odd.metadata.__dict__["_message_id"] = message.metadata.message_id
    assert "this is not a voxpop question" in answered(odd, tmp_path, "none")["declined"]


def broken(decisions: list[Any], rounds: list[int]) -> list[float]:
    raise ValueError("the diary of Ann says 17")


@pytest.mark.parametrize("answers", [broken, lambda *_: [0.5], lambda *_: ["Ann"] * 4])
def test_what_is_wrong_with_answers_stays_on_the_node(tmp_path: Path, answers: Any) -> None:
    said = answered(question("central"), tmp_path, "central", answers)
    centre = question_of("central")["release"]["ball"]["centre"]
    assert said == {"report": centre}  # as from anybody who does not know
    plain = answered(question("none"), tmp_path, "none", answers, participations=2)
    assert plain == {"declined": "this node does not know what it gained from some decision; nothing is sent"}


def test_a_node_must_know_where_to_count(tmp_path: Path) -> None:
    nowhere = Context(run_id=1, node_id=7, node_config={}, state=RecordDict(), run_config={})
    said = take_part(question("none"), nowhere, lambda *asked: answers_of(7, *asked), promise("none"))
    assert "start it with --node-config 'voxpop-memory=" in said.content["voxpop"]["declined"]
    given = take_part(
        question("none"), nowhere, lambda *asked: answers_of(7, *asked), promise("none"), tmp_path / "7.db"
    )
    assert "report" in given.content["voxpop"]
