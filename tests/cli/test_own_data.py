"""Three data sets as people have them, with known truths: from a file to a first wave, in at most three commands."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.helpers_cli import Outcome, main_of
from voxpop.io.studyfile import read_study
from voxpop.study.study import Study

Main = Callable[..., Outcome]


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    return main_of(monkeypatch)


def german(number: float) -> str:
    return f"{number:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")


# 60 stores with skewed weekly revenue: each tried six of twelve prices, for two weeks each.

PRICES = [1.99, 2.29, 2.49, 2.79, 2.99, 3.29, 3.49, 3.79, 3.99, 4.29, 4.49, 4.99]


def revenue(price: float, size: float = 1.0, taste: float = 3.2) -> float:
    return float(size * 68 * np.exp(-(((price - taste) / 1.6) ** 2)))


def stores(path: Path) -> None:
    rng = np.random.default_rng(1)
    lines = ["Filiale;Woche;Preis;Umsatz (EUR)"]
    for store in range(60):
        size, taste = rng.lognormal(0, 0.35), rng.normal(3.2, 0.35)
        for week, price in enumerate(np.repeat(rng.choice(PRICES, 6, replace=False), 2)):
            sold = revenue(price, size, taste) * rng.lognormal(-0.02, 0.2)
            lines.append(f"F{store + 1:03};{week + 1};{german(price)};{german(sold)}")
    path.write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))


def test_stores_with_weekly_revenue_and_german_columns(main: Main, tmp_path: Path) -> None:
    stores(tmp_path / "stores.csv")
    columns = ("--person", "Filiale", "--reward", "Umsatz (EUR)", "--ignore", "Woche")
    worth = ("--unit", "EUR", "--people", 600, "--answer", 3, "--horizon", 104)  # weeks, which alone would not pay
    done = main("calibrate", "stores.csv", *columns, *worth)
    assert done.code == 0, done.err
    assert "360 rows repeat a person and a decision; the rows of each were averaged, their rounds added\n" in done.out
    assert "ignored: Woche\n" in done.out
    assert [decision["Preis"] for decision in read_study(tmp_path / "study.toml")[0].decisions] == PRICES
    asked = main("ask", "study.toml", "--template", "answers.csv")
    assert asked.code == 0, asked.err
    assert "wave 1: expected to bring" in asked.out
    assert " EUR over the rounds left" in asked.out
    best = Study.from_file(tmp_path / "study.toml").best
    assert revenue(best.decision["Preis"]) > 0.98 * max(map(revenue, PRICES))
    assert best.estimate == pytest.approx(68, abs=12)
    rows = list(csv.reader(Path("answers.csv").read_text().splitlines()))  # and back, with the columns of the till
    assert rows[0] == ["person", "block", "Preis", "reward"]
    answers = [[*row[:2], german(float(row[2])), german(revenue(float(row[2])))] for row in rows[1:]]
    answers[3][3], answers[8][3] = "", "k.A."  # two stores lack a week
    text = "\n".join(";".join(row) for row in [["Filiale", "block", "Preis", "Umsatz (EUR)"], *answers])
    Path("answers.csv").write_text(text)
    refused = main("tell", "study.toml", "answers.csv", "--person", "Filiale")
    assert "line 5, column 4 (reward) is empty; leave the row out, and 1 row like it" in refused.err
    told = main("tell", "study.toml", "answers.csv", "--person", "Filiale", "--partial")
    assert told.code == 0, told.err
    assert Study.from_file(tmp_path / "study.toml").closed[0].people == len({row[0] for row in answers})


# 500 users of an app were notified so often, at some time of day, and clicked or did not.

TIMES = {"morning": 0.05, "noon": 0.0, "evening": 0.12}


def clicks(often: int, when: str) -> float:
    return 0.45 + TIMES[when] - 0.02 * (often - 3) ** 2


def app(path: Path) -> None:
    rng = np.random.default_rng(2)
    lines = ["user,frequency,time_of_day,clicked"]
    for user in range(500):
        own = rng.normal(0, 0.12)
        for _ in range(4):
            often, when = int(rng.integers(1, 8)), str(rng.choice(list(TIMES)))
            said = "yes" if rng.random() < np.clip(clicks(often, when) + own, 0.02, 0.98) else "no"
            lines.append(f"u{user},{often},{when},{said}")
    path.write_text("\n".join(lines) + "\n")


def test_users_of_an_app_who_clicked_or_did_not(main: Main, tmp_path: Path) -> None:
    app(tmp_path / "app.csv")
    done = main("calibrate", "app.csv", "--reward", "clicked")
    assert done.code == 0, done.err
    assert "reward: number, 1 for yes and 0 for no\n" in done.out
    problem = read_study(tmp_path / "study.toml")[0]
    assert (problem.size, problem.limits) == (21, (0.0, 1.0))
    asked = main("ask", "study.toml", "--template", "answers.csv", "--wide")
    assert asked.code == 0, asked.err
    best = Study.from_file(tmp_path / "study.toml").best.decision
    assert clicks(int(best["frequency"]), best["time_of_day"]) > clicks(3, "evening") - 0.05
    rows = list(csv.reader(Path("answers.csv").read_text().splitlines()))
    rng = np.random.default_rng(3)
    filled = [[*row[:2], *(("no", "yes")[int(rng.random() < 0.5)] for _ in row[2:])] for row in rows[1:]]
    filled[3][4], filled[5][2] = "", "k.A."
    with Path("answers.csv").open("w", newline="") as file:
        csv.writer(file).writerows([rows[0], *filled])
    refused = main("tell", "study.toml", "answers.csv")
    assert (refused.code, "'w1-004' has no answer about" in refused.err) == (2, True), refused.err
    assert f"2 of {len(filled):,} people lack an answer" in refused.err
    told = main("tell", "study.toml", "answers.csv", "--partial")
    assert told.code == 0, told.err
    assert Study.from_file(tmp_path / "study.toml").closed[0].people == len(filled)


# 391 people said what they would give for something at eight prices; some left a question out.

ASKED = [4, 5, 6, 7, 8, 9, 10, 12]


def margin(price: float, most: float) -> float:
    return float((price - 3) / (1 + np.exp((price - most) / 0.8)))


def survey(path: Path, people: int = 391) -> int:
    rng = np.random.default_rng(3)
    lines = ["person," + ",".join(f"price {price}" for price in ASKED)]
    missing = set(rng.choice(people, 58, replace=False).tolist())
    for person in range(people):
        most = rng.normal(8, 2)
        cells = [f"{margin(price, most) + 0.1 * rng.normal():.2f}" for price in ASKED]
        if person in missing:
            cells[int(rng.integers(len(ASKED)))] = ""
        lines.append(f"p{person}," + ",".join(cells))
    path.write_text("\n".join(lines) + "\n")
    return len(missing)


def test_a_wide_survey_with_gaps(main: Main, tmp_path: Path) -> None:
    gaps = survey(tmp_path / "survey.csv")
    assert gaps == 58
    done = main("calibrate", "survey.csv", "--step", "price=1", "--horizon", "200000")
    assert done.code == 0, done.err
    assert f"{gaps} cells without an answer cost nothing else\n" in done.out
    problem = read_study(tmp_path / "study.toml")[0]
    assert sum(group.numbers for group in problem.pilot) == 391 * len(ASKED) - gaps
    assert [decision["price"] for decision in problem.decisions] == [float(price) for price in range(4, 13)]
    asked = main("ask", "study.toml", "--json")
    assert asked.code == 0, asked.err
    assert "wave" in json.loads(asked.out)
    draws = np.random.default_rng(0).normal(8, 2, 4000)
    truth = {price: float(np.mean([margin(price, most) for most in draws])) for price in range(4, 13)}
    best = Study.from_file(tmp_path / "study.toml").best.decision["price"]
    assert truth[int(best)] > max(truth.values()) - 0.1


def test_the_users_of_the_app_to_the_end(tmp_path: Path) -> None:
    app(tmp_path / "app.csv")
    study, rng = Study.from_pilot(tmp_path / "app.csv", reward="clicked"), np.random.default_rng(5)
    while (question := study.ask()) is not None:
        table = question.table()
        own = {user: rng.normal(0, 0.12) for user in table["person"].unique()}
        chances = [
            np.clip(clicks(int(often), when) + own[user], 0.02, 0.98)
            for user, often, when in zip(table["person"], table["frequency"], table["time_of_day"], strict=True)
        ]
        table["reward"] = [int(rng.random() < chance) for chance in chances]
        study.tell(question.wave, table)
    best = study.best
    lost = clicks(3, "evening") - clicks(int(best.decision["frequency"]), best.decision["time_of_day"])
    assert lost <= 0.02 + 1e-9
    assert best.regret is not None
    assert lost <= best.regret < 0.35
    assert best.estimate == pytest.approx(clicks(3, "evening"), abs=0.05)


def test_the_survey_to_the_end(tmp_path: Path) -> None:
    survey(tmp_path / "survey.csv")
    study = Study.from_pilot(tmp_path / "survey.csv", horizon=200_000, step=1.0, tolerance=0.3)
    rng = np.random.default_rng(6)
    while (question := study.ask()) is not None:
        table = question.table()
        most = {person: rng.normal(8, 2) for person in table["person"].unique()}
        table["reward"] = [
            margin(price, most[person]) + 0.1 * rng.normal()
            for person, price in zip(table["person"], table["price"], strict=True)
        ]
        study.tell(question.wave, table)
    draws = np.random.default_rng(0).normal(8, 2, 4000)
    truth = {price: float(np.mean([margin(price, most) for most in draws])) for price in range(4, 13)}
    best = study.best
    assert best.regret is not None
    assert max(truth.values()) - truth[int(best.decision["price"])] <= best.regret
    assert max(truth.values()) - truth[int(best.decision["price"])] < 0.1
