"""Every line that a service can write into its log is described in docs/operations.md, with its fields."""

import ast
import re
from collections import defaultdict

from tests.helpers_cli import ROOT
from voxpop.service.audit import Action
from voxpop.service.study.stages import Kind

SOURCES = sorted((ROOT / "src/voxpop/service").rglob("*.py"))
COMPUTED = {  # by the text of the first argument: the names it can have
    "action.value": {
        action.value
        for action in (
            Action.STARTED,
            Action.PAUSED,
            Action.RESUMED,
            Action.ENDED,
            Action.ARCHIVED,
            Action.RESTORED,
        )
    },
    "Action.DELETED.value": {Action.DELETED.value},
    "event.kind": {Kind.OPENED.value, Kind.FINISHED.value},
}
LOGGERS = ("note", "warn", "fault", "info", "debug", "warning", "error", "log")
OTHERS = ("audit", "coordinator", "released", "record")  # whose notes are not for the log
PASSED_ON = {"event", "kind"}  # names that a caller gave
ALWAYS = {"event", "level", "timestamp", "service"}
FAULT = {"error", "cause", "places"}


def line_of(node: ast.Call) -> tuple[ast.expr, set[str]] | None:
    """Return the name and the fields of a log line, as they are written; None for another call."""
    called = ast.unparse(node.func)
    owner, _, last = called.rpartition(".")
    levelled = last == "log" and "get_logger" in owner  # whose first argument is the level
    if called.startswith("logs.event_logger(") or called == "log":
        last = "note"
    elif last not in LOGGERS or (last == "log" and not levelled) or owner.rsplit(".")[-1] in OTHERS:
        return None
    names = [word.arg for word in node.keywords if word.arg is not None]
    place = 1 if levelled else 0
    if len(node.args) <= place:
        return None
    return node.args[place], set(names) | (FAULT if last == "fault" else set())


def written() -> dict[str, set[str]]:
    """Return by event the fields that it is written with somewhere."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            line = line_of(node) if isinstance(node, ast.Call) else None
            if line is None:
                continue
            text = ast.unparse(line[0])
            if isinstance(line[0], ast.Constant):
                names = {str(line[0].value)}
            elif isinstance(line[0], ast.IfExp):
                names = {str(ast.literal_eval(either)) for either in (line[0].body, line[0].orelse)}
            elif text in PASSED_ON or not isinstance(line[0], ast.Name | ast.Attribute):
                continue
            else:
                assert text in COMPUTED, f"{path.name}: the log line {text} has a name that this test does not know"
                names = COMPUTED[text]
            for name in names:
                found[name] |= line[1]
    return found


def described() -> dict[str, set[str]]:
    """Return by event the fields that the page describes."""
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8").split("## Logs")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| (.*?) \|", page, re.MULTILINE)
    found: dict[str, set[str]] = {}
    for names, fields in rows:
        for name in re.findall(r"`([^`]+)`", names):
            found[name] = set(re.findall(r"`(\w+)`", fields))
    return found


def test_every_event_is_described_with_its_fields() -> None:
    events, page = written(), described()
    assert len(events) > 25
    assert set(events) - set(page) == set(), "describe these events in docs/operations.md"
    lacking = {event: fields - page[event] - ALWAYS for event, fields in events.items()}
    assert {event: fields for event, fields in lacking.items() if fields} == {}


def test_no_event_is_described_that_is_never_written() -> None:
    assert set(described()) - set(written()) == set()
