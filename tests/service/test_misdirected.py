"""Reports that belong to the shuffler are refused by the coordinator, before and after the shuffler has them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.service.world import STUDY, World, definition, own_shuffler, private, world
from voxpop.io.schema import decode_release
from voxpop.privacy import Simulated
from voxpop.service.refusals import Refusal
from voxpop.service.reports import Verdict
from voxpop.service.study import inbox
from voxpop.service.study.inbox import Upload, store


@pytest.fixture
def it(address: str, tmp_path: Path):  # type: ignore[no-untyped-def]
    with (
        own_shuffler(str(tmp_path / "shuffler.db")) as shuffler,
        world(address, definition(private("shuffle"), deadline=100.0), 30, shuffler) as it,
    ):
        it.settle()
        it.play_all()
        it.settle()
        yield it


def misdirect(it: World, invitation: dict[str, Any]) -> Verdict:
    """Send a sound report to the coordinator, as a modified device may."""
    told = invitation["wave"]
    release = decode_release(told["release"])
    report = np.asarray(release.randomize(np.zeros((1, len(told["arms"]))), Simulated(it.rng)), dtype=float)
    return store(it.coordinator.context, [Upload((STUDY, told["wave"]), invitation["token"], report.tobytes())])[0]


def assert_sent_away(verdict: Verdict) -> None:
    assert isinstance(verdict, Refusal)
    assert verdict.status == 403
    assert "go to its shuffler" in verdict.sentence


def test_who_sends_a_report_to_the_coordinator_instead_is_replaced_like_anyone_who_is_silent(it: World) -> None:
    (_, silent), *others = it.invited()
    assert_sent_away(misdirect(it, silent))
    for key, invitation in others:
        assert it.answer(key, invitation) is True
    it.clock.now += 101
    it.settle()
    it.answer_all()
    it.settle()
    assert it.status.wave == 2


def test_whom_the_shuffler_has_counted_cannot_stop_other_uploads(it: World) -> None:
    """The coordinator knows that they answered, and no digest of what."""
    first, *others = it.invited()
    for key, invitation in others:
        assert it.answer(key, invitation) is True
    it.clock.now += 101
    it.settle()
    assert it.status.funnel.asked == 13  # the shuffler has said who answered
    assert_sent_away(misdirect(it, others[0][1]))
    assert_sent_away(misdirect(it, first[1]))
    it.answer_all()
    it.settle()
    late = misdirect(it, others[0][1])  # the wave is released
    assert late is False or isinstance(late, Refusal)
    assert it.status.wave == 2


def test_a_group_that_cannot_be_stored_is_not_tried_for_ever(
    new_postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(new_postgres(), definition(private("central")), 20) as it:
        it.settle()
        it.play_all()
        it.settle()
        key, invitation = next(it.invited())
        assert it.answer(key, invitation) is True
        look, looks = inbox._InPostgresql.look, []

        def blind(self: Any, names: list[str], hashes: list[bytes]) -> Any:
            stages, rows = look(self, names, hashes)
            looks.append(len(rows))
            return stages, {token: row._replace(digest=None) for token, row in rows.items()}

        monkeypatch.setattr(inbox._InPostgresql, "look", blind)
        with pytest.raises(RuntimeError, match="while reports were stored"):
            it.answer(key, invitation)
        assert len(looks) == inbox.TRIES
        monkeypatch.undo()
        others = [pair for pair in it.invited() if pair[0] != key]
        assert it.answer(*others[0]) is True
