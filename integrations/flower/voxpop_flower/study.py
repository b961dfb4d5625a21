"""A study of people's devices: other software brings their reports, already added up, wave by wave.

`Study` takes answers and `DeviceStudy` takes tallies; what they keep, and how they save it, is the same. So a study of
devices may have any trust model, also those in which devices randomise, and goes on after its program was killed.
"""

from os import PathLike
from pathlib import Path
from typing import Self

from voxpop.errors import InputError
from voxpop.io.studyfile import read_study_file
from voxpop.journal.journal import Definition, Released
from voxpop.journal.wave import Wave, release_wave
from voxpop.model.direction import Direction
from voxpop.model.problem import Problem
from voxpop.model.waves import Tally
from voxpop.policies import Policy
from voxpop.privacy import NoPrivacy, Privacy, Secure
from voxpop.study.study import BaseStudy


class DeviceStudy(BaseStudy):
    """A study whose waves are closed with tallies, and whose noise, where the agent adds it, is the system's.

    >>> import numpy as np
    >>> from voxpop.model.kernels import SquaredExponential
    >>> from voxpop.policies import make_policy
    >>> problem = Problem([[0.0], [0.5], [1.0]], SquaredExponential(0.3), 0.01, 0.1, norm_bound=1.0, horizon=50)
    >>> study = DeviceStudy.open(problem, make_policy())
    >>> wave = study.open_wave()
    >>> reports = np.array([[0.3, 0.6, 0.2]] * wave.plan.people)
    >>> study.close_wave(wave.release.tally(reports))
    >>> study.best.decision, study.open_wave(), study.ended
    ([0.5], None, 'nothing else can be best')
    """

    @classmethod
    def open(
        cls,
        problem: Problem,
        policy: Policy,
        privacy: Privacy | None = None,
        path: str | PathLike[str] | None = None,
        *,
        direction: str = Direction.MAXIMIZE,
        name: str = "study",
        reward: str | None = None,
    ) -> Self:
        """Begin a study, or go on with the one that is saved at the path."""
        towards = Direction.of(direction)
        named = reward or towards.measure
        begun = Definition(towards.problem(problem), policy, privacy or NoPrivacy(), name, named, towards)
        return cls._opened(begun, None if path is None else Path(path))

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> Self:
        """Begin the study of a study file, or go on with it; it is saved beside the file, with the ending .json."""
        path = Path(path)
        begun, _ = read_study_file(path)
        if begun.strata is not None:
            raise InputError(f"{path} has strata, and devices that randomise cannot be weighed; remove [strata]")
        return cls._opened(begun, path.with_suffix(".json"))

    @classmethod
    def _opened(cls, begun: Definition, path: Path | None) -> Self:
        if path is None or not path.exists():
            return cls._begun_as(begun, path)
        study = cls.load(path)
        if (part := study.differs_from(begun)) is not None:
            raise InputError(
                f"{path} was begun with another {part}; undo the change, or move the file away to begin a new study"
            )
        return study

    def open_wave(self) -> Wave | None:
        """Return the wave to play and ask about now; None when nothing is left to learn."""
        return self._next_wave()

    def close_wave(self, tally: Tally, names: tuple[str, ...] = ()) -> None:
        """Release the reports of the open wave, if the ledger allows it, and learn from them.

        This draws noise where the agent adds it. The names are the pseudonyms of all whose reports are in the tally.
        """
        wave = self._course.wave
        if wave is None:
            raise InputError("no wave is open that a tally could close; open the next one first")
        self._add(Released(*release_wave(wave, [tally], self.ledger, Secure(), names)))
