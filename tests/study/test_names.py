"""One rule for people's names: who is written in two ways is one person, in records, tables, files and the ledger."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers_cli import refusal
from voxpop.calibration import Pilot
from voxpop.errors import InputError
from voxpop.io.tables import read_answers, read_pilot_table
from voxpop.model.decisions import Float, Space
from voxpop.model.kernels import Matern
from voxpop.model.problem import Problem
from voxpop.model.waves import Plan
from voxpop.model.words import person_of
from voxpop.privacy import Budget, Entry, Ledger
from voxpop.privacy.gaussian import noise_multiplier
from voxpop.study.answers import Answers, read

PROBLEM = Problem(Space(price=Float(1, 3)).grid(5), Matern(0.4, nu=1.5), 0.2, 0.1, norm_bound=2.0, horizon=300)
PLAN = Plan(1, np.array([0, 2]), np.array([1, 1]), 3)
DELTA = 1e-6
SAME: list[list[Any]] = [
    [7, 7.0, "7", "7.0", "7.", " 7 ", "+7", "007", np.int64(7), np.float64(7.0), "\uff17"],
    [10**16, 1e16, "1e16", "1E+16", "10000000000000000"],
    ["ann", "Ann", "ANN ", "\tann", "ann\u00a0", "\ufeffann", "a\u200bnn", "ann\x00", "\x08ann", "ann\x7f"],
    ["bo", "bo\ufe0f", "b\u034fo", "\u3164bo", "bo\u115f", "b\u180bo", "bo\uffa0", "bo\U000e0101"],
    ["ren\u00e9 b", "rene\u0301 b", "REN\u00c9  B", "Rene\u0301\u2003b"],
    ["stra\u00dfe", "STRASSE"],
    ["\u212bsa", "\u00e5sa", "A\u030asa"],
]


@pytest.mark.parametrize("names", SAME, ids=lambda names: ascii(names[0]))
def test_a_person_has_one_name(names: list[Any]) -> None:
    assert len(set(map(person_of, names))) == 1


def test_people_who_differ_have_different_names() -> None:
    names = ["ann", "anne", "an n", 7, 7.5, 70, "7a", "-7", "e7", "1e400", "inf", "\u03b1", "a"]
    assert len(set(map(person_of, names))) == len(names)
    assert person_of("9" * 5000) == "9" * 5000


def forms(one: Any, other: Any) -> dict[str, Any]:
    """The answers of a person who is written in two ways, as they may be told."""
    rows = [(one, 1.0, 0.5), (other, 2.0, 0.25)]
    long = pd.DataFrame(rows, columns=["person", "price", "reward"]).astype({"person": object})
    records = [{"person": who, "decision": {"price": price}, "average": gained} for who, price, gained in rows]
    return {"records": records, "long": long}


@pytest.mark.parametrize("names", SAME, ids=lambda names: ascii(names[0]))
def test_answers_under_two_names_are_one_person_s(names: list[Any]) -> None:
    for told in forms(names[0], names[1]).values():
        found = read(PROBLEM, PLAN, told, private=False)
        assert isinstance(found, Answers)
        assert found.matrix.tolist() == [[0.5, 0.25]]
        assert found.names == (person_of(names[0]),)
    twice = [{"person": name, "decision": {"price": 1.0}, "average": 0.5} for name in names[:2]]
    with pytest.raises(InputError) as error:
        read(PROBLEM, PLAN, twice, private=True)
    assert "answered twice" in refusal(error)


def test_a_file_and_a_table_name_the_same_people(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("person,price,reward\n7,1,0.5\n7.0,2,0.25\nAnn ,1,0.5\nann,2,0.5\n", encoding="utf-8")
    told = read_answers(path, PROBLEM.decisions)
    table = pd.DataFrame({"person": [7.0, "ANN"], "1.0": [0.5, 0.5], "2.0": [0.25, 0.5]})
    found = [read(PROBLEM, PLAN, one, private=False) for one in (told, table)]
    assert [one.names for one in found if isinstance(one, Answers)] == [("7", "ann")] * 2


def gaussian(*names: str) -> Entry:
    return Entry("central", len(names), 5.0, DELTA, noise_multiplier(5.0, DELTA), names=names)


@pytest.mark.parametrize("names", SAME, ids=lambda names: ascii(names[0]))
def test_the_ledger_knows_people_by_one_name_also_those_of_earlier_journals(names: list[Any]) -> None:
    one, other = str(names[0]), str(names[1])
    ledger = Ledger(None, [gaussian(one, "bob"), gaussian(other)])
    assert ledger.totals(DELTA)["epsilon"] == pytest.approx(7.46, abs=0.01)
    assert len(ledger.releases_about(other)) == 2
    strict = Ledger(Budget(5.0, DELTA), [gaussian(one)])
    with pytest.raises(InputError, match="has taken part 1 times"):
        strict.check(gaussian(other))
    with pytest.raises(InputError, match="is named twice in one release"):
        Ledger().check(gaussian(one, other))


def test_a_pilot_s_person_is_one_however_written(tmp_path: Path) -> None:
    rows = [("Ann", 1.0, 0.5), ("ann ", 2.0, 0.2), (7, 1.0, 0.1), ("7.0", 2.0, 0.3)]
    pilot = Pilot.from_table(pd.DataFrame(rows, columns=["person", "price", "reward"]))
    assert pilot.people.tolist() == [0, 0, 1, 1]
    path = tmp_path / "pilot.csv"
    path.write_text("person,price,reward\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows), encoding="utf-8")
    read_again = read_pilot_table(path)
    assert read_again.pilot.people.tolist() == [0, 0, 1, 1]
    assert read_again.people == ("Ann", "7")
    with pytest.raises(InputError, match="answered twice"):
        Pilot.from_table(pd.DataFrame([*rows, ("ANN", 1.0, 9.0)], columns=["person", "price", "reward"]))
