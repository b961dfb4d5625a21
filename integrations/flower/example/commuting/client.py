"""A node: one person's device. What the person felt stays here, but for what the promise allows."""

from functools import partial

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from voxpop import Promise
from voxpop_flower import take_part

app = ClientApp()


def answers(person: int, decisions: list[dict[str, float]], rounds: list[int]) -> list[float]:
    """Return how content this person was on average with each start; yours would read what the device recorded."""
    rng = np.random.default_rng(person)
    favourite, mood = rng.normal(8.0, 0.5), rng.normal(0.0, 0.1)
    felt = [1.0 + mood - (decision["start"] - favourite) ** 2 / 4 for decision in decisions]
    return [value + rng.normal(0.0, 0.2 / count**0.5) for value, count in zip(felt, rounds, strict=True)]


@app.query("voxpop")
def query(message: Message, context: Context) -> Message:
    """Take part in the study, once. A promise of your own would not ask the run what to promise."""
    model, helper = str(context.run_config["model"]), context.node_config.get("voxpop-helper")
    named = {"helper": str(helper)} if model == "aggregate" and helper is not None else {}
    promise = Promise("none") if model == "none" else Promise(model, epsilon=5.0, **named)
    return take_part(message, context, partial(answers, int(context.node_config["partition-id"])), promise)
