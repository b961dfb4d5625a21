"""Studies with people who answer as a formula says, up to some wave: nobody knows a truth of them."""

import numpy as np

from voxpop import Problem, SquaredExponential, Study
from voxpop.journal.journal import Course
from voxpop.model.decisions import Decisions
from voxpop.model.problem import Evidence


def conducted(decisions: Decisions, told: int, pilot: bool = True, reward: str = "margin in EUR") -> Course:
    """Conduct `told` waves, and open the next if there is one."""
    rng, points = np.random.default_rng(3), decisions.points
    f = 2 * np.exp(-3 * np.square(points - 0.4).sum(axis=1)) + 0.3 * points[:, 0]
    tried = rng.choice(len(points), min(8, len(points)), replace=False)
    group = Evidence(points[tried], np.full(len(tried), 5), 30, f[tried] + rng.normal(0, 0.1, len(tried)))
    problem = Problem(
        decisions, SquaredExponential(0.4), 0.3, 0.4, 3.0, 5000, prior_mean=1.0, pilot=[group] if pilot else []
    )
    study = Study(problem, most_people=400)
    for _ in range(told):
        question = study.ask()
        if question is None:
            break
        arms = [decisions.find(decision) for decision in question.decisions]
        study.tell(question.wave, f[arms] + rng.normal(0, 0.35, (question.people, len(arms))))
    study.ask()
    return study.course.named("own study", reward)
