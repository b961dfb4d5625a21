"""The policies that a study of the service can have, with their settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from voxpop.policies.dpbe import DPBE
from voxpop.policies.peers import EqualSplit, Halving, Thompson
from voxpop.policies.waves import Waves
from voxpop.service.web.bodies.base import Body, Count, Positive

AtLeastOne = Annotated[int, Field(ge=1)]


class WavesPolicy(Body):
    """Ask people while their answers are worth more than they cost; every limit may be left out."""

    name: Literal["waves"]
    answer_cost: float | None = Field(
        Waves.answer_cost, ge=0, description="The cost of one number, in units of reward; null for a small share of v."
    )
    tolerance: Positive | None = Field(
        Waves.tolerance, description="Go on until the decision is certified to this, even if that does not pay."
    )
    most_people: AtLeastOne | None = Field(Waves.most_people, description="The most people in all waves together.")
    most_numbers: AtLeastOne | None = Field(Waves.most_numbers, description="The most numbers that are sent in all.")
    most_waves: AtLeastOne | None = Field(Waves.most_waves, description="The most waves.")
    population: AtLeastOne | None = Field(Waves.population, description="The people there are; nobody is asked twice.")
    answer_delay: Count = Field(Waves.answer_delay, description="Rounds that pass while people answer.")
    checks: Count = Field(Waves.checks, description="Random arms in each wave.")
    delta: float = Field(Waves.delta, gt=0, lt=1, description="The probability that the certificate is false.")
    seed: Count = Field(Waves.seed, description="Of the draws by which waves are valued.")


class DPBEPolicy(Body):
    """Play waves of 1, 2, 4, ... rounds, and drop what cannot be best."""

    name: Literal["dpbe", "dpbe-paper", "dpbe-fixed", "dpbe-nobatching"]
    alpha: Positive = DPBE.alpha
    ratio: float = Field(DPBE.ratio, gt=1)
    width: Literal["affine", "printed"] = DPBE.width
    batches: Literal["corrected", "printed", "single"] = DPBE.batches
    intersect: bool = DPBE.intersect
    compare: bool = DPBE.compare
    settle: bool = DPBE.settle
    rest: bool = DPBE.rest
    people: AtLeastOne | None = DPBE.people


class PilotOnlyPolicy(Body):
    """Ask nobody, and keep the pilot's best action."""

    name: Literal["pilot-only"]


class EqualSplitPolicy(Body):
    """Ask the same people about every action, once."""

    name: Literal["equal-split"]
    people: AtLeastOne = EqualSplit.people
    arms: AtLeastOne = EqualSplit.arms


class HalvingPolicy(Body):
    """Ask about all actions, then about the better half, until one is left."""

    name: Literal["halving"]
    people: AtLeastOne = Field(Halving.people, description="In the first wave.")
    arms: AtLeastOne = Field(Halving.arms, description="In the first wave.")


class ThompsonPolicy(Body):
    """Ask about one action a wave, the best of a function drawn from what is known."""

    name: Literal["thompson"]
    people: AtLeastOne = Thompson.people
    steps: AtLeastOne = Thompson.steps
    widen: Positive = Thompson.widen
    seed: Count = Thompson.seed


Policy = Annotated[
    WavesPolicy | DPBEPolicy | PilotOnlyPolicy | EqualSplitPolicy | HalvingPolicy | ThompsonPolicy,
    Field(discriminator="name"),
]
