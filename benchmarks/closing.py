"""After how many deadlines a wave closes if some of the people do not answer, with a simulated clock.

    python -m benchmarks.closing [--people 270] [--answers 0.7] [--runs 3] [--models central] [--within 0.5] [--most 3]

The coordinator, its database and its scheduler's steps are real; the second server is called directly. Of those who are
asked, a share answers, at a uniform time within a part of the deadline. For each trust model it prints the time of the
first wave, when nothing is known of the people, and of the second, both as mean and worst of the runs; how many times
as many people were asked as answers were needed; and the same where no spare people are invited.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tests.service.test_closing import DEADLINE, play
from tests.service.world import STUDY, definition, own_shuffler, world
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy, Privacy, Private
from voxpop.service.study.invitations import Invitations

QUICK = (1.0, 0.5, 0.1)  # the part of the deadline within which people answer
MODELS = ("none", "central", "local", "shuffle", "aggregate")


def run(model: str, people: int, answers: float, quick: float, seed: int, most: float) -> list[tuple[float, float]]:
    """Play two waves; return how long each took, and how many were asked for each answer that was needed."""
    trust: Privacy = NoPrivacy() if model == "none" else Private(model, 5.0, 1e-6, "exact", people)
    policy = make_policy("equal-split", people=people, arms=5) if model == "none" else None  # which has one wave
    made = definition(trust, horizon=4000, policy=policy, deadline=DEADLINE, most_invited=most)
    rng, found = np.random.default_rng(seed), []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        second = stack.enter_context(own_shuffler(str(folder / "s.db"))) if trust.release_type.second else None
        it = stack.enter_context(world(str(folder / "c.db"), made, 6 * people, second))
        for wave in (1,) if model == "none" else (1, 2):
            took = play(it, rng, answers, quick)
            closed = it.coordinator.snapshots.current(STUDY).closed[wave - 1]
            with it.coordinator.database.read() as connection:
                asked = Invitations(connection, STUDY, wave).funnel.asked
            found.append((took, asked / closed.plan.people))
    return found


def main() -> None:
    """Measure every model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=270)
    parser.add_argument("--answers", type=float, default=0.7)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--within", nargs="+", type=float, default=QUICK)
    parser.add_argument("--most", nargs="+", type=float, default=(3.0, 1.0), help="most_invited; 1: no spare people")
    said = parser.parse_args()
    print(f"{said.people} people a wave, of whom {said.answers:.0%} answer; {said.runs} runs; time in deadlines")
    for model in said.models:
        for quick in said.within:
            for most in said.most:
                runs = [run(model, said.people, said.answers, quick, seed, most) for seed in range(said.runs)]
                made = np.array(runs)  # (runs, waves, 2)
                waves = ", ".join(
                    f"wave {wave + 1}: {made[:, wave, 0].mean():.2f} (worst {made[:, wave, 0].max():.2f}), "
                    f"asked {made[:, wave, 1].mean():.2f}"
                    for wave in range(made.shape[1])
                )
                spare = "spare people" if most > 1 else "none spare"
                print(f"{model:10} answers within {quick:.1f}, {spare:12}: {waves}", flush=True)


if __name__ == "__main__":
    main()
