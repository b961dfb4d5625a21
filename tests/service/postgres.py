"""A real PostgreSQL for the tests: installed when missing, started in a folder of its own, gone afterwards."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import chown
from typing import Any

ROOT = Path("/usr/lib/postgresql")
INSTALL = ["apt-get", "install", "-y", "--no-install-recommends", "postgresql"]


def binaries() -> Path:
    """The folder of initdb and pg_ctl; installs Debian's package if there is none."""
    if not ROOT.exists():
        done = subprocess.run(INSTALL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError("the tests need PostgreSQL; install it with: apt-get install postgresql")
    return max(ROOT.iterdir(), key=lambda path: int(path.name)) / "bin"


@contextmanager
def server(folder: Path, durable: bool = False) -> Iterator[str]:
    """A server on a socket in the folder; the address of a database on it, with {name} for the database's."""
    tools, data = binaries(), folder / "data"
    user: list[str | Path] = (
        ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    )  # it refuses to run as root
    folder.chmod(0o755)
    data.mkdir()
    if user:
        chown(data, "postgres", "postgres")
        chown(folder, "postgres", "postgres")
    run: dict[str, Any] = {"check": True, "capture_output": True, "cwd": "/"}
    subprocess.run([*user, tools / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"], **run)
    options = f"-k {folder} -c listen_addresses='' -c fsync={'on' if durable else 'off'} -c max_connections=200"
    start = [*user, tools / "pg_ctl", "-D", data, "-o", options, "-l", data / "log", "-w", "start"]
    subprocess.run(start, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    try:
        yield f"postgresql://postgres@/{{name}}?host={folder}"
    finally:
        subprocess.run([*user, tools / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], **run)
