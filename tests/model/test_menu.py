"""Which decisions exist: lists, steps, formulas and combinations, and what holds unless something is said."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.model.decisions import Choice, Float, Integer, Space
from voxpop.model.menu import FEW, MOST, WANTED, Menu, plain, rounded

PRICES = [1.99, 2.29, 2.49, 2.79, 2.99, 3.29, 3.49, 3.79, 3.99, 4.29, 4.49, 4.99]
PLANS = Choice(("basic", "plus"))


def tried(**values: list[float]) -> list[dict[str, float]]:
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def prices_of(menu: Menu, space: Space) -> list[float]:
    return [decision["price"] for decision in menu.decisions(space)]


def test_twelve_prices_of_a_pilot_stay_twelve_prices() -> None:
    space = Space(price=Float(1.99, 4.99))
    assert prices_of(Menu().fitted(space, tried(price=PRICES)), space) == PRICES


def test_many_values_are_kept_if_they_are_a_ladder_and_rounded_otherwise() -> None:
    ladder = [round(1 + 0.05 * place, 2) for place in range(40)]
    space = Space(price=Float(1.0, ladder[-1]))
    assert prices_of(Menu().fitted(space, tried(price=ladder)), space) == ladder
    drawn = sorted(np.random.default_rng(0).uniform(1.0, 9.0, 40).tolist())
    space = Space(price=Float(drawn[0], drawn[-1]))
    found = prices_of(Menu().fitted(space, tried(price=drawn)), space)
    assert FEW < len(found) <= MOST
    assert found == [round(price, 1) for price in found]


def test_few_values_that_nobody_sets_are_rounded() -> None:
    space = Space(price=Float(1.0, 3.0))
    found = prices_of(Menu().fitted(space, tried(price=np.linspace(1, 3, 12).tolist())), space)
    assert 2.1153 not in found
    assert all(map(plain, found))
    assert len(found) == 41


def test_a_wider_range_than_the_pilot_s_is_not_left_at_its_values() -> None:
    space = Space(price=Float(1.0, 15.0))
    assert prices_of(Menu().fitted(space, tried(price=[2.0, 3.0, 12.0])), space) == [float(n) for n in range(1, 16)]


def test_together_there_are_not_too_many_decisions() -> None:
    names = "abcd"
    space = Space({name: Float(0.0, 1.0) for name in names} | {"plan": PLANS})
    drawn = np.random.default_rng(1).uniform(size=(30, 4)).tolist()
    pilot = [dict(zip(names, row, strict=True)) | {"plan": "plus"} for row in drawn]
    assert len(Menu().fitted(space, pilot).decisions(space)) <= WANTED


@given(st.floats(-1e6, 1e6), st.floats(1e-2, 1e6), st.integers(3, MOST), st.booleans())
def test_round_numbers_are_within_the_range_and_never_too_many(low: float, width: float, most: int, log: bool) -> None:
    low, high = (abs(low) + 1e-3, abs(low) + 1e-3 + width) if log else (low, low + width)
    if not low < high:
        return
    found = rounded(Float(low, high, log), [], most)
    assert 2 <= len(found) <= most
    assert found == sorted(set(found))
    assert low <= found[0] <= found[-1] <= high


def test_what_is_said_holds_and_the_rest_is_filled_in() -> None:
    space = Space(price=Float(2.0, 4.0), size=Float(1.0, 3.0), seats=Integer(1, 5), plan=PLANS)
    pilot = [
        {"price": 2.0, "size": 1.0, "seats": 1, "plan": "plus"},
        {"price": 4.0, "size": 3.0, "seats": 5, "plan": "basic"},
    ]
    menu = Menu(values={"price": [3.99, 2.5]}, step={"size": 0.5}).fitted(space, pilot)
    assert [menu.entry(name) for name in space.parameters] == [
        {"values": [3.99, 2.5]},
        {"step": 0.5},
        {"values": [1, 2, 3, 4, 5]},
        {},
    ]
    found = menu.decisions(space)
    assert sorted({each["price"] for each in found}) == [2.5, 3.99]
    assert len(found) == 2 * 5 * 5 * 2


def test_the_name_of_the_only_number_may_be_left_out() -> None:
    space = Space(price=Float(2.0, 4.0), plan=PLANS)
    assert len(Menu.of(values=[2.0, 3.0]).fitted(space, ()).decisions(space)) == 4
    assert len(Menu.of(step=0.5).fitted(space, ()).decisions(space)) == 10


def test_a_formula_leaves_what_exists() -> None:
    space = Space(price=Float(2.0, 4.0), plan=PLANS)
    found = Menu(points=3, only="price <= 3 or plan == 'plus'").decisions(space)
    assert [tuple(each.values()) for each in found] == [
        (2.0, "basic"),
        (2.0, "plus"),
        (3.0, "basic"),
        (3.0, "plus"),
        (4.0, "plus"),
    ]
    assert found.points[-1].tolist() == space.scale({"price": 4.0, "plan": "plus"})


def test_allowed_combinations_are_the_decisions() -> None:
    space = Space(price=Float(2.0, 4.0), plan=PLANS)
    allowed = [{"plan": "plus", "price": 4.0}, {"plan": "basic", "price": 2.5}]
    menu = Menu(allowed=allowed)
    assert list(menu.fitted(space, ()).decisions(space)) == [
        {"price": 4.0, "plan": "plus"},
        {"price": 2.5, "plan": "basic"},
    ]


SPACE = Space(price=Float(2.0, 4.0), plan=PLANS)
REFUSED = {
    "nothing is left": (Menu(points=3, only="price > 9"), ["'price > 9'", "none of 6 decisions", "two or more"]),
    "one is left": (Menu(points=3, only="price > 3 and plan == 'plus'"), ["leaves one of 6"]),
    "another name": (Menu(points=3, only="prise > 3"), ["unknown name 'prise'", "did you mean 'price'"]),
    "a large step": (Menu(step={"price": 5.0}), ["price: a step of 5", "fewer than two", "smaller"]),
    "a tiny step": (Menu(step={"price": 1e-12}), ["more than 1,000,000", "larger"]),
    "a step back": (Menu(step={"price": -1.0}), ["price: step", "above 0"]),
    "a step of words": (Menu(step={"plan": 1.0}), ["plan", "is a choice"]),
    "a value twice": (Menu(values={"price": [2.5, 2.5]}), ["price", "2.5, 2.5", "each once"]),
    "no value": (Menu(values={"price": []}), ["price", "none"]),
    "outside": (Menu(values={"price": [9.0, 3.0]}), ["price", "at most 4", "9"]),
    "an unknown word": (Menu(values={"plan": ["plsu"]}), ["plan", "'plsu'", "basic"]),
    "an unknown parameter": (Menu(values={"prize": [3.0]}), ["unknown parameter 'prize'", "did you mean 'price'"]),
    "half a combination": (Menu(allowed=[{"price": 3.0}]), ["price", "plan"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_with_the_remedy(case: str) -> None:
    menu, said = REFUSED[case]
    with pytest.raises(InputError) as caught:
        menu.fitted(SPACE, ()).decisions(SPACE)
    message = refusal(caught)
    assert [part for part in said if part not in message] == [], message


def test_two_answers_to_one_question_are_refused() -> None:
    for said in (
        {"values": {"price": [2.5]}, "step": {"price": 1.0}},
        {"points": {"price": 3}, "step": {"price": 1.0}},
    ):
        with pytest.raises(InputError, match=r"the parameter price is given .* leave one of them out"):
            Menu(**said)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="allowed combinations say which values exist"):
        Menu(points=3, allowed=[{"price": 2.5}])
    with pytest.raises(InputError, match="cannot be read"):
        Menu(only="price >")
    with pytest.raises(InputError, match="--step needs the name of a parameter"):
        Menu.of(step=1.0).fitted(Space(a=Float(0, 1), b=Float(0, 1)), ())
