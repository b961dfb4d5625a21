"""The list of planted faults is usable: each can be planted, and each test that should catch one exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.helpers_cli import ROOT
from tests.mutants import FAULTS
from tests.mutants.fault import SOURCE, Fault

IDS = [fault.name for fault in FAULTS]


@cache
def names_in(path: Path) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_a_fault_can_be_planted_in_one_place(fault: Fault) -> None:
    assert fault.problem(ROOT) is None
    text = (ROOT / SOURCE / fault.file).read_text(encoding="utf-8")
    planted = fault.planted(text)
    assert planted != text
    ast.parse(planted)


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_the_tests_that_should_catch_a_fault_exist(fault: Fault) -> None:
    assert fault.tests
    for test in fault.tests:
        file, _, name = test.partition("::")
        found = names_in(ROOT / "tests" / file)
        assert found if not name else re.sub(r"\[.*", "", name) in found


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
