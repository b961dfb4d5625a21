"""Opening a study, to conduct it or only to look at it: a study file, a saved study, or a study of the service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from voxpop import __version__
from voxpop.cli.operators import LOCAL, need_service, request
from voxpop.errors import InputError
from voxpop.journal.file import MARK
from voxpop.journal.journal import Course
from voxpop.journal.question import Question
from voxpop.service.study.definition import NAME
from voxpop.study.study import Study

SAVED = ".json"  # the ending of a saved study

Which = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A study file (TOML), a study saved by a Python program (JSON), or the name of a study of the service.",
    ),
]


@dataclass(frozen=True, eq=False)
class Seen:
    """A study as it is now."""

    course: Course
    files: tuple[Path, ...] = ()  # in which it is kept
    file: Path | None = None  # the study file, with which it is conducted
    question: Question | None = None  # the one that is open
    progress: Mapping[str, Any] | None = None  # how far the open wave is, in the words of a coordinator


def conduct(file: Path, newest: bool = False, begin: bool = False) -> Study:
    """Open the study of a study file; with `begin`, its own file is made if it does not exist yet."""
    return _open(file, newest, begin)


def look(which: str, url: str = LOCAL, key_file: Path | None = None) -> Seen:
    """Read a study without changing anything."""
    path = Path(which)
    if not path.is_file() and NAME.fullmatch(which):
        return _look_at_service(which, url, key_file)
    if key_file is not None:
        raise InputError(f"{which} is a file, and --key-file is for a study of the service; give the study's name")
    if path.suffix == SAVED:
        study = Study.load(path)
        _note_upgrade(study)
        return Seen(study.course, _files(path), question=_question(study))
    study = _open(path, looking=True)
    return Seen(study.course, (path, *_files(path.with_suffix(SAVED))), path, _question(study))


def _open(file: Path, newest: bool = False, begin: bool = False, looking: bool = False) -> Study:
    """Open the study of a study file; `looking` at it changes nothing."""
    study = Study.from_file(file, newest, begin=begin, looking=looking)
    if study.horizon_change is not None:
        before, now = study.horizon_change
        whose, then = (f"{file} now has", "; the next ask takes that") if looking else ("the study now has", "")
        typer.echo(f"note: {whose} {now:,} rounds instead of {before:,}{then}", err=True)
    _note_upgrade(study)
    return study


def _look_at_service(name: str, url: str, key_file: Path | None) -> Seen:
    """Fetch a study's log, which holds plans and releases and no single answer, and see what follows from it."""
    if key_file is None and not os.environ.get("VOXPOP_KEY"):
        file = f"name {name}.toml" if Path(f"{name}.toml").is_file() else "check the path"
        raise InputError(
            f"there is no file {name!r}, and a study of the service needs an operator key; {file}, or give --key-file"
        )
    need_service()
    from voxpop.service.study.log import Record, fold

    progress = request(url, key_file, "GET", f"/v2/studies/{name}")
    log = request(url, key_file, "GET", f"/v2/studies/{name}/log")
    try:
        course = fold([Record(**record) for record in log["events"]], name)
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError):
        raise InputError(
            f"voxpop {__version__} cannot read the log of {name!r}; use the version that the coordinator at {url} has"
        ) from None
    question = None if course.pending is None else Question.of(course.problem, course.pending)
    return Seen(course, question=question, progress=progress)


def _question(study: Study) -> Question | None:
    """Return the question that is open, without asking the next one."""
    pending = study.course.pending
    return None if pending is None else Question.of(study.problem, pending, study.strata, study.direction)


def _note_upgrade(study: Study) -> None:
    if study.upgrade:
        typer.echo(f"note: {study.upgrade}", err=True)


def _files(memory: Path) -> tuple[Path, ...]:
    return memory, memory.with_suffix(MARK)
