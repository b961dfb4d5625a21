"""Wide tables, repeated rows, columns with other names, Parquet, and yes and no: data as people have them."""

import io
from pathlib import Path

import pandas as pd
import pytest

from voxpop.errors import InputError
from voxpop.io.columns import Roles
from voxpop.io.pilots import calibration_of
from voxpop.io.ranges import Ranges, menu_of
from voxpop.io.studyfile import read_study, write_study
from voxpop.io.tables import read_answers, read_pilot_table
from voxpop.model.decisions import Choice, Float, Space
from voxpop.model.menu import Menu
from voxpop.runtime.frames import Table

LONG = "person,price,reward\na,2,1\na,3,2\nb,2,3\nc,3,5\nc,2,4\n"


def file(folder: Path, text: str, name: str = "pilot.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("heading", "roles"),
    [
        ("person,price 2,price 3", Roles()),
        ("person,price_2,price_3", Roles()),
        ("person,price = 2,price = 3", Roles()),
        ("user,2,3", Roles(wide="price")),
        ("who,price 2 €,price 3 €", Roles(person="who")),
    ],
)
def test_a_wide_table_says_what_a_long_one_says(tmp_path: Path, heading: str, roles: Roles) -> None:
    wide = read_pilot_table(file(tmp_path, f"{heading}\na,1,2\nb,3,\nc,4,5\n"), roles=roles)
    long = read_pilot_table(file(tmp_path, LONG)).pilot
    assert list(wide.pilot.decisions) == list(long.decisions)
    records = {
        (wide.people[p], a, r)
        for p, a, r in zip(wide.pilot.people, wide.pilot.actions, wide.pilot.averages, strict=True)
    }
    assert records == {("a", 0, 1.0), ("a", 1, 2.0), ("b", 0, 3.0), ("c", 0, 4.0), ("c", 1, 5.0)}
    assert "1 cell without an answer cost nothing else" in wide.said
    assert wide.place(2) == "b, line 3"


def test_rows_are_people_where_nobody_is_named_and_words_are_a_choice(tmp_path: Path) -> None:
    found = read_pilot_table(file(tmp_path, "green,black\n1,2\n3,4\n"), roles=Roles(wide="tea"))
    assert found.people == ("line 2", "line 3")
    assert found.space.parameters == {"tea": Choice(("black", "green"))}


