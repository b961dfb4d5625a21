"""Formulas: what they compute, and that nothing else gets through."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.model.formula import FUNCTIONS, LONGEST, Formula

X, Y = 2.5, -1.25
KNOWN = {"x": np.array(X), "y": np.array(Y), "plan": np.array("plus")}


def value(text: str) -> float:
    return float(Formula(text)(KNOWN))


SAME = {  # a formula, and what it is
    "x + y * 2": X + Y * 2,
    "(x - y) / 4 ** 2": (X - Y) / 16,
    "-x": -X,
    "+y": Y,
    "2 ** -1": 0.5,
    "x > y": 1.0,
    "x <= y": 0.0,
    "x == 2.5": 1.0,
    "x != 2.5": 0.0,
    "1 < x < 3": 1.0,
    "1 < x < 2": 0.0,
    "3 > x > 3": 0.0,
    "3 < x < 9": 0.0,
    "x > 0 and y > 0": 0.0,
    "x > 0 or y > 0": 1.0,
    "not x": 0.0,
    "not (y > 0)": 1.0,
    "2 and 3": 1.0,
    "(x - 1.5) * (x >= 2)": 1.0,
    "min(x, y, 0)": Y,
    "max(x, y)": X,
    "exp(y) + log(x) + sqrt(x) + abs(y)": math.exp(Y) + math.log(X) + math.sqrt(X) - Y,
    "where(y > 0, 1, 7)": 7.0,
    "where(x > 0, log(x), log(-x))": math.log(X),
    "x if x > 0 else 1 / 0": X,
    'plan == "plus"': 1.0,
    "plan != 'plus'": 0.0,
    "  True + 1 ": 2.0,
}


@pytest.mark.parametrize("text", SAME)
def test_a_formula_is_what_it_says(text: str) -> None:
    assert value(text) == pytest.approx(SAME[text], rel=1e-15)


numbers = st.floats(-50, 50).map(lambda number: f"({number!r})")
formulas = st.recursive(
    numbers | st.sampled_from(["x", "y"]),
    lambda part: st.builds("({} {} {})".format, part, st.sampled_from(["+", "-", "*", "<", ">=", "=="]), part),
    max_leaves=12,
)


@given(formulas)
def test_it_computes_as_python_does(text: str) -> None:
    assert value(text) == pytest.approx(float(eval(text, {}, {"x": X, "y": Y})), rel=1e-12)


def test_it_is_computed_for_all_people_and_decisions_at_once() -> None:
    wtp, price = np.array([[3.0], [5.0], [9.0]]), np.array([[2.0, 4.0, 8.0]])
    found = Formula("where(wtp >= price, price - 1.5, 0)")({"wtp": wtp, "price": price})
    expected = [[p - 1.5 if w >= p else 0.0 for p in price[0]] for w in wtp[:, 0]]
    np.testing.assert_array_equal(found, expected)


def test_the_names_it_needs() -> None:
    assert Formula("min(b, a) + min(a, 1)").names == ("a", "b")
    assert Formula("1 + 2").names == ()


REFUSED = {  # and what must be said
    "x.real": ["'x.real'", "character 1", "not allowed"],
    "1 + x.__class__": ["'x.__class__'", "character 5"],
    "().__class__": ["not allowed"],
    "__import__('os')": ["\"__import__('os')\"", "character 1", "not allowed", "sqrt"],
    "x[0]": ["'x[0]'", "not allowed"],
    "[x, y]": ["not allowed"],
    "{x}": ["not allowed"],
    "(x, y)": ["not allowed"],
    "lambda: x": ["not allowed"],
    "[z for z in x]": ["not allowed"],
    "(z := x)": ["not allowed"],
    "f'{x}'": ["not allowed"],
    "eval('x')": ["eval", "not allowed"],
    "x.exp(2)": ["not allowed"],
    "min(*x, y)": ["'*x'", "not allowed"],
    "min(x, key=y)": ["not allowed"],
    "min(x)": ["'min(x)'", "at least 2 values", "got 1"],
    "log(x, 2)": ["'log(x, 2)'", "needs 1 values", "got 2"],
    "x // 2": ["'x // 2'", "not allowed"],
    "x @ y": ["not allowed"],
    "x & y": ["not allowed"],
    "x is y": ["not allowed"],
    "x in y": ["not allowed"],
    "~x": ["not allowed"],
    "1j": ["not allowed"],
    "b'x'": ["not allowed"],
    "None": ["not allowed"],
    "...": ["not allowed"],
    "1e999": ["not allowed"],
    "9" * 400: ["9...", "not allowed"],
    "9" * 1999: ["not allowed"],
    "x +": ["cannot be read", "character 4"],
    "x = 2": ["cannot be read"],
    "x; y": ["cannot be read"],
    "import os": ["cannot be read"],
    "": ["cannot be read"],
    "x \0": ["cannot be read"],
    "(" * 900 + "x" + ")" * 900: ["cannot be read"],
    "-" * 1900 + "x": ["cannot be read"],
    "x" * (LONGEST + 1): ["2,001 characters", "2,000"],
    "wpt + x": ["'wpt'", "known: plan, x, y"],
    "xx": ["did you mean 'x'?"],
    "plan + 1": ["'plan'", "character 1", "a word where a number"],
    "min(plan, 1)": ["'plan'", "character 5"],
    "-plan": ["'plan'", "a word"],
    "plan and x": ["'plan'", "a word"],
    "plan > 'a'": ["another kind"],
    "plan == 1": ["'1'", "character 9", "another kind"],
    "x == 'a'": ["another kind"],
    "plan": ["gives words"],
    "'plus' if x else 'minus'": ["'plus'", "a word"],
    "été.real": ["character 1"],
    "'été' + x.real": ["'x.real'", "character 9"],
    "(x +\n y.real)": ["'y.real'", "character 7"],
}


@pytest.mark.parametrize("text", REFUSED)
def test_nothing_else_gets_through(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Formula(text)(KNOWN)
    said = str(caught.value) if "\n" in text else refusal(caught)
    assert [part for part in REFUSED[text] if part not in said] == [], said


@given(st.text(alphabet="xy01.+-*/()<>=!, '\"[]{}_:andorminf\n", max_size=30))
def test_any_text_is_computed_or_refused(text: str) -> None:
    try:
        found = Formula(text)(KNOWN)
    except InputError:
        return
    assert found.dtype == float


def test_every_function_says_how_many_values_it_takes() -> None:
    for name, (_, least, most) in FUNCTIONS.items():
        arguments = ", ".join(["x"] * least)
        assert np.isfinite(value(f"{name}({arguments})"))
        for wrong in (least - 1, *([] if most is None else [most + 1])):
            with pytest.raises(InputError, match="needs"):
                Formula(f"{name}({', '.join(['x'] * wrong)})")


def test_what_does_not_exist_is_not_taken_for_true_or_false() -> None:
    x = {"x": np.array([-1.0, 2.0])}
    for text in ("where(log(x), 1, 2)", "log(x) or 0", "not log(x)", "log(x) > 0", "1 if sqrt(x) else 2"):
        assert np.isnan(Formula(text)(x)).tolist() == [True, False], text
    np.testing.assert_array_equal(Formula("x > 0 and log(x) > 0")(x), [0.0, 1.0])
    np.testing.assert_array_equal(Formula("x < 0 or log(x) > 0")(x), [1.0, 1.0])
