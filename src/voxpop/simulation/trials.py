"""One run of a named study, described as plain data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from voxpop.policies import DEFAULT, Policy
from voxpop.policies.dpbe import matching_people
from voxpop.privacy import Privacy, make_privacy
from voxpop.simulation.runs import Described, Scenario, simulate
from voxpop.simulation.scenarios import Options, make_scenario

Settings = tuple[tuple[str, Any], ...]  # names and values, in the order of the names


@dataclass(frozen=True)
class Trial(Described):
    """A study, a policy, a trust model and a seed; None leaves a choice to the study.

    >>> Trial("sphere", size=20, horizon=500).run().metrics.people > 0
    True
    """

    study: str
    policy: str = DEFAULT
    seed: int = 0
    horizon: int | None = None
    size: int | None = None
    noise_std: float | None = None
    bias_std: float | None = None
    true_norm: bool = False
    privacy: str = "none"
    epsilon: float | None = None
    delta: float = 1e-6
    calibration: str = "exact"
    floor: int | None = None
    honest: float | None = None
    data: str | None = None
    shocks: float = 0.0
    shocks_persist: float = 0.0
    weekly: bool = False
    carry_over: float = 0.0
    drift_rate: float = 0.0
    settings: Settings | Mapping[str, Any] = ()  # of the policy, before those of the study

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", tuple(sorted(dict(self.settings).items())))

    def as_dict(self) -> dict[str, Any]:
        """Return what was chosen, as plain data."""
        chosen = {name: value for name, value in asdict(self).items() if value is not None}
        return {**chosen, "settings": dict(self.settings)}

    def scenario(self) -> Scenario:
        """Make the study."""
        given = {option.name: getattr(self, option.name) for option in fields(Options)}
        return make_scenario(self.study, Options(**{**given, "data": None if self.data is None else Path(self.data)}))

    def make_privacy(self) -> Privacy:
        """Make the privacy of the chosen trust model."""
        return make_privacy(self.privacy, self.epsilon, self.delta, self.calibration, self.floor, self.honest)

    def make_policy(self, scenario: Scenario) -> Policy:
        """Make the policy with the study's settings, except for those chosen here.

        `dpbe-fixed` asks as many people per wave as make it cost what `dpbe-paper` costs, which is run to find out.
        """
        chosen = dict(self.settings)
        if self.policy == "dpbe-fixed":
            reference = simulate(scenario, scenario.make_policy("dpbe-paper", **chosen), self.seed)
            chosen["people"] = matching_people(reference.plans)
        return scenario.make_policy(self.policy, **chosen)
