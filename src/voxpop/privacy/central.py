"""The central model: people trust the agent, which clips their answers and adds noise to the sum, once."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from voxpop.errors import Array
from voxpop.model.strata import Sample
from voxpop.model.waves import Feedback, Tally, Weighting, changed
from voxpop.privacy.clipped import Additive
from voxpop.privacy.crowds import clipped
from voxpop.privacy.release import check_length
from voxpop.privacy.sources import Source


class Central(Additive):
    """The agent whitens, clips, adds up, and adds noise once (eq:privatizer_cdp)."""

    model: ClassVar[str] = "central"
    seen: ClassVar[str] = (
        "Whoever runs the service sees what each person answers until the wave closes, and nobody else ever does: "
        "noise is added before anything is published. It costs next to nothing."
    )

    def variance(self, count: int) -> float:
        return (self.std * self.step / count) ** 2

    def randomize(self, y: Array, source: Source) -> Array:
        """Send the averages as they are, and the centre for one that is missing."""
        return np.where(np.isnan(y), self.ball.centre, y) if np.isnan(y).any() else y

    def accept(self, reports: Array) -> None:
        """Refuse reports of the wrong length only: refusing a value would reveal something about it."""
        check_length(reports, self.arms)

    def tally(self, reports: Array) -> Tally:
        return Tally.of_steps(self.grid(reports), self.step)

    def crowd(self, mean: Array, root: Array, people: int, rng: np.random.Generator) -> Tally:
        """Draw the tally of people with Gaussian answers at once."""
        return clipped(mean, root, people, self.ball, self.step, self.tally, rng)

    def analyze(self, tally: Tally, source: Source) -> Feedback:
        # The noise hides one person in the sum, so it is enough for any number of people who answered.
        noise = source.gaussian(1, len(tally.total), self.std)[0].tolist()
        total = np.array([value + extra for value, extra in zip(tally.total, noise, strict=True)], dtype=float)
        return self.feedback(total * self.step / tally.count, tally.count, self.variance(tally.count))

    def weighted(self, reports: Array, sample: Sample, source: Source) -> Feedback:
        """Shrink everyone's clipped answer by the person's weight; the sum is released like that of fewer people.

        Factors are at most one, so the answers stay in the ball for which the noise was calibrated. Weights are in
        proportion to the factors and as large as in a plain average of `equivalent` people, whose noise and clipping
        the average then has.
        """
        shrunk = sample.factors[:, None] * self.clipped(reports)
        tally = Tally.of_steps(np.rint(shrunk / self.step), self.step)
        feedback = self.analyze(changed(tally, count=sample.equivalent), source)
        return replace(feedback, count=tally.count, weighting=Weighting(sample.effective, 0.0))
