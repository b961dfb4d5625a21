"""Every block of the documentation is run, or at least parsed; the gallery prints what its pages show."""

import ast
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.helpers_cli import ROOT
from tests.pages import (
    LANGUAGES,
    NOTES,
    PICTURE,
    PROPS,
    alike,
    blocks_of,
    commands_of,
    expected_outputs,
    play,
    printed_by,
    rewrite,
)
from voxpop.cli.commands import MODULES, load

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md"])
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}
GALLERY = [name for name in TEXTS if name.startswith("docs/gallery/") and blocks_of(TEXTS[name])]
BLOCKS = [(name, block) for name, text in TEXTS.items() for block in blocks_of(text)]
ELSEWHERE_RUN = {"docs/extending.md"}  # by tests/test_extending.py, with more behind it
RUN = [
    name for name, text in TEXTS.items() if name not in ELSEWHERE_RUN and any(block.run for block in blocks_of(text))
]
ELSEWHERE = {"curl", "dask", "flower-supernode", "marimo"}  # programs of others, named where nothing is run


def test_every_block_says_what_it_is() -> None:
    for name, text in TEXTS.items():
        plain = re.sub(r"^```{.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        blocks = blocks_of(text)
        assert len(re.findall(r"^ *```.*$", plain, re.MULTILINE)) == 2 * len(blocks), name
        assert {block.language for block in blocks} <= LANGUAGES, f"write ```sh, ```python or ```text in {name}"
        assert {block.kind for block in blocks} <= set(NOTES), name
        noted = sum(block.kind != "" for block in blocks)
        assert text.count("<!-- ") == noted, f"a comment stands right before a fence in {name}"


def test_blocks_are_found() -> None:
    """Guards the tests below: a pattern that finds nothing would let everything pass."""
    counts = Counter(block.language for _, block in BLOCKS if block.run)
    assert counts["sh"] >= 15
    assert counts["python"] >= 4
    assert len(GALLERY) == 5
    assert {"docs/guide.md", "docs/index.md", *GALLERY} <= set(RUN)
    reasons = [block.said for _, block in BLOCKS if block.kind == "not run"]
    elsewhere = [re.findall(r"tests/[\w/]+\.py", reason) for reason in reasons]
    assert all((ROOT / test).is_file() for tests in elsewhere for test in tests)
    assert sum(not tests for tests in elsewhere) <= 3, "run what can be run, here or in a test that the page names"


def test_the_commands_exist() -> None:
    for name, block in (pair for pair in BLOCKS if pair[1].language == "sh"):
        commands = commands_of(block)
        assert commands, name
        shown = {other.said for page, other in BLOCKS if page == name and other.kind == "file"}
        for command in commands:
            if not (command[0] == "python" and command[1] in shown):
                check(command, (ROOT / name).parent)


def check(command: list[str], folder: Path) -> None:
    """Refuse a command that does not exist, or whose options or arguments do not."""
    program, *rest = command
    if program == "voxpop":
        parsed(load(rest[0]) if rest[0] in MODULES else pytest.fail(f"no command {rest[0]}"), rest[1:])
    elif program == "python":
        assert (folder / rest[0]).is_file(), shlex.join(command)
    elif program == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), shlex.join(command)
    elif program == "pip":
        extras = re.findall(r"[\[,](\w+)", rest[-1])
        known = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
        assert rest[0] == "install"
        assert set(extras) <= set(known), shlex.join(command)
    else:
        assert program in ELSEWHERE, shlex.join(command)


def parsed(command: Any, arguments: list[str]) -> dict[str, Any]:
    """Parse arguments as the command would; of a group of commands, those of the one that is named."""
    if hasattr(command, "commands"):
        return parsed(command.commands[arguments[0]], arguments[1:])
    found: dict[str, Any] = command.make_context(command.name, list(arguments)).params
    return found


def test_the_commands_of_the_readme_exist() -> None:
    blocks = blocks_of((ROOT / "README.md").read_text(encoding="utf-8"))
    commands = [command for block in blocks if block.language in ("", "sh") for command in commands_of(block)]
    assert len(commands) >= 10
    for command in commands:
        check(command, ROOT)


def test_a_command_that_does_not_exist_is_noticed() -> None:
    """Guards the tests above."""
    check(["voxpop", "study", "status", "tea", "--follow"], ROOT)
    for wrong in ("run --tolerence 0.1", "ask", "ask a.toml b.toml", "study status tea --folow", "run --seed one"):
        with pytest.raises(Exception, match=r"(?i)option|argument|integer|missing"):
            check(["voxpop", *wrong.split()], ROOT)
    for wrong in ("voxpop conduct", "python nothing.py", "make tea", "pip install 'voxpop[tea]'", "rm -r x"):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check(shlex.split(wrong), ROOT)


def test_what_is_not_run_has_a_reason() -> None:
    for name, block in BLOCKS:
        if block.kind == "not run":
            assert len(block.said.split()) >= 3, name
            assert all((ROOT / path).is_file() for path in re.findall(r"tests/[\w/]+\.py", block.said)), block.said
        if block.language == "python":
            ast.parse(block.text)


@pytest.mark.parametrize("name", RUN)
def test_a_page_runs_and_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    printed = play(ROOT / name, tmp_path)
    expected = expected_outputs(TEXTS[name])
    shown = [(real, said) for real, said in zip(printed, expected, strict=True) if said is not None]
    for real, said in shown:
        assert alike(real, said), f"{said}\n{name} shows this, but now it is (run `make gallery` if it should):\n{real}"
    if name in GALLERY:
        assert shown
        pictures = PICTURE.findall(TEXTS[name])
        assert pictures
        assert all(next(tmp_path.rglob(picture)).read_bytes()[:4] == b"\x89PNG" for picture in pictures)


PAGE = """
<!-- file: greet.py -->
```python
print("hello", end="")
```

```sh
python greet.py   # says hello
```

<!-- output -->
```text
good bye
```

```python
with open("made", "w") as file:
    file.write("1")
```
"""


def test_a_page_that_shows_something_else_is_noticed_and_rewritten(tmp_path: Path) -> None:
    """Guards the test above."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    folder = tmp_path / "there"
    folder.mkdir()
    (real,), (said,) = play(page, folder), expected_outputs(PAGE)
    assert (real, said) == ("hello\n", "good bye\n")
    assert not alike(real, str(said))
    assert (folder / "made").read_text() == "1"
    rewrite(page)
    assert page.read_text() == PAGE.replace("good bye", "hello")


@pytest.mark.parametrize("wrong", ["assert 1 == 2", "import warnings; warnings.warn('odd')"])
def test_a_block_that_fails_or_complains_is_noticed(wrong: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```python\n{wrong}\n```\n")
    with pytest.raises(AssertionError, match=r"AssertionError|odd"):
        play(page, tmp_path)


def test_a_command_that_fails_is_noticed() -> None:
    with pytest.raises(RuntimeError, match=r"nothing\.toml"):
        printed_by(["voxpop", "ask", "nothing.toml"])


def test_stand_ins_are_for_files_that_pages_name() -> None:
    wanted = {name for _, block in BLOCKS if block.kind == "files" for name in block.said.split(", ")}
    assert wanted == set(PROPS)
