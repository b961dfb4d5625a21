"""What a trust model is: `Privacy` enlists people and calibrates a `Release` for each wave.

A release defines everything that depends on the model: what a device checks and sends, who adds the reports up, what
the agent makes of them, and what that costs. Its fields are its public constants, as `io.schema` writes and reads them.
Code outside `privacy/` need not ask which model it is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import numpy as np
from msgspec import Meta

from voxpop.errors import Array, InputError
from voxpop.model.problem import Problem
from voxpop.model.state import Channel, State
from voxpop.model.strata import Sample
from voxpop.model.waves import Feedback, Plan, Tally
from voxpop.privacy.field import Field64
from voxpop.privacy.ledger import Budget, Entry
from voxpop.privacy.prio3 import Prio3, sum_vec
from voxpop.privacy.sources import Source

# What the public constants of a release may be when they are read; io.schema checks it.
Count = Annotated[int, Meta(ge=1, le=10**15)]  # people, bits or arms; counts up to this are exact as floats
Positive = Annotated[float, Meta(gt=0)]
Chance = Annotated[float, Meta(gt=0, le=1)]


def check_length(reports: Array, arms: int) -> None:
    """Refuse reports of another length, and an empty list of reports."""
    if reports.ndim != 2:
        raise InputError(f"reports must have the shape (people, {arms}), got {reports.shape}; a report is a row")
    if reports.shape[1] != arms:
        raise InputError(f"a report has {arms} numbers, got shape {reports.shape[1:]}; send one for each arm")
    if not len(reports):
        raise InputError("there is not a single report to add up; wait for one")


def check_finite(reports: Array) -> None:
    """Refuse reports with infinities or NaN, which no device sends."""
    if not np.isfinite(reports).all():
        bad = reports[~np.isfinite(reports)][0]
        raise InputError(f"a report holds {bad}, which no device sends; send finite numbers only")


COORDINATING, HELPING = 0, 1  # the numbers of the two servers between which reports are shared
SHUFFLER, HELPER = "shuffler", "helper"  # the second servers there are: one adds reports up, one its shares of them


@dataclass(frozen=True)
class Batch:
    """The reports that are added up together.

    >>> import numpy as np
    >>> batch = Batch(size=2, coordinates=3, levels=3, trials=1, chance=0.5)
    >>> batch.tally(np.array([[0.0, 1.0, 4.0], [2.0, 1.0, 0.0]])).total
    (2, 2, 4)
    """

    size: int  # the number of people; fewer would weaken everyone's privacy
    coordinates: int
    levels: int  # of an answer
    trials: int  # of the noise
    chance: float  # of the noise; compared exactly, because everybody is sent the same JSON number
    shared: bool = False  # reports are shares, whose twins are elsewhere

    @property
    def bits(self) -> int:
        """The largest number that a person reports for a coordinate."""
        return self.levels + self.trials

    @property
    def modulus(self) -> int:
        """M, modulo which two shares add up to a report; no total reaches it."""
        return Field64.modulus

    @property
    def prio3(self) -> Prio3:
        """How a report is shared, with a proof that each of its numbers is between 0 and `bits`."""
        return sum_vec(self.coordinates, self.bits)

    def words(self, holder: int) -> int:
        """Return the words of eight bytes in a stored report, or in a share that the server of this number holds."""
        return self.prio3.upload_bytes(holder) // 8 if self.shared else self.coordinates

    def stated(self) -> dict[str, Any]:
        """Return the batch as every report states it."""
        return {name: value for name, value in asdict(self).items() if name != "shared" or value}

    def tally(self, reports: Array) -> Tally:
        """Add up the ones of each coordinate in reports of shape (people, coordinates)."""
        check_length(reports, self.coordinates)
        check_finite(reports)
        if reports.min() < 0 or reports.max() > self.bits or (reports != reports.round()).any():
            raise InputError(f"a report has from 0 to {self.bits} ones for each arm; encode it again")
        return Tally.of_steps(reports, 1.0)

    def accept(self, stored: Array) -> None:
        """Refuse reports that the second server cannot add up; a share there is seeds, and any bytes are."""
        if not self.shared:
            self.tally(stored)

    def gather(self, stored: Array, holder: int = HELPING) -> Tally:
        """Add up what a server stores, (people, words): reports, or its shares of them modulo M."""
        if not self.shared:
            return self.tally(stored)
        check_length(stored, self.words(holder))
        outputs = self.prio3.outputs(holder, [row.tobytes() for row in stored])
        total = self.prio3.circuit.field.total(outputs, axis=0)
        return Tally(len(stored), tuple(map(int, total)), 1.0)

    def could_be_shares(self, total: Sequence[int]) -> bool:
        """Return True if this can be a total of shares, of which a helper tells the remainder modulo M."""
        return len(total) == self.coordinates and all(0 <= number < self.modulus for number in total)

    def require_total(self, count: int, total: Sequence[int]) -> None:
        """Refuse a total that cannot be the whole batch's; of shares more may be added up, which makes more noise."""
        if count < self.size or (count > self.size and not self.shared) or len(total) != self.coordinates:
            raise InputError("the total is not that of the announced batch; forward the whole batch")
        if not all(0 <= ones <= count * self.bits for ones in total):
            raise InputError("the total holds more ones than the batch has bits; count again")


