"""What a pilot says, in words: for the command line and for the console."""

from __future__ import annotations

from voxpop.calibration.fit import Calibration
from voxpop.core.words import describe, number


def pilot_sentences(found: Calibration) -> list[str]:
    """Say what was best in the pilot, and how much people and rounds differ."""
    best = max(range(len(found.rewards)), key=lambda action: found.direction.turn(found.rewards[action].value))
    measure = found.direction.measure
    reward, differ, vary = found.rewards[best], number(found.bias_std.value), number(found.noise_std.value)
    tried = (
        f"{found.people} people tried {len(found.pilot)} decisions. Best in the pilot: {describe(found.pilot[best])}, "
        f"with a {measure} of about {number(reward.value)} ({number(reward.low)} to {number(reward.high)})."
    )
    spread = (
        f"People differ by about {differ} in what one decision brings them, and one person's {measure} by about {vary} "
        "from round to round."
    )
    return [tried, spread]


def constant_rows(found: Calibration) -> list[tuple[str, str, str]]:
    """List what the study will assume: the constant, its estimate, and its 95 % interval."""
    return [(name, number(value.value), value.range) for name, value in found.constants.items()]
