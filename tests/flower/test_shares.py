"""The aggregate model: a real helper holds one share, the server the other, and the simulator's totals come out."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.flower.direct import Direct, promise, study
from tests.flower.helper import free_port, helper_in
from tests.flower.test_client import answered, question
from voxpop.client.storage import Memory
from voxpop.errors import InputError
from voxpop.model.waves import Tally
from voxpop.privacy.aggregate import Aggregated
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop_flower import Rules, conduct, server, shares
from voxpop_flower.study import DeviceStudy

QUICK = Rules(seconds=0.05, patience=0.05)


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpShuffler]:
    with helper_in(tmp_path_factory.mktemp("helper")) as found:
        yield found


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PAUSE", 0.0)


def grid_of(folder: Path, nodes: int, helper: HttpShuffler) -> Direct:
    grid = Direct(folder, nodes, model="aggregate")
    grid.promise = promise("aggregate", helper=helper.url)
    return grid


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """What nodes would have sent to somebody whom they trust, added up by wave, from before it is split."""
    reports = list[tuple[int, ...]]()
    split = Aggregated.split

    def watched(self: Aggregated, report: Any, source: Any) -> Any:
        reports.append(tuple(report.astype(int).tolist()))
        return split(self, report, source)

    monkeypatch.setattr(Aggregated, "split", watched)
    return reports


def test_the_two_totals_are_those_of_the_reports(
    tmp_path: Path, helper: HttpShuffler, whole: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, close = list[Tally](), DeviceStudy.close_wave

    def watched(self: DeviceStudy, tally: Tally, names: tuple[str, ...]) -> None:
        closed.append(tally)
        close(self, tally, names)

    monkeypatch.setattr(DeviceStudy, "close_wave", watched)
    done = conduct(grid_of(tmp_path, 60, helper), study("aggregate"), Rules(), helper)
    assert done.ended
    assert len(closed) == len(done.closed) > 1
    start = 0
    for tally in closed:
        mine, start = whole[start : start + tally.count], start + tally.count
        assert tally.total == tuple(map(sum, zip(*mine, strict=True)))
    assert done.ledger.totals(1e-6)["epsilon"] <= 5.0 * (1 + 1e-9)


def test_a_reply_alone_is_not_the_report(tmp_path: Path, helper: HttpShuffler, whole: list[tuple[int, ...]]) -> None:
    grid = grid_of(tmp_path, 60, helper)
    conduct(grid, study("aggregate"), Rules(), helper)
    sent = [np.array(report) for wave in grid.reports.values() for report in wave.values()]
    assert len(sent) == len(whole)
    tops = np.concatenate([report.view(np.uint64)[10:-4] >> np.uint64(60) for report in sent])
    assert np.bincount(tops.astype(int), minlength=16).min() > 0  # of numbers below 2^64, and not of bits


def test_nodes_that_do_not_reply_are_replaced_although_the_helper_has_their_share(
    tmp_path: Path, helper: HttpShuffler
) -> None:
    class Lossy(Direct):
        """Replies of some nodes are lost after their shares were sent."""

        def pull_messages(self, names: Any) -> list[Any]:
            return [reply for reply in super().pull_messages(names) if reply.metadata.src_node_id > 5]

    grid = Lossy(tmp_path, 60, model="aggregate")
    grid.promise = promise("aggregate", helper=helper.url)
    done = conduct(grid, study("aggregate", population=40), QUICK, helper)
    assert [wave.feedback.count for wave in done.closed] == [wave.plan.people for wave in done.closed]
    assert not {str(node) for node in range(1, 6)} & {name for entry in done.ledger.entries for name in entry.names}


def test_nodes_whose_share_the_helper_lacks_are_replaced(tmp_path: Path, helper: HttpShuffler) -> None:
    """A node that replies with a share whose twin it never sent would spoil the total."""
    grid = grid_of(tmp_path, 60, helper)
    liars: set[int] = set()
    send = shares.send_share

    def sends(*given: Any) -> None:
        if len(liars) < 3:
            liars.add(len(liars))
        else:
            send(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("voxpop_flower.client.send_share", sends)
        done = conduct(grid, study("aggregate", population=40), Rules(), helper)
    assert len(grid.asked) == sum(wave.plan.people for wave in done.closed) + 3


def test_nodes_whose_proof_is_wrong_are_replaced(tmp_path: Path, helper: HttpShuffler) -> None:
    """A node that replies with another share than its proof is of would move the total to where it likes."""

    class Crooked(Direct):
        """Some nodes change a bit of what they reply."""

        def pull_messages(self, names: Any) -> list[Any]:
            replies = super().pull_messages(names)
            for reply in replies:
                if reply.metadata.src_node_id <= 5:
                    record = reply.content["voxpop"]
                    record["report"] = (
                        record["report"][:100] + bytes([record["report"][100] ^ 1]) + record["report"][101:]
                    )
            return replies

    grid = Crooked(tmp_path, 60, model="aggregate")
    grid.promise = promise("aggregate", helper=helper.url)
    done = conduct(grid, study("aggregate", population=40), Rules(), helper)
    assert [wave.feedback.count for wave in done.closed] == [wave.plan.people for wave in done.closed]
    assert not {str(node) for node in range(1, 6)} & {name for entry in done.ledger.entries for name in entry.names}


def test_a_study_of_shares_needs_a_helper(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the aggregate model needs a helper, .*; give conduct"):
        conduct(Direct(tmp_path, 1), study("aggregate"))


NAMED = {"batch": "0" * 43, "token": "t" * 43}


def asked(told: dict[str, Any]) -> Any:
    return question("aggregate", lambda found: found.update(helper=told))


@pytest.mark.parametrize("told", [{}, {**NAMED, "batch": "../x"}, {**NAMED, "token": "a\nb"}])
def test_a_node_sends_nothing_to_a_place_of_the_server_s_making(tmp_path: Path, told: dict[str, Any]) -> None:
    said = answered(asked(told), tmp_path, "aggregate", helper="http://127.0.0.1:9")
    assert said == {"declined": "the server names no batch of the helper; nothing is sent"}
    assert Memory(tmp_path / "7.db").reports == 0


def test_nothing_is_sent_to_the_server_if_the_helper_refuses_or_is_silent(
    tmp_path: Path, helper: HttpShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = answered(asked(NAMED), tmp_path, "aggregate", helper=helper.url)
    assert refused == {"declined": "the helper answered 401; nothing is sent to the server"}
    assert Memory(tmp_path / "7.db").reports == 1  # the helper has seen it
    monkeypatch.setattr(shares, "ATTEMPTS", 1)
    silent = answered(asked(NAMED), tmp_path, "aggregate", helper=f"http://127.0.0.1:{free_port()}", participations=2)
    assert "the helper does not answer (ConnectError)" in silent["declined"]


def test_the_helper_hears_what_every_device_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("voxpop_flower.client.send_share", lambda told, promised, share, http: sent.append(share))
    message = asked(NAMED)
    answered(message, tmp_path, "aggregate", helper="https://helper.example")
    encoding = json.loads(message.content["voxpop"]["question"])["release"]["encoding"]
    assert sent[0] | {"report": 0} == {
        "report": 0,
        "size": encoding["people"],
        "coordinates": len(json.loads(message.content["voxpop"]["question"])["decisions"]),
        "levels": encoding["levels"],
        "trials": encoding["trials"],
        "chance": 0.5,
        "shared": True,
    }
