"""The guide to extending voxpop: its blocks run, and as an installed package what they make has names everywhere."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.helpers_cli import ENVIRONMENT, ROOT, STUDY, python, study_file
from tests.helpers_waiting import HANGING

GUIDE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.*)$", GUIDE, re.MULTILINE)
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
(TABLES,) = re.findall(r"^```toml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
GROUPS = tomllib.loads(TABLES)["project"]["entry-points"]
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef)


def test_there_is_a_skeleton_of_each() -> None:
    assert SECTIONS == ["A kernel", "A policy", "A population", "A trust model", "As a package"]
    assert len(BLOCKS) == len(GROUPS) == 4


def test_the_blocks_run_one_after_the_other(tmp_path: Path) -> None:
    done = python("\n".join(BLOCKS), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def installed(folder: Path, groups: dict[str, dict[str, str]], source: str) -> Path:
    """Install a package with one module, as pip would: the module, and its metadata beside it."""
    metadata = folder / "voxpop_ours-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: voxpop-ours\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in of.items()) for group, of in groups.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    (folder / "ours.py").write_text(source)
    return folder


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's classes and functions, without what it does with them."""
    nodes = [node for block in BLOCKS for node in ast.parse(block).body if isinstance(node, DEFINITIONS)]
    return installed(tmp_path_factory.mktemp("site"), GROUPS, "\n\n".join(map(ast.unparse, nodes)))


def run(package: Path, cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python where the package is installed."""
    path = os.pathsep.join([str(package), str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        timeout=HANGING,
        env={**ENVIRONMENT, "PYTHONPATH": path},
    )


SAVED = """
import json, sys
import numpy as np
from voxpop import Problem, SquaredExponential, Study, make_policy
from voxpop.client import Promise
from voxpop.io.schema import decode_kernel, decode_release, encode, for_devices
from voxpop.privacy import Private
from voxpop.service.study.definition import Definition
make_policy("waves"), Private("central", 5.0), decode_kernel({"type": "squared-exponential", "length_scale": 0.2})
assert "ours" not in sys.modules  # nothing of a package is imported for what is built in
from ours import Periodic
hours = np.linspace(0, 2, 25)
problem = Problem(hours, 2.0 * Periodic() * SquaredExponential(0.5), 0.1, 0.2, norm_bound=2.0, horizon=500)
study = Study(problem, "one-round", path="ours.json", privacy=Private("two-agents", 5.0))
question = study.ask()
study.tell(question.wave, np.zeros((question.people, 25)))
again = Study.load("ours.json")
assert again.policy == study.policy and again.privacy == study.privacy
assert again.problem.kernel == problem.kernel
assert [entry.model for entry in again.ledger.entries] == ["two-agents"]
definition = Definition(problem, again.policy, again.privacy)
assert Definition.decode(json.loads(json.dumps(definition.encode()))).encode() == definition.encode()
told = json.loads(json.dumps(for_devices(encode(again.course.closed[0].release))))
Promise("two-agents", 5.0).check(decode_release(told))
"""


def test_what_a_package_names_is_saved_loaded_and_served(package: Path, tmp_path: Path) -> None:
    done = run(package, tmp_path, "-c", SAVED)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_line_and_study_files_know_what_a_package_names(package: Path, tmp_path: Path) -> None:
    command = "simulate coffee --policy one-round --privacy two-agents --epsilon 9 --size 8 --horizon 400 --json"
    done = run(package, tmp_path, "-m", "voxpop", *command.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert '"policy": "one-round"' in done.stdout
    assert '"privacy": "two-agents"' in done.stdout
    text = re.sub(r'name = "dpbe"\nalpha = 0.6', 'name = "one-round"\nrounds = 2', STUDY)
    study_file(tmp_path / "tea.toml", text)
    done = run(package, tmp_path, "-m", "voxpop", "ask", "tea.toml", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    study_file(tmp_path / "coffee.toml", text.replace("rounds = 2", "rounds = 0"))
    done = run(package, tmp_path, "-m", "voxpop", "ask", "coffee.toml")
    assert (done.returncode, done.stderr) == (
        2,
        "error: coffee.toml: rounds must be a whole number, at least 1, got 0\n",
    )


BROKEN = {
    "gone": ("ours:Gone", "cannot be loaded from ours:Gone (AttributeError: module 'ours' has no attribute 'Gone')"),
    "missing": ("nowhere:Gone", "cannot be loaded from nowhere:Gone (ModuleNotFoundError: No module named 'nowhere')"),
    "other": ("ours:Other", "has no settings, init, plan, advance, best; correct ours:Other there"),
    "number": ("ours:number", "has no settings, init, plan, advance, best; correct ours:number there"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_entry_point_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    value, said = BROKEN[name]
    source = "class Other:\n    pass\n\n\nnumber = 3\n"
    folder = installed(tmp_path / "site", {"voxpop.policies": {name: value}}, source)
    done = run(folder, tmp_path, "-m", "voxpop", "simulate", "sphere", "--policy", name)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: the policy {name!r} of voxpop-ours {said}")
    assert done.stderr.count("\n") == 1
    unknown = run(folder, tmp_path, "-m", "voxpop", "simulate", "sphere", "--policy", f"{name}x")
    assert f"did you mean {name!r}?" in unknown.stderr
