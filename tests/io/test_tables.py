"""CSV files: a pilot, and the answers to one wave."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import read_pilot, refusal
from voxpop.errors import InputError
from voxpop.io.columns import Roles
from voxpop.io.ranges import Ranges
from voxpop.io.tables import read_answers, read_pilot_table
from voxpop.model.decisions import Choice, Float, Integer, Space

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
    "no person": ("price,reward\n1,2\n", ["no column person", "has price, reward", "--person NAME"]),
    "no reward": ("person,price,profit\na,1,2\n", ["no column reward", "profit", "--reward NAME"]),
    "nothing known": ("who,price,profit\na,1,2\n", ["no column person and no column reward", "--person NAME and --re"]),
    "no parameter": ("person,reward\na,1\nb,2\n", ["no column for a parameter"]),
    "repeated column": ("person,price,price,reward\na,1,1,2\n", ["line 1", "each differently"]),
    "nameless column": ("person,,reward\na,7,2\n", ["line 1", "name every column"]),
    "word for a reward": (HEADING + "a,1,0.5\nb,2,good\n", ["line 3", "column 3", "reward", "'good'"]),
    "empty reward": (HEADING + "a,1,\nb,2,1\n", ["line 2", "column 3", "is empty; leave the row out"]),
    "no answer": (
        HEADING + "a,1,1\nb,2,k.A.\n",
        ["line 3", "column 3", "'k.A.' is a missing value; leave the row out"],
    ),
    "many mistakes": (
        "person,price,row,tea,reward\n" + "".join(f"a,{n},{n},tea {'ab'[n % 2]},{n}\n" for n in range(9)) + ",x,9,,y\n",
        ["5 things are wrong: (1)", "row counts", "(2)", "(person) is empty", "(reward)", "(price)", "(5)", "(tea)"],
    ),
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
    "dollars among words": (HEADING + "a,$1,0\nb,cheap,1\n", ["line 3", "'cheap' is not a number", "--choice price"]),
    "two words for a number": (HEADING + "a,4 ml,0\nb,5 ml,1\n", ["line 2", "column 2", "'4 ml'", "--choice price"]),
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


ANSWERED = {
    "semicolons and decimal commas": "person;price;tea;reward\nann;1,50;green;0,5\n7;2;black;-1\n",
    "currency": 'person,price,tea,reward\nann,$1.50,green,0.5\n7,"$2.00",black,-1\n',
    "other columns": ",person,age,price,tea,reward,note\n0,ann,,1.5,green,.5,\n1,7,40,2,black,-1,x y\n",
    "capitals": "PERSON,PRICE,Tea,Reward\nann,1.5,green,0.5\n7,2,black,-1\n",
}


@pytest.mark.parametrize("way", ANSWERED)
def test_answers_may_be_written_like_a_pilot(file: Any, way: str) -> None:
    assert read_answers(file(ANSWERED[way]), TEA) == ANSWERS


def test_answers_must_name_every_parameter(file: Any) -> None:
    with pytest.raises(InputError, match="has no column tea; it has person, price, reward; add it"):
        read_answers(file("person,price,reward\na,1,2\n"), TEA)


def test_names_with_digits_are_told_as_they_are(file: Any) -> None:
    plans = Space(plan=Choice(("4G", "5G"))).grid()
    (record,) = read_answers(file("person,plan,reward\na,5G,2\n"), plans)
    assert record["decision"] == {"plan": "5G"}


def test_a_percentage_is_its_number_in_a_pilot_and_in_answers(file: Any) -> None:
    pilot = file("person,share,reward\na,5 %,1\na,10 %,2\nb,5 %,1\nb,12.5 %,3\n")
    _, space = read_pilot(pilot)
    assert space.parameters == {"share": Float(5.0, 12.5)}
    told = [read_answers(file(f"person,share,reward\na,{cell},2\n"), space.grid(4)) for cell in ("12.5 %", "12.5")]
    assert [records[0]["decision"] for records in told] == [{"share": 12.5}, {"share": 12.5}]


SAID = """\
person;preis;tea;seats;zone;reward;age
ann;1.000,00 €;green;1;1;5 %;40
ann;3.000,00 €;black;2;1;25 %;40
bob;3.000,00 €;black;3;2;1 %;50
bob;1.000,00 €;green;1;1;7,5 %;50
"""


DECISIONS = (
    "decisions: 492; preis is one of 500, 520, 540, 560, 580, 600, ..., 3000; seats is one of 1, 2, 3 "
    "(--values, --step, --points, --only or --allowed say otherwise)"
)


def test_what_was_decided_about_each_column_is_said(file: Any) -> None:
    roles, ranges = Roles(ignored=("age",), choices=("zone",)), Ranges({"preis": 500.0}, log=("preis",))
    found = read_pilot_table(file(SAID.encode("cp1252")), roles=roles, ranges=ranges)
    tried = "(the pilot tried 1000 to 3000)"
    assert found.said == (
        f"preis: number from 500 to 3000 {tried}, on a logarithmic scale, in €, read from '1.000,00 €'",
        "tea: choice of black, green",
        "seats: number from 1 to 3",
        "zone: choice of 1, 2",
        "reward: number, in %, read from '5 %'; write later answers in percent, too",
        "rounds: 1 behind every reward, since there is no column rounds",
        "ignored: age",
        DECISIONS,
        "pilot.csv is not UTF-8 and was read as Windows-1252 text, as Excel writes it",
    )
    assert found.space.parameters == {
        "preis": Float(500.0, 3000.0, log=True),
        "tea": Choice(("black", "green")),
        "seats": Float(1.0, 3.0),
        "zone": Choice(("1", "2")),
    }
    assert (found.people, found.lines) == (("ann", "bob"), (2, 3, 4, 5))
    assert found.pilot.averages.tolist() == [5.0, 25.0, 1.0, 7.5]


def test_whole_numbers_are_whole_if_that_is_said(file: Any) -> None:
    text = "person,seats,reward\na,1,1\na,2,2\nb,1,1\nb,4,3\n"
    pilot, space = read_pilot(file(text), ranges=Ranges(integer=("seats",)))
    assert space.parameters == {"seats": Integer(1, 4)}
    labels = [label["seats"] for label in pilot.decisions]
    assert (labels, {type(label) for label in labels}) == ([1, 2, 4], {int})
    with pytest.raises(InputError, match=r"--integer seats takes whole numbers, and 1\.5 is not one"):
        read_pilot(file(text.replace("b,1", "b,1.5")), ranges=Ranges(integer=("seats",)))


def test_a_protected_pilot_takes_any_reward(file: Any) -> None:
    pilot, _ = read_pilot(file("person;price;reward\na;1;\na;2;0,5\nb;1;NA\nb;2;inf\n"), protected=True)
    np.testing.assert_array_equal(pilot.averages, [np.nan, 0.5, np.nan, np.inf])


def test_costs_are_not_taken_for_rewards(file: Any) -> None:
    with pytest.raises(
        InputError, match="a column cost and none called reward; add --minimize if less of it is better"
    ):
        read_pilot(file("person,price,Cost\na,1,1\na,2,2\nb,1,1\nb,2,3\n"))


def test_no_answer_of_a_protected_pilot_is_repeated(file: Any) -> None:
    text = "person;price;reward\na;1;7,25 %\na;2;0,5 %\nb;1;0,5 %\nb;2;1 %\n"
    assert not any(sentence.startswith("reward") for sentence in read_pilot_table(file(text), True).said)
    assert not any("7,25" in sentence for sentence in read_pilot_table(file(text), True).said)
    assert any("7,25" in sentence for sentence in read_pilot_table(file(text)).said)
