"""The reports of one batch have one encoding: what a device computed of the total's privacy is true of all of them."""

import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from tests.helpers_privacy import promised
from tests.service.world import own_shuffler
from voxpop.privacy import Simulated
from voxpop.privacy.ball import Ball
from voxpop.privacy.encoded import Encoding
from voxpop.privacy.release import Batch
from voxpop.privacy.shuffle import Shuffled
from voxpop.service.keys import hash_key, new_key
from voxpop.service.refusals import Refusal
from voxpop.service.shuffler.batches import EncodedReport, Shuffler
from voxpop.service.stores.schema import batches, reports, tokens

NAME, PEOPLE = "b" * 43, 1000
MANY_LEVELS = Encoding(levels=215, trials=185, chance=0.5, people=PEOPLE)
LITTLE_NOISE = Encoding(levels=1, trials=399, chance=8.6e-5, people=PEOPLE)


def ball_of(centre: float, radius: float) -> Ball:
    return Ball("identity", np.array([centre]), np.eye(1), radius, (np.empty(0), np.empty(0)))


def release_of(encoding: Encoding) -> Shuffled:
    return replace(Shuffled.make(ball_of(0.0, 1.0), 5.0, 1e-6, PEOPLE, 0.1), encoding=encoding)


def report_of(release: Shuffled, token: str) -> EncodedReport:
    numbers = release.randomize(np.array([[0.5]]), Simulated(np.random.default_rng(0)))
    return EncodedReport(NAME, token, numbers.astype("<f8").tobytes(), release.batch)


def stored(shuffler: Shuffler) -> tuple[int, int]:
    """Count the reports, and the tokens that are used up."""
    with shuffler.database.read() as connection:
        kept = connection.execute(sa.select(sa.func.count()).select_from(reports)).scalar_one()
        used = connection.execute(sa.select(sa.func.count(tokens.c.digest))).scalar_one()
    return kept, used


def status_of(verdict: object) -> int:
    assert isinstance(verdict, Refusal)
    return verdict.status


def test_two_encodings_can_be_private_each_and_not_together() -> None:
    """The case of the next test: both have as many bits, and a device has nothing to say against either."""
    for encoding in (MANY_LEVELS, LITTLE_NOISE):
        promised("shuffle", 5.0, 1e-6).check(release_of(encoding))
    assert MANY_LEVELS.bits == LITTLE_NOISE.bits
    variances = [one.trials * one.chance * (1 - one.chance) for one in (MANY_LEVELS, LITTLE_NOISE)]
    assert 20 * math.sqrt(variances[0] + (PEOPLE - 1) * variances[1]) < MANY_LEVELS.levels


@pytest.mark.parametrize(("victim", "others"), [(MANY_LEVELS, LITTLE_NOISE), (LITTLE_NOISE, MANY_LEVELS)])
def test_one_person_among_others_with_another_encoding_is_not_counted(
    victim: Encoding, others: Encoding, tmp_path: Path
) -> None:
    mine, *theirs = (new_key() for _ in range(4))
    with own_shuffler(str(tmp_path / "s.db")) as shuffler:
        shuffler.announce(NAME, release_of(others).batch, [hash_key(token) for token in (mine, *theirs)], [])
        assert shuffler.store([report_of(release_of(others), token) for token in theirs]) == [True] * 3
        assert status_of(shuffler.store([report_of(release_of(victim), mine)])[0]) == 422
        assert stored(shuffler) == (3, 3)
        with pytest.raises(Refusal, match="other constants"):  # the coordinator does not get it by saying so afterwards
            shuffler.announce(NAME, release_of(victim).batch, [], [])


def test_the_ball_of_a_release_may_differ() -> None:
    """A ball of any size moves the total by at most the levels, so that the shuffler need not know it."""
    one = release_of(MANY_LEVELS)
    other = replace(one, ball=ball_of(7.0, 1e-6))
    assert one.batch == other.batch
    for release in (one, other):
        silent = replace(release, encoding=replace(MANY_LEVELS, trials=1, chance=1e-300))
        ends = silent.randomize(np.array([[-1e9], [1e9]]), Simulated(np.random.default_rng(0)))
        assert ends.ravel().tolist() == [0, MANY_LEVELS.levels]


def test_a_batch_whose_encoding_is_not_known_takes_nothing(tmp_path: Path) -> None:
    """The first version stored none; its batches are in databases that were upgraded since."""
    token, batch = new_key(), Batch(3, 1, 4, 6, 0.1)
    with own_shuffler(str(tmp_path / "s.db")) as shuffler:
        shuffler.announce(NAME, batch, [hash_key(token)], [])
        with shuffler.database.write() as connection:
            connection.execute(sa.update(batches).values(levels=None, chance=None))
        with pytest.raises(Refusal, match="other constants"):
            shuffler.announce(NAME, batch, [], [])
        assert status_of(shuffler.store([EncodedReport(NAME, token, np.array([5.0]).tobytes(), batch)])[0]) == 422
        assert stored(shuffler) == (0, 0)


@pytest.mark.parametrize("chance", [0.1, 8.6e-5, 1 / 3, 5e-324, math.nextafter(1.0, 0.0)])
def test_a_database_keeps_the_chance_exactly(address: str, chance: float) -> None:
    token, batch = new_key(), Batch(2, 1, 4, 6, chance)
    with own_shuffler(address) as shuffler:
        shuffler.announce(NAME, batch, [hash_key(token)], [])
        with shuffler.database.read() as connection:
            row = connection.execute(sa.select(batches)).mappings().one()
        assert {**row, "trials": row["bits"] - row["levels"]}.items() >= asdict(batch).items()
        assert shuffler.store([EncodedReport(NAME, token, np.array([5.0]).tobytes(), batch)]) == [True]
