"""A history from a CSV file: what its rounds are, which are missing, and what is refused with its remedy."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tests.helpers_cli import pilot_csv, read_pilot, refusal
from voxpop.calibration.fit import calibrate
from voxpop.calibration.pilot import Pilot
from voxpop.calibration.shocks import estimate_shocks
from voxpop.errors import InputError
from voxpop.io.columns import Roles
from voxpop.io.history import read_history
from voxpop.io.pilots import calibration_of
from voxpop.io.studyfile import read_study, write_study
from voxpop.io.tables import read_pilot_table

VALUES = [round(float(value), 3) for value in 2 + 0.1 * np.random.default_rng(0).standard_normal(42)]
DAYS = [date(2024, 5, 6) + timedelta(number) for number in range(42)]  # the first is a Monday


def written(path: Path, heading: str, lines: list[str]) -> Path:
    path.write_text("\n".join([heading, *lines]) + "\n")
    return path


def dated(path: Path, days: list[Any], values: list[Any] | None = None) -> Path:
    return written(path, "date,revenue", [f"{day},{value}" for day, value in zip(days, values or VALUES, strict=False)])


def test_one_column_two_columns_and_a_german_spreadsheet_say_the_same(tmp_path: Path) -> None:
    expected = estimate_shocks(VALUES)
    german = [f"{day:%d.%m.%Y};{str(value).replace('.', ',')} €" for day, value in zip(DAYS, VALUES, strict=True)]
    files = [
        written(tmp_path / "one.csv", "revenue", [str(value) for value in VALUES]),
        written(tmp_path / "two.csv", "round,revenue", [f"{place},{value}" for place, value in enumerate(VALUES, 5)]),
        dated(tmp_path / "dated.csv", DAYS),
        written(tmp_path / "german.csv", "Date;Umsatz", german),
    ]
    for file in files:
        found = read_history(file)
        assert (found.shock_std, found.freedom) == (expected.shock_std, expected.freedom)
    several = written(
        tmp_path / "more.csv", "date,visits,revenue", [f"{d},9,{v}" for d, v in zip(DAYS, VALUES, strict=True)]
    )
    assert read_history(several, "revenue").shock_std == expected.shock_std


def test_days_without_a_row_and_empty_cells_are_gaps(tmp_path: Path) -> None:
    kept = [place for place in range(42) if place not in (4, 17)]
    values: list[Any] = [VALUES[place] for place in kept]
    values[10] = ""
    found = read_history(dated(tmp_path / "gaps.csv", [DAYS[place] for place in kept], values))
    assert np.flatnonzero(np.isnan(found.series)).tolist() == [4, 11, 17]
    assert found.rounds == 39


def test_a_cycle_is_looked_for_in_days_only_and_begins_on_the_right_one(tmp_path: Path) -> None:
    weekend = [value + (day.weekday() >= 5) for day, value in zip(DAYS, VALUES, strict=True)]
    found = read_history(dated(tmp_path / "days.csv", DAYS, weekend))
    assert found.weekly > 0.8
    assert (found.cycle[5:7] > 0.6).all()
    weeks = [DAYS[0] + timedelta(7 * number) for number in range(42)]
    whole = read_history(dated(tmp_path / "weeks.csv", weeks, weekend))
    assert (whole.weekly, whole.period, found.period) == (0, 0, 7)
    for each, apart in ((found, "1 day"), (whole, "1 week")):
        assert f"The history's values are {apart} apart: a round of the study is taken to last as long." in each.advice
    months = [date(2020 + number // 12, number % 12 + 1, 1) for number in range(42)]
    uneven = read_history(dated(tmp_path / "months.csv", months, weekend))
    assert not np.isnan(uneven.series).any()
    assert "The history's dates are not evenly spaced: every row counts as one round." in uneven.advice
    assert not found.uneven


def test_rounds_may_be_hours_also_where_clocks_change(tmp_path: Path) -> None:
    expected = estimate_shocks(VALUES).shock_std
    plain = [datetime(2024, 5, 6, tzinfo=UTC).replace(tzinfo=None) + timedelta(hours=number) for number in range(42)]
    found = read_history(dated(tmp_path / "hours.csv", [f"{hour:%Y-%m-%d %H:%M}" for hour in plain]))
    assert (found.shock_std, found.weekly, found.uneven) == (expected, 0, False)
    lost = [hour for place, hour in enumerate(plain) if place != 20]
    assert np.isnan(read_history(dated(tmp_path / "lost.csv", [hour.isoformat() for hour in lost])).series[20])
    berlin = ZoneInfo("Europe/Berlin")
    back = [datetime(2024, 10, 26, 20, tzinfo=UTC) + timedelta(hours=number) for number in range(42)]
    set_back = dated(tmp_path / "back.csv", [hour.astimezone(berlin).isoformat() for hour in back])
    assert read_history(set_back).shock_std == expected
    midnights = [datetime(2024, 10, 1, tzinfo=berlin) + timedelta(number) for number in range(42)]
    daily = read_history(dated(tmp_path / "midnights.csv", [hour.isoformat() for hour in midnights]))
    assert (daily.shock_std, daily.uneven) == (expected, False)


@pytest.mark.parametrize(
    ("days", "values", "said"),
    [
        ([*DAYS[:20], DAYS[19], *DAYS[20:]], VALUES, "line 22, column 1 (date): '2024-05-25' stands twice"),
        ([*DAYS[:20], DAYS[3], *DAYS[20:]], VALUES, "'2024-05-09' comes after '2024-05-25' on line 21; sort the rows"),
        ([*DAYS[:20], "May", *DAYS[20:]], VALUES, "'May' is not a date such as 2024-05-31"),
        (DAYS, [*VALUES[:5], "much", *VALUES[5:]], "line 7, column 2 (revenue): 'much' is not a number; correct it"),
        (DAYS[:13], VALUES, "got 13 in 13; give more"),
        (DAYS, [3] * 42, "the history is 3 in its first round and never varies"),
        (DAYS, [""] * 42, "got 0 in 42"),
    ],
)
def test_a_history_that_cannot_be_read_is_refused_with_the_remedy(
    tmp_path: Path, days: list[Any], values: list[Any], said: str
) -> None:
    file = dated(tmp_path / "metric.csv", days, values)
    with pytest.raises(InputError) as caught:
        read_history(file)
    message = refusal(caught)
    assert said in message
    assert str(file) in message


def test_several_columns_need_a_name_and_a_wrong_name_gets_a_hint(tmp_path: Path) -> None:
    file = written(
        tmp_path / "more.csv", "date,visits,revenue", [f"{d},9,{v}" for d, v in zip(DAYS, VALUES, strict=True)]
    )
    for column, said in ((None, "--history-column"), ("revenu", "revenue")):
        with pytest.raises(InputError) as caught:
            read_history(file, column)
        assert said in refusal(caught)


def dated_pilot(path: Path, name: str = "date") -> Path:
    """Write a pilot whose rows have a day, by the person's number and the price."""
    lines = pilot_csv(path).read_text().splitlines()
    days = [f"{line},2024-05-{row % 9 + 1:02d} 12:{row % 60:02d}" for row, line in enumerate(lines[1:])]
    return written(path, f"{lines[0]},{name}", days)


