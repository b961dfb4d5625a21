"""People are drawn by a fair lottery: the operating system's random bits decide who is asked, and nothing else does.

A fair lottery fails a chi-square test of this file less than once in 10^9 runs of the whole file.
"""

import math
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from scipy.stats import chi2, chisquare

from tests.service.world import STUDY, World, definition, enrol, private, take_step, world
from voxpop.service.keys import hash_key
from voxpop.service.stores.schema import invitations, people, studies

ROOT = Path(__file__).parents[2]
LEVEL = 1e-13  # of each chi-square test; at 150 draws the exact chance of failing is up to 100 times as large
SETS = 150  # draws by which the distribution of small sets is tested
SINGLES = 200  # draws of half a crowd by which everyone's share is tested
CROWD = 100
KEYS = [f"key-{number:04}-{'x' * 32}" for number in range(CROWD)]  # in sorted order, and the same in every run
NUMBERS = {hash_key(key): number for number, key in enumerate(KEYS)}

Draw = frozenset[int]  # the people of one draw, as numbers in the order of registration


def enrol_all(it: World, count: int) -> None:
    for key in KEYS[:count]:
        assert enrol(it.coordinator, STUDY, key)
    it.keys += KEYS[:count]


def play(it: World) -> None:
    """Play a wave to its end; the next step draws people."""
    it.settle()
    it.play_all()


def checked_in(it: World) -> Draw:
    """Return the people who are told at a check-in that they are invited."""
    return frozenset(KEYS.index(key) for key, _ in it.invited())


def stored(it: World) -> Draw:
    """Return the people with open invitations to the wave, from the database, which is quicker than checking in."""
    joined = people.join(invitations, invitations.c.person == people.c.id)
    joined = joined.join(studies, studies.c.wave == invitations.c.wave)
    wanted = sa.select(people.c.key_hash).select_from(joined).where(~invitations.c.expired)
    with it.coordinator.database.read() as connection:
        return frozenset(NUMBERS[found] for found in connection.execute(wanted).scalars())


def lots(it: World, times: int, look: Callable[[World], Draw] = stored) -> list[Draw]:
    """Take the same step again and again from the same moment, each time with the same seeds.

    The study, its wave, the clock, the secret and the people are the same at each draw.
    """
    database, draws = it.coordinator.database, []
    with database.read() as connection:
        row = connection.execute(sa.select(studies)).mappings().one()
        invited = connection.execute(sa.select(invitations)).mappings().all()
    for _ in range(times):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        assert take_step(it.coordinator, STUDY)
        draws.append(look(it))
        with database.write() as connection:
            connection.execute(sa.delete(invitations))
            connection.execute(sa.update(studies).values(**row))
            if invited:
                connection.execute(sa.insert(invitations), [dict(invitation) for invitation in invited])
    return draws


def sets_are_fair(draws: Sequence[Draw], among: Iterable[int], size: int) -> bool:
    """Return True if every set of this size is drawn equally often; then so are all people, and all pairs."""
    counts, possible = Counter(draws), [frozenset(chosen) for chosen in combinations(sorted(among), size)]
    assert set(counts) <= set(possible)
    return bool(chisquare([counts[chosen] for chosen in possible]).pvalue > LEVEL)


def singles_are_fair(draws: Sequence[Draw], count: int, size: int) -> bool:
    """Return True if all of `count` people are drawn equally often, `size` at a time: sharper than testing sets."""
    assert {len(draw) for draw in draws} == {size}
    times = Counter(number for draw in draws for number in draw)
    share = size / count
    excess = np.array([times[number] for number in range(count)]) - len(draws) * share
    # Counts of draws without replacement are correlated by -1 / (count - 1), so this has count - 1 degrees of freedom.
    variance = len(draws) * share * (1 - share) * count / (count - 1)
    return bool(chi2.sf(excess @ excess / variance, count - 1) > LEVEL)


def test_every_pair_is_invited_as_often_as_every_other(address: str) -> None:
    with world(address, definition()) as it:
        enrol_all(it, 5)
        play(it)
        draws = lots(it, SETS, checked_in)
    assert sets_are_fair(draws, range(5), 2)


