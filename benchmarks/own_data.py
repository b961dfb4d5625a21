"""A chain of stores: what voxpop finds from its till's CSV, beside Thompson sampling in plain pandas.

A pilot of 60 stores tried six of twelve prices each, for two weeks. Revenue is skewed, stores differ in size and in
what their customers like, and no program knows either. The decision is for 600 stores and two years, and an answer, a
store's average of some weeks at a price, costs 3 EUR. Thompson sampling gets the same pilot, and then as many stores in
as many waves, each with as many prices for as many weeks: it draws a value for every price by the mean and the standard
error of its revenue (`groupby`), and each store tries the prices with the largest. At the end it
takes the largest mean. *Lost*: per store and week, of about 68 EUR.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, sqrt
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.robustness import Rows
from voxpop import Money, Study
from voxpop.errors import Array

PRICES = [1.99, 2.29, 2.49, 2.79, 2.99, 3.29, 3.49, 3.79, 3.99, 4.29, 4.49, 4.99]
WEEKS, CHAIN, PILOT, TRIED = 104, 600, 60, 6
LEVEL, WIDTH, TASTE, TASTES, SIZES, LUCK = 68.0, 1.6, 3.2, 0.35, 0.35, 0.2
COLUMNS: dict[str, Any] = {"person": "Filiale", "reward": "Umsatz (EUR)", "ignore": ["Woche"]}
MONEY = Money("EUR", CHAIN, 3.0)


def truth(price: float) -> float:
    """Return the mean revenue of a store in a week: tastes are Gaussian, and so is the curve."""
    width = WIDTH**2 + 2 * TASTES**2
    return LEVEL * exp(SIZES**2 / 2) * WIDTH / sqrt(width) * exp(-((price - TASTE) ** 2) / width)


@dataclass(frozen=True, eq=False)
class Stores:
    """Stores, each with a size and a taste; revenue of a week is lognormal around what these say."""

    sizes: Array
    tastes: Array

    @classmethod
    def drawn(cls, rng: np.random.Generator, count: int) -> Stores:
        """Draw stores."""
        return cls(rng.lognormal(0, SIZES, count), rng.normal(TASTE, TASTES, count))

    def revenue(self, rng: np.random.Generator, store: int, price: float, weeks: int = 1) -> float:
        """Return a store's average revenue over some weeks with one price."""
        mean = self.sizes[store] * LEVEL * exp(-(((price - self.tastes[store]) / WIDTH) ** 2))
        return float(mean * rng.lognormal(-(LUCK**2) / 2, LUCK, weeks).mean())


def pilot(seed: int) -> pd.DataFrame:
    """Return the till's table: a row for each store and week."""
    rng = np.random.default_rng([seed, 0])
    stores = Stores.drawn(rng, PILOT)
    plan = [(s, np.repeat(rng.choice(PRICES, TRIED, replace=False), 2)) for s in range(PILOT)]
    rows = [
        (f"F{s + 1:03}", week, price, stores.revenue(rng, s, price))
        for s, prices in plan
        for week, price in enumerate(prices.tolist(), start=1)
    ]
    return pd.DataFrame(rows, columns=["Filiale", "Woche", "Preis", "Umsatz (EUR)"])


def answered(study: Study, rng: np.random.Generator) -> Iterator[tuple[int, int, int]]:
    """Conduct a study to its end with stores that follow the truth; yield stores, prices and weeks of each wave."""
    while (question := study.ask()) is not None:
        table = question.table()
        names = {name: place for place, name in enumerate(table["person"].unique())}
        stores, plan = Stores.drawn(rng, len(names)), study.course.pending
        assert plan is not None
        weeks = max(1, int(plan.pulls[0]) // plan.blocks)
        table["reward"] = [
            stores.revenue(rng, names[person], price, weeks)
            for person, price in zip(table["person"], table["Preis"], strict=True)
        ]
        study.tell(question.wave, table)
        yield plan.people, len(plan.arms), weeks


def thompson(table: pd.DataFrame, waves: list[tuple[int, int, int]], rng: np.random.Generator) -> float:
    """Return the price that Thompson sampling finds with as many answers."""
    table = table.groupby(["Filiale", "Preis"])["Umsatz (EUR)"].mean().reset_index()

    def believed() -> pd.DataFrame:
        return table.groupby("Preis")["Umsatz (EUR)"].agg(["mean", "sem"])

    for wave, (people, prices, weeks) in enumerate(waves, start=1):
        known, stores = believed(), Stores.drawn(rng, people)
        rows = []
        for store in range(people):
            draw = known["mean"] + known["sem"] * rng.standard_normal(len(known))
            chosen = draw.nlargest(prices).index
            rows += [(f"{wave}-{store}", price, stores.revenue(rng, store, price, weeks)) for price in chosen]
        table = pd.concat([table, pd.DataFrame(rows, columns=table.columns)])
    means = believed()["mean"]
    return PRICES[PRICES.index(max(means.index, key=means.__getitem__))]


@dataclass(frozen=True)
class Duel:
    """What one seed says: what each loses per store and week, and what voxpop certifies."""

    ours: float
    theirs: float
    pilots: float  # the price with the highest mean in the pilot
    certified: float | None
    true: bool
    people: int
    waves: int


def duel(seed: int) -> Duel:
    """Let both decide."""
    table, best = pilot(seed), max(map(truth, PRICES))
    study = Study.from_pilot(table, horizon=WEEKS, money=MONEY, **COLUMNS)
    waves = list(answered(study, np.random.default_rng([seed, 1])))
    found = study.best
    lost = best - truth(found.decision["Preis"])
    theirs = thompson(table, waves, np.random.default_rng([seed, 2]))
    plain = thompson(table, [], np.random.default_rng(0))
    true = found.regret is None or lost <= found.regret
    return Duel(lost, best - truth(theirs), best - truth(plain), found.regret, true, study.course.people, len(waves))


def rows(seeds: int = 40) -> Rows:
    """One row for each way to decide, with means and standard errors over seeds from 0 on."""
    duels = [duel(seed) for seed in range(seeds)]
    yield "", "lost a week", "at most", "best price found"
    for name, lost in {
        "voxpop": [each.ours for each in duels],
        "Thompson sampling in pandas": [each.theirs for each in duels],
        "highest average of the pilot": [each.pilots for each in duels],
    }.items():
        error = np.std(lost, ddof=1) / sqrt(seeds)
        found = sum(value < 1e-9 for value in lost)
        yield name, f"{np.mean(lost):.2f} ± {error:.2f}", f"{max(lost):.2f}", f"{found} of {seeds}"
    stated = [each.certified for each in duels if each.certified is not None]
    yield (
        "certified",
        f"{np.median(stated):.2f} (median)",
        f"{max(stated):.2f}",
        f"true in {sum(each.true for each in duels)} of {seeds}",
    )
    people, waves = np.mean([each.people for each in duels]), np.mean([each.waves for each in duels])
    yield "stores asked", f"{people:.0f}", f"{max(each.people for each in duels)}", f"in {waves:.1f} waves"
