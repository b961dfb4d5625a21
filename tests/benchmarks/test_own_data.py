"""A chain of stores, played to its end: as good as Thompson sampling, with a certificate that says something."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.own_data import COLUMNS, PRICES, WEEKS, duel, pilot, thompson, truth
from voxpop import Money, Study


def test_the_truth_is_the_mean_of_many_stores() -> None:
    many = [pilot(seed) for seed in range(60)]
    for price in (2.49, 3.29, 4.49):
        sold = np.concatenate([table.loc[table["Preis"] == price, "Umsatz (EUR)"] for table in many])
        assert sold.mean() == pytest.approx(truth(price), rel=0.02)
    assert max(PRICES, key=truth) == 3.29


def test_as_good_a_decision_as_thompson_sampling_with_the_same_answers() -> None:
    duels = [duel(seed) for seed in range(6)]
    assert np.mean([each.ours for each in duels]) <= np.mean([each.theirs for each in duels])
    assert all(each.true for each in duels)
    stated = [each.certified for each in duels if each.certified is not None]
    assert len(stated) >= 5
    assert np.median(stated) < (truth(3.29) - truth(1.99)) / 2


def test_more_answers_help_thompson_sampling() -> None:
    rng = np.random.default_rng(0)
    lost = [
        [truth(3.29) - truth(thompson(pilot(seed), waves, rng)) for seed in range(8)]
        for waves in ([], [(200, 3, 4)] * 2)
    ]
    assert np.mean(lost[1]) < np.mean(lost[0])


def test_weeks_and_stores_are_enough_to_ask_and_weeks_alone_are_not() -> None:
    table = pilot(1)
    alone = Study.from_pilot(table, horizon=WEEKS // 2, **COLUMNS)
    assert (alone.ask(), alone.ended) == (None, "asking people does not pay")
    free = Study.from_pilot(table, horizon=WEEKS // 2, money=Money("EUR", 600), **COLUMNS)
    question = free.ask()
    assert question is not None
    wave = free.course.pending
    assert wave is not None
    forecast = free.course.forecast(wave)
    assert forecast is not None
    assert forecast.gain > forecast.cost > forecast.answers > 0
    assert forecast.answers < 1.0 * wave.numbers  # hardly anything a number, unless it is given
    dear = free.definition.money
    assert dear is not None
    assert replace(dear, answer=3.0).priced(replace(forecast), wave.numbers).answers == 3.0 * wave.numbers
