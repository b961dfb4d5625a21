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
    import matplotlib.pyplot as plt
    import numpy as np
    import pandas as pd

    from voxpop import Float, Pilot, Space, Study, calibrate

    return Float, Pilot, Space, Study, calibrate, mo, np, pd, plt


@app.cell
def _(np, pd):
    rng = np.random.default_rng(5)

    def customers(prices, people, rounds):
        """Let new customers buy, or not, at each price; a row each, with their mean profit per visit."""
        limit = rng.lognormal(np.log(3.2), 0.3, (people, 1))  # the most that a customer pays, give or take
        chance = 1 / (1 + np.exp((np.asarray(prices) - limit) / 0.25))
        bought = rng.binomial(rounds, chance) / rounds
        return pd.DataFrame((np.asarray(prices) - 0.8) * bought, columns=prices)

    prices = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0]
    pilot = customers(prices, people=40, rounds=10)
    pilot.describe().loc[["mean", "std"]].round(2)
    return customers, pilot, prices


@app.cell
def _(Float, Pilot, Space, calibrate, pilot, prices):
    from voxpop import Decisions

    space = Space(price=Float(1.0, 5.0))
    decisions = space.grid(41)  # every ten pence
    tried = Decisions([space.scale({"price": price}) for price in prices], [{"price": price} for price in prices])
    problem = calibrate(Pilot.of_matrix(tried, pilot, counts=10), space).problem(decisions, horizon=10_000)
    return (problem,)


@app.cell
def _(Study, customers, pd, problem):
    study, rows, answers = Study(problem), [], []
    while question := study.ask():
        asked = [decision["price"] for decision in question.decisions]
        answers.append(customers(asked, question.people, question.rounds))  # your people answer here
        study.tell(question.phase, answers[-1].to_numpy())
        best = study.best
        rows.append(
            {
                "people": question.people,
                "prices": len(asked),
                "from": min(asked),
                "to": max(asked),
                "expected gain": question.forecast.gain,
                "cost": question.forecast.cost,
                "best so far": best.decision["price"],
                "expected loss": best.expected_loss,
            }
        )
    waves = pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="wave")).round(3)
    print(waves.to_string())
    print(f"\ncharge {study.best.decision['price']:.2f}: {study.ended}")
    print(f"nothing is better by more than {study.best.regret:.2f} a visit (95 % confidence)")
    waves
    return answers, study


@app.cell
def _(answers, pilot, plt, study):
    where = [decision["price"] for decision in study.problem.decisions]
    state, chosen = study.state, study.best
    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    ax.fill_between(where, state.lower, state.upper, color="tab:blue", alpha=0.15, label="certified")
    ax.plot(where, state.centre, color="tab:blue", label="estimate")
    ax.plot(pilot.mean(), "o", color="black", fillstyle="none", label="pilot")
    for wave in answers:
        ax.plot(wave.mean(), ".", color="black", label="waves" if wave is answers[0] else None)
    at = chosen.decision["price"]
    ax.plot(at, state.centre[chosen.index], "*", color="tab:green", markersize=16, label="chosen")
    ax.set(xlabel="price", ylabel="profit per visit", ylim=(-0.5, 2))
    figure.legend(loc="outside lower center", ncols=5, frameon=False)
    figure.savefig("notebook.png", dpi=120)
    figure
    return


if __name__ == "__main__":
    app.run()
