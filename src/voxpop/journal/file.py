"""A journal in a file: the definition in the first line, then one line for each event. Lines are only ever added.

Each line has a digest of itself and of all lines before it, so damage is noticed wherever it is. A last line that was
cut short belongs to a program that was killed before anyone saw its event, and is left out.

A private study must not be continued from an older copy: it would ask people again, or release the same answers with
other noise. So a mark beside its journal, a small file, says how many events there are and the last one's digest. An
event is appended first, then marked, and only then shown. A journal that is shorter than its mark, or has another
digest there, is another copy; one that is longer belongs to a program that was killed in between, and is fine.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from voxpop.errors import InputError, require_integer
from voxpop.io.files import append_durably, locked, read_bytes, write_atomically, write_durably
from voxpop.io.schema import require_version
from voxpop.journal.journal import Definition, Event, decode_event, encode_event
from voxpop.privacy import NoPrivacy

KIND = "voxpop study"
VERSION = 3
MARK = ".mark"
RECORD = ".releases"  # beside private studies of version 2


Line = dict[str, Any]  # kind, body and digest; the first line of a file also says its format and version


class JournalFile:
    """The journal of a study with a path. One program changes it at a time, and none overwrites what another wrote."""

    definition: Definition

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mark = path.with_suffix(MARK)
        if path.suffix in (MARK, RECORD):
            raise InputError(f"{path} has the ending of a file beside a study; give the study another, such as .json")
        self._seen = b""  # the whole lines, as this program read or wrote them last

    @classmethod
    def create(cls, path: Path, definition: Definition) -> Self:
        """Begin a journal; refuse if there is one."""
        journal = cls(path)
        with locked(path):
            journal.require_new()
            journal.definition = definition
            line = _chain("", [("defined", definition.encode())], journal._private)
            journal._seen = _text(line)
            write_durably(path, journal._seen)
            journal._set_mark(0, line[0]["digest"])
        return journal

    @classmethod
    def open(cls, path: Path, newest: bool = False) -> Self:
        """Open a journal; refuse an older copy of a private study's, unless it is surely the `newest`."""
        journal = cls(path)
        mark = None if newest else journal._marked()  # read first, because it is written last
        lines = _lines(read_bytes(path), str(path))
        with _undamaged(f"{path}, line 1"):
            journal.definition = Definition.decode(lines[0]["body"])
        if newest and journal._private:
            with locked(path):
                journal._set_mark(len(lines) - 1, lines[-1]["digest"])
        elif lines[0]["marked"]:
            journal._compare(lines, mark)
        return journal

    def require_new(self) -> None:
        """Refuse a path at which a study is, or was."""
        if self.path.exists():
            raise InputError(f"{self.path} exists already; open it with Study.load or choose another path")
        for left in (self.mark, self.path.with_suffix(RECORD)):
            if left.exists():
                raise InputError(
                    f"{left} is of an earlier study with releases, and {self.path} is missing; restore it from a copy, "
                    f"or move {left} away to begin a new study with other people"
                )

    def read(self, after: int = 0) -> list[Event]:
        """Return the events after the first `after` ones."""
        data = read_bytes(self.path)
        lines = _lines(data, str(self.path))
        self._seen = data[: data.rfind(b"\n") + 1]
        events = []
        for place, line in enumerate(lines[1 + after :], start=2 + after):
            with _undamaged(f"{self.path}, line {place}"):
                events.append(decode_event(line["kind"], line["body"]))
        return events

    def append(self, events: Sequence[Event], expected: int) -> None:
        """Add events durably, all or none; refuse if the file is not as it was left here, with `expected` events."""
        with locked(self.path):
            data = read_bytes(self.path)
            seen, size = self._seen, len(self._seen)
            if data[: data.rfind(b"\n") + 1] != seen or seen.count(b"\n") != expected + 1:
                raise InputError(
                    f"{self.path} was changed by another program after this one opened it; repeat the command, or "
                    "open it again with Study.load"
                )
            last = json.loads(seen.splitlines()[-1])["digest"]
            added = _chain(last, map(encode_event, events))
            append_durably(self.path, size, _text(added))
            try:
                self._set_mark(expected + len(added), added[-1]["digest"] if added else last)
            except BaseException:
                with suppress(InputError):  # if this fails as well, the next change finds the file changed
                    append_durably(self.path, size, b"")
                raise
            self._seen = seen + _text(added)

    @property
    def _private(self) -> bool:
        return self.definition.privacy.model != NoPrivacy.model

    def _set_mark(self, events: int, digest: str) -> None:
        """Mark how long the journal is; without privacy any copy may be continued."""
        if self._private:
            write_durably(self.mark, json.dumps({"events": events, "digest": digest}) + "\n")

    def _marked(self) -> tuple[int, str] | None:
        """Return the number of events and the digest of the mark; None if there is no mark."""
        if not self.mark.exists():
            return None
        try:
            found = json.loads(read_bytes(self.mark))
            return require_integer("events", found["events"], least=0), str(found["digest"])
        except (LookupError, TypeError, ValueError):
            raise InputError(
                f"{self.mark} is damaged; restore it from a copy, or open {self.path} with --newest (newest=True) if "
                "it is surely the newest copy"
            ) from None

    def _compare(self, lines: Sequence[Line], mark: tuple[int, str] | None) -> None:
        """Refuse a journal that is older than its mark, or not the one that was marked."""
        events = len(lines) - 1
        if mark is None and events == 0:
            return  # a program was killed just after it began the study
        number, digest = mark or (0, "")
        if mark is None or number > events:
            known = f"{self.mark} is missing" if mark is None else f"{self.mark} knows {number} steps of it"
            raise InputError(
                f"{self.path} holds {events} steps, and {known}; restore the newest copy of both, or open "
                f"{self.path} with --newest (newest=True) if it is surely the newest copy"
            )
        if lines[number]["digest"] != digest:
            raise InputError(
                f"{self.path} and {self.mark} are of different studies or copies; restore both from the newest copy"
            )


