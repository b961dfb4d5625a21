"""CSV files: a pilot, and the answers to one phase."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import refusal
from voxpop.core.errors import InputError
from voxpop.core.spaces import Choice, Float, Space
from voxpop.formats.tables import read_answers, read_pilot

PILOT = """\
person,price,tea,reward,rounds
ann,1.0,green,0.5,4
ann,3.0,black,0.25,2
bob,3.0,black,-1e-1,8
bob,1.0,green,0.75,4
"""


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(content: str | bytes) -> Path:
        path = tmp_path / "pilot.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def records(path: Path) -> list[tuple[int, Any, float, float]]:
    """The pilot's records with the decisions in words."""
    pilot, _ = read_pilot(path)
    rows = zip(pilot.people, pilot.actions, pilot.averages, pilot.counts, strict=True)
    return [(int(person), pilot.decisions[int(action)], float(y), float(n)) for person, action, y, n in rows]


def test_each_row_is_one_person_s_average_for_one_action(file: Any) -> None:
    green, black = {"price": 1.0, "tea": "green"}, {"price": 3.0, "tea": "black"}
    assert records(file(PILOT)) == [(0, green, 0.5, 4), (0, black, 0.25, 2), (1, black, -0.1, 8), (1, green, 0.75, 4)]


def test_numbers_make_a_float_over_the_pilot_s_range_and_words_a_choice(file: Any) -> None:
    _, space = read_pilot(file(PILOT))
    assert space.parameters == {"price": Float(1.0, 3.0), "tea": Choice(("black", "green"))}


def test_the_pilot_s_points_are_scaled_by_the_space(file: Any) -> None:
    pilot, space = read_pilot(file(PILOT))
    expected = [space.scale(label) for label in pilot.decisions]
    np.testing.assert_array_equal(pilot.decisions.points, expected)
    np.testing.assert_array_equal(np.sort(pilot.decisions.points[:, 0]), [0.0, 1.0])


def test_rounds_are_one_unless_given(file: Any) -> None:
    assert [row[3] for row in records(file("person,price,reward\na,1,0.5\na,2,0.7\nb,1,0.1\n"))] == [1, 1, 1]


WRITTEN_DIFFERENTLY = {
    "spaces": PILOT.replace(",", " , "),
    "windows": PILOT.replace("\n", "\r\n"),
    "blank lines": PILOT.replace("bob,3", "\nbob,3") + "\n\n",
    "quotes": PILOT.replace("green", '"green"'),
    "no last newline": PILOT.rstrip("\n"),
    "capital heading": PILOT.replace("person,", "Person,").replace("reward,rounds", "REWARD,Rounds"),
    "byte order mark": "\ufeff" + PILOT,  # as Excel writes UTF-8
}


@pytest.mark.parametrize("way", WRITTEN_DIFFERENTLY)
def test_other_ways_to_write_the_same_file_are_understood(file: Any, way: str) -> None:
    assert records(file(WRITTEN_DIFFERENTLY[way])) == records(file(PILOT))


def test_the_order_of_columns_does_not_matter(file: Any) -> None:
    turned = [",".join(reversed(line.split(","))) for line in PILOT.splitlines()]
    swapped = [
        (person, {"price": label["price"], "tea": label["tea"]}, y, n)
        for person, label, y, n in records(file("\n".join(turned)))
    ]
    assert swapped == records(file(PILOT))


