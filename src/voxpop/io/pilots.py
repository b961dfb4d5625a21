"""The calibration of a pilot, wherever its answers are: in a CSV file, in a DataFrame or in records."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from voxpop.calibration.fit import Calibration, calibrate, require_settings, todays, with_guardrails
from voxpop.calibration.pilot import Group, Moments, Pilot
from voxpop.calibration.protected import Protection, released_group
from voxpop.errors import InputError
from voxpop.io import schema as wire
from voxpop.io.columns import Roles
from voxpop.io.files import locked, read_text, write_durably
from voxpop.io.history import read_history
from voxpop.io.ranges import Ranges, todays_of
from voxpop.io.tables import PilotTable, read_pilot_table
from voxpop.model.decisions import Decisions
from voxpop.model.direction import Direction
from voxpop.model.guardrails import Rule
from voxpop.model.words import describe
from voxpop.privacy.sources import Secure, Source
from voxpop.runtime.frames import Table

KIND = "voxpop released pilot"
ENDING = ".released"
TABLE = Path("the table")  # what errors call one that is in no file
ADD_UP = "knowing that the epsilons of both releases add up"


@dataclass(frozen=True)
class ReleasedPilot:
    """The file beside a pilot that keeps what was released of it."""

    pilot: Path

    @property
    def path(self) -> Path:
        """The file; a link to a pilot has that of the pilot itself."""
        pilot = Path(os.path.realpath(self.pilot)) if self.pilot.is_symlink() else self.pilot
        return pilot.parent / (pilot.name + ENDING)

    def owns(self, path: Path) -> bool:
        """Tell whether a path is that of the pilot or of this file."""
        return os.path.realpath(path) in (os.path.realpath(self.pilot), os.path.realpath(self.path))

    def exists(self) -> bool:
        """Tell whether anything was released; a file that is there but cannot be read counts."""
        return os.path.lexists(self.path)

    def groups(self, pilot: Pilot, protection: Protection, source: Source) -> tuple[list[Group], bool]:
        """Return what was released with this promise, and whether it was released just now, with noise of the source.

        Refuse another promise, and other answers.
        """
        with locked(self.path):
            if not self.exists():
                groups = protection.release(pilot, source)
                content = {"pilot": _digest(pilot), **_promise(protection), "groups": [_to_dict(g) for g in groups]}
                write_durably(self.path, wire.pack(KIND, content))
                return groups, True
            digest, promised, kept = self._read()
        if promised != protection:
            raise InputError(
                f"{self.path} holds what was released of {self.pilot} with {_words(promised)}; give the same, or move "
                f"the file away, {ADD_UP}"
            )
        if digest != _digest(pilot):
            raise InputError(
                f"{self.pilot} is not as it was when {self.path} was released of it with {_words(promised)}; restore "
                f"it, or move {self.path} away, {ADD_UP}"
            )
        return kept, False

    def require_none(self) -> None:
        """Refuse to use the answers without protection after some of them were released with a promise."""
        if self.exists():
            _, promised, _ = self._read()
            raise InputError(
                f"{self.path} holds what was released of {self.pilot} with {_words(promised)}, and without --epsilon "
                "nobody is protected; give the same, or move the file away if that promise need not be kept"
            )

    def _read(self) -> tuple[str, Protection, list[Group]]:
        return wire.unpack(KIND, read_text(self.path), str(self.path), _content)


def _content(content: dict[str, Any]) -> tuple[str, Protection, list[Group]]:
    promise = Protection(*(content[name] for name in ("low", "high", "epsilon", "delta")))
    return str(content["pilot"]), promise, [_from_dict(group) for group in content["groups"]]


def _promise(protection: Protection) -> dict[str, float]:
    return {name: float(value) for name, value in asdict(protection).items()}


def _words(promise: Protection) -> str:
    low, high, epsilon, delta = _promise(promise).values()
    return f"--epsilon {epsilon!r} --delta {delta!r} --low-reward {low!r} --high-reward {high!r}"


def _digest(pilot: Pilot) -> str:
    """Compute a digest of the decisions and the answers, however the file is laid out."""
    points, labels = pilot.decisions.points, pilot.decisions.labels
    columns: Sequence[Any] = (points, pilot.people, pilot.actions, pilot.averages, pilot.counts)
    data = [None if labels is None else [dict(label) for label in labels], *(column.tolist() for column in columns)]
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def _to_dict(group: Group) -> dict[str, Any]:
    moments = group.moments
    return {
        "actions": group.actions.tolist(),
        "rounds": group.counts.tolist(),
        "people": group.people,
        "mean": group.mean.tolist(),
        "noise_std": float(group.noise_std),
        "variances": None if moments is None else moments.variances.tolist(),
        "errors": None if moments is None else moments.errors.tolist(),
    }


def _from_dict(data: dict[str, Any]) -> Group:
    variances, errors = data["variances"], data["errors"]
    return released_group(
        np.array(data["actions"], dtype=np.intp),
        np.array(data["rounds"], dtype=float),
        data["people"],
        np.array(data["mean"], dtype=float),
        data["noise_std"],
        None if variances is None else Moments(np.array(variances, dtype=float), np.array(errors, dtype=float)),
    )


def calibrate_file(
    path: Path,
    towards: Direction,
    kernel: str,
    margin: float,
    protection: Protection | None,
    roles: Roles | None = None,
    ranges: Ranges | None = None,
    watch: Callable[[], None] = lambda: None,
    reward_range: str | None = None,
    history: Any = None,
    content: Table | None = None,
    guardrails: Sequence[str] = (),
    today: Mapping[str, Any] | Sequence[str] | None = None,
) -> tuple[Calibration, PilotTable, bool]:
    """Calibrate from a file; what is released of it with a protection is kept beside it, and used again.

    With `content`, a table of a program, there is no file, and noise is drawn in every call.

    Also return how the file was read, and whether anything was released just now.
    """
    require_settings(kernel, margin, reward_range)  # before anything is released
    rules = [Rule.of(text) for text in guardrails]
    if rules and protection is not None:
        raise InputError(
            f"a pilot with guardrails cannot be protected, as its promise covers one column; leave out "
            f"{rules[0].name}, or the epsilon"
        )
    roles, ruled = roles or Roles(), tuple(rule.name for rule in rules)
    others = tuple(name for name in roles.metrics if name not in ruled)
    roles = replace(roles, metrics=ruled, ignored=(*roles.ignored, *others))
    kept = ReleasedPilot(path)
    if protection is None and content is None:
        kept.require_none()
    table = read_pilot_table(path, protection is not None, roles, ranges, towards, content)
    free = (f"{name}: a metric that decisions need not keep; a guardrail says so: '{name} >= -2%'" for name in others)
    table = replace(table, said=(*table.said, *free))
    table.pilot.require_range(reward_range, table.place)
    known = today if today is None or isinstance(today, Mapping) else todays_of(today, table.space)
    decisions = table.menu.decisions(table.space)
    _require_today(rules, decisions, known)
    released, fresh = None, False
    if protection is not None and content is None:
        released, fresh = kept.groups(table.pilot, protection, Secure())
    told = {"watch": watch, "reward_range": reward_range, "history": history}
    found = calibrate(table.pilot, table.space, kernel, margin, protection, None, released, **told)
    if rules:
        found = with_guardrails(found, table.pilot, rules, table.metrics, kernel, margin)
    found = replace(found, today=known)
    found.problem(decisions, horizon=2)  # refuses limits that no decision keeps, and the like
    return found, table, fresh


def _require_today(rules: Sequence[Rule], decisions: Decisions, today: Mapping[str, Any] | None) -> None:
    """Refuse a decision in force today that does not exist, and rules that need one where it is not known."""
    relative = next((rule for rule in rules if rule.relative), None)
    if today is not None:
        todays(decisions, today)
    elif relative is not None:
        example = describe(decisions[0]).replace(" = ", "=")
        raise InputError(
            f"{relative} compares with today's decision, which is not known; add --today, such as --today {example}"
        )


def calibration_of(
    pilot: object,
    direction: str = Direction.MAXIMIZE,
    kernel: str = "auto",
    margin: float = 1.5,
    protection: Protection | None = None,
    reward_range: str | None = None,
    history: Any = None,
    roles: Roles | None = None,
    ranges: Ranges | None = None,
    guardrails: Sequence[str] = (),
    today: Mapping[str, Any] | None = None,
) -> Calibration:
    """Calibrate from a CSV or Parquet file, as `voxpop calibrate` does, from a table, read alike, or from a `Pilot`."""
    history = read_history(Path(history)) if isinstance(history, str | PathLike) else history
    told: dict[str, Any] = {"reward_range": reward_range, "history": history}
    if isinstance(pilot, Pilot):
        if guardrails:
            raise InputError(f"a Pilot has one column of answers, and none of {guardrails[0]!r}; give the table itself")
        return replace(calibrate(pilot, None, kernel, margin, protection, direction=direction, **told), today=today)
    of_file, towards = isinstance(pilot, str | PathLike), Direction.of(direction)
    path, content = (Path(str(pilot)), None) if of_file else (TABLE, Table.of(pilot))
    told |= {"roles": roles, "ranges": ranges, "content": content, "guardrails": guardrails, "today": today}
    try:
        found, table, _ = calibrate_file(path, towards, kernel, margin, protection, **told)
    except InputError as error:
        raise InputError(str(error) if of_file else for_python(str(error))) from None
    return replace(found, notes=table.said)


def for_python(text: str) -> str:
    """Name arguments of `Study.from_pilot` instead of options of the command line."""
    text = re.sub(r"--(low|high|step|today) ([^\s=]+)=([^\s;,]+)", r'\1={"\2": \3}', text)
    text = re.sub(r'--(ignore|parameter|choice|log|integer) (?:"([^"]+)"|([^\s;,]+))', r'\1=["\2\3"]', text)
    text = re.sub(r'"\] (ignore|parameter|choice)=\["', '", "', text)
    text = re.sub(r"--(person|reward|wide) NAME", r'\1="NAME"', text)
    return re.sub(r"--(low|high|values|step|points|only|allowed|today)\b", r"\1=", text).replace(
        "--minimize", 'direction="minimize"'
    )
