"""What the owner of a device was promised, and the check that the coordinator's release keeps that promise.

The device does not trust the coordinator: it computes from the constants of each release how much noise they amount to,
and compares this with its promise before anything is sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from voxpop.client.addresses import Origin, origin_of
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
    the only shuffler that may see a report, and `helper` that of the only helper that may get a share. These models
    need theirs: a coordinator that names the second server could name itself. There, `crowd` is the least number of
    people among whom a report may be hidden, and `alone` the eps that the device's own noise must keep if all the
    others are made up.

    >>> Promise("shuffle", epsilon=5.0, shuffler="https://shuffler.example").participations
    1
    """

    model: str = "none"
    epsilon: float = math.inf
    delta: float = 1e-6
    participations: int = 1
    honest: float = 1.0
    shuffler: str | None = None
    helper: str | None = None
    crowd: int = 1
    alone: float | None = None

    def __post_init__(self) -> None:
        require_integer("participations", self.participations, least=1)
        require_number("honest", self.honest, above=0, most=1)
        require_integer("crowd", self.crowd, least=1)
        if self.alone is not None:
            require_number("alone", self.alone, above=0, most=1000)
        known = release_type_of(self.model)
        if known.second is None and (self.crowd, self.alone) != (1, None):
            raise InputError(f"the {self.model} model hides nobody among others; leave crowd and alone out")
        for server, address in ((SHUFFLER, self.shuffler), (HELPER, self.helper)):
            if address is not None and known.second != server:
                raise InputError(f"the {self.model} model has no {server}, got {address!r}; leave it out")
        if known.second is not None and self.other is None:
            raise InputError(
                f"the {self.model} model needs to know its {known.second}; name the only one that may take part, such "
                f"as {known.second}='https://{known.second}.example'"
            )
        if known.second is not None:
            origin_of(known.second, self.other)
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

    @property
    def other(self) -> str | None:
        """The address of that server."""
        return self.helper if self.shuffler is None else self.shuffler

    def check_coordinator(self, url: str) -> Origin:
        """Return where the coordinator is; refuse one at its shuffler's or helper's host, which would be both."""
        mine = origin_of("url", url)
        if self.other is not None and mine.same_machine(origin_of(str(self.second), self.other)):
            raise InputError(
                f"the coordinator {url} and the {self.second} {self.other} are one server; name a {self.second} that "
                "somebody else runs"
            )
        return mine

    def check(self, release: Release) -> None:
        """Refuse a release that keeps less than the promise."""
        if release.model != self.model:
            raise InputError(
                f"the {self.model} model was promised, but the coordinator asks for {release.model}; nothing is sent"
            )
        weakness = release.weakness(self.epsilon, self.delta, self.honest)
        if weakness is None and release.batch is not None and release.batch.size < self.crowd:
            weakness = f"a crowd of {release.batch.size} people, where {self.crowd} were promised"
        if weakness is None and self.alone is not None:
            lonely = release.alone().weakness(self.alone, self.delta)
            weakness = lonely and f"{lonely} if all others are made up"
        if weakness is not None:
            raise InputError(f"the coordinator asks for {weakness}; nothing is sent")
