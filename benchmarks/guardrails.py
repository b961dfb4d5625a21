"""Guardrails and safe trials: how often what is promised breaks, how tight it is, and what it costs.

With an epsilon the central model is measured. Every study has a ladder of decisions and a pilot of 40 people, draws
its truth by seed, and sets its limits so that the best decision without guardrails usually breaks one. *Free* is the
same study without guardrails, with regret against its own best decision; *any trial* that in which trials may break
guardrails; both are run on the first seeds alone. In *hills*, decisions that keep the guardrail have others between
them that do not.

*Broken*: the recommendation breaks a guardrail. *Trials*: the share of what was tried, wave by wave, that breaks one.
*False*: a decision that keeps all guardrails is better by more than was certified, or a certified one is broken.
*Loses*: the share of what was tried that loses more than `most_loss` against today's decision, and the most that one
lost beyond it. *Keeps*: studies in which every guardrail is certified. *Spare*: what the recommendation truly has left,
in the median. *Binds*: the best decision of all breaks a guardrail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.robustness import Rows
from voxpop.errors import Array
from voxpop.model.guardrails import Guardrail, Rule
from voxpop.model.kernels import Matern
from voxpop.model.problem import Evidence, Problem
from voxpop.model.waves import Plan
from voxpop.policies.waves.policy import Waves
from voxpop.privacy import NoPrivacy, Privacy, make_privacy
from voxpop.runtime.random_streams import stream
from voxpop.simulation.people import GPPeople, SeveralMetrics
from voxpop.simulation.runs import Run, Scenario, simulate
from voxpop.simulation.scenarios import least_norm, spread

PEOPLE, TRIED, ROUNDS = 40, 12, 20
HORIZON = 2000


@dataclass(frozen=True, eq=False)
class Study:
    """A simulated study with guardrails, and what is true of it."""

    scenario: Scenario
    truths: tuple[Array, ...]  # of the objective and of each metric, turned so that more is better

    @property
    def slacks(self) -> list[Array]:
        """By how much each decision truly passes each rule."""
        problem = self.scenario.problem
        rules = [guardrail.rule for guardrail in problem.guardrails]
        return [
            g - rule.share * g[problem.today or 0] - rule.floor for rule, g in zip(rules, self.truths[1:], strict=True)
        ]

    @property
    def free(self) -> Study:
        """The same study without guardrails."""
        several = self.scenario.population
        assert isinstance(several, SeveralMetrics)
        problem = replace(self.scenario.problem, guardrails=())
        return Study(replace(self.scenario, problem=problem, population=several.metrics[0]), self.truths[:1])


KERNEL = Matern(nu=2.5, length_scale=0.25)


def metric(points: Array, rng: np.random.Generator) -> Array:
    """Draw a metric of range 1."""
    f = KERNEL(points, rng.uniform(size=(20, points.shape[1]))) @ rng.standard_normal(20)
    return np.asarray((f - f.min()) / np.ptp(f))


def study(
    points: Array,
    rng: np.random.Generator,
    rules: Sequence[str],
    alike: float,
    hills: bool = False,
    asked: int = PEOPLE,
) -> Study:
    """Draw a study in which more earns more up to a point, and costs more of each metric; or a hilly one, with gaps.

    What stands in braces in a rule is the limit, half a step below what a decision in the middle has.
    """
    drawn = [metric(points, rng) for _ in range(1 + len(rules))]
    more = points.mean(axis=1)
    shapes = [1 - 1.5 * np.square(more - rng.uniform(0.7, 0.9)), *(-0.6 * more**1.3 for _ in rules)]
    if hills:
        shapes = [0.5 * drawn[0], *(-0.3 * drawn[0] for _ in rules)]
    middle = int(np.abs(more - rng.uniform(0.45, 0.6)).argmin())
    truths = [shape + (0.5 if hills else 0.15) * f for shape, f in zip(shapes, drawn, strict=True)]
    truths[1:] = [truth + (1.2 if "<=" not in rule else -0.1) for truth, rule in zip(truths[1:], rules, strict=True)]
    several = []
    for f in truths:
        known = Problem(points, KERNEL, 0.3, 0.3, norm_bound=1.0, horizon=HORIZON, prior_mean=float(f.mean()))
        several.append(GPPeople(replace(known, norm_bound=1.2 * least_norm(known, f)), f))
    today, made = int(np.abs(more - 0.3).argmin()), list[Guardrail]()
    for text, person in zip(rules, several[1:], strict=True):
        g, sign = person.f, -1.0 if "<=" in text else 1.0
        steps = np.sort(g[g < g[middle]])  # the limit is between that of the middle and the next worse one
        limit = min(float(g[middle] + (steps[-1] if len(steps) else g[middle] - 0.1)) / 2, float(g[today]) - 0.05)
        words = {"absolute": sign * limit, "percent": 100 * (limit / g[today] - 1), "units": sign * (limit - g[today])}
        rule = Rule.of(text.format(**{name: f"{value:+.6f}" for name, value in words.items()}))
        made.append(Guardrail(rule, person.problem, (alike,) * (1 + len(made))))
    correlation = np.full((len(several),) * 2, alike) + (1 - alike) * np.eye(len(several))
    people = SeveralMetrics(tuple(several), correlation)
    arms = spread(several[0].problem.decisions, TRIED)
    rounds, problems = np.full(len(arms), ROUNDS), list[Problem]()
    answers = people.observe(Plan(0, arms, rounds, asked), asked, rng)
    for person, own in zip(several, np.split(answers, len(several), axis=1), strict=True):
        told = Evidence(points[arms], rounds, asked, own.mean(axis=0), variances=own.var(axis=0, ddof=1))
        problems.append(replace(person.problem, pilot=(told,)))
    guardrails = [replace(one, problem=problem) for one, problem in zip(made, problems[1:], strict=True)]
    problem = replace(problems[0], guardrails=tuple(guardrails), today=today)
    return Study(Scenario("guarded", problem, people, truths[0]), tuple(truths))


LINE = np.linspace(0, 1, 12)[:, None]  # a ladder of prices
GRID = np.stack(np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 1, 6)), axis=-1).reshape(-1, 2)
PERCENT, UNITS = "retention >= {percent} %", "complaints <= today {units}"
STUDIES: dict[str, Callable[[np.random.Generator], Study]] = {
    "absolute": lambda rng: study(LINE, rng, ["retention >= {absolute}"], 0.5),
    "percent": lambda rng: study(LINE, rng, [PERCENT], -0.5),
    "two rules": lambda rng: study(LINE, rng, [PERCENT, UNITS], 0.3),
    "two dimensions": lambda rng: study(GRID, rng, ["complaints <= {absolute}"], 0.5),
    "hills": lambda rng: study(LINE, rng, ["retention >= {absolute}"], 0.5, hills=True),
}


def regret(run: Run, f: Array, best: float) -> float:
    """Compute what a run lost against a reward a round; rounds that earn more than that do not make up for others."""
    lost = np.maximum(best - f, 0.0)
    waves = sum(float(lost[plan.arms] @ plan.pulls) for plan in run.plans)
    return waves + float(lost[run.best]) * (run.scenario.problem.horizon - run.state.rounds)


def share(part: Array, whole: Array) -> str:
    """Write a share of sums."""
    return f"{100 * part.sum() / max(whole.sum(), 1):.1f} %"


def tried_in(run: Run) -> NDArray[np.intp]:
    """List what was tried, wave by wave, without what was in force anyway."""
    arms = [plan.arms[plan.arms != plan.reference] for plan in run.plans]
    return np.concatenate([np.empty(0, dtype=np.intp), *arms])


def measured(made: Study, privacy: Privacy, seed: int) -> tuple[float, ...]:
    """Run a study with its guardrails."""
    f, slacks = made.truths[0], made.slacks
    run = simulate(made.scenario, Waves(), seed, privacy)
    keeps: NDArray[np.bool_] = np.all([slack >= -1e-12 for slack in slacks], axis=0)
    best, tried = float(f[keeps].max()), tried_in(run)
    false = best - f[run.best] > run.state.certificate + 1e-12
    false |= any(s[run.best] < low - 1e-12 for s, low in zip(slacks, run.state.keeps, strict=False))
    return (
        not keeps[run.best],
        float((~keeps[tried]).sum()),
        float(len(tried)),
        regret(run, f, best),
        run.metrics.numbers,
        bool(false),
        run.state.certificate,
        bool(run.state.keeps) and min(run.state.keeps) >= 0,
        float(min(slack[run.best] for slack in slacks)),
        float(not keeps[int(f.argmax())]),
    )


def compared(made: Study, privacy: Privacy, seed: int) -> tuple[float, ...]:
    """Run a study with any trials, and without guardrails."""
    f, keeps = made.truths[0], np.all([slack >= -1e-12 for slack in made.slacks], axis=0)
    free = simulate(made.free.scenario, Waves(), seed, privacy)
    unsafe = simulate(made.scenario, Waves(trials="any"), seed, privacy)
    tried = tried_in(unsafe)
    return (
        *(regret(unsafe, f, float(f[keeps].max())), float(not keeps[unsafe.best])),
        *(float((~keeps[tried]).sum()), float(len(tried)), unsafe.metrics.numbers),
        *(regret(free, f, float(f.max())), free.metrics.numbers, free.state.certificate),
    )


def _promising(epsilon: Sequence[float]) -> Privacy:
    return make_privacy("central", epsilon[0]) if epsilon else NoPrivacy()


def guarded(
    seeds: int = 200, others: int = 40, epsilon: Sequence[float] = (), study: Sequence[str] = tuple(STUDIES)
) -> Rows:
    """One row for each study, over seeds from 0 on, of which the first `others` are also run otherwise."""
    privacy = _promising(epsilon)
    head = "study", "broken", "false", "trials", "certificate", "keeps", "spare", "binds", "regret", "numbers"
    yield *head, "any trial: regret", "broken", "trials", "numbers", "free: regret", "numbers", "certificate"
    for name in study:
        drawn = [STUDIES[name](stream(seed, "truth")) for seed in range(seeds)]
        rows = np.array([measured(made, privacy, seed) for seed, made in enumerate(drawn)], dtype=float)
        more = np.array([compared(made, privacy, seed) for seed, made in enumerate(drawn[:others])], dtype=float)
        broken, bad, tried, lost, numbers, false, certificate, keeps, spare, binds = rows.T
        any_lost, any_broken, any_bad, any_tried, any_numbers, free, fewer, free_certificate = more.T
        yield (
            *(name, f"{broken.sum():.0f} of {seeds}", f"{false.sum():.0f}", share(bad, tried)),
            *(f"{np.median(certificate):.2f}", f"{100 * keeps.mean():.0f} %", f"{np.median(spare):.3f}"),
            f"{100 * binds.mean():.0f} %",
            *(f"{lost.mean():.0f}, median {np.median(lost):.0f}", f"{numbers.mean():,.0f}"),
            *(f"{any_lost.mean():.0f}, median {np.median(any_lost):.0f}", f"{any_broken.sum():.0f} of {len(more)}"),
            *(share(any_bad, any_tried), f"{any_numbers.mean():,.0f}", f"{free.mean():.1f}"),
            *(f"{fewer.mean():,.0f}", f"{np.median(free_certificate):.2f}"),
        )


FEW = 10  # people in the pilot of safe trials
LOSSES = (0.05, 0.2)  # that a trial may lose, of a range of rewards of about 1


def safe(seeds: int = 200, epsilon: Sequence[float] = ()) -> Rows:
    """One row for each limit of what a trial may lose, in studies without guardrails."""
    privacy = _promising(epsilon)
    yield "most_loss", "trials beyond", "most beyond", "regret", "median", "numbers", "regret of today's"
    limits: list[float | None] = [*LOSSES, None]
    for most in limits:
        rows = []
        for seed in range(seeds):
            made = study(LINE, stream(seed, "truth"), ["retention >= {absolute}"], 0.5, hills=True, asked=FEW)
            problem, f = made.scenario.problem, made.truths[0]
            run = simulate(made.free.scenario, Waves(most_loss=most), seed, privacy)
            loss = f[problem.today or 0] - f[tried_in(run)]
            beyond = loss - (LOSSES[0] if most is None else most)
            today = (f.max() - f[problem.today or 0]) * problem.horizon
            bad, lost = (beyond > 1e-12).sum(), regret(run, f, float(f.max()))
            rows.append((bad, len(loss), beyond.max(initial=0.0), lost, run.metrics.numbers, today))
        bad, tried, worst, lost, sent, today_lost = np.array(rows, dtype=float).T
        yield (
            *("none" if most is None else f"{most:g}", share(bad, tried), f"{worst.max():.2f}", f"{lost.mean():.0f}"),
            *(f"{np.median(lost):.0f}", f"{sent.mean():,.0f}", f"{today_lost.mean():.0f}"),
        )
