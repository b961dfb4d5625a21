"""Opening a study, to conduct it or only to look at it: a study file, a saved study, or a study of the service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from voxpop import __version__
from voxpop.cli.operators import LOCAL, need_service, request
from voxpop.core.errors import InputError, said_of
from voxpop.drivers.course import Course
from voxpop.drivers.question import Question
from voxpop.drivers.study import Study
from voxpop.formats.record import ENDING
from voxpop.formats.studyfile import privacy_of, read_study, strata_of
from voxpop.service.study.definition import NAME

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
    progress: Mapping[str, Any] | None = None  # how far the open phase is, in the words of a coordinator


def conduct(file: Path, newest: bool = False, begin: bool = False) -> Study:
    """Open the study of a study file; with `begin`, its own file is made if it does not exist yet."""
    return _open(file, newest, begin)[0]


def look(which: str, url: str = LOCAL, key_file: Path | None = None) -> Seen:
    """Read a study without changing anything."""
    path = Path(which)
    if not path.is_file() and NAME.fullmatch(which):
        return _look_at_service(which, url, key_file)
    if key_file is not None:
        raise InputError(f"{which} is a file, and --key-file is for a study of the service; give the study's name")
    if path.suffix == SAVED:
        study = Study.load(path)
        _note_recovered(study)
        return Seen(study.course, _files(path), question=_question(study))
    study, data = _open(path, looking=True)
    course = replace(study.course, name=str(data.get("name", path.stem)), reward=str(data.get("reward", "reward")))
    return Seen(course, (path, *_files(_memory(path))), path, _question(study))


def _open(file: Path, newest: bool = False, begin: bool = False, looking: bool = False) -> tuple[Study, dict[str, Any]]:
    """Open the study of a study file, and return the file's content as well; `looking` at it changes nothing."""
    memory = _memory(file)
    problem, policy, data = read_study(file)
    privacy, strata = privacy_of(file, data), strata_of(file, data)
    if not memory.exists():
        return Study(problem, policy, path=memory if begin else None, privacy=privacy, strata=strata), data
    study = Study.load(memory, newest)
    begun = study.problem
    beta = problem.beta if "beta" in data["model"] else begun.beta  # unless given, it is that of the first horizon
    if not study.is_of(replace(problem, horizon=begun.horizon, beta=beta), policy, privacy, strata):
        raise InputError(
            f"{file} was changed after its study began, and only its horizon may be; undo the other changes, or move "
            f"{memory} away to begin a new study"
        )
    if problem.horizon != begun.horizon:
        _change_horizon(study, file, problem.horizon, looking)
    _note_recovered(study)
    return study, data


def _look_at_service(name: str, url: str, key_file: Path | None) -> Seen:
    """Fetch a study's log, which holds plans and releases and no single answer, and see what follows from it."""
    if key_file is None and not os.environ.get("VOXPOP_KEY"):
        file = f"name {name}.toml" if Path(f"{name}.toml").is_file() else "check the path"
        raise InputError(
            f"there is no file {name!r}, and a study of the service needs an operator key; {file}, or give --key-file"
        )
    need_service()
    from voxpop.service.study.events import Event, Kind
    from voxpop.service.study.snapshot import fold

    progress = request(url, key_file, "GET", f"/v1/studies/{name}")
    log = request(url, key_file, "GET", f"/v1/studies/{name}/log")
    try:
        events = [Event(event["seq"], Kind(event["kind"]), event["at"], event["body"]) for event in log["events"]]
        course = fold(events).course
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError):
        raise InputError(
            f"voxpop {__version__} cannot read the log of {name!r}; use the version that the coordinator at {url} has"
        ) from None
    question = None if course.pending is None else Question.of(course.problem, course.pending)
    return Seen(replace(course, name=name), question=question, progress=progress)


def _change_horizon(study: Study, file: Path, horizon: int, looking: bool) -> None:
    """Take over a horizon that was changed in the study file, unless one only looks."""
    before = study.problem.horizon
    if looking:
        typer.echo(f"note: {file} now has {horizon:,} rounds instead of {before:,}; the next ask takes that", err=True)
        return
    with said_of(file):
        study.change_horizon(horizon)
    typer.echo(f"note: the study now has {horizon:,} rounds instead of {before:,}", err=True)


def _question(study: Study) -> Question | None:
    """Return the question that is open, without asking the next one."""
    pending = study.course.pending
    return None if pending is None else Question.of(study.problem, pending, study.strata)


def _note_recovered(study: Study) -> None:
    if study.recovered and study.path is not None:
        phases, record = ", ".join(map(str, study.recovered)), study.path.with_suffix(ENDING)
        typer.echo(f"note: {study.path} is older than {record}, from which phase {phases} is taken", err=True)


def _memory(file: Path) -> Path:
    """Return where the study of a study file is kept."""
    return file.with_suffix(SAVED)


def _files(memory: Path) -> tuple[Path, ...]:
    return memory, memory.with_suffix(ENDING)
