"""Nodes without processes: messages pass through Flower's own types, and every node's ClientApp is called directly."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from voxpop import Problem, Promise, SquaredExponential, make_policy
from voxpop.model.guardrails import Guardrail, Rule
from voxpop.privacy import make_privacy
from voxpop_flower import client_app
from voxpop_flower.messages import read_report
from voxpop_flower.study import DeviceStudy

EPSILON = 5.0


def study(model: str = "none", path: Path | None = None, population: int = 60, rails: bool = False) -> DeviceStudy:
    points = np.linspace(0.0, 1.0, 9)[:, None].tolist()
    problem = Problem(points, SquaredExponential(0.4), noise_std=0.2, bias_std=0.4, norm_bound=1.5, horizon=2_000)
    privacy = make_privacy(model, None if model == "none" else EPSILON)
    if rails:
        problem = replace(problem, horizon=50_000)
        problem = replace(problem, guardrails=(Guardrail(Rule.of("complaints <= 0.3"), problem, (0.2,)),), today=0)
    policy = make_policy("waves", population=population, trials="any" if rails else "safe")
    return DeviceStudy.open(problem, policy, privacy, path)


def promise(model: str, **more: Any) -> Promise:
    other = {"helper": "https://helper.example"} if model == "aggregate" else {}
    return Promise(model, math.inf if model == "none" else EPSILON, **{**other, **more})


def answers_of(person: int, decisions: list[Any], rounds: list[int], metric: str = "") -> list[float]:
    """What a person gained: always the same, so that a simulator can be told the same."""
    rng = np.random.default_rng([person, 1] if metric else person)
    noise = rng.normal(0.0, 0.2, size=len(rounds)) / np.sqrt(rounds)
    if metric == "complaints":
        return [float(decision[0] / 2 + odd) for decision, odd in zip(decisions, noise, strict=True)]
    return [float(1.0 - (decision[0] - 0.5) ** 2 + odd) for decision, odd in zip(decisions, noise, strict=True)]


def context_of(folder: Path, node: int) -> Context:
    config: Any = {"voxpop-memory": str(folder / f"{node}.db")}
    return Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config={})


class Direct:
    """A grid whose nodes reply as soon as they are looked at, unless they are silent, broken or odd."""

    def __init__(self, folder: Path, nodes: int, app: ClientApp | None = None, model: str = "none") -> None:
        self.folder, self.nodes, self.app = folder, list(range(1, nodes + 1)), app
        self.promise = promise(model)
        self.silent, self.broken, self.odd = set[int](), set[int](), set[int]()
        self.sent: dict[str, Message] = {}
        self.asked: list[int] = []
        self.reports: dict[int, dict[int, list[float]]] = {}

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        names = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"{len(self.sent)}"  # as the SuperLink does
            self.sent[message.metadata.message_id] = message
            self.asked.append(message.metadata.dst_node_id)
            names.append(message.metadata.message_id)
        return names

    def pull_messages(self, names: Iterable[str]) -> list[Message]:
        asked = [self.sent[name] for name in names]
        return [self._reply(message) for message in asked if message.metadata.dst_node_id not in self.silent]

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        if node in self.broken:
            return Message(Error(code=0, reason="it broke"), reply_to=message)
        app = self.app or client_app(lambda *asked: answers_of(node, *asked), self.promise)
        reply: Message = app(message, context_of(self.folder, node))
        record = reply.content["voxpop"]
        if node in self.odd:
            record["report"] = [0.5]
        elif "report" in record:
            self.reports.setdefault(int(message.metadata.group_id), {})[node] = read_report(reply)[0].tolist()
        return reply
