"""A sample study that runs by itself: simulated people register and answer until it is over."""

from __future__ import annotations

import json
import time
from functools import cache
from threading import Thread
from typing import Any

import numpy as np

from voxpop.io.schema import decode_release
from voxpop.model.decisions import Float, Space
from voxpop.model.kernels import Matern
from voxpop.model.problem import Evidence, Problem
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.privacy.sources import Secure
from voxpop.service import logs
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal, accepted
from voxpop.service.study import inbox, log, participants
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import Definition, Rules
from voxpop.service.study.stages import Life, Stage
from voxpop.simulation.people import GPPeople
from voxpop.simulation.rehearsals import truth_of

NAME = "sample"
PEOPLE, AT_ONCE = 1_200, 30  # who answer in one look, so that the wave can be watched
PAUSE = 1.0  # seconds between two looks
SEED = 1


@cache
def definition() -> Definition:
    """Make the study: the price of a coffee, after a small pilot."""
    space = Space(price=Float(1.5, 4.5))
    tried = np.array([space.scale({"price": price}) for price in (1.5, 2.25, 3.0, 3.75, 4.5)])
    pilot = Evidence(tried, np.full(5, 7.0), 20, np.array([1.45, 2.05, 2.3, 2.2, 1.7]))
    problem = Problem(space.grid(31), Matern(1.5, 0.35), 0.8, 0.4, 1.5, 20_000, prior_mean=1.9, pilot=[pilot])
    policy = make_policy("waves", tolerance=0.15, most_people=PEOPLE - 100)
    return Definition(problem, policy, reward="profit", rules=Rules(rounds_per_second=100.0))


def begin(coordinator: Coordinator, actor: str) -> str:
    """Create the study and let people take part, in a thread that ends with the study; return its name."""
    taken = set(coordinator.studies())
    name = next(name for number in range(1, 1000) if (name := f"{NAME}-{number}") not in taken)
    coordinator.create(name, definition(), actor=actor)
    Thread(target=_run, args=(coordinator, name), name=name, daemon=True).start()
    return name


def _run(coordinator: Coordinator, study: str) -> None:
    """Let people register, and answer when they are invited, until there is nothing to answer any more."""
    context, keys = coordinator.context, [new_key() for _ in range(PEOPLE)]
    people = GPPeople(definition().problem, truth_of(definition().problem, SEED))
    rng = np.random.default_rng(SEED)
    try:
        participants.register(context, [participants.Newcomer(study, key) for key in keys])
        while not _over(coordinator, study):
            told = [accepted(reply) for reply in participants.check_in(context, [(study, key) for key in keys])]
            invited = [each for each in map(json.loads, told) if each["invited"]][:AT_ONCE]
            inbox.store(context, [_report(study, each, people, rng) for each in invited])
            time.sleep(PAUSE)
    except Refusal:  # it was deleted
        return
    except Exception as error:
        logs.fault("sample", error, study=study)


def _over(coordinator: Coordinator, study: str) -> bool:
    with coordinator.database.read() as connection:
        row = log.row_of(connection, study)
    return bool(row.stage == Stage.FINISHED or row.life == Life.ARCHIVED)


def _report(study: str, told: dict[str, Any], people: GPPeople, rng: np.random.Generator) -> inbox.Upload:
    wave = told["wave"]
    plan = Plan(wave["wave"], np.array(wave["arms"]), np.array(wave["rounds"]), 1)
    answers = people.observe(plan, 1, rng)
    report = np.asarray(decode_release(wave["release"]).randomize(answers, Secure()), dtype=float)
    return inbox.Upload((study, wave["wave"]), told["token"], report.tobytes())
