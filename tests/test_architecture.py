"""The architecture page against the tree, and what no other room may know."""

import ast
import re
from pathlib import Path

from tests.helpers_cli import ROOT

SOURCE = ROOT / "src/voxpop"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def described() -> dict[str, set[str]]:
    """The modules of each package, as the page lists them."""
    block = re.search(r"## The rooms.*?```text\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    found: dict[str, set[str]] = {}
    package = ""
    for line in block[1].splitlines():
        if line.startswith("--"):
            continue
        if not line.startswith(" "):
            package, sentence = line.split(maxsplit=1)
            assert sentence.endswith("."), f"{package} is described by one sentence"
            found[package] = set()
        else:
            found[package] |= set(line.split())
    return found


def modules(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "__main__")}


def test_the_page_lists_every_package_and_every_module() -> None:
    folders = [path.parent for path in SOURCE.rglob("__init__.py")]
    tree = {f"{folder.relative_to(SOURCE)}/": modules(folder) for folder in folders if folder != SOURCE}
    assert described() == {"errors.py": set(), **tree}
    assert modules(SOURCE) == {"errors"}


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+/[\w/]+\.py)`", PAGE))
    assert len(named) >= 20
    places = (ROOT, SOURCE, SOURCE / "service")
    assert {name for name in named if not any((place / name).is_file() for place in places)} == set()


MODELS = {"Central", "Local", "Shuffled", "Clipped", "Additive", "PlainRelease"}


def imported_from_privacy(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("voxpop.privacy")
        for alias in node.names
    }


def test_nobody_outside_privacy_asks_which_model_a_release_is() -> None:
    paths = [path for path in SOURCE.rglob("*.py") if not path.is_relative_to(SOURCE / "privacy")]
    assert {str(path.relative_to(SOURCE)) for path in paths if imported_from_privacy(path) & MODELS} == set()


def test_imports_are_found_where_they_are() -> None:
    """Guards the test above."""
    assert imported_from_privacy(SOURCE / "privacy/models.py") >= {"Central", "Local", "Shuffled"}
