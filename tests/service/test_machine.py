"""In any order of events, nobody is counted twice, nothing is released twice, and no report is kept."""

import random
import tempfile
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.service.world import SECRET, STUDY, World, definition, private, take_step, world
from voxpop.service.refusals import Refusal
from voxpop.service.stores.migrate import open_store
from voxpop.service.stores.schema import inbox, invitations, people, receipts
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.log import fold
from voxpop.service.study.stages import Kind

ORDER = {
    Kind.CREATED: {Kind.OPENED},
    Kind.OPENED: {Kind.CLOSED},
    Kind.CLOSED: {Kind.OPENED, Kind.FINISHED},
    Kind.FINISHED: set(),
}


class Waves(RuleBasedStateMachine):
    """A study of the central model with people who come, answer, sleep, repeat themselves and lie."""

    def __init__(self) -> None:
        super().__init__()
        # Hypothesis repeats its steps, so the same people must be drawn again.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("voxpop.service.study.invitations.secrets.SystemRandom", partial(random.Random, 0))
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "c.db")
        made = definition(private("central", 3), horizon=7, deadline=100.0)
        self.opened = world(self.path, made, people=4)
        self.it: World = self.opened.__enter__()
        self.tokens: list[tuple[str, dict[str, Any]]] = []
        self.counted: dict[int, int] = {}

    def teardown(self) -> None:
        self.opened.__exit__(None, None, None)
        self.patch.undo()
        self.folder.cleanup()

    @rule(people=st.integers(1, 4))
    def somebody_registers(self, people: int) -> None:
        if self.it.status.stage != "finished":
            self.it.register(people)

    @rule()
    def a_step(self) -> None:
        take_step(self.it.coordinator, STUDY)

    @rule()
    def another_coordinator_takes_over(self) -> None:
        old = self.it.coordinator
        self.it.coordinator = Coordinator(open_store(self.path, "coordinator"), SECRET, clock=self.it.clock)
        old.database.close()

    @rule(rounds=st.integers(1, 5), key=st.sampled_from("abc"))
    def rounds_are_played(self, rounds: int, key: str) -> None:
        before = self.it.status
        with suppress(Refusal):
            done = self.it.coordinator.play(STUDY, max(1, before.wave), key + str(before.wave), rounds)
            assert done.played == before.played + done.counted

    @rule(seconds=st.sampled_from([1.0, 60.0, 101.0, 1e8, -1e6]))
    def time_passes(self, seconds: float) -> None:
        self.it.clock.now += seconds

    @precondition(lambda self: self.it.keys)
    @rule(data=st.data())
    def somebody_checks_in(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.it.keys))
        found = self.it.invitation(key)
        if found is not None:
            self.tokens.append((key, found))

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), value=st.sampled_from([0.1, 0.2]))
    def somebody_answers(self, data: st.DataObject, value: float) -> None:
        key, invitation = data.draw(st.sampled_from(self.tokens))
        wave = invitation["wave"]["wave"]
        report = np.full((1, len(invitation["wave"]["arms"])), value)
        verdict = self.it.upload(invitation, report)
        if verdict is True:
            assert wave == self.it.status.wave
            assert self.it.status.stage == "collecting"
            assert not self.it.asked[key], "counted twice"
            self.it.asked[key].append(wave)
            self.counted[wave] = self.counted.get(wave, 0) + 1
        elif isinstance(verdict, Refusal):
            assert verdict.status in (409, 410)

    @invariant()
    def what_is_counted_is_stored_until_it_is_released(self) -> None:
        events = self.it.coordinator.log(STUDY)
        for before, after in pairwise(events):
            assert after.kind in ORDER[Kind(before.kind)]
        record = fold(events)
        released = {done.plan.wave: done.feedback.count for done in record.closed}
        with self.it.coordinator.database.read() as connection:
            waiting = connection.execute(sa.select(sa.func.count()).select_from(inbox)).scalar_one()
            total = connection.execute(sa.select(sa.func.count()).select_from(receipts)).scalar_one()
            live = sa.select(sa.func.count()).select_from(invitations).where(~invitations.c.expired)
            alive = connection.execute(live).scalar_one()
            most = connection.execute(sa.select(sa.func.max(people.c.participations))).scalar_one()
        assert all(self.counted[wave] == count for wave, count in released.items())
        assert waiting == sum(self.counted.values()) - sum(released.values())
        assert total == sum(self.counted.values())
        assert alive <= 3 * (len(released) + 1)
        assert (most or 0) <= 1
        assert [entry.wave for entry in record.ledger.entries] == sorted(released)


TestWaves = Waves.TestCase
TestWaves.settings = settings(max_examples=12, stateful_step_count=40)