@dataclass(frozen=True)
class Parts:
    """What a device sends of one report: to the coordinator, to the shuffler or helper, or a share to each."""

    coordinator: dict[str, Any] | bytes | None = None  # bytes are sent as they are, and the rest as JSON
    helper: dict[str, Any] | None = None


View = Callable[[Array, Source], Array]  # what somebody sees of answers, (people, arms), as numbers for each arm


class Release(ABC):
    """How one wave is released, as public constants that may be sent to anyone.

    Unless a model says otherwise, devices send their report to the agent, which adds the reports up.
    """

    model: ClassVar[str]
    noise_on_device: ClassVar[bool] = False  # people's own devices randomise their reports
    second: ClassVar[str | None] = None  # the server that takes part besides, run by somebody else: SHUFFLER or HELPER
    most_delta: ClassVar[float] = 1.0  # the largest delta for which the calibration is proved
    fills_gaps: ClassVar[bool] = True  # an average that is missing (NaN) is answered with the centre
    seen: ClassVar[str]  # who sees a person's own answer, and what that costs, in a sentence or two

    if TYPE_CHECKING:  # a field of some releases

        @property
        def arms(self) -> int:
            """The number of averages in an answer."""

    @property
    def limits(self) -> tuple[float | Array, float | Array]:
        """What each number of a report is clipped to by itself, before it is added up."""
        return -math.inf, math.inf

    @property
    def batch(self) -> Batch | None:
        """What the second server must know to add reports or shares up; None if the agent adds up by itself."""
        return None

    def weakness(self, epsilon: float, delta: float, honest: float = 1.0) -> str | None:
        """Say why a device that was promised (eps, delta) must not answer; None if the release keeps the promise.

        The promise holds although only this share of the people's devices is honest and adds noise. If the agent adds
        the noise, a device has nothing to check.
        """
        return None

    def alone(self) -> Release:
        """Return the release as it protects a person if all others are made up: with this person's own noise only."""
        return self

    @abstractmethod
    def randomize(self, y: Array, source: Source) -> Array:
        """Compute, on the device, the reports for averages y; both have the shape (people, arms)."""

    def parts(self, report: Array, source: Source) -> Parts:
        """Return what the device sends of its report, and to whom. Shares are drawn here, once per report."""
        return Parts({"report": report.tolist()})

    @property
    def words(self) -> int:
        """The words of eight bytes in a report as the agent stores it: its numbers, unless it is a share."""
        return self.arms

    def gather(self, stored: Array) -> Tally:
        """Add up reports as the agent stores them, (people, words)."""
        return self.tally(stored)

    def accept(self, stored: Array) -> None:
        """Refuse reports that could not be added up, when they arrive."""
        self.gather(stored)

    @abstractmethod
    def tally(self, reports: Array) -> Tally:
        """Add reports up, at the agent or at the shuffler."""

    def join(self, ours: Tally, theirs: Tally) -> Tally:
        """Put the totals of the agent and of the helper together; refuse a total that no people can have."""
        return ours + theirs

    def crowd(self, mean: Array, root: Array, people: int, rng: np.random.Generator) -> Tally | None:
        """Draw at once the tally of people with averages mean + root w, w standard Gaussian; None if it cannot."""
        return None

    def require_whole(self, tally: Tally) -> Tally:
        """Return the tally, or refuse one of fewer people than the noise was calibrated for."""
        return tally

    @abstractmethod
    def analyze(self, tally: Tally, source: Source) -> Feedback:
        """Compute, at the agent, the private average. Call it once per wave, because it draws noise."""

    def weighted(self, reports: Array, sample: Sample, source: Source) -> Feedback:
        """Compute, at the agent, the private average of people who were sampled unevenly. This draws noise, too."""
        raise InputError(
            f"the {self.model} model cannot weigh people who were sampled unevenly; draw them in proportion to the "
            "shares and leave the strata out"
        )

    @abstractmethod
    def entry(self, count: int) -> Entry:
        """Return the ledger's entry for this release, about `count` people."""

    def describe(self) -> dict[str, Any]:
        """Return the main public constants, for people to read."""
        return {"model": self.model}


class Privacy(Channel, Protocol):
    """A trust model with its parameters; a policy that plans sees it as a channel."""

    @property
    def model(self) -> str:
        """The model's name: `none`, or a key of `RELEASES`."""

    @property
    def release_type(self) -> type[Release]:
        """The type of its releases."""

    @property
    def budget(self) -> Budget | None:
        """What a person may be exposed to; None if nothing is promised."""

    @property
    def cost(self) -> Entry | None:
        """What a release costs a person in it; None if nothing is promised."""

    def calibrate(self, problem: Problem, state: State, plan: Plan) -> Release:
        """Calibrate the release of a wave, from public constants only."""

    def describe(self) -> dict[str, Any]:
        """Return the parameters and their caveats, for people to read."""

    def settings(self) -> dict[str, Any]:
        """Return the parameters as plain data, from which `privacy_from_settings` makes the same trust model."""
