"""A node's part: check the promise, average what the node saw, add the noise that the model asks for, and count.

A node does not trust the server. It computes the privacy of a release itself, and a file of its own counts its reports,
whatever run, SuperLink or restart comes between: Flower's own state of a node ends with the process of its SuperNode.
"""

import logging
import math
import secrets
from collections.abc import Callable
from os import PathLike

import httpx
import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from voxpop.client.promise import Promise
from voxpop.client.storage import Memory, Outgoing
from voxpop.errors import Array, InputError
from voxpop.privacy import Secure
from voxpop_flower import messages
from voxpop_flower.shares import check_helper, send_share

SECONDS = 30.0  # that the helper has to answer
MEMORY = "voxpop-memory"  # the entry of a node's own configuration that names the file

Answers = Callable[..., list[float]]

log = logging.getLogger("flwr")


def client_app(answers: Answers, promise: Promise) -> ClientApp:
    """Make a ClientApp that takes part in a study.

    `answers(decisions, rounds)` returns what this node gained on average from each decision, while it was in force for
    so many rounds, or what that cost it if the study minimises; NaN where it does not know. For each guardrail of the
    study, `answers(decisions, rounds, metric)` returns the same of its metric, by name. All of it stays on the node but
    for what the promise allows.
    """
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        return take_part(message, context, answers, promise)

    app.query(messages.ACTION)(answer)
    return app


def take_part(
    message: Message,
    context: Context,
    answers: Answers,
    promise: Promise,
    memory: str | PathLike[str] | None = None,
) -> Message:
    """Answer the question of a study, if the promise allows it; a handler for any ClientApp, beside its training.

    The file that counts this node's reports is `memory`, or else the one that the node's own configuration names:
    flower-supernode --node-config 'voxpop-memory="/var/lib/voxpop/node.db"'.
    """
    try:
        path = memory or context.node_config.get(MEMORY)
        if not isinstance(path, str | PathLike):
            raise InputError(
                f"this node does not know where to count its reports; start it with --node-config '{MEMORY}=\"FILE\"'"
            )
        return messages.reply(message, _report(messages.read_question(message), answers, promise, Memory(path)))
    except (
        InputError
    ) as refused:  # what these say follows from the question, the promise and the count, not from answers
        log.warning("nothing is sent: %s", refused)
        return messages.decline(message, str(refused))


def _report(question: messages.Question, answers: Answers, promise: Promise, memory: Memory) -> list[float] | bytes:
    """Make the report, and count it before it leaves: from then on somebody may have seen it."""
    release = question.release
    promise.check(release)
    check_helper(release, question.helper)
    if memory.reports >= promise.participations:
        raise _spent(promise)
    averages = _averages(question, answers)
    if np.isnan(averages).any() and not release.fills_gaps:
        raise InputError("this node does not know what it gained from some decision; nothing is sent")
    source = Secure()
    parts = release.parts(release.randomize(averages, source)[0], source)
    assert parts.coordinator is not None
    _count(memory, question.wave, promise)
    if parts.helper is not None:  # first, because a share that only the server has would be counted by nobody
        with httpx.Client(timeout=SECONDS) as http:
            send_share(question.helper, promise, parts.helper, http)
    if isinstance(parts.coordinator, bytes):
        return parts.coordinator
    report: list[float] = parts.coordinator["report"]
    return report


def _count(memory: Memory, wave: int, promise: Promise) -> None:
    """Count one more report, or refuse it. Flower delivers a question once, so that the report need not be kept."""
    left = memory.outgoing()
    if left is not None:  # a process was killed right here, and its report was counted
        memory.forget(left.wave)
    mine = Outgoing(wave, "", secrets.token_urlsafe(), b"")
    if memory.keep_within(mine, promise.participations) != mine:  # another process of this node may have been faster
        raise _spent(promise)
    memory.forget(wave)


def _averages(question: messages.Question, answers: Answers) -> Array:
    """Ask the team's function about each metric; where it fails, the person's averages are missing.

    An error that left the node could say something about the person, so that it is told to the node's log only.
    """
    arms, known = len(question.decisions), list[Array]()
    for name, direction in question.metrics:
        try:
            found = np.array(answers(question.decisions, question.rounds, *filter(None, [name])), dtype=float)
            if found.shape != (arms,):
                raise ValueError(f"answers() returned the shape {found.shape} for {arms} decisions")
        except Exception:
            log.exception("the answers of this node could not be read, and count as missing")
            found = np.full(arms, math.nan)
        known.append(direction.turn(found))
    return np.concatenate(known)[None, :]


def _spent(promise: Promise) -> InputError:
    return InputError(
        f"this node has made as many reports as its promise allows, {promise.participations}; nothing is sent"
    )
