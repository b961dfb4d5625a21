"""`voxpop study`: what an operator sends to a running coordinator, and how its replies are shown."""

from __future__ import annotations

import json
import math
import os
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from voxpop.cli.display import print_table, say, table_of
from voxpop.errors import InputError, RefusedError
from voxpop.io.files import read_text, write_durably
from voxpop.model.words import counted

Url = Annotated[str, typer.Option(help="The coordinator's address.", envvar="VOXPOP_URL")]
DatabaseOption = Annotated[
    str | None,
    typer.Option("--database", help="A path (SQLite) or postgresql://user@host/name.", envvar="VOXPOP_DATABASE"),
]
KeyFile = Annotated[Path | None, typer.Option(help="A file with your operator key; or set VOXPOP_KEY.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
DATABASES = {"coordinator": "voxpop.db", "shuffler": "voxpop-shuffler.db"}  # unless another is named
LOCAL = "http://127.0.0.1:8000"
HOW_TO_GET_ONE = "where the database is, one is made with: voxpop keys operator NAME --file my.key"


def said_when(seconds: float | None) -> str:
    """Write a time of the coordinator, in UTC; nothing if it is not known."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") if seconds else ""


def show_list(found: Any, columns: Sequence[str], rows: Sequence[Sequence[str]], as_json: bool) -> None:
    """Print what was found as a table, if it is anything, or as JSON."""
    if as_json:
        typer.echo(json.dumps(found))
    elif rows:
        print_table(table_of(columns, [[escape(cell) for cell in row] for row in rows], left=columns))


def list_of_studies(
    among: typer.Typer, command: str, says: str, address: str, part: str, columns: Mapping[str, str]
) -> None:
    """Add a command that lists what a coordinator keeps of all studies, or of one; `columns` names the parts of it."""

    @among.command(command, help=says)
    def listed(
        study: Annotated[str | None, typer.Argument(help="The study; all if not given.")] = None,
        url: Url = LOCAL,
        key_file: KeyFile = None,
        as_json: AsJson = False,
    ) -> None:
        found = request(url, key_file, "GET", address if study is None else f"{address}?study={study}")
        parts = columns.values()
        rows = [
            [said_when(one[name]) if name == "at" else "" if one[name] is None else str(one[name]) for name in parts]
            for one in found[part]
        ]
        show_list(found, [*columns], rows, as_json)


def progress_lines(found: Mapping[str, Any], live: bool = False) -> str:
    """Write a status: how far the wave is, then what the coordinator says about it.

    If it is to be `live`, only what nobody else knows: what is in force, and why the study stands still.
    """
    first = f"wave {found['wave']} {found['stage']}"
    if found["stage"] == "finished":
        first = f"finished after wave {found['wave']}" if found["wave"] else "finished before the first wave"
    elif found["rounds"] or found["people"]:  # a plan is there
        first += (
            f": {found['played']:,} of {found['rounds']:,} rounds played, "
            f"{found['answered']:,} of {found['people']:,} people answered"
        )
    first += f"; {found['active']:,} actions left"
    # The first sentence says what is in force.
    says = [found["says"][0], *(hold["sentence"] for hold in found["holds"])] if live else found["says"]
    return "\n  ".join([first, *says])


def own_key(key_file: Path | None) -> str:
    """Return the operator's key, from a file or from the environment."""
    from voxpop.service.keys import exposed, require_key

    if key_file is None:
        if not (key := os.environ.get("VOXPOP_KEY", "").strip()):
            raise InputError(f"no key was given; use --key-file or VOXPOP_KEY; {HOW_TO_GET_ONE}")
        return require_key("the operator key of VOXPOP_KEY", key, HOW_TO_GET_ONE)
    if (warning := exposed(key_file)) is not None:
        typer.echo(f"warning: {warning}", err=True)
    return require_key(f"the operator key in {key_file}", read_text(key_file), HOW_TO_GET_ONE)


def request(url: str, key_file: Path | None, method: str, path: str, body: Any = None) -> Any:
    """Send one request as an operator."""
    return send(url, own_key(key_file), method, path, body)


def send(url: str, key: str, method: str, path: str, body: Any = None) -> Any:
    """Send one request with an operator's key."""
    import httpx

    from voxpop.client.retries import document_of
    from voxpop.service.shuffler.signed_http import require_url

    address = require_url("url", url) + path
    try:
        answer = httpx.request(method, address, json=body, headers={"authorization": f"Bearer {key}"}, timeout=60)
    except httpx.HTTPError as error:
        raise RefusedError(f"cannot reach {url}: {error}; is the coordinator running there?", 503) from None
    if answer.status_code >= 400:
        unknown = f"{answer.url} answered {answer.status_code}; is that a voxpop coordinator?"
        raise RefusedError(str(document_of(answer).get("error", unknown)), answer.status_code)
    return answer.json()


OPEN_TO_LIES = (
    "nothing says which rewards are possible, so that 2 % of the people can move the decision if they agree on a lie; "
    'give the limits in the study file: [model] reward_range = "0:1"'
)
study = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Create, watch, pause, end and delete studies of a running coordinator.",
)

Name = Annotated[str, typer.Argument(help="The study.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask whether this is meant.")]


@study.command("create")
def create(
    file: Annotated[Path, typer.Argument(help="The study file (TOML).")],
    url: Url = LOCAL,
    key_file: KeyFile = None,
    enrolment_code: Annotated[
        str | None, typer.Option(envvar="VOXPOP_ENROLMENT_CODE", help="Only people with it can register.")
    ] = None,
    draft: Annotated[bool, typer.Option("--draft", help="Only keep it, and start it later.")] = False,
    public: Annotated[bool, typer.Option("--public", help="Let anyone read the decision in force.")] = False,
) -> None:
    """Create a study on a coordinator from a study file; repeating it changes nothing."""
    from voxpop.service.study.definition import read_definition

    name, definition = read_definition(file)
    body = {"definition": definition.encode(), "enrolment_code": enrolment_code, "draft": draft}
    body["public"] = public
    request(url, key_file, "PUT", f"/v2/studies/{name}", body)
    if definition.budget is None and not all(map(math.isfinite, definition.problem.limits)):
        typer.echo(f"warning: {OPEN_TO_LIES}", err=True)
    options = [] if url == LOCAL else ["--url", url]
    options += [] if key_file is None else ["--key-file", str(key_file)]
    following = ["voxpop", "study", "start"] if draft else ["voxpop", "status"]
    what = "a draft; start it with" if draft else "watch it with"
    say(f"study: {name}; {what}: {shlex.join([*following, name, *options])}")


@study.command("codes")
def codes(
    name: Name,
    count: Annotated[int, typer.Argument(min=1, max=10_000, help="How many; each registers one person.")],
    link: Annotated[str, typer.Option(help="What stands before each: https://app.example/join#")] = "",
    sheet: Annotated[Path | None, typer.Option(help="Write a page to print instead, with a QR code for each.")] = None,
    url: Url = LOCAL,
    key_file: KeyFile = None,
) -> None:
    """Make enrolment codes for one person each, and print them, one a line; nobody else can register any more."""
    made = [secrets.token_urlsafe(12) for _ in range(count)]
    if sheet is not None:
        from voxpop.service.console.connect import link_of, sheet_of

        write_durably(sheet, sheet_of(name, [link_of(link, code) for code in made]), private=True)
    request(url, key_file, "PUT", f"/v2/studies/{name}/codes", {"codes": made})
    if sheet is not None:
        typer.echo(f"{sheet}: {count:,} invitations; print it, and keep it as you would keep keys")
    for code in made if sheet is None else ():
        typer.echo(link + code)


@study.command("note")
def note(
    name: Name,
    wave: Annotated[int, typer.Argument(min=1, help="The wave.")],
    text: Annotated[str, typer.Argument(help="The note, such as 'holiday week'; empty removes it.")],
    url: Url = LOCAL,
    key_file: KeyFile = None,
) -> None:
    """Write a note on a wave, of at most 200 characters, in place of the one before."""
    request(url, key_file, "PUT", f"/v2/studies/{name}/waves/{wave}/note", {"text": text})
    typer.echo(f"wave {wave} of {name}: {text or 'no note'}")


@study.command("public")
def public(
    name: Name,
    anyone: Annotated[bool, typer.Option("--yes/--no", help="Whether anyone may read it.")] = True,
    url: Url = LOCAL,
    key_file: KeyFile = None,
) -> None:
    """Let anyone read the decision in force, or, with --no, only those who have a key."""
    request(url, key_file, "PUT", f"/v2/studies/{name}/public", {"public": anyone})
    typer.echo(f"{'anyone' if anyone else 'only who has a key'} may read the decision in force of {name}")


@study.command("status")
def status(
    name: Name,
    url: Url = LOCAL,
    key_file: KeyFile = None,
    as_json: AsJson = False,
    follow: Annotated[bool, typer.Option(help="Print again whenever something changed, until the end.")] = False,
) -> None:
    """Show how far a study is."""
    last = ""
    while True:
        found = request(url, key_file, "GET", f"/v2/studies/{name}")
        line = json.dumps(found) if as_json else progress_lines(found)
        if line != last:
            typer.echo(line)
        last = line
        if not follow or found["stage"] == "finished":
            return
        time.sleep(1)


@study.command("played")
def played(
    name: Name,
    rounds: Annotated[int, typer.Argument(help="Rounds that were played.")],
    wave: Annotated[int | None, typer.Option(help="The wave; the current one if not given.")] = None,
    url: Url = LOCAL,
    key_file: KeyFile = None,
) -> None:
    """Report rounds by hand, where no application does."""
    from voxpop.service.keys import new_key

    if wave is None:
        wave = request(url, key_file, "GET", f"/v2/studies/{name}/decision")["wave"]
    body = {"wave": wave, "rounds": rounds}
    found = request(url, key_file, "PUT", f"/v2/studies/{name}/rounds/{new_key()}", body)
    typer.echo(f"{found['counted']} rounds counted, {found['played']} played in wave {wave}")


@study.command("list")
def list_all(url: Url = LOCAL, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """List all studies with their state, their wave and their people; those that are archived come last."""
    found, rows = request(url, key_file, "GET", "/v2/studies"), []
    for one in sorted(found["glances"], key=lambda glance: (glance["archived"], glance["study"])):
        answered = f"{one['answered']:,} of {one['people']:,}" if one["people"] else ""
        rows.append((one["study"], one["state"], str(one["wave"] or ""), f"{one['registered']:,}", answered))
    show_list(found, ("study", "state", "wave", "registered", "answered"), rows, as_json)


def _change(name: str, wanted: str, url: str, key_file: Path | None, now: str) -> None:
    done = request(url, key_file, "PUT", f"/v2/studies/{name}/life", {"wanted": wanted})
    typer.echo(f"the study {name} {now}{'' if done['changed'] else '; nothing had to be changed'}")


def _life(command: str, wanted: str, now: str, says: str) -> None:
    """Add a command that moves a study to another stage of its life, without any question."""

    @study.command(command, help=says)
    def change(name: Name, url: Url = LOCAL, key_file: KeyFile = None) -> None:
        _change(name, wanted, url, key_file, now)


_life("start", "running", "runs", "Start a draft: from now on devices see it, and it cannot be changed any more.")
_life(
    *("pause", "paused", "is paused"),
    "Pause a study: nobody is asked and nothing is tried out until it is resumed; reports are still taken.",
)
_life("resume", "running", "runs", "Resume a paused study; those who are invited get the time that the pause took.")


@study.command("close")
def close(name: Name, url: Url = LOCAL, key_file: KeyFile = None, yes: Yes = False) -> None:
    """Close the open wave with those who answered; it says what that costs, and asks."""
    found = request(url, key_file, "GET", f"/v2/studies/{name}")
    wave, closing = found["wave"], found["closing"]
    if closing is None:
        raise InputError(f"no wave of {name} collects answers, so none can be closed; see: voxpop status {name}")
    if not closing["able"]:
        raise InputError(closing["sentence"].rstrip("."))
    typer.echo(closing["sentence"])
    if not yes and not typer.confirm(f"Close wave {wave} of {name} with these answers"):
        raise InputError(f"wave {wave} was not closed; it goes on")
    request(url, key_file, "PUT", f"/v2/studies/{name}/close", {"wave": wave})
    typer.echo(f"wave {wave} of {name} is closed; see: voxpop status {name}")


@study.command("end")
def end(name: Name, url: Url = LOCAL, key_file: KeyFile = None, yes: Yes = False) -> None:
    """End a study now, with what is known; the reports of an open wave are deleted, unread."""
    if not yes:
        closing = request(url, key_file, "GET", f"/v2/studies/{name}")["closing"]
        if closing is not None and closing["answers"]:
            first = f" To count them, first use: voxpop study close {name}" if closing["able"] else ""
            typer.echo(f"{counted(closing['answers'], 'answer')} would be lost: deleted, unread.{first}")
        if typer.prompt(f"Type the study's name to end it now, for good ({name})") != name:
            held = f"to hold {name} for a while, use: voxpop study pause {name}"
            raise InputError(f"that is not the name {name!r}; nothing was ended; {held}")
    _change(name, "ended", url, key_file, "is finished")


_life(
    *("archive", "archived", "is archived"),
    "Archive a finished study: it is no longer listed in the console, and nothing of it is lost.",
)


@study.command("unarchive")
def unarchive(name: Name, url: Url = LOCAL, key_file: KeyFile = None) -> None:
    """List an archived study again."""
    if request(url, key_file, "GET", f"/v2/studies/{name}")["life"] != "archived":  # a draft would be started
        typer.echo(f"the study {name} is not archived; nothing had to be changed")
        return
    _change(name, "running", url, key_file, "is listed again")


@study.command("delete")
def delete(name: Name, url: Url = LOCAL, key_file: KeyFile = None, yes: Yes = False) -> None:
    """Delete a draft or a finished study, with its log and its people; this cannot be undone."""
    if not yes and typer.prompt(f"Type the study's name to delete it with its log and its people ({name})") != name:
        raise InputError(f"that is not the name {name!r}; nothing was deleted")
    request(url, key_file, "DELETE", f"/v2/studies/{name}")
    typer.echo(f"the study {name} is deleted")


list_of_studies(
    study,
    "trail",
    "Show who did what, the newest first.",
    "/v2/audit",
    "entries",
    {"when": "at", "who": "actor", "what": "action", "study": "study", "": "detail"},
)
