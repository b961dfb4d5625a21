import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from hypothesis import settings
from psycopg import sql

from tests.service.postgres import server, with_name
from voxpop.service import logs

# Machines may be shared and slow, and failures must be repeatable: no deadlines, no random seeds.
settings.register_profile("voxpop", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("voxpop")

KINDS = ("sqlite", "postgresql")
POSTGRES = os.environ.get("VOXPOP_TEST_POSTGRES")  # the address of a server to use instead of starting one
MEMORY, ENOUGH = Path("/dev/shm"), 2**32  # bytes that a server's files have room in

collect_ignore = ["botorch", "flower"]  # `make botorch` and `make flower` run these, in environments of their own

# What builds or starts the world: a wheel, the site, a container, npm, a browser, clusters, services that are killed.
# `make test` leaves these out and `make test-slow` runs them; CI runs both.
SLOW = (
    "tests/benchmarks/",
    "tests/browser/",
    "tests/clients_js/",
    "tests/dask/",
    "tests/reproduction/",
    "tests/service/test_cli_service.py::test_the_demo",
    "tests/service/test_demo.py",
    "tests/service/test_draw.py::test_processes_that_start",
    "tests/service/test_generated_client.py",
    "tests/service/test_kill.py",
    "tests/service/test_memory.py",
    "tests/service/test_openapi.py::test_the_coordinator_answers_as_documented",
    "tests/service/test_replies.py",
    "tests/service/test_tutorial.py",
    "tests/service/test_workers.py",
    "tests/soak/",
    "tests/test_deploy.py",
    "tests/test_extending.py",
    "tests/test_package.py",
    "tests/test_pages.py::test_a_page_runs_and_prints_what_it_shows[docs/gallery",
    "tests/test_site.py",
)
# Tests that run on both databases do so in `make test` where these differ: locks, races, transactions, migrations.
DIFFERENT = tuple(
    f"tests/{name}"
    for name in ("stores/", "service/test_asking", "service/test_life", "service/test_race", "service/test_tallies")
)
# What takes longest begins first, so that the workers end together.
LONGEST = (
    "tests/soak/",
    "tests/test_package.py",
    "tests/browser/",
    "tests/test_pages.py",
    "tests/service/test_openapi.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        repeated = "[postgresql" in item.nodeid and not item.nodeid.startswith(DIFFERENT)
        if repeated or item.nodeid.startswith(SLOW):
            item.add_marker("slow")
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings only where there are some; it takes a third of the time to find all tests."""
    found = yield
    shown = file_path.suffix == ".py" and ">>> " in file_path.read_text(encoding="utf-8")
    return [one for one in found if shown or type(one) is pytest.Module]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a database on a server that other databases can be made on."""
    if POSTGRES:
        yield POSTGRES
        return
    # Deleting its files takes minutes on some disks.
    memory = MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH else None
    with tempfile.TemporaryDirectory(prefix="voxpop-pg-", dir=memory) as folder, server(Path(folder)) as address:
        yield address


@pytest.fixture
def new_postgres(postgres: str) -> Iterator[Callable[[], str]]:
    """Return a function that makes an empty database and returns its address."""
    made: list[str] = []
    with closing(psycopg.connect(postgres, autocommit=True)) as connection:

        def make() -> str:
            made.append(f"voxpop_test_{uuid4().hex}")
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(made[-1])))
            return with_name(postgres, made[-1])

        yield make
        for name in made if POSTGRES else []:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


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
