"""Webhooks over HTTP: receivers of what happens, and what became of each message to them."""

from __future__ import annotations

from typing import Annotated, Any

from voxpop.service.messages import says
from voxpop.service.operators import require_holder
from voxpop.service.outbox import receivers
from voxpop.service.outbox.receivers import Delivery, Format, Happening, Hook, Outside
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.web.bodies import reply
from voxpop.service.web.routes import Message, route

HOOKS = "/v2/webhooks"


class NewHook(Message):
    """Who is told what happens."""

    address: Annotated[str, says("https://..., or the address of an e-mail.")]
    format: Format = "json"
    study: Annotated[str | None, says("null: all.")] = None
    events: Annotated[list[str], says(f"None: all of {', '.join([*Happening][:-1])}.")] = []  # noqa: RUF012


Hooks = reply("Hooks", "Who is told what happens, by name.", webhooks=list[Hook])
Deliveries = reply("Deliveries", "What was told, or is to be, the newest first.", deliveries=list[Delivery])
Done = reply("Done", "It is done.", done=bool)


class WebhookRoutes:
    """The handlers."""

    def __init__(self, coordinator: Coordinator, outside: Outside) -> None:
        self.context, self.database, self.outside = coordinator.context, coordinator.database, outside

    @route("GET", HOOKS, "operator", Hooks, (403,))
    def webhooks(self) -> Any:
        """List who is told what happens."""
        return {"webhooks": receivers.list_hooks(self.database, self.context.secrets)}

    @route("PUT", HOOKS + "/{name}", "operator", Hook, (403, 404, 409))
    def set_webhook(self, name: str, caller: str, body: NewHook) -> Hook:
        """Tell somebody what happens from now on; it replaces the receiver of this name."""
        new = Hook(name, body.address, body.format, body.study, body.events)
        receivers.set_hook(self.database, new, self.context.clock(), self.outside, caller)
        found = receivers.list_hooks(self.database, self.context.secrets)
        return next(hook for hook in found if hook.name == require_holder(name))

    @route("DELETE", HOOKS + "/{name}", "operator", Done, (403,))
    def remove_webhook(self, name: str, caller: str) -> Any:
        """Tell somebody nothing any more; repeating the request changes nothing."""
        return {"done": receivers.remove_hook(self.database, name, self.context.clock(), caller)}

    @route("POST", HOOKS + "/{name}/test", "operator", Done, (403, 404))
    def test_webhook(self, name: str) -> Any:
        """Send a receiver a message that says nothing but that it arrives."""
        receivers.send_test(self.database, name, self.context.clock())
        return {"done": True}

    @route("GET", "/v2/deliveries", "operator", Deliveries, (403, 404))
    def deliveries(self, study: str | None = None) -> Any:
        """List what was told, of all studies or of one, and whether it arrived."""
        return {"deliveries": receivers.list_deliveries(self.database, study)}

    @route("POST", "/v2/deliveries/{number}/again", "operator", Done, (403, 404, 409))
    def send_again(self, number: str, caller: str) -> Any:
        """Send a delivery again."""
        receivers.send_again(self.database, int(number), self.context.clock(), caller)
        return {"done": True}
