"""The definition of a study: what an operator sends to create it, and the first event of its log."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from voxpop.model.kernels import Constant, Linear, Matern, SquaredExponential
from voxpop.privacy import Private
from voxpop.service.study.definition import Rules
from voxpop.service.web.bodies.base import Body, Count, Matrix, Numbers, Positive, TrustModel
from voxpop.service.web.bodies.policies import Policy


class ScaledKernel(Body):
    """A multiple of a kernel."""

    type: Literal["scaled"]
    kernel: Kernel
    scale: float


class PairKernel(Body):
    """The sum or the product of two kernels."""

    type: Literal["sum", "product"]
    left: Kernel
    right: Kernel


class SquaredExponentialKernel(Body):
    """A kernel for smooth functions."""

    type: Literal["squared-exponential"]
    length_scale: Positive | tuple[Positive, ...] = SquaredExponential.length_scale


class MaternKernel(Body):
    """A kernel for rougher functions."""

    type: Literal["matern"]
    length_scale: Positive | tuple[Positive, ...] = Matern.length_scale
    nu: float = Matern.nu


class LinearKernel(Body):
    """A kernel for linear functions."""

    type: Literal["linear"]
    length_scale: Positive | tuple[Positive, ...] = Linear.length_scale
    offset: float = Linear.offset


class ConstantKernel(Body):
    """A kernel for constant functions."""

    type: Literal["constant"]
    value: float = Constant.value


class PrecomputedKernel(Body):
    """A kernel given by its values for all pairs of actions."""

    type: Literal["precomputed"]
    matrix: Matrix


Kernel = Annotated[
    SquaredExponentialKernel
    | MaternKernel
    | LinearKernel
    | ConstantKernel
    | PrecomputedKernel
    | PairKernel
    | ScaledKernel,
    Field(discriminator="type"),
]


class PilotGroup(Body):
    """The average answers of people who tried the same actions for the same numbers of rounds before the study."""

    points: Matrix = Field(description="One row per action, in the coordinates of the kernel.")
    rounds: list[Positive] = Field(description="How often each of them tried each action.")
    people: int = Field(ge=1)
    mean: Numbers = Field(description="The average over these people, one per action.")
    noise_std: float = Field(0.0, ge=0, description="Of the noise that privacy added to each average.")
    epsilon: Positive | None = Field(None, description="What these people were promised, if anything.")
    delta: Positive | None = None


class Problem(Body):
    """What is known before the first question is asked."""

    points: Matrix = Field(description="One row per action, in the coordinates of the kernel.")
    labels: list[dict[str, Any]] | None = Field(description="The parameters of each action, by name.")
    kernel: Kernel
    noise_std: Positive
    bias_std: Positive
    norm_bound: Positive
    horizon: int = Field(ge=1, le=10**15)
    prior_mean: float | Numbers = 0.0
    beta: float | None = None
    ridge: float | None = None
    pilot: list[PilotGroup] = Field(default_factory=list)


class NoPrivacyModel(Body):
    """No privacy: people trust the operator with their averages."""

    model: Literal["none"]


class PrivacyModel(Body):
    """The privacy promised to everybody, and whom they need to trust for it."""

    model: TrustModel
    epsilon: Positive
    delta: Positive = Private.delta
    calibration: Literal["exact", "paper"] = "exact"
    floor: Count | None = Field(Private.floor, description="The least number of people per wave.")
    honest: Positive = Field(Private.honest, le=1, description="The share of the devices that must add their noise.")


class StudyDefinition(Body):
    """Everything that defines a study; `voxpop study create` makes it from a study file."""

    problem: Problem
    policy: Policy | None = Field(None, description="The default policy, unless given.")
    privacy: Annotated[NoPrivacyModel | PrivacyModel, Field(discriminator="model")]
    rules: Rules
    reward: str
