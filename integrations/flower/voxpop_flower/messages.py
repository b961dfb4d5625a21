"""What the server and a node say to each other: one question, and one reply with a report or the reason for none.

A question is what any device of voxpop is told of a wave, as JSON. A report is a list of numbers, which Flower carries
as they are, to the last bit, or the bytes of a share.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict

from voxpop.errors import Array, InputError, require_integer
from voxpop.io.schema import asked_of_device, decode_release
from voxpop.model.direction import Direction
from voxpop.privacy import Release

ACTION = "voxpop"  # nodes answer messages of this type in a handler of their own, beside any training
MESSAGE_TYPE = f"query.{ACTION}"
RECORD = "voxpop"
MOST_WAVE = 2**31


@dataclass(frozen=True)
class Question:
    """What a node is asked: which decisions were in force for how many rounds, and how to make a report of that."""

    wave: int
    decisions: list[Any]
    rounds: list[int]
    release: Release
    helper: dict[str, Any]  # where one share of the report goes, if it is shared
    metrics: list[tuple[str, Direction]]  # the reward, whose name is empty, and those of guardrails; or costs


def ask(node: int, told: dict[str, Any], seconds: float) -> Message:
    """Write the message that asks a node; it has this many seconds to reply."""
    content = RecordDict({RECORD: ConfigRecord({"question": json.dumps(told, allow_nan=False)})})
    return Message(content, node, MESSAGE_TYPE, ttl=seconds, group_id=str(told["wave"]))


def read_question(message: Message) -> Question:
    """Read the question of a message, on a node that does not trust the server."""
    try:
        told = json.loads(message.content[RECORD]["question"])
        decisions, rounds = list(told["decisions"]), list(told["rounds"])
        if not len(decisions) == len(rounds) > 0 or not all(type(count) is int and count > 0 for count in rounds):
            raise ValueError("it needs a number of rounds for each decision")
        wave = require_integer("wave", told["wave"], least=1, most=MOST_WAVE)
        release, helper = told["release"], dict(told.get("helper", {}))
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"this is not a voxpop question ({error!s:.200}); nothing is sent") from None
    made = decode_release(release)
    return Question(wave, decisions, rounds, made, helper, asked_of_device(told, made.arms, len(decisions)))


def reply(message: Message, report: Sequence[float] | bytes) -> Message:
    """Answer a question with a report."""
    sent = report if isinstance(report, bytes) else [float(number) for number in report]
    return Message(RecordDict({RECORD: ConfigRecord({"report": sent})}), reply_to=message)


def decline(message: Message, reason: str) -> Message:
    """Answer a question with the reason why there is no report. It may not depend on anything the person gained."""
    return Message(RecordDict({RECORD: ConfigRecord({"declined": reason})}), reply_to=message)


def read_report(message: Message) -> Array:
    """Read the report of a reply, of shape (1, words), or raise an `InputError` that says why there is none."""
    if message.has_error():
        raise InputError(f"it failed ({message.error.reason!s:.200})")
    try:
        record = message.content[RECORD]
        if "declined" in record:
            raise InputError(f"it declined: {record['declined']!s:.200}")
        report = record["report"]
        return (
            np.frombuffer(report, dtype="<f8")[None, :]
            if isinstance(report, bytes)
            else np.array([report], dtype=float)
        )
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"it sent something else than a report ({type(error).__name__})") from None
