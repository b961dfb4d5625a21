"""Made-up customers, in place of yours. `python customers.py pilot` makes pilot.csv; `... answers` answers the wave."""

import sys

import numpy as np
import pandas as pd

from voxpop import Study

COST = 1.1  # what a cup costs us


def visit(prices, rounds, people, seed):
    """Let new customers come `rounds` times at each price; a row for each customer and price."""
    rng = np.random.default_rng(seed)
    limit = rng.lognormal(np.log(3.6), 0.3, (people, 1))  # the most that a customer pays, give or take
    bought = rng.binomial(rounds, 1 / (1 + np.exp((np.asarray(prices) - limit) / 0.2)))
    profit = (np.asarray(prices) - COST) * bought / rounds
    names = [f"{seed}-{person:03}" for person in range(people)]
    table = pd.DataFrame(profit.round(4), pd.Index(names, name="person"), pd.Index(prices, name="price"))
    return table.stack().rename("reward").reset_index()


if sys.argv[1:] == ["pilot"]:
    found = visit(np.linspace(1.5, 6, 10), rounds=20, people=40, seed=0)
    found.assign(rounds=20).to_csv("pilot.csv", index=False)
else:
    question = Study.from_file("prices.toml").ask()
    asked = [decision["price"] for decision in question.decisions]
    rounds = [each // question.blocks for each in question.rounds]  # of one block
    table = question.table()
    table["reward"] = visit(asked, rounds, question.people, seed=question.wave)["reward"]
    table.to_csv("answers.csv", index=False)
