"""The documentation says what is true: cited labels exist, the example runs, the commands are there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers_cli import ENVIRONMENT, ROOT, SHARED

LABEL = re.compile(r"\b(?:eq|alg|lem|thm|sec|rk|ass|cor|fig|tab|def|app|prop):[A-Za-z][\w-]*(?:\.\d+)?")
SOURCES = sorted(
    path
    for folder, endings in (("src", ("*.py", "*.j2")), ("docs", ("*.md",)), ("benchmarks", ("*.py",)))
    for ending in endings
    for path in (ROOT / folder).rglob(ending)
)


def labels_of_the_paper() -> set[str]:
    return set(re.findall(r"\\label\{([^}]*)\}", (SHARED / "paper.tex").read_text(encoding="utf-8")))


def citations(path: Path) -> set[str]:
    return set(LABEL.findall(path.read_text(encoding="utf-8")))


def test_every_cited_label_exists_in_the_paper() -> None:
    known = labels_of_the_paper()
    unknown = {
        f"{path.relative_to(ROOT)}: {label}"
        for path in [*SOURCES, ROOT / "README.md"]
        for label in citations(path)
        if label not in known
    }
    assert unknown == set()


def test_labels_are_found_where_they_are_cited() -> None:
    """Guards the test above: a pattern that finds nothing would let everything pass."""
    assert citations(ROOT / "src/voxpop/widths/printed.py") >= {"eq:confidence_width"}
    assert len(set().union(*map(citations, SOURCES))) >= 10


@pytest.fixture(scope="module")
def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_s_example_runs(readme: str, tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert example is not None, "README.md has no python example"
    done = subprocess.run(
        [sys.executable, "-c", example[1]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["make run", "make test", "voxpop run", "voxpop calibrate", "voxpop simulate"])
def test_the_readme_names_the_commands(readme: str, command: str) -> None:
    assert command in readme


def test_the_make_targets_of_the_readme_exist(readme: str) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", readme)) <= targets