def test_nobody_is_favoured_by_the_order_of_registration(address: str) -> None:
    with world(address, definition(private("central", CROWD // 2))) as it:
        enrol_all(it, CROWD)
        play(it)
        draws = lots(it, SINGLES)
    assert singles_are_fair(draws, CROWD, CROWD // 2)


def first(count: int, size: int, rng: random.Random) -> Iterable[int]:
    return range(size)


def last(count: int, size: int, rng: random.Random) -> Iterable[int]:
    return range(count - size, count)


def block(count: int, size: int, rng: random.Random) -> Iterable[int]:
    start = rng.randrange(count)
    return ((start + step) % count for step in range(size))


def leaning(count: int, size: int, rng: random.Random) -> Iterable[int]:
    """The first half is 1.5 times as likely to be chosen next."""
    arrivals = [rng.expovariate(1.5 if number < count // 2 else 1.0) for number in range(count)]
    return sorted(range(count), key=arrivals.__getitem__)[:size]


def fair(count: int, size: int, rng: random.Random) -> Iterable[int]:
    return rng.sample(range(count), size)


@pytest.mark.parametrize("lottery", [fair, first, last, block, leaning])
def test_unfair_lotteries_would_be_noticed(lottery: Callable[[int, int, random.Random], Iterable[int]]) -> None:
    """Guards the tests above: with their number of draws, one of them notices."""
    rng = random.Random(1)
    pairs = [frozenset(lottery(5, 2, rng)) for _ in range(SETS)]
    halves = [frozenset(lottery(CROWD, CROWD // 2, rng)) for _ in range(SINGLES)]
    assert (sets_are_fair(pairs, range(5), 2) and singles_are_fair(halves, CROWD, CROWD // 2)) == (lottery is fair)


@dataclass
class Bits:
    """Stands in for the operating system: the bits can be repeated, and are counted."""

    rng: random.Random = field(default_factory=random.Random)
    given: int = 0

    def restart(self, seed: int) -> None:
        self.rng, self.given = random.Random(seed), 0

    def take(self, count: int) -> int:
        self.given += count
        return self.rng.getrandbits(count)


def test_the_operating_systems_bits_alone_decide(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator seeded from anything else would take no bits, or choose others when the same bits come again."""
    bits, seeds = Bits(), [*range(10), *range(10)]
    monkeypatch.setattr(random.SystemRandom, "getrandbits", lambda _, count: bits.take(count))
    monkeypatch.setattr(random.SystemRandom, "random", lambda _: bits.take(53) / 2**53)
    draws = []
    with world(address, definition(private("central", CROWD // 2))) as it:
        enrol_all(it, CROWD)
        play(it)
        for seed in seeds:
            bits.restart(seed)
            draws += lots(it, 1)
            assert bits.given >= math.log2(math.comb(CROWD, CROWD // 2))
    assert draws[:10] == draws[10:]
    assert len(set(draws)) == 10


def one_draw(folder: str) -> list[int]:
    """Draw half a crowd in a new database."""
    with world(str(Path(folder) / "c.db"), definition(private("central", CROWD // 2))) as it:
        enrol_all(it, CROWD)
        play(it)
        return sorted(lots(it, 1)[0])


def test_processes_that_start_the_same_way_draw_differently(tmp_path: Path) -> None:
    program = "import sys; from tests.service.test_draw import one_draw; print(one_draw(sys.argv[1]))"
    draws = set()
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        command = [sys.executable, "-c", program, str(folder)]
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, check=True, capture_output=True, text=True
        )
        draws.add(done.stdout)
    assert len(draws) == 2


def test_replacements_are_drawn_at_random_from_those_not_yet_asked(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(deadline=100.0)) as it:
        enrol_all(it, 7)
        play(it)
        it.settle()
        asked = checked_in(it)
        it.clock.now += 101
        others = frozenset(range(7)) - asked
        assert sets_are_fair(lots(it, SETS), others, 2)
        # Two replacements later one of the seven is left: they are asked, with someone whose time passed; nobody twice.
        it.settle()
        asked |= checked_in(it)
        it.clock.now += 101
        it.settle()
        asked |= checked_in(it)
        it.clock.now += 101
        (left,) = frozenset(range(7)) - asked
        draws = lots(it, SETS)
        assert {left in draw for draw in draws} == {True}
        assert sets_are_fair([draw - {left} for draw in draws], asked, 1)


def test_replacements_are_drawn_at_random_when_everyone_was_asked(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(deadline=100.0)) as it:
        enrol_all(it, 5)
        play(it)
        for _ in range(5):  # everyone twice
            it.settle()
            it.clock.now += 101
        assert sets_are_fair(lots(it, SETS), range(5), 2)


@pytest.mark.parametrize(("participations", "count"), [(1, 7), (2, 5)])
def test_those_who_took_part_are_drawn_again_only_if_they_may(tmp_path: Path, participations: int, count: int) -> None:
    with world(str(tmp_path / "c.db"), definition(participations=participations)) as it:
        enrol_all(it, count)
        play(it)
        it.settle()
        took_part = checked_in(it)
        it.answer_all()
        play(it)
        may = frozenset(range(count)) - (took_part if participations == 1 else frozenset())
        assert len(may) == 5
        assert sets_are_fair(lots(it, SETS), may, 3)


def test_nobody_takes_part_more_often_than_allowed(address: str) -> None:
    """Two people take part in the first wave and three in the second: of four, at least one did so twice."""
    with world(address, definition(participations=2)) as it:
        enrol_all(it, 4)
        for _ in range(2):
            play(it)
            it.settle()
            it.answer_all()
        it.settle()
        spent = {KEYS.index(key) for key, waves in it.asked.items() if len(waves) == 2}
        assert spent
        assert it.status.stage == "open"  # it waits for people who may be asked
        more = KEYS[4 : it.status.people + len(spent)]
        for key in more:
            assert enrol(it.coordinator, STUDY, key)
        it.keys += more
        play(it)
        it.settle()
        assert checked_in(it) == frozenset(range(len(it.keys))) - spent
