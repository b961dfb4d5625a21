"""What a shuffler is told of a phase: how many reports to wait for and how they are encoded, and nothing else.

A device computes the privacy of the total as if everybody in the batch had its own encoding. It is the coordinator that
tells each device the encoding, and it could tell one person many levels and all the others little noise: for the same
encoding of all, either is private, but together they are not. Therefore every report states its whole encoding, and the
shuffler counts only those whose encoding is the one that it was told.

The ball is not compared, and may differ between people without harm: whatever the ball, an answer is clipped to it and
scaled to the same number of levels, so that it moves the total no farther, and the noise does not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from voxpop.core.errors import Array, InputError
from voxpop.core.phases import Tally
from voxpop.privacy.checks import check_finite, check_length


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

    @property
    def bits(self) -> int:
        """The number of bits that a person sends for each coordinate."""
        return self.levels + self.trials

    def tally(self, reports: Array) -> Tally:
        """Add up the ones of each coordinate in reports of shape (people, coordinates)."""
        check_length(reports, self.coordinates)
        check_finite(reports)
        if reports.min() < 0 or reports.max() > self.bits or (reports != reports.round()).any():
            raise InputError(f"a report has from 0 to {self.bits} ones for each arm; encode it again")
        return Tally.of_steps(reports, 1.0)

    def require_total(self, count: int, total: Sequence[int]) -> None:
        """Refuse a total that cannot be the whole batch's."""
        if count != self.size or len(total) != self.coordinates:
            raise InputError("the total is not that of the announced batch; forward the whole batch")
        if not all(0 <= ones <= count * self.bits for ones in total):
            raise InputError("the total holds more ones than the batch has bits; count again")
