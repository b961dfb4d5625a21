"""What a shuffler or helper is told of a phase: how many reports to wait for, how they are encoded, and nothing else.

A device computes the privacy of the total as if everybody in the batch had its own encoding. It is the coordinator that
tells each device the encoding, and it could tell one person many levels and all the others little noise: for the same
encoding of all, either is private, but together they are not. Therefore every report states its whole encoding, and the
shuffler counts only those whose encoding is the one that it was told.

The ball is not compared, and may differ between people without harm: whatever the ball, an answer is clipped to it and
scaled to the same number of levels, so that it moves the total no farther, and the noise does not depend on it.

Where a report is shared between two servers, each holds whole numbers below the modulus M = 256^w, which add up to the
report modulo M. A report holds at most `bits` for a coordinate and a batch `size` reports, so every true total is at
most size * bits. The width w is the least for which that is below M: therefore the total modulo M *is* the total, and
nothing ever wraps around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from voxpop.core.errors import Array, InputError
from voxpop.core.phases import Tally
from voxpop.privacy.checks import check_finite, check_length

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
    def width(self) -> int:
        """The bytes of a share: the least for which no total reaches the modulus.

        >>> Batch(size=5, coordinates=1, levels=50, trials=1, chance=0.5).width  # a total of 255 at most
        1
        >>> Batch(size=4, coordinates=1, levels=63, trials=1, chance=0.5).width  # 256
        2
        """
        return ((self.size * self.bits).bit_length() + 7) // 8

    @property
    def modulus(self) -> int:
        """M, modulo which two shares add up to a report."""
        return int(256**self.width)

    def stated(self) -> dict[str, Any]:
        """Return the batch as every report states it."""
        return {name: value for name, value in asdict(self).items() if name != "shared" or value}

    def tally(self, reports: Array) -> Tally:
        """Add up the ones, or the shares, of each coordinate in reports of shape (people, coordinates)."""
        check_length(reports, self.coordinates)
        check_finite(reports)
        most = self.modulus - 1 if self.shared else self.bits
        if reports.min() < 0 or reports.max() > most or (reports != reports.round()).any():
            what = "a share is a whole number" if self.shared else "a report has"
            raise InputError(f"{what} from 0 to {most} {'' if self.shared else 'ones '}for each arm; encode it again")
        return Tally.of_steps(reports, 1.0)

    def could_be_shares(self, total: Sequence[int]) -> bool:
        """Return True if this can be a total of shares, of which a helper tells the remainder modulo M."""
        return len(total) == self.coordinates and all(0 <= number < self.modulus for number in total)

    def require_total(self, count: int, total: Sequence[int]) -> None:
        """Refuse a total that cannot be the whole batch's."""
        if count != self.size or len(total) != self.coordinates:
            raise InputError("the total is not that of the announced batch; forward the whole batch")
        if not all(0 <= ones <= count * self.bits for ones in total):
            raise InputError("the total holds more ones than the batch has bits; count again")


@dataclass(frozen=True)
class Parts:
    """What a device sends of one report: to the coordinator, to the shuffler or helper, or a share to each."""

    coordinator: dict[str, Any] | None = None
    helper: dict[str, Any] | None = None
