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

    from voxpop import Integer, Pilot, Space, Study, calibrate, make_policy
    from voxpop.core.phases import Plan
    from voxpop.lab.runs import simulate
    from voxpop.lab.scenarios import Scenario
    from voxpop.privacy import Private

    return Integer, Pilot, Plan, Private, Scenario, Space, Study, calibrate, make_policy, mo, np, pd, plt, simulate


@app.cell
def _(np):
    class Residents:
        """Made-up residents: some never come in the evening, the others each have a number of hours that suits them."""

        def __init__(self, hours):
            self.hours = hours

        def observe(self, plan, people, rng):
            """Draw new residents at random; return their ratings, a row each."""
            hours = self.hours[plan.arms]
            comes = rng.random((people, 1)) < 0.7
            own = rng.gamma(6, 1.2, (people, 1))  # the hours that suit a resident
            gain = np.where(comes, 5 * (1 - np.exp(-((hours / own) ** 1.5))), 0.0)
            ratings = 4 + gain - 0.16 * hours + rng.normal(0, 1, (people, len(hours)))
            return np.clip(ratings.round(), 0, 10)  # (people, arms)

        def observe_each(self, plan, rng):
            """Unused here: for policies that ask another person every round."""
            raise NotImplementedError

    return (Residents,)


@app.cell
def _(Integer, Pilot, Plan, Residents, Space, calibrate, np):
    decisions = Space(hours=Integer(0, 20)).grid(21)
    residents = Residents(np.array([decision["hours"] for decision in decisions]))
    every = Plan(0, np.arange(21), np.ones(21, int), people=40)  # everything once

    # Forty volunteers, who do not mind that their ratings are known, tell how much residents differ.
    ratings = residents.observe(every, 40, np.random.default_rng(2))
    problem = calibrate(Pilot.of_matrix(decisions, ratings, counts=1)).problem(decisions, horizon=2000)
    truth = residents.observe(every, 200_000, np.random.default_rng(3)).mean(axis=0)  # to check the answer with
    return problem, residents, truth


@app.cell(hide_code=True)
def _(mo):
    epsilon = mo.ui.slider(1, 10, value=4, step=1, label="epsilon: what every resident is promised", show_value=True)
    epsilon
    return (epsilon,)


@app.cell
def _(Plan, Private, Study, epsilon, np, problem, residents):
    study = Study(problem, privacy=Private("central", epsilon=epsilon.value))
    question = study.ask()
    hours = [decision["hours"] for decision in question.decisions]
    print(f"wave 1 asks {question.people} residents about {', '.join(map(str, hours))} hours")
    plan = Plan(1, np.array(hours), np.ones(len(hours), int), question.people)
    answers = residents.observe(plan, question.people, np.random.default_rng(1))
    study.tell(question.phase, answers)  # clips the ratings, adds noise once, and forgets them
    spent = study.ledger.totals(delta=1e-6)
    print(
        f"ledger: {spent['releases']} release about {spent['people']} people; "
        f"nobody is exposed to more than epsilon {spent['epsilon']:.2f} at delta {spent['delta']:g}"
    )
    return


@app.cell
def _(Private, Scenario, make_policy, pd, problem, residents, simulate, truth):
    library = Scenario("library", problem, residents, truth)
    rows = []
    for promised in (None, 8, 4, 2):
        privacy = None if promised is None else Private("central", promised)
        for seed in range(5):
            run = simulate(library, make_policy(), seed, privacy)
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
