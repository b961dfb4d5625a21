"""Planted faults of what is done with answers before noise is added, and of what they are charged."""

from tests.mutants.fault import Fault

RELEASE = "privacy/test_release.py"
BALL = "privacy/test_ball.py"
LEDGER = "privacy/test_ledger.py"
REFUSALS = "privacy/test_refusals.py"
DRIVER = "drivers/test_study_private.py"
PHASE = "drivers/test_phase.py"

FAULTS = [
    Fault(
        "clipping at 1.2 R",
        "Answers up to 1.2 times the radius pass.",
        "privacy/ball.py",
        "self.radius / np.maximum(norms, self.radius)",
        "1.2 * self.radius / np.maximum(norms, self.radius)",
        (BALL, "privacy/test_audit.py"),
    ),
    Fault(
        "clipping per coordinate",
        "Each coordinate is cut off at the radius, which bounds a cube and not a ball.",
        "privacy/ball.py",
        "return np.asarray(z * np.minimum(1.0, self.radius / np.maximum(norms, self.radius)))",
        "return np.clip(z, -self.radius, self.radius)",
        (BALL, "privacy/test_audit.py"),
    ),
    Fault(
        "clipping after averaging",
        "The average is clipped instead of each person's answers.",
        "privacy/central.py",
        "Tally.of_steps(self.grid(reports), self.step)",
        "Tally.of_steps(np.tile(self.grid(np.mean(reports, axis=0, keepdims=True)), (len(reports), 1)), self.step)",
        (RELEASE, "privacy/test_audit.py"),
    ),
    Fault(
        "no clipping",
        "Answers outside the ball are added up as they are.",
        "privacy/clipped.py",
        "return self.ball.clip(self.ball.whiten(y))",
        "return self.ball.whiten(y)",
        ("privacy/test_audit.py", REFUSALS),
    ),
    Fault(
        "NaN refused",
        "An answer that is not a number stops the release, and everyone notices.",
        "privacy/ball.py",
        "deviation = np.where(np.isnan(y), 0.0, np.clip(y - self.centre, -HUGE, HUGE))",
        'if np.isnan(y).any():\n            raise InputError("an answer is not a number")\n'
        "        deviation = np.clip(y - self.centre, -HUGE, HUGE)",
        (REFUSALS,),
    ),
    Fault(
        "tally of floats",
        "Answers are added up as floats, so that the sum depends on their order.",
        "core/phases.py",
        "return cls(len(grid), tuple(grid.astype(np.int64).sum(axis=0).tolist()), step)",
        "return cls(len(grid), tuple(int(x) for x in grid.astype(np.float32).sum(axis=0).tolist()), step)",
        ("core/test_phases.py",),
    ),
    Fault(
        "ledger not checked",
        "A phase is released without asking the ledger.",
        "drivers/phase.py",
        "    ledger.check(entry)\n",
        "",
        (PHASE,),
    ),
    Fault(
        "noise before the ledger",
        "The noise of a release is drawn before the ledger has allowed it.",
        "drivers/phase.py",
        "    ledger.check(entry)\n    return release.analyze(release.require_whole(tally), source), entry",
        "    feedback = release.analyze(release.require_whole(tally), source)\n"
        "    ledger.check(entry)\n    return feedback, entry",
        (PHASE,),
    ),
    Fault(
        "names not recorded",
        "The ledger's entry does not say who answered.",
        "drivers/phase.py",
        "phase=phase.plan.phase, names=names)",
        "phase=phase.plan.phase)",
        (DRIVER,),
    ),
    Fault(
        "planned people charged",
        "The ledger is charged for the people who were asked and not for those who answered.",
        "drivers/phase.py",
        'plan.people if plan.reports == "one" else tally.count',
        "plan.people",
        (PHASE,),
    ),
    Fault(
        "largest epsilon instead of the sum",
        "Several releases about one person cost as much as the largest of them.",
        "privacy/ledger.py",
        "    # Gaussian releases compose to a Gaussian one",
        "    if all(entry.delta <= delta for entry in entries):\n"
        "        return max(entry.epsilon for entry in entries)\n"
        "    # Gaussian releases compose to a Gaussian one",
        (LEDGER,),
    ),
    Fault(
        "ledger without names",
        "The ledger forgets who took part in a release.",
        "privacy/ledger.py",
        "self._about.setdefault(person, []).append(entry)",
        "pass",
        (LEDGER,),
    ),
    Fault(
        "budget at the release's delta",
        "A release is weighed at its own delta and not at the budget's.",
        "privacy/ledger.py",
        "compose((*past, entry), self.budget.delta)",
        "compose((*past, entry), max(self.budget.delta, entry.delta))",
        (LEDGER,),
    ),
    Fault(
        "participations not counted",
        "The ledger does not limit how often a person takes part.",
        "privacy/ledger.py",
        "if len(past) >= self.budget.participations:",
        "if False:",
        (LEDGER,),
    ),
    Fault(
        "study with a seed",
        "An ask/tell study draws its noise from a generator with a fixed seed.",
        "drivers/study.py",
        "self.ledger, Secure(), names)",
        'self.ledger, __import__("voxpop").privacy.Simulated(np.random.default_rng(0)), names)',
        (DRIVER, "test_imports.py"),
    ),
]
