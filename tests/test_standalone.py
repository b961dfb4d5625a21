"""The project stands alone: no file of it reads or names a folder beside it, nor a document kept there."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.helpers_cli import ROOT

# Put together from pieces, so that this file does not name what it looks for.
FOLDER = "sha" + "red"
PAPER, NOTES = "paper" + ".tex", "SP" + "EC"
BESIDE = re.compile(
    rf"\.\.?[/\\]+{FOLDER}\b"  # ../folder
    rf"|(?<!\w)(?:/[\w.-]+)+/{FOLDER}\b"  # /some/where/folder
    rf"|\b{FOLDER}[/\\]+(?:data|paper|(?-i:[A-Z]))"  # folder/data, folder/NOTES
    rf"|/\s*[\"']{FOLDER}[\"']|\b{FOLDER}[\"')]*\s*/\s*[\"']"  # parent / "folder", folder / "name"
    rf"|\b(?:Path|join|joinpath|open|cd)\b[\s(\"'.,]*{FOLDER}\b"
    rf"|\b{re.escape(PAPER)}\b"
    rf"|(?-i:\b{NOTES}\b)(?:\.md|\s+(?:section|errata))",
    re.IGNORECASE,
)
GENERATED = re.compile(
    r"\.git|\.venv|\..*_cache|\.hypothesis|__pycache__|node_modules|.*\.egg-info|dist|build|voxpop-\w+"
)


def files_of(root: Path) -> list[Path]:
    """List the project's files: those that git tracks or would add, or without git all that are not generated."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        listed = ""
    found = [root / name for name in listed.split("\0") if name] or list(root.rglob("*"))
    return [
        path
        for path in found
        if path.is_file() and not any(GENERATED.fullmatch(part) for part in path.relative_to(root).parts)
    ]


def mentions(paths: Iterable[Path]) -> list[str]:
    """List every line that reads or names the folder or a document in it."""
    return [
        f"{path}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
        if BESIDE.search(line)
    ]


def test_no_file_reads_or_names_the_folder_beside_the_project() -> None:
    assert mentions(files_of(ROOT)) == []


@pytest.mark.parametrize("git", [True, False])
def test_all_kinds_of_files_are_looked_at(git: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Guards the test above, in a checkout and in a copy without git."""
    if not git:
        (tmp_path / "git").write_text("#!/bin/sh\nexit 128\n")
        (tmp_path / "git").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
    found = {str(path.relative_to(ROOT)) for path in files_of(ROOT)}
    wanted = ("reproduction/__main__.py", "src/voxpop/simulation/data/light.csv", "tests/test_standalone.py")
    assert found >= {
        *wanted,
        "tests/reproduction/paper.toml",
        "docs/reproduction.md",
        "README.md",
        "Makefile",
        ".ci/run",
    }
    assert not any(name.startswith((".git/", ".venv/")) for name in found)


NAMED = [
    f"../{FOLDER}/data/light",
    f'LIGHT = Path("../{FOLDER}")',
    f'{FOLDER.upper()} = ROOT.parent / "{FOLDER}"',
    f'({FOLDER.upper()} / "{NOTES}.md").read_text()',
    f'folder = os.path.join("..", "{FOLDER}")',
    f"folder = ROOT.parent.joinpath('{FOLDER}')",
    f"reads /home/somebody/{FOLDER}, if it is there",
    f"text = open('{FOLDER}/{NOTES}.md')",
    f"cd {FOLDER}",
    f"| `light --data ../{FOLDER}/data/light` | 520 |",
    f"see {NOTES}.md",
    f"# {NOTES} section 7",
    f"the labels of {PAPER}",
]


def test_the_folder_is_noticed(tmp_path: Path) -> None:
    for text in NAMED:
        (tmp_path / "page.md").write_text(f"Before.\n{text}\nAfter.\n")
        assert len(mentions([tmp_path / "page.md"])) >= 1, text


ALLOWED = [
    f"A run on two {FOLDER} cores.",
    f"the row is {FOLDER}, then the invitations",
    f"def test_runs_are_{FOLDER}_by_all_that_need_them() -> None:",
    "they share what they read",
    f"an exclusive/{FOLDER} lock, or a {FOLDER}/exclusive one",
    f"from multiprocessing import {FOLDER}_memory",
    f'mode = "{FOLDER}"',
    "the OpenAPI specification, and the SPECIFIED value",
]


def test_ordinary_words_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("\n".join(ALLOWED))
    assert mentions([tmp_path / "page.md"]) == []
