"""The list of planted faults is usable: each can be planted, and each test that should catch one exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.clients_js.npm import tool
from tests.helpers_cli import ROOT
from tests.mutants import FAULTS
from tests.mutants.fault import SOURCE, Fault

IDS = [fault.name for fault in FAULTS]


@cache
def names_in(path: Path) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_fault_can_be_planted_in_one_place() -> None:
    assert {fault.name: problem for fault in FAULTS if (problem := fault.problem(ROOT)) is not None} == {}
    for fault in FAULTS:
        text = fault.place(ROOT).read_text(encoding="utf-8")
        planted = fault.planted(text)
        assert planted != text, fault.name
        if not fault.file.endswith(".ts"):
            ast.parse(planted)


@pytest.mark.slow
def test_faults_in_typescript_are_programs(tmp_path: Path) -> None:
    """One that is none would be caught by whatever test comes first."""
    for number, fault in enumerate(fault for fault in FAULTS if fault.file.endswith(".ts")):
        text = fault.place(ROOT).read_text(encoding="utf-8")
        (tmp_path / f"{number}.ts").write_text(fault.planted(text), encoding="utf-8")
    done = tool("esbuild", *sorted(tmp_path.glob("*.ts")), f"--outdir={tmp_path}")
    assert done.returncode == 0, done.stderr


def test_the_tests_that_should_catch_a_fault_exist() -> None:
    missing = []
    for fault in FAULTS:
        assert fault.tests, fault.name
        for test in fault.tests:
            file, _, name = test.partition("::")
            path = ROOT / "tests" / file
            found = names_in(path) if path.is_file() else set()
            if not found or (name and re.sub(r"\[.*", "", name) not in found):
                missing.append(f"{fault.name}: {test}")
    assert missing == []


def test_every_fault_has_a_name_and_a_sentence_of_its_own() -> None:
    assert len(set(IDS)) == len(FAULTS)
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert fault.says.endswith(".")


def test_a_fault_that_cannot_be_planted_is_named(tmp_path: Path) -> None:
    fault = Fault("x", "X.", "a.py", "one", "two", ("test_mutants.py",))
    assert fault.problem(tmp_path) == "there is no file a.py"
    (tmp_path / SOURCE).mkdir(parents=True)
    for text, times in (("two", 0), ("one one", 2)):
        (tmp_path / SOURCE / "a.py").write_text(text)
        assert fault.problem(tmp_path) == f"'one' occurs {times} times in a.py"
    (tmp_path / SOURCE / "a.py").write_text("one")
    assert fault.problem(tmp_path) is None