HEADING = "person,price,reward\n"
MALFORMED: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["empty", "person, price, reward"]),
    "blank": ("\n\n\n", ["empty"]),
    "heading only": (HEADING, ["no rows"]),
    "no person": ("price,reward\n1,2\n", ["line 1", "'person'"]),
    "no reward": ("person,price,profit\na,1,2\n", ["line 1", "'reward'", "profit"]),
    "no parameter": ("person,reward\na,1\nb,2\n", ["no column for a parameter"]),
    "repeated column": ("person,price,price,reward\na,1,1,2\n", ["line 1", "each differently"]),
    "nameless column": ("person,,reward\na,1,2\n", ["line 1", "name every column"]),
    "word for a reward": (HEADING + "a,1,0.5\nb,2,good\n", ["line 3", "column 3", "reward", "'good'"]),
    "empty reward": (HEADING + "a,1,\nb,2,1\n", ["line 2", "column 3", "''"]),
    "nan": (HEADING + "a,1,nan\nb,2,1\n", ["line 2", "column 3", "'nan'"]),
    "infinite": (HEADING + "a,1,0\nb,2,-inf\n", ["line 3", "column 3", "'-inf'"]),
    "nan price": (HEADING + "a,1,0\nb,nan,1\n", ["line 3", "column 2", "'nan'"]),
    "infinite price": (HEADING + "a,1,0\nb,inf,1\n", ["line 3", "column 2", "'inf'"]),
    "empty price": (HEADING + "a,1,0\na,3,0\nb,,1\n", ["line 4", "column 2"]),
    "empty person": (HEADING + "a,1,0\n,2,1\n", ["line 3", "column 1"]),
    "word for rounds": ("person,price,reward,rounds\na,1,0,3\nb,2,1,few\n", ["line 3", "column 4", "'few'"]),
    "no rounds": ("person,price,reward,rounds\na,1,0,3\nb,2,1,0\n", ["rounds", "0"]),
    "short line": (HEADING + "a,1,0\nb,2\n", ["line 3", "2 cells", "3 columns"]),
    "long line": (HEADING + "a,1,0\nb,2,1,9\n", ["line 3", "4 cells", "3 columns"]),
    "line after a blank one": (HEADING + "\n\na,1,0\nb,2\n", ["line 5"]),
    "open quote": (HEADING + 'a,1,0\nb,2,"1\n', ["line 3"]),
    "text after a quote": (HEADING + 'a,1,0\nb,"2"x,1\n', ["line 3"]),
    "constant price": (HEADING + "a,1,0\nb,1,1\n", ["price", "always '1'"]),
    "constant word": (HEADING + "a,x,0\nb,x,1\n", ["price", "always 'x'"]),
    "one person": (HEADING + "a,1,0\na,2,1\n", ["at least two people, got 1"]),
    "constant reward": (HEADING + "a,1,4\nb,2,4\n", ["every reward in the pilot is 4"]),
    "answered twice": (HEADING + "a,1,0\na,1,3\nb,2,4\n", ["answered twice"]),
    "not text": (b"person,price,reward\na,1,\x81\n", ["byte 24", "save it as UTF-8"]),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_pilot_is_refused_with_its_place(file: Any, case: str) -> None:
    content, said = MALFORMED[case]
    path = file(content)
    with pytest.raises(InputError) as caught:
        read_pilot(path)
    message = refusal(caught)
    assert [part for part in [str(path), *said] if part not in message] == [], message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv.*No such file"):
        read_pilot(tmp_path / "none.csv")


TEA = Space(price=Float(1, 3), tea=Choice(("black", "green"))).grid(5)
ANSWERS = [
    {"person": "ann", "decision": {"price": 1.5, "tea": "green"}, "average": 0.5},
    {"person": "7", "decision": {"price": 2.0, "tea": "black"}, "average": -1.0},
]


def test_answers_become_records_for_tell(file: Any) -> None:
    assert read_answers(file("person,price,tea,reward\nann,1.50,green,0.5\n7,2,black,-1\n"), TEA) == ANSWERS


def test_an_answer_that_is_not_a_number_is_named(file: Any) -> None:
    with pytest.raises(InputError, match=r"pilot\.csv, line 3, column 1 \(reward\): 'x' is not a number"):
        read_answers(file("reward,person,price\n1,a,1\nx,b,2\n"), Space(price=Float(1, 2)).grid(2))
