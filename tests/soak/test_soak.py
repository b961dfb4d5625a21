"""A soak of seconds, and what the checks of a soak notice."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.service.world import STUDY, definition, private, world
from tests.soak.accounts import Account, audit
from tests.soak.clocked import set_clock, shifted
from tests.soak.faults import FULL, JUMP, KILL, RESTART, plan
from tests.soak.logs import read_log
from tests.soak.meters import Meters, Reading
from tests.soak.report import page, write_report
from tests.soak.run import run
from tests.soak.scale import Scale, of_minutes
from tests.soak.stored import Stored, stored
from tests.soak.studies import Kind
from voxpop.service.keys import hash_key

TINY = Scale(4.0, 4, 40, 6, 100, 2, 1, 1, 2, reports=30, fleets=1, deadline=5, far=8, back=2, full=0.5, drain=0)


def test_a_soak_of_seconds(tmp_path: Path) -> None:
    soak = run(TINY, 7, tmp_path)
    write_report(soak, tmp_path)
    assert soak.faults == []
    assert soak.counted >= TINY.reports
    assert sum(service.kills for service in soak.services) == TINY.kills
    assert "Nothing was wrong." in (tmp_path / "soak.md").read_text()
    soak.fault("something else")
    assert "**something else**" in page(soak)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Account, Stored]]:
    """A finished study, and what its people were told."""
    path = tmp_path_factory.mktemp("served") / "c.db"
    with world(str(path), definition(private("local", 8), horizon=7), people=40) as it:
        it.run()
        account = Account(STUDY, Kind("local", "dpbe", False), 0)
        left = {wave: list(reports) for wave, reports in it.reports.items()}
        for number, (key, (wave,)) in enumerate(it.asked.items()):
            reports = [(wave, left[wave].pop(0), 1)]
            word = {"person": number, "key": hash_key(key).hex(), "verdict": "ANSWERED", "reports": reports}
            account.hear(json.loads(json.dumps(word)))
        account.read(it.coordinator.log(STUDY))
        yield account, stored(it.coordinator.database, STUDY)


def copy(account: Account) -> Account:
    return replace(account, told={person: dict(word) for person, word in account.told.items()}, faults=[])


def held(batch: str) -> int:
    return 0


def test_the_audit_of_a_faultless_study_finds_nothing(served: tuple[Account, Stored]) -> None:
    account, found = served
    assert audit(account, found, held) == []
    assert account.waves == 3


def unknown(account: Account) -> None:
    account.told[3]["verdict"] = None


def late(account: Account) -> None:
    account.told[3]["verdict"] = "TOO_LATE"


def lost(account: Account) -> None:
    del account.told[3]


def invented(account: Account) -> None:
    account.told[99] = account.told[3] | {"person": 99}


def changed(account: Account) -> None:
    wave, report, block = account.told[3]["reports"][0]
    account.told[3]["reports"] = [(wave, [number + 10**9 for number in report], block)]


@pytest.mark.parametrize(
    ("tamper", "sentence"),
    [
        (late, "told that it was too late, and was counted"),
        (lost, "7 reports were acknowledged, and 8 released"),
        (invented, "9 reports were acknowledged, and 8 released"),
        (changed, "differ"),
    ],
)
def test_the_audit_notices(served: tuple[Account, Stored], tamper: Callable[[Account], None], sentence: str) -> None:
    account = copy(served[0])
    tamper(account)
    found = audit(account, served[1], held)
    assert any(sentence in one for one in found), found


def test_a_report_whose_reply_was_lost_is_confirmed_by_the_database(served: tuple[Account, Stored]) -> None:
    account = copy(served[0])
    unknown(account)
    assert audit(account, served[1], held) == []
    assert account.confirmed == 1


def test_what_a_device_and_a_log_may_not_say(served: tuple[Account, Stored]) -> None:
    account = copy(served[0])
    account.hear(account.told[3])
    account.hear(account.told[4] | {"person": 50, "verdict": "ANOTHER", "reports": []})
    account.read(account.log[:-1])
    account.read([*account.log[:2], account.log[1], *account.log[2:]])
    assert account.faults == [
        "person 3 answered twice",
        "person 50 made 0 reports",
        "a report ended with ANOTHER",
        "the log changed in its past",
        "the log has gaps or repetitions",
        "the log changed in its past",
        "a wave was opened or released twice",
    ]


def test_growth_is_seen_in_settled_processes_only() -> None:
    meters = Meters(lambda: 0.0)
    for name, late in (("flat", 101.0), ("growing", 140.0)):
        meters.readings[name] = [Reading(float(at), 60.0, 100.0, 20) for at in range(10)]
        meters.readings[name] += [Reading(100.0 + at, 60.0, late, 20) for at in range(10)]
        meters.readings[name] += [Reading(100.0 + at, 1.0, 900.0, 900) for at in range(30)]
    meters.readings["leaking"] = [Reading(float(at), 60.0, 100.0, 20 + at) for at in range(110)]
    faults = [growth.fault for growth in meters.growth((0.0, 10.0), (100.0, 200.0))]
    assert faults == [
        None,
        "the memory of growing grew from 100 to 140 MB",
        "the descriptors of leaking grew from 24 to 124",
    ]


def test_a_log_may_hold_refusals_but_neither_faults_nor_tracebacks(tmp_path: Path) -> None:
    path = tmp_path / "shuffler.log"
    lines = ['{"event": "request", "status": 503}', '{"event": "database", "error": "DiskFull"}', "error: no", "{kil"]
    path.write_text("\n".join(lines))
    wrong, said = read_log(path)
    assert wrong == []
    assert said == {"status 503": 1, "database: DiskFull": 1, "a sentence at the start": 1}
    path.write_text('Traceback (most recent call last):\n{"event": "fault"}\n{"event": "request", "status": 500}')
    assert len(read_log(path)[0]) == 3


def test_the_faults_of_an_hour_are_drawn_from_the_seed_and_leave_the_calm_spells_alone() -> None:
    scale = of_minutes(60)
    found = plan(scale, 5)
    kinds = [one.kind for one in found]
    assert [kinds.count(kind) for kind in (KILL, RESTART, FULL, JUMP)] == [200, 8, 4, 12]
    assert found == plan(scale, 5) != plan(scale, 6)
    for start, end in scale.calm:
        assert [one.kind for one in found if start <= one.at < end] == [KILL] * 3  # at its very beginning
    sizes = [one.size for one in found if one.kind == JUMP]
    assert min(sizes) < 0 < max(sizes)


def test_a_clock_that_is_set_jumps(tmp_path: Path) -> None:
    path = tmp_path / "clock"
    set_clock(path, 0.0)
    clock = shifted(path, lambda: 1000.0)
    assert clock() == 1000.0
    set_clock(path, -250.5)
    assert clock() == 749.5
