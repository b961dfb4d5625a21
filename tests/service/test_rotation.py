"""Rotation: a secret or a shuffler key is replaced in the middle of a wave, and nothing is lost."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from tests.helpers_cli import main_of, refusal
from tests.service.served import served
from tests.service.test_http import as_
from tests.service.world import STUDY, World, check_in_as, definition, encoded, own_shuffler, private, take_step, world
from voxpop.errors import InputError
from voxpop.service import audit
from voxpop.service.keys import (
    Keyring,
    KeyringFile,
    check_of,
    hash_key,
    new_key,
    read_keyring,
    sign,
    token_of,
    write_key,
)
from voxpop.service.rotation import KeyFile, read_key_file, require_unneeded, write_key_file
from voxpop.service.serve import coordinator_of, settings_of
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import marks
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.shuffler_app import ShufflerApp

OLD, NEW = "o" * 40, "n" * 40
CENTRAL = definition(private("central"), deadline=100.0)


def ring(*keys: str) -> Keyring:
    return Keyring(tuple(key.encode() for key in keys))


def begun(it: World) -> None:
    it.settle()
    it.play_all()
    it.settle()


def tokens(it: World) -> dict[str, str]:
    return {key: invitation["token"] for key, invitation in it.invited()}


def restarted(it: World, keys: Keyring) -> None:
    """Start the coordinator again with these secrets."""
    context = it.coordinator.context
    it.coordinator = Coordinator(it.coordinator.database, keys, context.shuffler, clock=it.clock)


def test_a_keyring_uses_the_first_key_and_accepts_all() -> None:
    keys, nonce = ring(NEW, OLD), b"nonce"
    made = token_of(OLD.encode(), nonce)
    assert keys.token_of(nonce, hash_key(made)) == made
    assert ring(NEW).token_of(nonce, hash_key(made)) is None
    message = ("PUT", "/v1", b"body")
    assert keys.sign(*message) == sign(NEW.encode(), *message)
    assert keys.signed(*message, sign(OLD.encode(), *message))
    assert not ring(NEW).signed(*message, sign(OLD.encode(), *message))
    assert Keyring.of(b"one").all == (b"one",)


@pytest.mark.parametrize("text", ["", "\n", "# only a comment", "short", f"{OLD}\nshort", f"{OLD}\n{OLD}"])
def test_a_file_without_usable_keys_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="the secret in x"):
        read_keyring("the secret in x", text)


def test_a_secret_replaced_in_the_middle_of_a_wave_loses_no_report(address: str) -> None:
    with world(address, CENTRAL, 30) as it:
        restarted(it, ring(OLD))
        begun(it)
        before = tokens(it)
        for key, invitation in list(it.invited())[:6]:
            assert it.answer(key, invitation) is True
        restarted(it, ring(NEW, OLD))
        assert tokens(it) == {key: before[key] for key in list(before)[6:]}
        it.clock.now += 101  # six have not answered: others are invited, with tokens of the new secret
        it.settle()
        after = tokens(it)
        assert len(after) == 6
        later = Coordinator(it.coordinator.database, ring(NEW), clock=it.clock)
        assert all(token.encode() in check_in_as(later, STUDY, key) for key, token in after.items())
        it.answer_all()
        it.settle()
        assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12


def test_devices_notice_nothing_of_a_secret_replaced_over_http(address: str) -> None:
    with world(address, CENTRAL, 30) as it, httpx.Client() as client:
        restarted(it, ring(OLD))
        begun(it)

        def told(url: str) -> dict[str, Any]:
            found = {key: client.get(f"{url}/v2/studies/{STUDY}/checkin", headers=as_(key)).json() for key in it.keys}
            return {key: one for key, one in found.items() if one["invited"]}

        def send(url: str, one: dict[str, Any]) -> int:
            return client.put(url + one["upload"], json={"report": [0.5]}, headers=as_(one["token"])).status_code

        with served(CoordinatorApp(it.coordinator).guarded(RateLimit(0, 1), 4096)) as url:
            before = told(url)
            first, *rest = before
            assert send(url, before[first]) == 201
        restarted(it, ring(NEW, OLD))
        with served(CoordinatorApp(it.coordinator).guarded(RateLimit(0, 1), 4096)) as url:
            after = told(url)
            assert {key: one["token"] for key, one in after.items()} == {key: before[key]["token"] for key in rest}
            assert send(url, before[first]) == 200  # the acknowledgement was lost
            assert {send(url, one) for one in before.values()} == {200, 201}
        it.settle()
        assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12


def test_one_whose_secret_is_gone_waits_until_somebody_else_is_asked(address: str) -> None:
    with world(address, CENTRAL, 30) as it:
        restarted(it, ring(OLD))
        begun(it)
        restarted(it, ring(NEW))
        assert tokens(it) == {}
        it.clock.now += 101
        it.settle()
        assert len(tokens(it)) == 12


def test_two_coordinators_in_the_middle_of_a_rollover_give_the_same_tokens(address: str) -> None:
    with world(address, CENTRAL, 30) as it, closing(open_store(address, "coordinator")) as shared:
        restarted(it, ring(OLD, NEW))  # added here, promoted there
        other = Coordinator(shared, ring(NEW, OLD), clock=it.clock)
        it.settle()
        it.play_all()
        while take_step(other, STUDY):
            pass
        mine = tokens(it)
        assert len(mine) == 12
        assert all(mine[key].encode() in check_in_as(other, STUDY, key) for key in mine)
        it.answer_all()
        it.settle()
        assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12


def test_a_coordinator_starts_with_a_new_secret_if_the_old_one_is_accepted(address: str) -> None:
    def start(*keys: str) -> None:
        coordinator_of(settings_of(database=address, secret="\n".join(keys))).coordinator.database.close()

    start(OLD)
    start(OLD, NEW)
    start(NEW, OLD)
    start(NEW)
    with pytest.raises(InputError, match="the secret is not the one") as call:
        start(OLD)
    refusal(call)


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[tuple[World, CoordinatorApp, ShufflerApp]]:
    """A coordinator and a shuffler that talk over HTTP, in the middle of a wave."""
    with ExitStack() as stack:
        shuffler = stack.enter_context(own_shuffler(str(tmp_path / "s.db")))
        it = stack.enter_context(world(str(tmp_path / "c.db"), definition(private("shuffle")), 30, shuffler))
        mine = CoordinatorApp(it.coordinator, ring(OLD))
        url = stack.enter_context(served(mine.guarded(RateLimit(0, 1), 10**6)))
        theirs = ShufflerApp(shuffler, url, ring(OLD))
        theirs._client.close()
        client = theirs._client = stack.enter_context(httpx.Client())
        there = stack.enter_context(served(theirs.guarded(RateLimit(0, 1), 10**6)))
        it.coordinator.context.shuffler = HttpShuffler(there, ring(OLD), "https://shuffler.example", client)
        yield it, mine, theirs


def hold(it: World, mine: CoordinatorApp, keys: Keyring) -> None:
    """Start the coordinator again with these shuffler keys."""
    mine.shuffler_keys = keys
    link = it.coordinator.context.shuffler
    assert isinstance(link, HttpShuffler)
    link.keys = keys


def answer(theirs: ShufflerApp, invitation: dict[str, Any]) -> None:
    """Send the shuffler a report without a single one."""
    batch = invitation["upload"].split("/")[-2]
    report = np.zeros((1, len(invitation["wave"]["arms"])))
    assert theirs.shuffler.store([encoded(batch, invitation, report)]) == [True]


def test_a_shuffler_key_replaced_in_the_middle_of_a_wave_loses_no_total(
    linked: tuple[World, CoordinatorApp, ShufflerApp],
) -> None:
    it, mine, theirs = linked
    hold(it, mine, ring(OLD, NEW))
    begun(it)
    invited = [invitation for _, invitation in it.invited()]
    assert len(invited) == 12
    for invitation in invited[:6]:
        answer(theirs, invitation)
    theirs.keys = ring(OLD, NEW)
    hold(it, mine, ring(NEW, OLD))
    it.clock.now += 100_000  # so that the coordinator has something to say, signed with the new key
    it.settle()
    fresh = [invitation for _, invitation in it.invited() if invitation not in invited]
    for invitation in fresh[-6:]:
        answer(theirs, invitation)
    theirs._forward()  # signed with the old key
    it.settle()
    assert it.coordinator.snapshots.current(STUDY).closed[0].feedback.count == 12
    assert theirs.shuffler.sealed() == []


def test_a_shuffler_key_that_was_retired_is_refused(linked: tuple[World, CoordinatorApp, ShufflerApp]) -> None:
    it, mine, theirs = linked
    theirs.keys = ring(NEW)
    it.settle()
    it.play_all()
    with pytest.raises(httpx.DecodingError, match=r"status 401\) is not signed"):
        it.settle()
    hold(it, mine, ring(NEW))
    it.settle()
    for _, invitation in it.invited():
        answer(theirs, invitation)
    theirs.keys = ring(OLD)
    theirs._forward()
    assert len(theirs.shuffler.sealed()) == 1  # the total is kept until it is taken
    theirs.keys = ring(NEW)
    theirs._forward()
    it.settle()
    assert it.status.wave == 2


def test_a_key_file_is_changed_in_steps_that_can_not_be_taken_twice(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    write_key(path, OLD)
    first = read_key_file(path)
    assert first == KeyFile((OLD,))
    added = first.add()
    write_key_file(path, first, added)
    assert read_key_file(path) == added
    assert read_keyring("x", path.read_text()).in_use == OLD.encode()
    with pytest.raises(InputError, match="waits already"):
        added.add()
    with pytest.raises(InputError, match="use --promote before"):
        added.retire()
    promoted = added.promote()
    write_key_file(path, added, promoted)
    assert read_key_file(path) == promoted == KeyFile((str(added.waiting), OLD))
    with pytest.raises(InputError, match="no key waits"):
        promoted.promote()
    assert promoted.retire().keys == (added.waiting,)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="was changed by another program"):
        write_key_file(path, added, promoted)


def test_the_command_rotates_a_secret_and_refuses_to_drop_one_that_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voxpop, path, secret = main_of(monkeypatch), tmp_path / "c.db", tmp_path / "c.db.secret"

    def start() -> None:
        coordinator_of(settings_of(database=str(path))).coordinator.database.close()

    start()
    old = secret.read_text().strip()
    with world(str(path), CENTRAL, 30) as it:
        restarted(it, ring(old))
        begun(it)
        assert voxpop("keys", "rotate", str(secret)).code == 0
        new, kept = secret.read_text().split()
        assert kept == old
        assert (refused := voxpop("keys", "rotate", str(secret), "--retire")).code != 0
        assert "does not use the new secret yet" in refused.err
        start()
        assert (refused := voxpop("keys", "rotate", str(secret), "--retire")).code != 0
        assert "12 open invitations of 'tea'" in refused.err
        assert secret.read_text().split() == [new, old]
        it.answer_all()
        it.settle()
        assert voxpop("keys", "rotate", str(secret), "--retire").code == 0
        assert secret.read_text().split() == [new]
        start()
        noted = [entry for entry in audit.trail(it.coordinator.database) if entry.action == "secret rotated"]
        assert [entry.detail for entry in noted] == ["c.db.secret: retired", "c.db.secret: replaced"]
        assert not [entry for entry in noted if new in entry.detail]


def test_the_command_takes_one_step_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    voxpop, path = main_of(monkeypatch), tmp_path / "shuffler.key"
    write_key(path, OLD)
    assert "give one of them" in voxpop("keys", "rotate", str(path), "--add", "--promote").err
    assert "--promote" in voxpop("keys", "rotate", str(path), "--add").out
    assert "--retire" in voxpop("keys", "rotate", str(path), "--promote").out
    assert "give --database" in voxpop("keys", "rotate", str(path), "--retire").err
    assert len(path.read_text().split()) == 2
    assert voxpop("keys", "rotate", str(path), "--retire", "--unchecked").code == 0
    assert OLD not in path.read_text()
    assert len(path.read_text().split()) == 1
    assert voxpop("keys", "rotate", str(tmp_path / "nowhere")).code != 0


def test_the_keys_of_others_are_none_of_a_database_s_business(address: str) -> None:
    with world(address, CENTRAL, 30) as it:
        coordinator_of(settings_of(database=address, secret=OLD)).coordinator.database.close()
        restarted(it, ring(OLD))
        begun(it)
        foreign = KeyFile((new_key(), new_key()))
        require_unneeded(it.coordinator.database, foreign, foreign.retire())
        mine = KeyFile((OLD, NEW))
        require_unneeded(it.coordinator.database, mine, mine.retire())
        with pytest.raises(InputError, match="does not use the new secret"):
            require_unneeded(it.coordinator.database, KeyFile((NEW, OLD)), KeyFile((NEW,)))


def test_a_running_coordinator_takes_a_new_secret_from_its_file(tmp_path: Path) -> None:
    """Without a restart: tokens of both are good, and the older one can be dropped when nothing needs it."""
    file = tmp_path / "secret.key"
    write_key(file, OLD)
    with world(str(tmp_path / "c.db"), CENTRAL, 30) as it:
        restarted(it, KeyringFile("secret", file))
        with it.coordinator.database.write() as connection:
            connection.execute(sa.insert(marks).values(name="secret", mark=check_of(OLD.encode())))
        it.coordinator.mark_secret()
        begun(it)
        before, known = tokens(it), read_key_file(file)
        after = known.add().promote()
        write_key_file(file, known, after)
        assert it.coordinator.context.secrets.in_use == after.ring.in_use
        assert tokens(it) == before
        it.clock.now += 101
        it.settle()
        assert not set(tokens(it).values()) & set(before.values())
        it.coordinator.mark_secret()
        with it.coordinator.database.read() as connection:
            mark = connection.scalar(sa.select(marks.c.mark).where(marks.c.name == "secret"))
        assert mark == check_of(after.ring.in_use)
        require_unneeded(it.coordinator.database, after, after.retire())
        file.write_text("short")  # by hand, and wrong
        assert it.coordinator.context.secrets.in_use == after.ring.in_use
        file.unlink()
        assert it.coordinator.context.secrets.in_use == after.ring.in_use
