"""One's own people: from a table or by a formula, alone or in a study file."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.helpers_cli import STUDY, study_file
from voxpop.errors import InputError
from voxpop.io.columns import Roles
from voxpop.model.decisions import Choice, Float
from voxpop.simulation import rehearsals
from voxpop.simulation.people import TablePeople
from voxpop.simulation.rehearsals import OwnPeople, Rehearsal, _of_grid

PROFIT = "(price - 1.5) * (wtp >= price)"


@pytest.fixture
def shoppers(tmp_path: Path) -> Path:
    """120 people whose willingness to pay is 2.00, 2.05, and so on."""
    rows = [f"u{number},{'old' if number % 3 else 'new'},{2 + number / 20}" for number in range(120)]
    return write(tmp_path / "people.csv", ["person,kind,wtp", *rows])


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def table(path: Path, people: int = 60) -> Path:
    """People who tried five prices between 1 and 3, in no order."""
    rng, lines = np.random.default_rng(0), ["person,price,reward"]
    for person in range(people):
        taste = rng.normal(2.0, 0.3)
        lines += [f"u{person},{price},{1 - (price - taste) ** 2}" for price in (2.0, 1.0, 3.0, 1.5, 2.5)]
    return write(path, lines)


def test_a_formula_is_computed_for_every_person_and_decision(shoppers: Path) -> None:
    _, decisions, people = OwnPeople(str(shoppers), PROFIT, ("price=2:8:7",)).gather()
    prices = [label["price"] for label in decisions]
    assert prices == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    wtp = 2 + np.arange(120) / 20
    np.testing.assert_allclose(people.rewards, [[(p - 1.5) * (w >= p) for p in prices] for w in wtp])


def test_words_take_part_in_a_formula(shoppers: Path) -> None:
    own = OwnPeople(str(shoppers), "where(kind == 'new' and plan == 'gift', 3, 1)", ("plan=none,gift", "price=1,2"))
    _, decisions, people = own.gather()
    assert decisions[0] == {"plan": "none", "price": 1.0}
    np.testing.assert_array_equal(people.rewards[:3], [[1, 1, 3, 3], [1, 1, 1, 1], [1, 1, 1, 1]])


def test_a_table_s_rows_may_stand_in_any_order(tmp_path: Path) -> None:
    lines = ["person,price,reward", "b,2,0.2", "a,1,0.3", "b,1,0.1", "a,2,0.4"]
    _, decisions, people = OwnPeople(str(write(tmp_path / "people.csv", lines)), noise_std=0.5).gather()
    assert [label["price"] for label in decisions] == [1.0, 2.0]
    np.testing.assert_array_equal(people.rewards, [[0.1, 0.2], [0.3, 0.4]])
    assert people.noise_std == 0.5


def test_a_study_of_one_s_own_people_begins_with_a_pilot_among_them(shoppers: Path) -> None:
    own = pickle.loads(pickle.dumps(OwnPeople(str(shoppers), PROFIT, ("price=2:8:25",), 0.1)))
    study = own.scenario(seed=1, horizon=2000)
    assert (study.name, study.problem.horizon, study.problem.size) == ("people", 2000, 25)
    assert study.problem.pilot[0].people == 40
    assert isinstance(study.population, TablePeople)
    assert len(study.population) == 80
    expected = [(price - 1.5) * np.mean(2 + np.arange(120) / 20 >= price) for price in np.linspace(2, 8, 25)]
    np.testing.assert_allclose(study.f, expected)
    assert own.scenario(0).problem.horizon == 20_000


def test_half_of_few_people_take_part_in_the_pilot(tmp_path: Path) -> None:
    path = table(tmp_path / "people.csv", people=21)
    assert OwnPeople(str(path)).scenario().problem.pilot[0].people == 10
    assert OwnPeople(str(path), pilot_people=15).scenario().problem.pilot[0].people == 15


def test_a_study_file_asks_these_people_nobody_twice(tmp_path: Path) -> None:
    study = study_file(tmp_path / "tea.toml", STUDY.replace('name = "dpbe"\nalpha = 0.6', "population = 50000"))
    rehearsal = Rehearsal(str(study), people=OwnPeople(str(table(tmp_path / "people.csv"))))
    run = rehearsal.run()
    assert run.policy.settings()["population"] == 60
    assert 0 < run.metrics.people <= 60
    assert not run.people_asked_again
    assert run.scenario.name == "tea"
    assert run.scenario.problem.noise_std == 0.1


def test_a_table_brings_its_decisions_into_a_study_file(tmp_path: Path) -> None:
    lines = ["person,price,reward"]
    lines += [f"u{person},{price},{price + person}" for person in range(8) for price in (1.25, 2.0, 2.75)]
    people = OwnPeople(str(write(tmp_path / "people.csv", lines)))
    study = Rehearsal(str(study_file(tmp_path / "tea.toml")), people=people).scenario()
    problem = study.problem
    assert [label["price"] for label in problem.decisions] == [1.25, 2.0, 2.75]
    assert problem.decisions.points[:, 0].tolist() == pytest.approx([0.125, 0.5, 0.875])  # of 1 to 3
    assert problem.beta == pytest.approx(1 / (3 * 500))
    np.testing.assert_allclose(study.f, [4.75, 5.5, 6.25])


def test_a_study_file_says_where_a_formula_is_computed(shoppers: Path, tmp_path: Path) -> None:
    people = OwnPeople(str(shoppers), PROFIT)
    study = Rehearsal(str(study_file(tmp_path / "tea.toml")), people=people).scenario()
    assert study.problem.size == 5
    np.testing.assert_allclose(study.f, [-0.5, 0.0, 0.5, 1.0 * 110 / 120, 1.5 * 100 / 120])


def test_more_than_everyone_is_asked_again(tmp_path: Path) -> None:
    run = Rehearsal(policy="gp-ucb", horizon=200, people=OwnPeople(str(table(tmp_path / "people.csv")))).run()
    assert run.metrics.people == 200 > len(run.scenario.population)  # type: ignore[arg-type]
    assert run.people_asked_again


def test_settings_reach_the_policy(tmp_path: Path) -> None:
    people = OwnPeople(str(table(tmp_path / "people.csv")))
    run = Rehearsal(people=people, settings=(("most_waves", 1), ("population", 15))).run()
    assert len(run.closed) <= 1
    assert run.policy.settings().items() >= {"most_waves": 1, "population": 15}.items()


def test_grids() -> None:
    space, decisions = _of_grid(["price = 2 : 12 : 3", "seats=5,1,3", "plan=basic, plus"])
    assert space.parameters == {"price": Float(2, 12), "seats": Float(1, 5), "plan": Choice(("basic", "plus"))}
    assert len(decisions) == 18
    assert decisions[1] == {"price": 2.0, "seats": 1.0, "plan": "plus"}
    assert decisions[17] == {"price": 12.0, "seats": 5.0, "plan": "plus"}


BAD_GRIDS = ["price", "price=", "=1:2:3", "a b=1:2:3", "price=2:12", "price=2:12:x", "price=2:12:2.5", "price=2:12:1"]
BAD_GRIDS += ["price=12:2:5", "price=2:inf:5", "price=2:12:9999999", "price=3", "price=3,3", "price=3,x"]
BAD_GRIDS += ["plan=a,a", "plan=a", "plan=a,,b"]


@pytest.mark.parametrize("text", BAD_GRIDS)
def test_a_bad_grid_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        _of_grid([text])


def test_a_parameter_is_said_once() -> None:
    with pytest.raises(InputError, match="each once"):
        _of_grid(["price=1:2:3", "price=1:2:3"])
    with pytest.raises(InputError, match=r"4,000,000 decisions.*1,000,000"):
        _of_grid(["price=1:2:2000", "size=1:2:2000"])


def test_too_many_rewards_are_refused(shoppers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsals, "MOST_REWARDS", 1000)
    with pytest.raises(InputError, match=r"120 people.*9 decisions.*1,000 rewards; take a random sample"):
        OwnPeople(str(shoppers), PROFIT, ("price=2:8:9",)).gather()


def test_people_s_tables_are_read_as_spreadsheets_write_them(tmp_path: Path) -> None:
    lines = ["Person;Since;wtp;Remark", "1;2024-05-31;2,50 €;", "2;2024-06-01;3,75 €;250 ml", "3;;9,00 €;x"]
    own = OwnPeople(str(write(tmp_path / "people.csv", lines)), "wtp - price", ("price=1,2",))
    np.testing.assert_allclose(own.gather()[2].rewards, [[1.5, 0.5], [2.75, 1.75], [8.0, 7.0]])


def test_columns_that_are_no_parameters(tmp_path: Path) -> None:
    lines = ["person,age,price,reward"]
    lines += [f"u{person},{20 + person},{price},{price + person}" for person in range(8) for price in (1.0, 2.0, 3.0)]
    path = write(tmp_path / "people.csv", lines)
    with pytest.raises(InputError, match="--ignore age"):
        OwnPeople(str(path)).gather()
    _, decisions, people = OwnPeople(str(path), roles=Roles(ignored=("age",))).gather()
    assert decisions[0] == {"price": 1.0}
    assert people.rewards.shape == (8, 3)
    study = Rehearsal(str(study_file(tmp_path / "tea.toml")), people=OwnPeople(str(path))).scenario()
    assert study.problem.size == 3  # the study file says what its parameters are


def test_several_rows_of_one_person_are_no_formula_s_people(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("person,wtp\nann,3\nbob,4\nann,5\n")
    with pytest.raises(InputError, match="several rows of ann, and a formula takes one row for each person"):
        OwnPeople(str(file), "wtp >= price", ("price=1:5:5",)).gather()
