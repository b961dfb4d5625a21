"""A study in a notebook: the pilot is a DataFrame, and so are the answers."""

import marimo

app = marimo.App(width="medium")


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # What should a cup of tea cost?

    Forty customers tried eight prices. What follows calibrates a model from their answers, asks for as many further
    answers as pay, and shows the decision. The customers are simulated, in one function; replace it with your own.
    """)


@app.cell
def _():
    import marimo as mo
    import numpy as np
    import pandas as pd

    from voxpop import Study

    return Study, mo, np, pd


@app.cell
def _(np, pd):
    rng = np.random.default_rng(5)

    def customers(table, rounds):
        """Let every person of the table buy, or not, at each price; return their mean profit per visit."""
        people = table["person"].unique()
        limit = pd.Series(rng.lognormal(np.log(3.2), 0.3, len(people)), people)  # the most that each pays
        chance = 1 / (1 + np.exp((table["price"] - table["person"].map(limit)) / 0.25))
        return (table["price"] - 0.8) * rng.binomial(rounds, chance) / rounds

    prices = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0]
    pilot = pd.DataFrame([(f"p{who}", price, 10) for who in range(40) for price in prices])
    pilot.columns = ["person", "price", "rounds"]
    pilot["reward"] = customers(pilot, rounds=10)
    pilot.head()
    return customers, pilot


@app.cell
def _(Study, customers, pilot):
    study = Study.from_pilot(pilot, horizon=10_000, points=41, name="tea", reward="profit per visit")
    while question := study.ask():
        print(f"wave {question.wave}: {question.people} people about {len(question.decisions)} prices")
        answers = question.table()  # a row for each person and price
        answers["reward"] = customers(answers, rounds=question.rounds[0])  # your people answer here
        study.tell(question.wave, answers)
    print(study.best)
    print(study.ended)
    study
    return (study,)


@app.cell
def _(study):
    waves = study.waves
    print(waves[["wave", "decisions", "people", "expected_gain", "answers_cost", "trying_cost"]].round(2).to_string())
    waves
    return


@app.cell
def _(study):
    figure = study.plot()
    figure.savefig("notebook.png", dpi=120)
    figure
    return


if __name__ == "__main__":
    app.run()
