"""The studies of real people: what is shipped of them, where their optimum is, and how the figures were made."""

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import mixed_logit as logit
from benchmarks import real_people as script
from reproduction.compare import exhibits
from reproduction.exhibits import FULL, QUICK
from voxpop.errors import Array, InputError
from voxpop.model.decisions import Decisions
from voxpop.simulation.people import TablePeople
from voxpop.simulation.scenarios import Options, make_scenario
from voxpop.simulation.surveys import (
    SURVEYS,
    TABLES,
    Survey,
    changing_supplier,
    figures,
    taking_the_train,
    voting,
)
from voxpop.simulation.trials import Trial

PEOPLE = {"train": 1191, "tariff": 361, "voters": 944}


def people_of(survey: Survey) -> TablePeople:
    people = survey.people(survey.decisions())
    assert isinstance(people, TablePeople)
    return people


def offers(**columns: list[float]) -> Decisions:
    """Make decisions with these parameters, whatever their scale."""
    labels = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Decisions(np.arange(len(labels), dtype=float)[:, None], labels)


# What is shipped


@pytest.mark.parametrize("name", SURVEYS)
def test_a_shipped_table_says_where_it_comes_from_and_is_small(name: str) -> None:
    text = (TABLES / f"{name}.csv").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert "fitted by voxpop (benchmarks/real_people.py)" in text
    assert len(text) < 150_000


def test_travellers_take_the_train_less_often_the_more_it_costs() -> None:
    fare, _, steepness = figures("train")
    paying = fare > 0
    assert (len(paying), (~paying).sum()) == (1191, 168)  # an annual ticket pays for everything
    np.testing.assert_array_equal(steepness > 0, paying)
    assert 0 < fare[paying].min() < np.median(fare[paying]) < 110 < fare.max() < 1000


def test_travellers_choose_as_in_the_survey() -> None:
    """In 6,216 of 10,719 choices people took the new train; what they say of one average trip is a little higher."""
    taken = taking_the_train(offers(fare=[0.5, 1.0, 1.5])).mean(axis=0)
    assert taken[1] == pytest.approx(6216 / 10719, abs=0.05)
    assert taken[0] > 0.75 > 0.5 > taken[2]


def test_customers_have_the_tastes_that_others_found() -> None:
    """The mixed logit of mlogit's documentation, from a hundred draws, and its deviations."""
    means = [-0.973, -0.206, 2.076, 1.476, -9.053, -9.104]
    deviations = np.array([0.220, 0.378, 1.483, 1.000, 2.289, 1.181])
    table = np.loadtxt(TABLES / "tariff.csv", delimiter=",")
    assert table.shape == (361, 6)
    np.testing.assert_allclose(table.mean(axis=0), means, rtol=0.15)
    spread = table.std(axis=0)
    assert ((0.5 * deviations < spread) & (spread < 1.3 * deviations)).all()
    assert (figures("tariff")[0] < 0).all()  # nobody likes a price


def test_rivals_take_what_the_new_supplier_does_not() -> None:
    same = changing_supplier(offers(price=[6.0, 8.0, 10.0], contract=[0.0] * 3))
    assert (np.diff(same) < 0).all()
    likes = figures("tariff")[1] > 0  # contracts
    assert 0.1 < likes.mean() < 0.5
    longer = np.diff(changing_supplier(offers(price=[8.0, 8.0], contract=[0.0, 5.0])))[:, 0]
    np.testing.assert_array_equal(longer > 0, likes)
    unbeatable = changing_supplier(offers(price=[-100.0, 1000.0], contract=[0.0] * 2))
    np.testing.assert_allclose(unbeatable, np.tile([1.0, 0.0], (361, 1)), atol=1e-9)


def test_voters_stand_where_they_said() -> None:
    position, _, steepness, count = figures("voters")
    stand = [int(count[position == place].sum()) for place in range(1, 8)]
    assert stand == [16, 103, 147, 256, 170, 218, 34]
    assert (steepness == steepness[0]).all()
    assert 0.9 < steepness[0] < 0.95


def test_a_voter_likes_their_own_position_best() -> None:
    best = voting(offers(position=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])).argmax(axis=1) + 1
    assert np.bincount(best).tolist() == [0, 16, 103, 147, 256, 170, 218, 34]


