"""What a release ships: the whole package, and a command that runs where only its dependencies are installed."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

import voxpop
from tests.helpers_cli import ENVIRONMENT, ROOT

CONSTRAINTS = ROOT / "constraints.txt"
# Nothing of the checkout or of the environment that runs the tests may leak into the one that is tested.
CLEAN = {name: value for name, value in ENVIRONMENT.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def run(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=CLEAN, timeout=600, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist as `make dist` does."""
    folder = tmp_path_factory.mktemp("dist")
    done = run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(folder.glob("*.tar.gz"))) == 1
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_its_licence_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    source = ROOT / "src"
    package = {
        path.relative_to(source).as_posix()
        for path in (source / "voxpop").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    about = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert shipped == package | {f"voxpop-{voxpop.__version__}.dist-info/{name}" for name in about}
    assert "voxpop/py.typed" in shipped
    assert {".csv", ".j2", ".py"} <= {PurePosixPath(name).suffix for name in package}


def install(what: str, environment: Path) -> set[str]:
    """Install into an environment that has no pip of its own; return the names of all that is installed there."""
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python"]
    options = ["--quiet", "--no-compile", "--retries=1", f"--constraint={CONSTRAINTS}"]
    done = run([*pip, "install", *options, what], environment)
    if done.returncode:
        pytest.fail(
            f"pip could not install {what}. This test installs voxpop's dependencies from the package index; "
            f"is it within reach? pip says:\n{done.stderr[-2000:]}",
            pytrace=False,
        )
    (folder,) = environment.glob("lib/python*/site-packages")
    return {found.name.lower() for found in distributions(path=[str(folder)])}


def test_the_wheel_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment, elsewhere = tmp_path / "environment", tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = environment / "bin" / "voxpop"
    assert run([sys.executable, "-m", "venv", "--without-pip", environment], tmp_path).returncode == 0

    core = install(str(wheel), environment)
    assert not core & {"jinja2", "matplotlib", "starlette", "opendp", "pytest"}
    plain = run([command, "run", "--no-report"], elsewhere)
    assert plain.returncode == 0, plain.stderr
    assert "Do this" in plain.stdout
    assert list(elsewhere.iterdir()) == []

    assert install(f"voxpop[report] @ {wheel.as_uri()}", environment) >= core | {"jinja2", "matplotlib"}
    reported = run([command, "run"], elsewhere)
    assert reported.returncode == 0, reported.stderr
    assert reported.stdout.startswith(plain.stdout)
    report = elsewhere / "voxpop-report"
    assert {path.name for path in report.iterdir()} == {"pricing.html", "pricing.png"}
    assert "Do this" in (report / "pricing.html").read_text(encoding="utf-8")
    assert (report / "pricing.png").read_bytes().startswith(b"\x89PNG")


def test_the_packages_beside_voxpop_are_of_its_version_and_need_it() -> None:
    for path in sorted(ROOT.glob("integrations/*/pyproject.toml")):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        assert project["version"] == voxpop.__version__
        assert any(
            need.startswith("voxpop[") and need.endswith(f"=={voxpop.__version__}") for need in project["dependencies"]
        )


def read_yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version() -> None:
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == voxpop.__version__
    assert citation["license"] == "Apache-2.0"
    (paper,) = citation["references"]
    assert paper["title"] == "(Private) Kernelized Bandits with Distributed Biased Feedback"
    assert paper["title"] in (ROOT / "README.md").read_text(encoding="utf-8")


def test_commits_are_checked_by_the_ruff_that_make_uses() -> None:
    (hook,) = (hook for hook in read_yaml(".pre-commit-config.yaml")["repos"] if "ruff" in hook["repo"])
    pinned = re.search(r"^ruff==(.*)$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned is not None
    assert hook["rev"] == f"v{pinned[1]}", "let .pre-commit-config.yaml and constraints.txt name the same ruff"