def write_copy(path: Path, definition: Definition, events: Iterable[Event]) -> None:
    """Write a journal without a mark in one step."""
    write_atomically(path, _text(_chain("", [("defined", definition.encode()), *map(encode_event, events)])))


def _chain(digest: str, records: Iterable[tuple[str, Mapping[str, Any]]], marked: bool = False) -> list[Line]:
    """Return lines that follow one of this digest; the first says whether the journal has a mark, as no copy has."""
    lines = list[Line]()
    for kind, body in records:
        digest = _digest(digest, kind, body, marked)
        head = {"format": KIND, "version": VERSION, "marked": marked} if kind == "defined" else {}
        lines.append({**head, "kind": kind, "body": body, "digest": digest})
    return lines


def _digest(before: str, kind: str, body: Mapping[str, Any], marked: bool) -> str:
    content = json.dumps([before, kind, body, marked], sort_keys=True, allow_nan=False)
    return hashlib.sha256(content.encode()).hexdigest()


def _text(lines: Sequence[Line]) -> bytes:
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def _lines(data: bytes, source: str) -> list[Line]:
    """Read the whole lines of a journal, and check their digests."""
    require_version(_parsed(data.split(b"\n", 1)[0], source), KIND, VERSION, source)
    found, digest = list[Line](), ""
    for place, text in enumerate(data.split(b"\n")[:-1], start=1):
        line = _parsed(text, f"{source}, line {place}")
        with _undamaged(f"{source}, line {place}"):
            digest = _digest(digest, line["kind"], line["body"], line.setdefault("marked", False))
            if digest != line["digest"]:
                raise InputError("its checksum does not match its content")
            found.append(line)
    if not found:
        raise InputError(f"{source} is damaged (its first line is cut short); restore it from a copy")
    return found


def _parsed(text: bytes, source: str) -> dict[str, Any]:
    with _undamaged(source):
        found = json.loads(text)
    return found if isinstance(found, dict) else {}


@contextmanager
def _undamaged(source: str) -> Iterator[None]:
    """Say of what cannot be read that it is damaged."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise InputError(f"{source} is damaged ({said}); restore it from a copy") from None