# The studies

BEST: dict[str, dict[str, float]] = {
    "train": {"fare": 0.89},
    "tariff": {"price": 7.8, "contract": 2},
    "voters": {"position": 4.0},
}


@pytest.mark.parametrize("name", SURVEYS)
def test_the_optimum_lies_inside(name: str) -> None:
    survey = SURVEYS[name]
    decisions, people = survey.decisions(), people_of(survey)
    best = int(people.mean.argmax())
    assert len(people) == PEOPLE[name]
    assert decisions[best] == BEST[name]
    assert ((decisions.points[best] > 0.1) & (decisions.points[best] < 0.9)).all()
    assert np.isfinite(people.rewards).all()


@pytest.mark.parametrize("name", SURVEYS)
def test_people_differ_in_what_is_best(name: str) -> None:
    favourites = people_of(SURVEYS[name]).rewards.argmax(axis=1)
    assert len(np.unique(favourites)) > 5
    assert np.bincount(favourites).max() < 0.6 * PEOPLE[name]


def test_a_traveller_pays_their_own_fare_or_nothing() -> None:
    survey = SURVEYS["train"]
    people = people_of(survey)
    assert people.stakes is not None
    fare, _, _ = figures("train")
    np.testing.assert_allclose(people.stakes[:, 0], 0.5 * fare)
    np.testing.assert_allclose(people.rewards[:, -1], 1.5 * fare * taking_the_train(offers(fare=[1.5]))[:, 0])


def test_a_supplier_earns_what_its_costs_leave() -> None:
    people = people_of(SURVEYS["tariff"])
    assert people.stakes is not None
    decisions = SURVEYS["tariff"].decisions()
    margins = {(label["price"], label["contract"]): people.stakes[0, i] for i, label in enumerate(decisions)}
    assert margins[6.0, 0] == pytest.approx(-0.5)
    assert margins[8.0, 2] == pytest.approx(2.5)


@pytest.mark.parametrize("name", SURVEYS)
def test_a_study_takes_its_pilot_from_the_people(name: str) -> None:
    scenario = make_scenario(name, Options(seed=1, size=15))
    assert scenario.problem.size == len(scenario.f) == 15
    (pilot,) = scenario.problem.pilot
    assert (pilot.people, pilot.rounds.tolist()) == (40, [SURVEYS[name].pilot_rounds] * 12)
    assert scenario.make_policy("waves").settings()["population"] == PEOPLE[name] - 40
    assert scenario.reward == SURVEYS[name].reward
    other = make_scenario(name, Options(seed=2, size=15))
    np.testing.assert_array_equal(scenario.f, other.f)
    assert scenario.problem.noise_std != other.problem.noise_std


@pytest.mark.parametrize("name", SURVEYS)
def test_a_study_takes_no_constants(name: str) -> None:
    with pytest.raises(InputError, match=f"the {name} study takes noise, bias and norm bound from its pilot"):
        make_scenario(name, Options(noise_std=0.1))
    with pytest.raises(InputError, match=f"size of the {name} study.*at least 12, got 11"):
        make_scenario(name, Options(size=11))


@pytest.mark.parametrize("name", SURVEYS)
def test_a_short_study_finds_a_good_decision(name: str) -> None:
    run = Trial(name, horizon=5000, size=25).run()
    assert run.optimum_kept
    assert run.certificate_true
    assert run.loss < 0.1 * np.ptp(run.scenario.f)
    assert 0 < run.metrics.people <= PEOPLE[name] - 40


def test_reproduce_compares_policies_on_every_survey() -> None:
    made = [exhibit for exhibit in exhibits(FULL) if exhibit.name.startswith("people/")]
    assert [exhibit.name for exhibit in made] == [f"people/{name}" for name in SURVEYS]
    for exhibit in made:
        assert list(exhibit.series) == ["waves", "dpbe", "pilot-only", "thompson"]
        assert exhibit.title == SURVEYS[exhibit.name.removeprefix("people/")].question
        assert exhibit.trials[0].horizon == 20_000
    assert {exhibit.trials[0].horizon for exhibit in exhibits(QUICK)} == {4_000}


# How the figures were made


