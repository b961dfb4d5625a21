"""Which columns of a pilot are parameters: what describes people, rows or moments is refused by name."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.io.columns import Roles
from voxpop.io.csv_text import TextTable, read_table

PEOPLE, PRICES = range(4), (1, 2, 3)


def row(person: int, price: int) -> dict[str, Any]:
    number = person * len(PRICES) + price
    return {
        "person": f"p{person}",
        "price": price,
        "reward": number % 5,
        "age": 20 + person % 3,
        "region": ["north", "south"][person % 2],
        "row": number,
        "response_id": 9000 - 7 * number,
        "asked at": f"2024-05-{number:02d} 12:00",
        "remark": f"said {number} words",
        "dose": 1000 + 37 * (number * 5 % 13),  # differs in every row, as a dose that is drawn at random
    }


def table(tmp_path: Path, *names: str) -> TextTable:
    rows = [row(person, price) for person in PEOPLE for price in PRICES]
    lines = [",".join(names), *(",".join(str(cells[name]) for name in names) for cells in rows)]
    path = tmp_path / "pilot.csv"
    path.write_text("\n".join(lines))
    return read_table(path)


REFUSED: dict[str, list[str]] = {
    "age": ["column age never changes within a person", "--ignore age", "--parameter price --parameter age"],
    "row": ["column row counts the rows", "--ignore row"],
    "response_id": ["column response_id differs in every row", "--ignore response_id"],
    "asked at": ["column asked at holds dates or times", '--ignore "asked at"'],
    "remark": ["column remark differs in every row", "--ignore remark"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_column_that_is_hardly_a_parameter_is_refused_by_name(tmp_path: Path, name: str) -> None:
    made = table(tmp_path, "person", "price", name, "reward")
    with pytest.raises(InputError) as caught:
        Roles().refuse_odd(made, Roles().select(made))
    message = refusal(caught)
    assert [part for part in [str(made.path), *REFUSED[name]] if part not in message] == [], message
    assert Roles(ignored=(name,)).select(made) == ["price"]
    assert Roles(parameters=("price",)).select(made) == ["price"]
    assert Roles(parameters=(name, "price")).select(made) == ["price", name]


def test_all_that_describe_people_are_named_at_once(tmp_path: Path) -> None:
    made = table(tmp_path, "person", "age", "price", "region", "reward")
    with pytest.raises(
        InputError, match=r"column age never .*, column region never .* --ignore age --ignore region, or"
    ):
        Roles().refuse_odd(made, Roles().select(made))


def test_columns_that_are_odd_for_several_reasons_are_named_at_once(tmp_path: Path) -> None:
    made = table(tmp_path, "person", "age", "price", "row", "asked at", "reward")
    with pytest.raises(
        InputError, match=r"row counts .*asked at holds dates .*age never .*--ignore row --ignore \"asked"
    ):
        Roles().refuse_odd(made, Roles().select(made))


@pytest.mark.parametrize("name", ["price", "dose"])
def test_a_parameter_is_a_parameter(tmp_path: Path, name: str) -> None:
    assert Roles().select(table(tmp_path, "person", name, "reward")) == [name]


def test_what_is_the_same_for_a_person_may_be_a_parameter_where_everyone_has_one_row(tmp_path: Path) -> None:
    path = tmp_path / "pilot.csv"
    path.write_text("person,price,reward\na,1,2\nb,2,3\nc,1,4\nd,5,1\n")
    assert Roles().select(read_table(path)) == ["price"]


WRONG: dict[str, tuple[Roles, str]] = {
    "unknown": (Roles(ignored=("agee",)), "unknown column 'agee'; did you mean 'age'?"),
    "unknown parameter": (Roles(parameters=("cost",)), "unknown column 'cost'"),
    "unknown choice": (Roles(choices=("cost",)), "unknown column 'cost'"),
    "reserved": (Roles(ignored=("reward",)), "'reward' is not a parameter; name one of the others: price, age"),
    "both": (Roles(parameters=("price", "age"), ignored=("age",)), "--ignore age contradicts"),
    "names and ignored": (Roles(choices=("age",), ignored=("age",)), "--ignore age contradicts"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, case: str) -> None:
    roles, said = WRONG[case]
    with pytest.raises(InputError) as caught:
        roles.select(table(tmp_path, "person", "price", "age", "reward"))
    assert said in refusal(caught)
