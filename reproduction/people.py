"""The studies of real people: what the default loses and asks for, beside three alternatives. Not in the paper."""

from __future__ import annotations

from functools import partial

from reproduction.compare import present
from reproduction.exhibits import Exhibit, Scale
from voxpop.simulation.surveys import SURVEYS

POLICIES = ("waves", "dpbe", "pilot-only", "thompson")


def exhibits(scale: Scale) -> list[Exhibit]:
    """Make one exhibit for each survey."""
    return [
        Exhibit(
            name=f"people/{name}",
            title=survey.question,
            labels=(),
            series={
                policy: scale.trials(name, policy, horizon=min(scale.horizon, survey.horizon)) for policy in POLICIES
            },
            present=partial(present, name, scale.note),
            text="Real people, as their tastes were fitted to what they chose or answered; docs/people.md says how. In "
            "each run 40 of them answer a pilot, and the study asks the others. Bars are standard deviations over "
            "runs. A policy that asks nobody is a dashed line. Only policies that prove something have a certificate. "
            "Dotted: for any policy that asks this number of people there is a function on which it loses at least "
            "this much.",
        )
        for name, survey in SURVEYS.items()
    ]
