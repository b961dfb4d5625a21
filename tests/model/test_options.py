"""The table of options: every setting says what it is, keeps its limits, and reaches every door."""

from dataclasses import dataclass, fields
from typing import Any, Literal

import pytest

from voxpop.errors import InputError
from voxpop.model.calendar import Calendar
from voxpop.model.options import REQUIRED, Option, check, option, options_of
from voxpop.policies import POLICIES, make_policy, policy_options
from voxpop.privacy import Private
from voxpop.service.study.definition import Rules

TABLES: dict[str, tuple[Option, ...]] = {name: policy_options(name) for name in POLICIES}
TABLES |= {"privacy": options_of(Private), "rules": options_of(Rules), "calendar": options_of(Calendar)[:3]}


@pytest.mark.parametrize("name", TABLES)
def test_every_setting_has_one_sentence_of_help_and_a_label(name: str) -> None:
    for one in TABLES[name]:
        assert one.help[0].isupper() or one.choices, one.name
        assert one.help.endswith("."), one.name
        assert one.help.count(". ") == 0, one.name
        assert one.label, one.name
        assert one.kind in (int, float, bool, str), one.name


def test_every_number_has_a_limit() -> None:
    for table in TABLES.values():
        for one in table:
            if one.kind in (int, float):
                assert (one.above, one.least) != (None, None), one.name
            if one.kind is int:
                assert one.least is not None, one.name


@pytest.mark.parametrize("name", TABLES)
def test_defaults_and_examples_are_within_the_limits(name: str) -> None:
    for one in TABLES[name]:
        for value in (one.default, one.example):
            if value is not None and value is not REQUIRED:
                one.check(value)


def test_the_options_of_a_policy_are_its_fields_with_its_own_defaults() -> None:
    for name in POLICIES:
        given: dict[str, Any] = {one.name: 5 for one in policy_options(name) if one.required}
        made: Any = make_policy(name, **given)
        assert [one.name for one in policy_options(name)] == [part.name for part in fields(made)]
        for one in policy_options(name):
            assert getattr(made, one.name) == given.get(one.name, one.default), (name, one.name)


@dataclass(frozen=True)
class Kettle:
    """Settings of every kind."""

    cups: int = option(2, least=1, most=8, help="How many cups it boils.")
    heat: float | None = option(None, above=0, below=100, unit="degrees", help="How hot it gets.")
    whistle: bool = option(False, help="It whistles.")
    colour: Literal["red", "blue"] = option("red", called="colour of the kettle", help="Its colour.")
    plain: str = "a field of its own"

    def __post_init__(self) -> None:
        check(self, "kettle.")


def test_an_option_knows_its_kind_from_its_annotation() -> None:
    found = {one.name: (one.kind, one.optional, one.choices, one.label) for one in options_of(Kettle)}
    assert found == {
        "cups": (int, False, (), "Cups"),
        "heat": (float, True, (), "Heat"),
        "whistle": (bool, False, (), "Whistle"),
        "colour": (str, False, ("red", "blue"), "Colour"),
        "plain": (str, False, (), "Plain"),
    }


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "too many": ({"cups": 9}, "kettle.cups must be a whole number, at least 1 and at most 8, got 9"),
    "half a cup": ({"cups": 1.5}, "kettle.cups must be a whole number, at least 1 and at most 8, got 1.5"),
    "no cups": ({"cups": None}, "kettle.cups must be a whole number"),
    "too hot": ({"heat": 100}, "kettle.heat must be a number above 0 and below 100, got 100"),
    "not a number": ({"heat": float("nan")}, "kettle.heat must be a number above 0 and below 100, got nan"),
    "a word": ({"whistle": "yes"}, "kettle.whistle must be true or false, got 'yes'"),
    "green": ({"colour": "green"}, "unknown kettle.colour of the kettle 'green'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_value_outside_the_limits_is_refused_with_both(name: str) -> None:
    given, said = BAD[name]
    with pytest.raises(InputError) as refused:
        Kettle(**given)
    assert str(refused.value).startswith(said)
    assert Kettle(cups=8, heat=99.9, whistle=True, colour="blue").heat == 99.9
