"""The documentation says what is true: cited labels exist, the example runs, the commands are there."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.helpers_cli import ROOT, python
from tests.reproduction.helpers import LABELS, PAPER
from voxpop.cli.commands import MODULES
from voxpop.policies import policy_options

LABEL = re.compile(r"\b(?:eq|alg|lem|thm|sec|rk|ass|cor|fig|tab|def|app|prop):[A-Za-z][\w-]*(?:\.\d+)?")
SOURCES = sorted(
    path
    for folder, endings in (("src", ("*.py", "*.j2")), ("docs", ("*.md",)), ("benchmarks", ("*.py",)))
    for ending in endings
    for path in (ROOT / folder).rglob(ending)
)


def citations(path: Path) -> set[str]:
    return set(LABEL.findall(path.read_text(encoding="utf-8")))


def unknown(paths: Iterable[Path]) -> set[str]:
    """Citations of labels that the paper does not have."""
    return {f"{path.name}: {label}" for path in paths for label in citations(path) if label not in LABELS}


def test_every_cited_label_exists_in_the_paper() -> None:
    assert unknown([*SOURCES, ROOT / "README.md"]) == set()


def test_a_made_up_label_is_noticed(tmp_path: Path) -> None:
    """Guards the test above: a list that holds everything, or nothing to look for, would let everything pass."""
    (tmp_path / "page.md").write_text("eq:confidence_width (eq:confidense_width), tab:wallclock and fig:made_up.")
    assert unknown([tmp_path / "page.md"]) == {"page.md: eq:confidense_width", "page.md: fig:made_up"}


def test_the_paper_has_141_labels() -> None:
    assert len(LABELS) == sum(map(len, PAPER["labels"].values())) == 141
    kinds = {label.split(":")[0] for label in LABELS if ":" in label}
    assert kinds == {"alg", "app", "ass", "cor", "eq", "fig", "lem", "rk", "sec", "tab", "thm"}


def test_labels_are_found_where_they_are_cited() -> None:
    """Guards the test above: a pattern that finds nothing would let everything pass."""
    assert citations(ROOT / "src/voxpop/policies/dpbe.py") >= {"eq:confidence_width"}
    assert len(set().union(*map(citations, SOURCES))) >= 10


@pytest.fixture(scope="module")
def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_s_example_runs(readme: str, tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert example is not None, "README.md has no python example"
    done = python(example[1], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_readme_names_the_commands(readme: str) -> None:
    for command in ("make run", "make test", "voxpop run", "voxpop calibrate"):
        assert command in readme


def test_the_make_targets_of_the_readme_exist(readme: str) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", readme)) <= targets


def option_rows() -> list[str]:
    """The guide's table of the ways to stop asking, from the table of options."""
    rows = {one.name: (f"{one.flag} {one.example}", one.name, one.help) for one in policy_options("waves") if one.panel}
    rows["delta"] = ("--confidence 0.95", "delta", "How sure to be of what is certified; delta is what is left of 1.")
    return [f"| `{flag}` | `{name}` | {text[0].lower()}{text[1:].rstrip('.')} |" for flag, name, text in rows.values()]


def test_the_guide_has_the_table_of_options() -> None:
    """After a change of an option, put the rows that are missing here into the guide."""
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `--[\w-]+ .*$", guide, re.MULTILINE) == option_rows()


def test_the_commands_of_the_guide_are_there() -> None:
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    commands = re.findall(r"^voxpop (\w+)", guide, re.MULTILINE)
    assert len(commands) >= 6
    assert set(commands) <= set(MODULES)


def test_the_tests_that_pages_name_are_there() -> None:
    files = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"\btest_\w+\.py\b", text)) <= files, page
        for path in re.findall(r"`((?:tests|clients|benchmarks)/[\w/]+\.(?:py|ts))`", text):
            assert (ROOT / path).is_file(), f"{page}: {path}"
