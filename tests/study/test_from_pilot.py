"""What `Study.from_pilot` checks before it calibrates, which decisions it makes, and how it goes on."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers_cli import refusal
from voxpop import Float, Study, make_privacy
from voxpop.calibration import fit
from voxpop.errors import InputError
from voxpop.io import pilots

PRICES = [1.99, 2.49, 2.99, 3.49]


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (f"F{who}", price, who // 6, float(3 - (price - 2.6 - taste) ** 2 + 0.1 * rng.normal()))
        for who in range(12)
        for taste in [rng.normal(0, 0.3)]
        for price in PRICES
    ]
    return pd.DataFrame(rows, columns=["Filiale", "Preis", "Region", "Umsatz"])


NAMED: dict[str, Any] = {"person": "Filiale", "reward": "Umsatz", "ignore": ["Region"], "kernel": "matern-5/2"}


def test_the_columns_are_named_as_on_the_command_line() -> None:
    study = Study.from_pilot(pd.concat([table(), table()]), horizon=500, **NAMED)
    assert study.reward == "Umsatz"
    assert [decision["Preis"] for decision in study.problem.decisions] == PRICES
    assert study.calibration is not None
    assert any("48 rows repeat a person" in said for said in study.calibration.notes)
    one = Study.from_pilot(table(), horizon=500, **{**NAMED, "ignore": "Region"})
    assert one.problem.size == study.problem.size


def test_a_metric_is_no_parameter_whether_a_guardrail_is_about_it_or_not() -> None:
    rows = table().assign(Retention=lambda each: 1 - each["Preis"] / 10 + each.index % 5 / 50)
    said = {"horizon": 500, **NAMED, "metric": ["Retention"], "today": {"Preis": 2.49}}
    free, kept = (Study.from_pilot(rows, **said, guardrails=rules) for rules in ((), "Retention >= -5%"))
    assert free.calibration is not None
    assert "Retention: a metric that decisions need not keep" in free.calibration.notes[-1]
    assert [guardrail.name for guardrail in kept.problem.guardrails] == ["Retention"]
    assert [list(each) for each in (free.problem.decisions[0], kept.problem.decisions[0])] == [["Preis"], ["Preis"]]


def test_ranges_are_said_in_python_too() -> None:
    said = {"horizon": 500, **NAMED, "low": 1.0, "high": {"Preis": 4.0}, "log": "Preis"}
    space = Study.from_pilot(table(), **said).calibration.require_space()  # type: ignore[union-attr]
    assert space.parameters["Preis"] == Float(1.0, 4.0, log=True)


def test_the_decisions_that_exist_are_said_in_python_too() -> None:
    def prices(**said: Any) -> list[float]:
        return [each["Preis"] for each in Study.from_pilot(table(), horizon=500, **NAMED, **said).problem.decisions]

    assert prices(values=[2.0, 3.99]) == [2.0, 3.99]
    assert prices(step={"Preis": 0.5}) == PRICES
    assert prices(points=3) == [1.99, 2.74, 3.49]
    assert prices(only="Preis < 3") == PRICES[:3]
    assert prices(allowed=[{"Preis": 2.5}, {"Preis": 4.5}]) == [2.5, 4.5]
    assert prices(allowed=pd.DataFrame({"Preis": [2.5, 3.0]})) == [2.5, 3.0]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an epsilon": ({"epsilon": 1.0}, r"give privacy=make_privacy\('central', epsilon=1\.0\) instead of epsilon"),
    "no rounds": ({"horizon": 0}, "horizon must be a whole number, at least 1"),
    "a setting": ({"tolerence": 0.1}, "tolerence"),
    "a tolerance": ({"tolerance": -1.0}, "tolerance"),
    "a calendar": ({"calendar": "week"}, r"calendar must be a Calendar, got 'week'; make one: Calendar\('week'"),
    "money": ({"money": {"unit": "EUR"}}, r"money must be Money, got .*; make one: Money\('EUR'"),
    "a range": ({"low": 2.5}, r'low=\{"Preis": 2\.5\} leaves out 1\.99'),
    "another decision today": ({"today": {"Preis": 2.0}}, "in force today, Preis = 2, is not one of the 4 decisions"),
    "no decision today": (
        {"guardrails": "Menge >= -2%"},
        "which is not known; add today=, such as today={.Preis.: 1.99}",
    ),
    "a metric that is the same": ({"guardrails": "Gleich >= 1"}, "Gleich: every reward in the pilot is 7"),
    "a metric": ({"metric": "Retention"}, "unknown column 'Retention'"),
    "a trust model": ({"privacy": "central"}, "privacy must be a trust model"),
    "shares": ({"strata": {"young": 0.3}}, "share"),
    "a formula": ({"only": "Preis >"}, "cannot be read"),
    "nothing left": ({"only": "Preis > 9"}, "none of 4 decisions"),
    "a column": ({"person": "Filialle"}, "did you mean 'Filiale'"),
    "what nobody decides": ({"ignore": []}, r"Region never changes .* ignore=\[\"Region\"\]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_all_is_checked_before_anything_is_calibrated(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said, words = REFUSED[case]
    monkeypatch.setattr(pilots, "calibrate", lambda *_, **__: pytest.fail("it was calibrated"))
    rows = table().assign(Menge=lambda each: each["Preis"] + each.index % 3, Gleich=7)
    with pytest.raises(InputError, match=words) as caught:
        Study.from_pilot(rows, **{**NAMED, "metric": ["Menge", "Gleich"], **said})
    refusal(caught)


def test_a_program_that_is_run_again_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.json"
    said = {**NAMED, "path": path, "resume": True, "step": 0.1, "horizon": 20_000}
    question = Study.from_pilot(table(), **said).ask()
    assert question is not None
    monkeypatch.setattr(fit, "calibrate", lambda *_, **__: pytest.fail("it was calibrated again"))
    assert Study.from_pilot(table(), **said).ask() == question
    with pytest.raises(InputError, match="has another policy"):
        Study.from_pilot(table(), **said, tolerance=0.5)
    with pytest.raises(InputError, match="has another privacy"):
        Study.from_pilot(table(), **said, privacy=make_privacy("central", 5.0))
    with pytest.raises(InputError, match="exists"):
        Study.from_pilot(table(), **{**said, "resume": False})


def test_the_ledger_says_what_was_released() -> None:
    study = Study.from_pilot(table(), horizon=500, privacy=make_privacy("central", 5.0), **NAMED)
    assert repr(study.ledger) == "<Ledger: nothing was released; everyone may be exposed to epsilon 5>"
    plain = Study.from_pilot(table(), horizon=500, **NAMED)
    assert str(plain.ledger) == "nobody is promised anything; 0 releases about 0 people"
