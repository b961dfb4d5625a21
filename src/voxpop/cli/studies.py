"""`voxpop study`: create, watch and end the studies of a running coordinator."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from voxpop.cli.display import console
from voxpop.cli.operators import LOCAL, KeyFile, Url, need_service, progress_lines, request, said_when
from voxpop.errors import InputError

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
) -> None:
    """Create a study on a coordinator from a study file; repeating it changes nothing."""
    need_service()
    from voxpop.service.study.definition import read_definition

    name, definition = read_definition(file)
    body = {"definition": definition.encode(), "enrolment_code": enrolment_code, "draft": draft}
    request(url, key_file, "PUT", f"/v2/studies/{name}", body)
    given = {"--url": None if url == LOCAL else url, "--key-file": None if key_file is None else str(key_file)}
    options = [part for flag, value in given.items() if value is not None for part in (flag, value)]
    following = ["voxpop", "study", "start"] if draft else ["voxpop", "status"]
    what = "a draft; start it with" if draft else "watch it with"
    command = shlex.join([*following, name, *options])
    console.print(f"study: {name}; {what}: {command}", highlight=False, markup=False, soft_wrap=True)


@study.command("status")
def status(
    name: Name,
    url: Url = LOCAL,
    key_file: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    follow: Annotated[bool, typer.Option(help="Print again whenever something changed, until the end.")] = False,
) -> None:
    """Show how far a study is."""
    need_service()
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
    need_service()
    from voxpop.service.keys import new_key

    if wave is None:
        wave = request(url, key_file, "GET", f"/v2/studies/{name}/decision")["wave"]
    body = {"wave": wave, "rounds": rounds}
    found = request(url, key_file, "PUT", f"/v2/studies/{name}/rounds/{new_key()}", body)
    typer.echo(f"{found['counted']} rounds counted, {found['played']} played in wave {wave}")


@study.command("list")
def list_all(
    url: Url = LOCAL,
    key_file: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List all studies with their state, their wave and their people; those that are archived come last."""
    need_service()
    found = request(url, key_file, "GET", "/v2/studies")
    if as_json:
        typer.echo(json.dumps(found))
        return
    rows = [("study", "state", "wave", "registered", "answered")]
    for one in sorted(found["glances"], key=lambda glance: (glance["archived"], glance["study"])):
        answered = f"{one['answered']:,} of {one['people']:,}" if one["people"] else ""
        rows.append((one["study"], one["state"], str(one["wave"] or ""), f"{one['registered']:,}", answered))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if len(rows) > 1 else ():
        typer.echo("  ".join(map(str.ljust, row, widths)).rstrip())


@study.command("start")
def start(name: Name, url: Url = LOCAL, key_file: KeyFile = None) -> None:
    """Start a draft: from now on devices see it, and it cannot be changed any more."""
    _change(name, "running", url, key_file, "runs")


@study.command("pause")
def pause(name: Name, url: Url = LOCAL, key_file: KeyFile = None) -> None:
    """Pause a study: nobody is asked and nothing is tried out until it is resumed; reports are still taken."""
    _change(name, "paused", url, key_file, "is paused")


@study.command("resume")
def resume(name: Name, url: Url = LOCAL, key_file: KeyFile = None) -> None:
    """Resume a paused study; those who are invited get the time that the pause took."""
    _change(name, "running", url, key_file, "runs")


@study.command("end")
def end(name: Name, url: Url = LOCAL, key_file: KeyFile = None, yes: Yes = False) -> None:
    """End a study now, with what is known; the reports of an open wave are deleted, unread."""
    question = f"End {name} now, for good? Answers of an open wave are deleted, unread"
    if not yes and not typer.confirm(question):
        raise InputError(f"nothing was ended; to hold {name} for a while, use: voxpop study pause {name}")
    _change(name, "ended", url, key_file, "is finished")


@study.command("archive")
def archive(name: Name, url: Url = LOCAL, key_file: KeyFile = None) -> None:
    """Archive a finished study: it is no longer listed in the console, and nothing of it is lost."""
    _change(name, "archived", url, key_file, "is archived")


@study.command("unarchive")
def unarchive(name: Name, url: Url = LOCAL, key_file: KeyFile = None) -> None:
    """List an archived study again."""
    need_service()
    if request(url, key_file, "GET", f"/v2/studies/{name}")["life"] != "archived":  # a draft would be started
        typer.echo(f"the study {name} is not archived; nothing had to be changed")
        return
    _change(name, "running", url, key_file, "is listed again")


@study.command("delete")
def delete(
    name: Name,
    url: Url = LOCAL,
    key_file: KeyFile = None,
    yes: Yes = False,
) -> None:
    """Delete a draft or a finished study, with its log and its people; this cannot be undone."""
    need_service()
    if not yes and typer.prompt(f"Type the study's name to delete it with its log and its people ({name})") != name:
        raise InputError(f"that is not the name {name!r}; nothing was deleted")
    request(url, key_file, "DELETE", f"/v2/studies/{name}")
    typer.echo(f"the study {name} is deleted")


@study.command("trail")
def trail(
    name: Annotated[str | None, typer.Argument(help="The study; all if not given.")] = None,
    url: Url = LOCAL,
    key_file: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show who did what, the newest first."""
    need_service()
    found = request(url, key_file, "GET", "/v2/audit" if name is None else f"/v2/audit?study={name}")
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("when", "who", "what", "study", ""):
        table.add_column(column)
    for entry in found["entries"]:
        cells = (said_when(entry["at"]), entry["actor"], entry["action"], entry["study"] or "", entry["detail"])
        table.add_row(*map(escape, cells))
    console.print(table, highlight=False)


def _change(name: str, wanted: str, url: str, key_file: Path | None, now: str) -> None:
    need_service()
    done: Any = request(url, key_file, "PUT", f"/v2/studies/{name}/life", {"wanted": wanted})
    typer.echo(f"the study {name} {now}{'' if done['changed'] else '; nothing had to be changed'}")