def test_a_misnamed_reward_does_not_make_a_table_wide(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no column reward; it has person, x1, x2, profit; .* --reward NAME"):
        read_pilot_table(file(tmp_path, "person,x1,x2,profit\na,1,2,3\n"))
    with pytest.raises(InputError, match=r"unknown column 'profits'; did you mean 'profit'"):
        read_pilot_table(file(tmp_path, "person,price,profit\na,1,3\n"), roles=Roles(reward="profits"))


def test_repeated_rows_are_averaged_by_their_rounds_and_that_is_said(tmp_path: Path) -> None:
    text = "person,week,price,rounds,reward\na,1,2,1,1\na,2,2,3,5\na,1,3,2,1\nb,1,2,2,7\nb,2,3,2,1\n"
    found = read_pilot_table(file(tmp_path, text))
    assert found.pilot.averages.tolist() == [4.0, 1.0, 7.0, 1.0]
    assert found.pilot.counts.tolist() == [4.0, 2.0, 2.0, 2.0]
    assert found.lines == (2, 4, 5, 6)
    assert found.pilot.when is None
    assert any(said.startswith("1 row repeats a person and a decision") for said in found.said)


def test_yes_and_no_count_as_one_and_zero(tmp_path: Path) -> None:
    found = read_pilot_table(
        file(tmp_path, "person,price,clicked\na,2,Yes\na,3,no\nb,2,ja\n"), roles=Roles(reward="clicked")
    )
    assert found.pilot.averages.tolist() == [1.0, 0.0, 1.0]
    assert "reward: number, 1 for yes and 0 for no" in found.said
    with pytest.raises(InputError, match="'perhaps' is not a number"):
        read_pilot_table(file(tmp_path, "person,price,reward\na,2,Yes\na,3,no\nb,2,perhaps\n"))


def test_protected_answers_may_be_yes_and_no_too(tmp_path: Path) -> None:
    found = read_pilot_table(file(tmp_path, "person,price,reward\na,2,yes\na,3,no\nb,2,what\n"), protected=True)
    assert found.pilot.averages[:2].tolist() == [1.0, 0.0]


def test_a_parquet_file_is_read_as_a_csv_file_is(tmp_path: Path) -> None:
    frame = pd.read_csv(io.StringIO(LONG))
    frame.to_parquet(tmp_path / "pilot.parquet")
    one, other = read_pilot_table(tmp_path / "pilot.parquet"), read_pilot_table(file(tmp_path, LONG))
    assert one.pilot.averages.tolist() == other.pilot.averages.tolist()
    assert list(one.pilot.decisions) == list(other.pilot.decisions)
    answers = read_answers(tmp_path / "pilot.parquet", Space(price=Float(2, 3)).grid(2))
    assert isinstance(answers, list)
    assert answers[0] == {"person": "a", "decision": {"price": 2.0}, "average": 1.0}


def test_a_data_frame_is_read_as_a_file_is() -> None:
    frame = pd.read_csv(io.StringIO(LONG)).assign(age=[30, 30, 40, 50, 50])
    with pytest.raises(
        InputError,
        match=r"the table: column age never changes within .*ignore=\[.age.\], .*parameter=\[.price., .age.\]",
    ):
        calibration_of(frame)
    frame.loc[3, "reward"] = None
    with pytest.raises(InputError, match=r"the table, row 3 of 'c', column 3 \(reward\) is empty; leave the row out"):
        read_pilot_table(Path("the table"), roles=Roles(ignored=("age",)), content=Table.of(frame))
    twice = frame.rename(columns={"age": "profit"})
    with pytest.raises(InputError, match="has the columns reward and profit, both of which hold the reward"):
        read_pilot_table(Path("the table"), roles=Roles(reward="profit"), content=Table.of(twice))
    with pytest.raises(InputError, match="the table is empty"):
        Table.of(pd.DataFrame())


def test_wide_answers_are_read_as_long_ones(tmp_path: Path) -> None:
    decisions = Space(price=Float(2, 3)).grid(2)
    path = file(tmp_path, "user,block,price 2,3\na,1,0.5,1\nb,2,,yes\nc,1,k.A.,2\n".replace("yes", "4"))
    told = read_answers(path, decisions, blocks=True)
    asked = [(each["person"], each["block"], each["decision"]["price"], each["average"]) for each in told]
    assert asked == [("a", "1", 2.0, 0.5), ("a", "1", 3.0, 1.0), ("b", "2", 3.0, 4.0), ("c", "1", 3.0, 2.0)]
    assert len(read_answers(path, decisions, private=True)) == 6  # whatever is missing, as nobody may be left out
    with pytest.raises(InputError, match=r"line 3 \(reward\): 'much' is not a number"):
        read_answers(file(tmp_path, "user,2,3\na,0.5,1\nb,1,much\n"), decisions)
    with pytest.raises(
        InputError, match=r"2 things are wrong: \(1\) .*\(person\) is empty; leave .*; \(2\) .*'much' is"
    ):
        read_answers(file(tmp_path, "person,price,reward\n,2,1\nb,2,much\n"), decisions)
    long = file(tmp_path, "person,price,reward\na,2,1\nb,2,\nb,3,k.A.\n")
    with pytest.raises(InputError, match=r"line 3, column 3 \(reward\) is empty; leave the row out, and 1 row like it"):
        read_answers(long, decisions)
    assert [one["person"] for one in read_answers(long, decisions, gaps=True)] == ["a"]
    plans = Space(price=Float(2, 3), plan=Choice(("basic", "plus"))).grid(2)
    (one, _) = read_answers(file(tmp_path, 'user,"price = 2, plan = plus","price = 3, plan = basic"\na,1,2\n'), plans)
    assert one["decision"] == {"price": 2.0, "plan": "plus"}


ALLOWED = "price,plan\n2.5,plus\n3.5,basic\n4.5,plus\n"


def test_what_exists_is_in_the_study_file(tmp_path: Path) -> None:
    text = "person,price,plan,reward\n" + "".join(
        f"{who},{price},{plan},{who % 3 + price}\n"
        for who in range(9)
        for price in (2, 3, 4)
        for plan in ("basic", "plus")
    )
    pilot = file(tmp_path, text)
    menus = {
        "values": (menu_of(values=["price=2.49,4.99"]), 4),
        "step": (menu_of(step=["price=0.5"]), 10),
        "only": (menu_of(only="price < 3 or plan == 'plus'"), 4),
        "allowed": (menu_of(allowed=file(tmp_path, ALLOWED, "allowed.csv")), 3),
        "nothing": (Menu(), 6),
    }
    for name, (menu, size) in menus.items():
        found, table = (
            calibration_of(pilot, kernel="matern-5/2", ranges=Ranges(menu=menu)),
            read_pilot_table(pilot, ranges=Ranges(menu=menu)),
        )
        study = file(tmp_path, write_study(found, table.space, 500, table.menu, name, {"name": "waves"}), "study.toml")
        decisions = read_study(study)[0].decisions
        assert len(decisions) == size, name
        assert list(decisions) == list(table.menu.decisions(table.space))
