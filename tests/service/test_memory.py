"""Of a closed wave a coordinator keeps in memory what it shows, and nothing of the reports."""

import gc
import json
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.service.world import STUDY, World, definition, private, world
from voxpop.service.keys import new_key
from voxpop.service.refusals import accepted
from voxpop.service.study import inbox, participants
from voxpop.service.study.inbox import Upload

PEOPLE = 300  # per wave
A_REPORT = 6 * 8  # bytes: one of six numbers


def one_wave(it: World) -> None:
    """Play a wave in which everyone who is invited answers."""
    it.settle()
    it.play_all()
    it.settle()
    told = participants.check_in(it.coordinator.context, [(STUDY, key) for key in it.keys])
    found = {key: json.loads(accepted(text)) for key, text in zip(it.keys, told, strict=True)}
    invited = [invitation for invitation in found.values() if invitation["invited"]]
    it.keys = [key for key in it.keys if not found[key]["invited"]]
    place, arms = (STUDY, it.status.wave), len(invited[0]["wave"]["arms"])
    body = np.full(arms, 0.3).tobytes()
    verdicts = inbox.store(it.coordinator.context, [Upload(place, one["token"], body) for one in invited])
    assert verdicts == [True] * PEOPLE
    it.settle()


def test_memory_does_not_grow_with_the_waves(tmp_path: Path) -> None:
    made = definition(private("central", PEOPLE), horizon=2**6 - 1)
    with world(str(tmp_path / "c.db"), made) as it:
        it.keys = [new_key() for _ in range(7 * PEOPLE)]
        participants.register(it.coordinator.context, [participants.Newcomer(STUDY, key, None) for key in it.keys])
        one_wave(it)  # leave out what is loaded once
        used = []
        tracemalloc.start()
        while it.status.stage != "finished":
            one_wave(it)
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert len(used) == 5
    least = min(after - before for before, after in pairwise(used))  # a cache that fills once does not count
    assert least < PEOPLE * A_REPORT, used  # less than the bare numbers
