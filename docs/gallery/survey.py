"""A private survey: how many evening hours a town's library should open, and what a promise of privacy costs."""

import marimo

app = marimo.App(width="medium")


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # How many evening hours should the library open?

    Residents rate from 0 to 10 what they would make of 0 to 20 evening hours a week, the fee for them included. They
    are promised *central* differential privacy: the town's statistician sees the answers, and whatever is published
    of them hides every single person, to the degree that epsilon says (smaller is stricter).
    """)


@app.cell
def _():
    import marimo as mo
    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd

    from voxpop import DrawnPeople, Integer, Space, Study, piloted, simulate
    from voxpop.privacy import Private

    return DrawnPeople, Integer, Private, Space, Study, mo, np, pd, piloted, plt, simulate


@app.cell
def _(DrawnPeople, np):
    def rate(people, hours, rounds, rng):
        """Draw made-up residents at random: some never come in the evening, the others have hours that suit them."""
        comes = rng.random((people, 1)) < 0.7
        own = rng.gamma(6, 1.2, (people, 1))  # the hours that suit a resident
        gain = np.where(comes, 5 * (1 - np.exp(-((hours / own) ** 1.5))), 0.0)
        ratings = 4 + gain - 0.16 * hours + rng.normal(0, 1, (people, len(hours)))
        return np.clip(ratings.round(), 0, 10)  # (people, hours)

    residents = DrawnPeople(rate)  # the number of a decision is its number of hours
    return rate, residents


@app.cell
def _(Integer, Space, piloted, residents):
    space = Space(hours=Integer(0, 20))
    truth = residents.estimate(21, rounds=1)  # to check the answer with
    # Forty volunteers, who do not mind that their ratings are known, tell how much residents differ.
    library = piloted("library", space, space.grid(21), residents, truth, horizon=2000, tried=21, rounds=1)
    return (library,)


@app.cell(hide_code=True)
def _(mo):
    epsilon = mo.ui.slider(1, 10, value=4, step=1, label="epsilon: what every resident is promised", show_value=True)
    epsilon
    return (epsilon,)


@app.cell
def _(Private, Study, epsilon, library, np, rate):
    study = Study(library.problem, privacy=Private("central", epsilon=epsilon.value))
    question = study.ask()
    hours = np.array([decision["hours"] for decision in question.decisions])
    print(f"wave 1 asks {question.people} residents about {', '.join(map(str, hours))} hours")
    ratings = rate(question.people, hours, 1, np.random.default_rng(1))  # your people answer here
    study.tell(question.wave, ratings)  # clips the ratings, adds noise once, and forgets them
    spent = study.ledger.totals(delta=1e-6)
    print(f"ledger: {spent['releases']} release about {spent['people']} people")
    print(f"nobody is exposed to more than epsilon {spent['epsilon']:.2f} at delta {spent['delta']:g}")
    return


@app.cell
def _(Private, library, pd, simulate):
    rows = []
    for promised in (None, 8, 4, 2):
        privacy = None if promised is None else Private("central", promised)
        for seed in range(5):
            run = simulate(library, "waves", seed, privacy)
            rows.append({"epsilon": promised or "none", "people": run.metrics.people, "points lost": run.loss})
    cost = pd.DataFrame(rows).groupby("epsilon", sort=False).mean()
    cost["people"] = cost["people"].round().astype(int)
    print(cost.round(3).to_string())
    return (cost,)


@app.cell
def _(cost, plt):
    figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    bars = ax.bar(cost.index.astype(str), cost["people"], color="tab:blue")
    ax.bar_label(bars, [f"loses {lost:.3f}" for lost in cost["points lost"]])
    ax.set(xlabel="epsilon promised to every resident", ylabel="residents asked", ylim=(0, 1.15 * cost["people"].max()))
    ax.set_title("What privacy costs: mean of 5 simulated surveys", loc="left")
    figure.savefig("survey.png", dpi=120)
    figure
    return


if __name__ == "__main__":
    app.run()
