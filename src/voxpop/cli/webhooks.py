"""`voxpop webhooks`: who is told what happens, and what became of each message."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import quote

import typer

from voxpop.cli.operators import LOCAL, AsJson, KeyFile, Url, list_of_studies, request, show_list

webhooks = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Tell others what happens: receivers of signed messages, of Slack and of e-mails, and all deliveries.",
)
Name = Annotated[str, typer.Argument(help="What the receiver is called.")]


@webhooks.command("add")
def add(
    name: Name,
    address: Annotated[str, typer.Argument(help="https://..., or an e-mail address.")],
    form: Annotated[Literal["json", "slack", "email"], typer.Option("--format", help="json, slack or email.")] = "json",
    study: Annotated[str | None, typer.Option(help="Only of this study.")] = None,
    event: Annotated[list[str] | None, typer.Option(help="Only this, such as wave.closed; may be repeated.")] = None,
    url: Url = LOCAL,
    key_file: KeyFile = None,
) -> None:
    """Tell somebody what happens from now on, and print the secret with which messages are signed."""
    body = {"address": address, "format": form, "study": study, "events": event or []}
    found = request(url, key_file, "PUT", f"/v2/webhooks/{quote(name, safe='')}", body)
    typer.echo(found["secret"] if form == "json" else f"{name} is told")


@webhooks.command("remove")
def remove(name: Name, url: Url = LOCAL, key_file: KeyFile = None) -> None:
    """Tell somebody nothing any more."""
    done = request(url, key_file, "DELETE", f"/v2/webhooks/{quote(name, safe='')}")["done"]
    typer.echo(f"{name} {'is' if done else 'was already'} removed")


@webhooks.command("test")
def send_test(name: Name, url: Url = LOCAL, key_file: KeyFile = None) -> None:
    """Send a receiver a message that says nothing but that it arrives."""
    request(url, key_file, "POST", f"/v2/webhooks/{quote(name, safe='')}/test")
    typer.echo("a test is on its way; see: voxpop webhooks deliveries")


@webhooks.command("list")
def list_all(url: Url = LOCAL, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """List who is told what."""
    found = request(url, key_file, "GET", "/v2/webhooks")
    rows = [
        (one["name"], one["address"], one["format"], one["study"] or "all", ", ".join(one["events"]) or "everything")
        for one in found["webhooks"]
    ]
    show_list(found, ("name", "address", "format", "study", "what"), rows, as_json)


list_of_studies(
    webhooks,
    "deliveries",
    "List what was told, the newest first, and whether it arrived.",
    "/v2/deliveries",
    "deliveries",
    {
        "number": "number",
        "what": "kind",
        "to": "receiver",
        "state": "state",
        "attempts": "attempts",
        "when": "at",
        "last error": "error",
    },
)


@webhooks.command("again")
def again(
    number: Annotated[int, typer.Argument(min=1, help="Of the delivery.")], url: Url = LOCAL, key_file: KeyFile = None
) -> None:
    """Send a delivery again."""
    request(url, key_file, "POST", f"/v2/deliveries/{number}/again")
    typer.echo(f"delivery {number} is sent again")
