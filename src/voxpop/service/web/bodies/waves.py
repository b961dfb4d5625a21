"""The waves of a study: what devices are told about one, and what the log keeps of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from voxpop.service.web.bodies.base import Body, Count, Decision, Matrix, Numbers, Positive
from voxpop.service.web.bodies.definition import StudyDefinition


class Forecast(Body):
    """What a wave was expected to bring and to cost, in units of reward, before it was played."""

    gain: float = Field(description="By the better decision, over the rounds that are left.")
    answers: float = Field(description="The price of the answers.")
    exploring: float = Field(description="Lost while poorer actions are in force.")
    certificate: float | None = Field(None, description="What is expected to be certified afterwards.")


class Plan(Body):
    """What is played in a wave, and how many people are asked after it."""

    wave: int = Field(ge=1)
    arms: list[Count] = Field(description="The actions that are played, by index.")
    pulls: list[Count] = Field(description="The number of rounds for which each is played.")
    people: Count
    reference: Count = Field(description="The action with which all others are compared.")
    reports: Literal["averages", "rounds"]
    rest: Count = Field(0, description="Rounds after those of the arms, in which the reference is in force.")
    forecast: Forecast | None = None


class Binomial(Body):
    """The noise Bin(trials, chance) of every total, and how far one person can move the totals."""

    trials: Count
    chance: float
    shift: Count


class LedgerEntry(Body):
    """What one release costs a person in privacy."""

    model: str
    people: Count
    epsilon: float | None = Field(description="null if nothing is promised.")
    delta: float
    multiplier: float | None
    wave: Count
    names: list[str]
    binomial: Binomial | None = None
    honest: float = Field(1.0, description="The share of the people whose devices are counted on to add noise.")
    guaranteed: bool


class Ball(Body):
    """The ball to which answers are clipped: |z| <= radius, where root z = answers - centre."""

    metric: str
    centre: Numbers
    root: Matrix = Field(description="Lower triangular.")
    radius: float | None = Field(description="null if it is infinite.")
    tail: tuple[Numbers, Numbers] = Field(description="How the coordinator accounts for clipping; empty for devices.")


class Encoding(Body):
    """How a coordinate is encoded in the shuffle and aggregate models."""

    levels: int = Field(ge=1, description="g")
    trials: int = Field(ge=1, description="b")
    chance: float = Field(gt=0, lt=1, description="p")
    people: int = Field(ge=1, description="The number of people for which the noise is sufficient.")


class PlainRelease(Body):
    """Averages are sent as they are."""

    model: Literal["none"]
    step: Positive
    arms: int = Field(ge=1)


class AdditiveRelease(Body):
    """Noise is added by the coordinator (central) or by every device (local)."""

    model: Literal["central", "local"]
    ball: Ball
    beta: float
    cost: LedgerEntry
    step: Positive
    std: float = Field(ge=0)


class ShuffledRelease(Body):
    """Every device adds a share of the noise."""

    model: Literal["shuffle", "aggregate"]
    ball: Ball
    beta: float
    cost: LedgerEntry
    encoding: Encoding


Release = Annotated[PlainRelease | AdditiveRelease | ShuffledRelease, Field(discriminator="model")]


class DeviceWave(Body):
    """What a device needs to know about a wave to make its report."""

    wave: int = Field(ge=1)
    arms: list[Count]
    decisions: list[Decision]
    rounds: list[Count]
    release: Release


class Feedback(Body):
    """The average over everybody who answered, and what privacy did to it."""

    mean: Numbers
    count: Count
    noise: Matrix | None
    clipping: Matrix | None
    printed: bool
    scatter: Numbers | None = Field(None, description="The variances of single people's averages, where they are seen.")


class OpenedWave(Body):
    """The plan of a wave and the public constants of its release."""

    plan: Plan
    release: Release


class ClosedWave(Body):
    """The release of a wave and its entry in the ledger."""

    feedback: Feedback
    entry: LedgerEntry


class Finish(Body):
    """Why no further wave is planned."""

    reason: str = ""
    early: bool = Field(False, description="An operator ended the study.")


class Event(Body):
    """An event of the log."""

    seq: Count
    at: float = Field(description="Seconds since 1970 by the clock of the coordinator that appended it.")


class CreatedEvent(Event):
    """The study was created."""

    kind: Literal["created"]
    body: StudyDefinition


class OpenedEvent(Event):
    """A wave was planned."""

    kind: Literal["opened"]
    body: OpenedWave


class ClosedEvent(Event):
    """A wave was released."""

    kind: Literal["closed"]
    body: ClosedWave


class FinishedEvent(Event):
    """There is nothing left to learn."""

    kind: Literal["finished"]
    body: Finish


LogEvent = Annotated[CreatedEvent | OpenedEvent | ClosedEvent | FinishedEvent, Field(discriminator="kind")]
