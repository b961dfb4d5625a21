"""How a finished run is recognised: by every choice of its trial, its data, and the source code it depends on."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reproduction import journal
from reproduction.journal import key_of
from tests.helpers_cli import ENVIRONMENT, ROOT
from tests.imports import dependencies, modules_of
from voxpop.simulation.trials import Trial


def test_every_choice_of_a_trial_is_part_of_its_key() -> None:
    changes: dict[str, Any] = dict(
        zip(
            ("study", "policy", "seed", "horizon", "size", "settings", "noise_std", "bias_std", "true_norm"),
            ("camel", "bpe", 1, 10, 10, {"alpha": 0.5}, 0.2, 0.3, True),
            strict=True,
        )
    )
    changes |= {"privacy": "local", "epsilon": 1.0, "delta": 1e-5, "calibration": "paper", "floor": 3, "data": "/there"}
    changes |= {
        "honest": 0.5,
        "shocks": 0.1,
        "shocks_persist": 0.5,
        "weekly": True,
        "carry_over": 0.5,
        "drift_rate": 1e-4,
    }
    assert changes.keys() == Trial.__dataclass_fields__.keys()
    trials = [Trial("sphere"), *(replace(Trial("sphere"), **{name: value}) for name, value in changes.items())]
    trials += [Trial("sphere", settings=chosen) for chosen in ({"alpha": 0.6}, {"ratio": 0.5}, {"delta": 0.1})]
    assert len({key_of(trial) for trial in trials}) == len(trials)


def test_a_key_is_the_same_in_another_process() -> None:
    code = (
        "from reproduction.journal import key_of\nfrom voxpop.simulation.trials import Trial\n"
        "import sys\nsys.stdout.write(key_of(Trial('sphere', 'bpe', 4, horizon=100, settings={'alpha': 0.3})))"
    )
    environment = {**ENVIRONMENT, "PYTHONHASHSEED": "12345"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == key_of(Trial("sphere", "bpe", 4, horizon=100, settings={"alpha": 0.3}))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the source code, to take the fingerprint of."""
    copy = tmp_path / "voxpop"
    shutil.copytree(ROOT / "src/voxpop", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(journal, "files", lambda _: copy)
    return copy


def fingerprint() -> str:
    return journal.fingerprint.__wrapped__()


def change(path: Path) -> None:
    path.write_text(path.read_text() + "\n# changed\n")


@pytest.mark.parametrize(
    "name",
    [
        "model/kernels.py",
        "runtime/compiled.py",
        "gp/compiled.py",
        "model/problem.py",
        "runtime/random_streams.py",
        "gp/selection.py",
        "gp/widths.py",
        "policies/__init__.py",
        "policies/dpbe.py",
        "privacy/ball.py",
        "calibration/fit.py",
        "simulation/simulator.py",
        "simulation/people.py",
        "simulation/paper.py",
        "simulation/data/light.csv",
        "simulation/scenarios.py",
        "report/stakes.py",
        "simulation/trials.py",
        "simulation/comparison.py",
    ],
)
def test_code_that_makes_a_summary_is_part_of_the_fingerprint(package: Path, name: str) -> None:
    """That includes `grid` and `summarise`: a curve on another grid cannot be put beside an old one."""
    before = fingerprint()
    change(package / name)
    assert fingerprint() != before


@pytest.mark.parametrize(
    "name",
    [
        "__init__.py",
        "io/schema.py",
        "io/studyfile.py",
        "study/study.py",
        "cli/simulate.py",
        "report/page.py",
        "report/notebook.py",
        "client/device.py",
        "service/stores/schema.py",
        "service/serve.py",
    ],
)
def test_code_that_no_run_needs_is_not_part_of_the_fingerprint(package: Path, name: str) -> None:
    """Nobody wants to repeat an hour of runs because a colour has changed."""
    before = fingerprint()
    change(package / name)
    assert fingerprint() == before


def test_moving_code_from_one_module_to_another_is_a_change(package: Path) -> None:
    before = fingerprint()
    names = ["report/stakes.py", "simulation/people.py"]
    sources = [(package / name).read_text() for name in names]
    for name, source in zip(names, reversed(sources), strict=True):
        (package / name).write_text(source)
    assert fingerprint() != before


def test_what_is_not_source_code_is_not_part_of_it(package: Path) -> None:
    before = fingerprint()
    (package / "model/__pycache__").mkdir()
    (package / "model/__pycache__/problem.cpython.pyc").write_bytes(b"compiled")
    (package / "model/notes.txt").write_text("notes")
    assert fingerprint() == before


# What shows or stores a run.
AFTERWARDS = ("voxpop.report.notebook", "voxpop.io.files", "voxpop.io.frames", "voxpop.io.schema")


def test_all_that_a_run_needs_is_part_of_it() -> None:
    """Unless it is imported by a name that is made up at run time, which import statements do not show."""
    modules = modules_of("voxpop", ROOT / "src/voxpop")
    needed = dependencies("voxpop.simulation.comparison", modules, AFTERWARDS) - set(AFTERWARDS)
    covered = tuple(f"voxpop.{part.removesuffix('.py').replace('/', '.')}" for part in journal.COMPUTING)
    assert [name for name in sorted(needed) if not f"{name}.".startswith(tuple(f"{each}." for each in covered))] == []
    for name in needed:
        assert b"import_module" not in modules[name].source
        assert b"__import__" not in modules[name].source


def test_the_fingerprint_does_not_depend_on_where_the_code_is(package: Path) -> None:
    copied = fingerprint()
    moved = package.rename(package.with_name("elsewhere"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "files", lambda _: moved)
        assert fingerprint() == copied
