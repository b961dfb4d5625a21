"""What the owner of a device was promised, and the check that the coordinator's release keeps that promise.

The device does not trust the coordinator: it computes from the constants of each release how much noise they amount to,
and compares this with its promise before anything is sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from voxpop.errors import InputError, require_integer, require_number
from voxpop.privacy import Release
from voxpop.privacy.gaussian import require_delta, require_epsilon
from voxpop.privacy.models import release_type_of
from voxpop.privacy.release import HELPER, SHUFFLER


@dataclass(frozen=True)
class Promise:
    """The trust model, the (eps, delta) of one report, and how many reports may ever leave the device.

    `honest` is the share of the people whose devices must add their noise for the promise to hold; in the shuffle and
    aggregate models, a device with a smaller share accepts only releases with more noise. `shuffler` is the address of
    the only shuffler that may see a report, and `helper` that of the only helper that may get a share; without them, a
    device believes the coordinator about who that is.

    >>> Promise("shuffle", epsilon=5.0).participations
    1
    """

    model: str = "none"
    epsilon: float = math.inf
    delta: float = 1e-6
    participations: int = 1
    honest: float = 1.0
    shuffler: str | None = None
    helper: str | None = None

    def __post_init__(self) -> None:
        require_integer("participations", self.participations, least=1)
        require_number("honest", self.honest, above=0, most=1)
        known = release_type_of(self.model)
        for server, address in ((SHUFFLER, self.shuffler), (HELPER, self.helper)):
            if address is not None and known.second != server:
                raise InputError(f"the {self.model} model has no {server}, got {address!r}; leave it out")
        most = known.most_delta
        if self.model != "none":
            require_epsilon(self.epsilon)
            require_delta(self.delta)
        if self.delta > most:
            raise InputError(f"delta must be at most {most} in the {self.model} model, got {self.delta}; lower it")

    @property
    def second(self) -> str | None:
        """The server that takes part besides the coordinator, by what it does."""
        return release_type_of(self.model).second

    def check(self, release: Release) -> None:
        """Refuse a release that keeps less than the promise."""
        if release.model != self.model:
            raise InputError(
                f"the {self.model} model was promised, but the coordinator asks for {release.model}; nothing is sent"
            )
        weakness = release.weakness(self.epsilon, self.delta, self.honest)
        if weakness is not None:
            raise InputError(f"the coordinator asks for {weakness}; nothing is sent")