def made_up(people: int, each: int) -> tuple[Any, Array]:
    """Make up choices among three alternatives, and people's tastes for quality, cost and size."""
    rng = np.random.default_rng(0)
    quality, cost = rng.normal(1, 1, people), -np.exp(rng.normal(0.5, 0.5, people))
    tastes = np.column_stack([quality, cost, np.full(people, 0.3)])  # (people, attributes)
    person = np.repeat(np.arange(people), each)
    attributes = rng.normal(size=(len(person), 3, 3))
    available = rng.random((len(person), 3)) < 0.8
    available[:, 0] = True
    utility = np.einsum("sak,sk->sa", attributes, tastes[person]) + rng.gumbel(size=(len(person), 3))
    chosen = np.where(available, utility, -np.inf).argmax(axis=1)
    return logit.Choices(attributes, available, chosen, person), tastes


def test_the_gradient_is_that_of_the_likelihood() -> None:
    choices, _ = made_up(people=12, each=4)
    model = logit.Model(choices, ("normal", "negative", "same"), draws=16)

    def value(theta: Array) -> float:
        return float(sum(part[0] for part in model._parts(theta)))

    theta = np.array([0.3, -0.2, 0.1, 0.8, 0.4])
    gradient = np.sum([part[1] for part in model._parts(theta)], axis=0)
    steps = 1e-5 * np.eye(5)
    numerical = [(value(theta + step) - value(theta - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, numerical, rtol=1e-5)


def test_tastes_are_found_again() -> None:
    choices, tastes = made_up(people=150, each=12)
    found = logit.Model(choices, ("normal", "negative", "same"), draws=32).fit([0.0, 0.0, 0.0])
    np.testing.assert_allclose(found.means, [1.0, 0.5, 0.3], atol=0.2)
    np.testing.assert_allclose(found.deviations, [1.0, 0.5, 0.0], atol=0.2)
    for k in (0, 1):
        assert np.corrcoef(found.tastes[:, k], tastes[:, k])[0, 1] > 0.5
    assert (found.tastes[:, 1] < 0).all()


def test_a_mean_is_taken_over_a_person_s_situations() -> None:
    choices, _ = made_up(people=5, each=3)
    by_hand = choices.attributes.reshape(5, 3, 3, 3).mean(axis=1)
    np.testing.assert_allclose(choices.mean(choices.attributes), by_hand)


def test_the_script_refuses_other_data(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no wheel of statsmodels in"):
        script.main(tmp_path, tmp_path)
    with zipfile.ZipFile(tmp_path / "statsmodels-9.whl", "w") as wheel:
        wheel.writestr("statsmodels/datasets/anes96/anes96.csv", "'vote'\n1\n")
    with pytest.raises(InputError, match="is not the data that was fitted"):
        script.main(tmp_path, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["statsmodels-9.whl"]


def test_the_script_fits_voters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a made-up survey in which own position, party and the two candidates decide the vote by known weights."""
    rng = np.random.default_rng(0)
    own, incumbent, challenger = rng.integers(1, 8, size=(3, 3000))
    party = rng.integers(0, 7, size=3000)
    lead = -0.5 + 0.8 * (abs(own - incumbent) - abs(own - challenger)) + 0.4 * (party - 3)
    vote = (rng.random(3000) < 1 / (1 + np.exp(-lead))).astype(int)
    rows = np.column_stack([own, incumbent, challenger, party, vote]).tolist()
    text = "\n".join(
        "\t".join(map(str, row)) for row in [["'selfLR'", "'ClinLR'", "'DoleLR'", "'PID'", "'vote'"], *rows]
    )
    with zipfile.ZipFile(tmp_path / "statsmodels-9.whl", "w") as wheel:
        wheel.writestr("anes96.csv", text)
    monkeypatch.setattr(script, "ANES96", ("statsmodels", "anes96.csv", hashlib.sha256(text.encode()).hexdigest()))
    position, level, steepness, count = script.of_voters(tmp_path).T
    assert count.sum() == 3000
    assert steepness[0] == pytest.approx(0.8, abs=0.1)
    expected = -0.5 + 0.8 * abs(own - incumbent) + 0.4 * (party - 3)
    mine = [level[position == place] @ count[position == place] / (own == place).sum() for place in range(1, 8)]
    theirs = [expected[own == place].mean() for place in range(1, 8)]
    np.testing.assert_allclose(mine, theirs, atol=0.3)
