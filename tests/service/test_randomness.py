"""The service's randomness: keys, nonces and the draw of people are the operating system's, and noise is OpenDP's."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from tests.helpers_privacy import Silent
from tests.helpers_randomness import assert_from_the_operating_system, opendp
from tests.service.world import SECRET, STUDY, definition, private, world
from voxpop.privacy import Secure
from voxpop.service import serve
from voxpop.service.keys import check_of, digest_of, make_secret, new_key, token_of
from voxpop.service.serve import Settings
from voxpop.service.stores.schema import invitations as table
from voxpop.service.study.invitations import Invitations, made


def test_a_key_has_256_bits_of_the_operating_system() -> None:
    assert_from_the_operating_system(new_key, bits=256)


def test_the_secret_of_a_database_has_256_bits_of_the_operating_system(tmp_path: Path) -> None:
    files = (tmp_path / f"{number}.secret" for number in itertools.count())

    def made_secret() -> str:
        make_secret(path := next(files))
        return path.read_text().strip()

    assert_from_the_operating_system(made_secret, bits=256)


def test_people_and_their_nonces_follow_from_the_operating_system_s_bits(tmp_path: Path) -> None:
    """A hundred people have more than 2^96 halves, and a nonce has 128 bits."""
    with (
        world(str(tmp_path / "c.db"), definition(), people=100) as it,
        it.coordinator.database.engine.connect() as link,
    ):

        def draw() -> list[Any]:
            with link.begin() as change:
                chosen = Invitations(link, STUDY, 1).draw(50, 1, 2**62)
                Invitations(link, STUDY, 1).insert(made(SECRET, STUDY, 1, [(one, 1) for one in chosen], 0.0, True))
                found = link.execute(sa.select(table.c.person, table.c.nonce, table.c.token_hash)).all()
                change.rollback()
            assert {len(row.nonce) for row in found} == {16}
            assert len({row.nonce for row in found}) == 50
            return [tuple(row) for row in found]

        assert_from_the_operating_system(draw, bits=50 * 128 + math.ceil(math.log2(math.comb(100, 50))))


def test_a_token_takes_the_secret_and_the_nonce() -> None:
    tokens = {token_of(secret, nonce) for secret in (b"s" * 32, b"t" * 32) for nonce in (b"n" * 16, b"m" * 16)}
    assert len(tokens) == 4
    assert {len(token) for token in tokens} == {43}  # 256 bits


def test_a_digest_takes_the_token_and_the_report() -> None:
    assert len({digest_of(token, body) for token in ("one", "two") for body in (b"yes", b"no")}) == 4


def test_the_mark_of_a_secret_is_not_the_secret() -> None:
    assert check_of(b"s" * 32) != check_of(b"t" * 32)
    assert b"s" * 32 not in check_of(b"s" * 32)


def test_a_coordinator_s_noise_is_opendp_s_and_nothing_else(tmp_path: Path) -> None:
    """If OpenDP gives zeros, the release is the average without noise; if it gives ones, the average with ones."""
    for number in (0, 1):
        with world(str(tmp_path / f"{number}.db"), definition(private("central")), people=30) as it:
            with opendp(itertools.repeat(number)) as scales:
                it.settle()
                it.play_all()
                it.settle()
                it.answer_all()
                it.settle()
            (closed,) = it.coordinator.snapshots.current(STUDY).closed
            release: Any = closed.release
            plain = release.analyze(release.tally(np.array(it.reports[1])), Silent()).mean
            noisy, exact = (release.ball.whiten(mean[None])[0, 0] for mean in (closed.feedback.mean, plain))
            assert scales == [release.std]
            assert noisy - exact == pytest.approx(number * release.step / 12, rel=1e-3, abs=1e-15)


def test_a_coordinator_that_is_served_draws_secure_noise(tmp_path: Path) -> None:
    app = serve.coordinator_of(Settings(database=str(tmp_path / "c.db")))
    assert type(app.coordinator.context.noise) is Secure
    app.coordinator.database.close()
