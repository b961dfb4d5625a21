"""The screens that connect a study with others: its application, who is told what happens, notes, and invitations."""

from __future__ import annotations

import secrets
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from voxpop.errors import InputError
from voxpop.service import operators
from voxpop.service.console.pages import PAGE_HEADERS, render
from voxpop.service.console.screen import Console, Form, Screens, form, page, whole
from voxpop.service.keys import new_key
from voxpop.service.outbox import receivers
from voxpop.service.outbox.receivers import FORMATS, Happening, Hook, Outside
from voxpop.service.refusals import Refusal
from voxpop.service.study import log, participants
from voxpop.service.study.status import notes_of

MOST_SHOWN = 50  # deliveries
MOST_CODES = 1000  # on one sheet
MOST_LONG_FORM = 2**20 + 4096  # bytes: a note that is far too long is told so, rather than its form


def sheet_of(study: str, links: list[str]) -> str:
    """Make a page to print, with each link and its QR code."""
    import segno

    pictures = [segno.make(link, error="m").svg_inline(scale=3, border=4) for link in links]
    return render("sheet", None, "", study=study, invitations=list(zip(links, pictures, strict=True)))


def link_of(link: str, code: str) -> str:
    """Put a code into a link, behind a # unless it says where: what follows a # is sent to no server.

    >>> link_of("https://app.example/join", "x7"), link_of("https://app.example/?code={code}", "x7")
    ('https://app.example/join#x7', 'https://app.example/?code=x7')
    """
    if "{code}" in link:
        return link.replace("{code}", code)
    return link + ("" if "#" in link else "#") + code


class OutsideScreens(Screens):
    """The handlers: those of a study are for its owners, too, who reach what is its own and nothing else."""

    def __init__(self, console: Console, outside: Outside) -> None:
        super().__init__(console)
        self.outside = outside

    @page("/system/webhooks", "manager")
    @page("/studies/{study}/connect", "manager")
    def connect(self, request: Request, study: str | None) -> Response:
        """Show how a study, or all of them, is connected with others: who is told what, and what became of it."""
        return self._show(request, study)

    def _show(self, request: Request, study: str | None, status: int = 200, **values: Any) -> Response:
        given: dict[str, Any] = {"study": study, "problem": "", "key": None, "made": "", "sent": {}, **values}
        given["hooks"] = receivers.list_hooks(self.database, self.coordinator.context.secrets, study)
        given["deliveries"] = receivers.list_deliveries(self.database, study, MOST_SHOWN)
        given |= {"formats": FORMATS, "kinds": [*Happening][:-1], "place": _place(study)}
        if study is not None:
            with self.database.read() as connection:
                row = log.row_of(connection, study)
            given |= {"public": row.public, "wave": row.wave, "notes": notes_of(self.coordinator.context, study)}
        return self.console.show(request, "connect", status, **given)

    @form("/system/webhooks", "manager", MOST_LONG_FORM)
    @form("/studies/{study}/connect", "manager", MOST_LONG_FORM)
    def do(self, request: Request, study: str | None, caller: str, sent: Form) -> Response:
        """Do what a button says, for all studies or for one."""
        database, now, what = self.database, self.console.now, sent.text("do")
        try:
            if what == "add":
                kinds = [kind for kind in [*Happening][:-1] if sent.text(kind)]
                kinds = [] if len(kinds) == len(Happening) - 1 else kinds
                hook = Hook(sent.text("name"), sent.text("address"), sent.text("format"), study, [*kinds])  # type: ignore[arg-type]
                receivers.set_hook(database, hook, now, self.outside, caller, replace=False)
            elif what == "remove":
                receivers.remove_hook(database, sent.text("name"), now, caller, study)
            elif what == "test":
                receivers.send_test(database, sent.text("name"), now, study)
            elif what == "again":
                receivers.send_again(database, whole("The number", sent.text("number")), now, caller, study)
            elif study is not None and what == "public":
                self.coordinator.open_decisions(study, sent.text("public") == "yes", caller)
            elif study is not None and what == "note":
                self.coordinator.note(study, whole("The wave", sent.text("wave")), sent.text("text"), caller)
            elif study is not None and what == "key":
                key, name = new_key(), sent.text("name")
                operators.add_key(database, name, key, now, "application", study, caller, replace=False)
                return self._show(request, study, key=key, made=name)
            elif study is not None and what == "invite":
                return self._invite(study, caller, sent)
            else:
                raise Refusal(422, "the form is not one of this page; reload it and try again")
        except (Refusal, InputError) as error:
            return self._show(request, study, getattr(error, "status", 422), problem=str(error), sent=dict(sent))
        return self.console.moved(request, _place(study))

    def _invite(self, study: str, caller: str, sent: Form) -> Response:
        count, link = whole("The number of invitations", sent.text("count")), sent.text("link")
        if not 1 <= count <= MOST_CODES:
            raise InputError(f"a sheet has 1 to {MOST_CODES:,} invitations, got {count:,}")
        if not link.startswith("https://") or len(link) > 500 or not link.isprintable():
            raise InputError(f"the link leads to your application, such as https://app.example/join, got {link!r:.80}")
        codes = [secrets.token_urlsafe(12) for _ in range(count)]
        participants.add_codes(self.coordinator.context, study, codes, caller)
        headers = {**PAGE_HEADERS, "content-disposition": f'attachment; filename="{study}-invitations.html"'}
        sheet = sheet_of(study, [link_of(link, code) for code in codes])
        return Response(sheet, headers=headers, media_type="text/html")


def _place(study: str | None) -> str:
    return "/system/webhooks" if study is None else f"/studies/{study}/connect"