def test_a_date_in_a_pilot_is_a_round_and_the_rows_count_as_before(tmp_path: Path) -> None:
    plain, _ = read_pilot(pilot_csv(tmp_path / "plain.csv"))
    found = read_pilot_table(dated_pilot(tmp_path / "pilot.csv"))
    assert list(found.space.parameters) == ["price"]
    assert "date: when each row was tried; add --parameter date if it is decided" in found.said
    assert not any("ignored" in sentence for sentence in found.said)
    assert found.pilot.when is not None
    assert len(np.unique(found.pilot.when)) == 9, "moments of a day are one round"
    assert (found.pilot.averages == plain.averages).all()
    one, other = calibrate(plain, kernel="matern-5/2"), calibrate(found.pilot, kernel="matern-5/2")
    assert one.bias_std == other.bias_std


def test_other_names_are_said_and_what_is_decided_stays_a_parameter(tmp_path: Path) -> None:
    file = dated_pilot(tmp_path / "pilot.csv", "visit")
    with pytest.raises(InputError, match="column visit holds dates or times"):
        read_pilot_table(file)
    assert read_pilot_table(file, roles=Roles(round="visit")).pilot.when is not None
    assert read_pilot_table(file, roles=Roles(ignored=("visit",))).pilot.when is None
    with pytest.raises(InputError, match="contradicts"):
        read_pilot_table(file, roles=Roles(ignored=("visit",), round="visit"))
    with pytest.raises(InputError, match="round column"):
        read_pilot_table(file, roles=Roles(round="visits"))
    told: list[dict[str, Any]] = [
        {"person": who, "day": day, "price": p, "reward": who * p + day}
        for who in range(4)
        for day, p in ((1, 2), (3, 5))
    ]
    decided = Pilot.from_table(told, ["day", "price"])
    assert decided.decisions[0] == {"day": 1, "price": 2}
    assert Pilot.from_table(told).when is not None
    told[2]["day"] = None
    with pytest.raises(InputError, match="row 2 of the pilot has no day"):
        Pilot.from_table(told)


def test_a_study_file_keeps_what_is_known_of_shocks(tmp_path: Path) -> None:
    file, metric = pilot_csv(tmp_path / "pilot.csv"), dated(tmp_path / "metric.csv", DAYS)
    found = calibration_of(file, kernel="matern-5/2", history=metric)
    assert found.shocks is not None
    study = tmp_path / "study.toml"
    study.write_text(write_study(found, found.require_space(), 500, 11, "tea", {"name": "waves"}))
    problem, _, data = read_study(study)
    assert problem.shock_std == pytest.approx(found.shocks.shock_std, rel=1e-5)
    assert problem.shock_freedom == pytest.approx(found.shocks.freedom, rel=1e-5)
    study.write_text(study.read_text().replace(f"shock_std = {data['model']['shock_std']}", "shock_std = -1"))
    with pytest.raises(InputError, match="shock_std must be a number at least 0"):
        read_study(study)
