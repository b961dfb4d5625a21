import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import settings

from tests.service.postgres import server
from voxpop.service import logs

# The machine may be shared and slow, and a failure must be the same one tomorrow: no deadlines, no random seeds.
settings.register_profile("voxpop", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("voxpop")

KINDS = ("sqlite", "postgresql")
NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="voxpop-pg-") as folder, server(Path(folder)) as address:
        yield address


@pytest.fixture
def new_postgres(postgres: str) -> Callable[[], str]:
    """Makes an empty database and gives its address."""

    def make() -> str:
        name = f"test{next(NUMBERS)}"
        address = postgres.format(name="postgres").replace("postgresql://", "postgresql+psycopg://")
        engine = sa.create_engine(address, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        return postgres.format(name=name)

    return make


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "coordinator.db")
    make: Callable[[], str] = request.getfixturevalue("new_postgres")
    return make()


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logs.set_up("error")
