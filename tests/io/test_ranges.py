"""Ranges of numeric parameters, as `voxpop calibrate` takes them: --low, --high, --log and --integer."""

import pytest

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.io.ranges import Ranges, limits_of
from voxpop.model.decisions import Float, Integer

TRIED = [2.0, 4.0, 12.0]


def test_the_range_is_the_pilot_s_unless_given() -> None:
    assert Ranges().parameter("price", TRIED) == Float(2.0, 12.0)
    assert Ranges(low={"price": 1.0}).parameter("price", TRIED) == Float(1.0, 12.0)
    assert Ranges(high={"price": 15.0}, log=("price",)).parameter("price", TRIED) == Float(2.0, 15.0, log=True)
    assert Ranges(high={"price": 15.0}, integer=("price",)).parameter("price", TRIED) == Integer(2, 15)
    assert Ranges(low={"price": 1.0}).parameter("size", TRIED) == Float(2.0, 12.0)


def test_the_name_may_be_left_out_if_one_parameter_is_a_number() -> None:
    given = Ranges(limits_of("low", ["1"]), limits_of("high", ["15"]))
    assert given.of(["price"], ["price", "colour"]) == Ranges({"price": 1.0}, {"price": 15.0})


REFUSED: dict[str, tuple[Ranges, str]] = {
    "low above the pilot": (
        Ranges({"price": 3.0}),
        "--low price=3 leaves out 2, which the pilot tried",
    ),
    "high below": (
        Ranges({}, {"price": 10.0}),
        "--high price=10 leaves out 12, which the pilot tried",
    ),
    "no logarithm": (Ranges({"price": 0.0}, log=("price",)), "--log price needs values above 0, and they begin at 0"),
    "halves": (Ranges({"price": 1.5}, integer=("price",)), "--integer price takes whole numbers, and 1.5 is not one"),
    "both": (Ranges(log=("price",), integer=("price",)), "--log price and --integer price cannot be combined"),
    "unknown": (Ranges({"prise": 1.0}), "unknown parameter 'prise'; did you mean 'price'?"),
    "a choice": (Ranges(log=("colour",)), "--log is for numbers, and colour is a choice"),
    "which": (Ranges({"": 1.0}), "--low needs the name of a parameter, as in --low price=1; there are price, size"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_the_pilot_is_refused(case: str) -> None:
    ranges, said = REFUSED[case]
    with pytest.raises(InputError) as caught:
        ranges.of(["price", "size"], ["price", "size", "colour"]).parameter("price", TRIED)
    assert said in refusal(caught)


def test_one_number_for_one_parameter() -> None:
    with pytest.raises(InputError, match="--low is given twice for price"):
        Ranges({"": 1.0, "price": 2.0}).of(["price"], ["price"])
    with pytest.raises(InputError, match="none of the parameters is a number"):
        Ranges({"": 1.0}).of([], ["colour"])


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["price=cheap"], "--low takes a name and a number, such as price=1, got 'price=cheap'"),
        (["price"], "got 'price'"),
        (["price=inf"], "got 'price=inf'"),
        ([""], "got ''"),
        (["price=1", "price=2"], "--low is given for price as 1 and as 2; give one"),
        (["1", "2"], "--low is given for the parameter as 1 and as 2; give one"),
    ],
)
def test_what_is_no_limit_is_refused(texts: list[str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        limits_of("low", texts)
    assert said in refusal(caught)


def test_a_name_may_hold_an_equals_sign() -> None:
    assert limits_of("low", ["a=b=1"]) == {"a=b": 1.0}
