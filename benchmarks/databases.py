"""Empty databases for benchmarks of the service: an SQLite file, and a PostgreSQL server whose commits last."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.service.chaos import free_port
from tests.service.postgres import server

__all__ = ["chosen_databases", "free_port"]


def chosen_databases() -> Iterator[tuple[str, str, Path]]:
    """Yield the kind, the address and a folder of each database that the command line names; both unless it does."""
    for kind in sys.argv[1:] or ["sqlite", "postgresql"]:
        with tempfile.TemporaryDirectory(prefix="voxpop-bench-") as name:
            folder = Path(name)
            if kind == "sqlite":
                yield kind, str(folder / "bench.db"), folder
            else:
                (folder / "pg").mkdir()
                folder.chmod(0o755)  # PostgreSQL runs as another user
                with server(folder / "pg", durable=True) as address:
                    yield kind, address, folder
