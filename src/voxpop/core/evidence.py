"""What people answered before the study: the pilot, as the averages of groups of people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from voxpop.core.errors import Array, InputError, require_array, require_integer, require_number

PROTECTED = ("noise_std", "epsilon", "delta")  # what is said of a protected pilot


@dataclass(frozen=True, eq=False)
class Evidence:
    """The average answers of people who tried the same actions for the same numbers of rounds.

    The actions are points of the kernel's space and need not belong to the decision set.

    >>> Evidence([[0.0], [0.5]], [20, 20], 40, [1.2, 1.9]).mean
    array([1.2, 1.9])
    """

    points: Array  # (actions, dimensions)
    rounds: Array  # (actions,) behind each person's averages
    people: int
    mean: Array  # (actions,)
    noise_std: float = 0.0  # of the noise that privacy added to each average
    epsilon: float | None = None  # what these people were promised; None: nothing
    delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("points", "rounds", "mean"):
            object.__setattr__(self, name, require_array(f"the pilot's {name}", getattr(self, name)))
        object.__setattr__(self, "people", require_integer("the pilot's people", self.people, least=1))
        object.__setattr__(self, "noise_std", require_number("the pilot's noise_std", self.noise_std, least=0))
        for name in ("epsilon", "delta"):
            if (value := getattr(self, name)) is not None:
                require_number(f"the pilot's {name}", value, above=0)
        length = len(self.points) if self.points.ndim == 2 else 0
        if not length or self.rounds.shape != (length,) or self.mean.shape != (length,):
            raise InputError(
                "a pilot needs one row of coordinates, one number of rounds and one average per action, got the shapes "
                f"{self.points.shape}, {self.rounds.shape} and {self.mean.shape}"
            )
        if self.rounds.min() <= 0:
            raise InputError(f"every average of a pilot needs a positive number of rounds, got {self.rounds.min():g}")

    def check(self, dimensions: int) -> None:
        """Refuse a pilot on other decisions than the study's."""
        if self.points.shape[1] != dimensions:
            raise InputError(
                f"the pilot's actions have {self.points.shape[1]} dimensions and the study's have {dimensions}; "
                "use a pilot on the same parameters, or none"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the answers as plain data."""
        data = {
            "points": self.points.tolist(),
            "rounds": self.rounds.tolist(),
            "people": self.people,
            "mean": self.mean.tolist(),
        }
        plain = self.epsilon is None and not self.noise_std
        return data if plain else {**data, **{name: getattr(self, name) for name in PROTECTED}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evidence:
        """Read what `to_dict` wrote."""
        protected = {name: data[name] for name in PROTECTED if data.get(name) is not None}
        return cls(data["points"], data["rounds"], data["people"], data["mean"], **protected)
