"""`voxpop calibrate` on pilots as they come: how the file was read, what it leaves open, and a study that can begin."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import ROOT, Outcome, main_of
from tests.pages import metric_csv
from voxpop.io.studyfile import read_study

Main = Callable[..., Outcome]


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    return main_of(monkeypatch)


def rows(people: int = 12, prices: int = 6) -> list[dict[str, Any]]:
    """A pilot with the best price in the middle of 1,000 to 3,000."""
    rng = np.random.default_rng(0)
    found = []
    for person in range(people):
        taste = rng.normal(2.0, 0.3)
        for price in np.linspace(1, 3, prices):
            reward = 1 - (price - taste) ** 2 + 0.1 * rng.standard_normal()
            found.append({"person": f"u{person}", "price": 1000 * price, "reward": reward, "age": 30 + person % 7})
    return found


def german(number: float, places: int = 2) -> str:
    return f"{number:,.{places}f}".replace(",", "_").replace(".", ",").replace("_", ".")


def excel(path: Path) -> Path:
    """Write the pilot as a German Excel does, with prices in euros."""
    lines = ["Person;price;Reward;;"]
    lines += [f"{row['person']};{german(row['price'])} €;{german(row['reward'], 5)};;" for row in rows()]
    path.write_bytes("\r\n".join([*lines, ";;;;", ""]).encode("cp1252"))
    return path


def pandas(path: Path) -> Path:
    """Write the pilot as pandas does, with its index."""
    lines = [",person,price,reward,age"]
    lines += [",".join(map(str, [place, *row.values()])) for place, row in enumerate(rows())]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_german_spreadsheet_and_a_data_frame_give_the_same_study(main: Main, tmp_path: Path) -> None:
    one = main("calibrate", excel(tmp_path / "pilot.csv"), "--kernel", "matern-5/2", "--points", 11)
    ignoring = ("--ignore", "age", "--kernel", "matern-5/2", "--points", 11, "--out", "other.toml")
    other = main("calibrate", pandas(tmp_path / "frame.csv"), *ignoring)
    assert (one.code, other.code) == (0, 0), one.err + other.err
    assert "price: number from 1000 to 3000, in €, read from '1.000,00 €'\n" in one.out
    assert "Windows-1252" in one.out
    assert "column 1 counts the rows and was left out\n" in other.out
    assert "ignored: age\n" in other.out
    first, second = (read_study(tmp_path / name)[0] for name in ("study.toml", "other.toml"))
    assert list(first.decisions) == list(second.decisions)
    assert first.pilot[0].mean == pytest.approx(second.pilot[0].mean, abs=1e-5)


def test_answers_are_told_in_the_pilot_s_own_format(main: Main, tmp_path: Path) -> None:
    main("calibrate", excel(tmp_path / "pilot.csv"), "--kernel", "matern-5/2", "--points", 11)
    question = json.loads(main("ask", "study.toml", "--json").out)
    lines = [
        f"u{person};{person % question['blocks'] + 1};{german(decision['price'])} €;{german(0.1 * (person % 5), 3)};K"
        for person in range(question["people"])
        for decision in question["decisions"]
    ]
    answers = tmp_path / "answers.csv"
    answers.write_bytes("\r\n".join(["person;block;price;reward;city", *lines]).encode("utf-16"))
    done = main("tell", "study.toml", answers)
    assert (done.code, done.err) == (0, "")
    assert "best" in done.out


def test_plain_words_come_before_the_constants(main: Main, tmp_path: Path) -> None:
    done = main("calibrate", excel(tmp_path / "pilot.csv"), "--kernel", "matern-5/2")
    said = done.out
    assert said.index("12 people tried 6 decisions. Best in the pilot: price = ") < said.index("personal deviation v")
    assert "People differ by about " in said
    few = "person,price,reward\n" + "".join(f"u{u},{p},{(u - 1) * p + p % 2}\n" for u in range(3) for p in (1, 2, 4))
    (tmp_path / "few.csv").write_text(few)
    said = main("calibrate", "few.csv", "--kernel", "matern-5/2", "--force").out
    assert "The study can begin, but take note:\n- how much people differ is hardly known" in said


def test_ranges_are_written_to_the_study_file(main: Main, tmp_path: Path) -> None:
    pandas(tmp_path / "pilot.csv")
    options = ["--parameter", "price", "--kernel", "matern-5/2", "--points", 5]
    assert main("calibrate", "pilot.csv", *options, "--low", 500, "--high", "price=8000", "--log", "price").code == 0
    problem, _, _ = read_study(tmp_path / "study.toml")
    assert [label["price"] for label in problem.decisions] == [500.0, 1000.0, 2000.0, 4000.0, 8000.0]
    assert main("calibrate", "pilot.csv", *options, "--integer", "price", "--high", 5000, "--force").code == 0
    problem, _, _ = read_study(tmp_path / "study.toml")
    assert [label["price"] for label in problem.decisions] == [1000, 2000, 3000, 4000, 5000]


def test_the_guide_s_calibrations_work_one_after_the_other(main: Main, tmp_path: Path) -> None:
    """On a pilot whose prices reach from 2 to 12, and on a survey with columns that are no parameters."""
    price = {row["price"]: 2 + (row["price"] - 1000) / 200 for row in rows()}
    pilot = [f"{row['person']},{price[row['price']]},20,{row['reward']}" for row in rows()]
    survey = [f"{line},{30 + place // 6},region {place // 12}" for place, line in enumerate(pilot)]
    (tmp_path / "pilot.csv").write_text("person,price,rounds,reward\n" + "\n".join(pilot))
    (tmp_path / "survey.csv").write_text("person,price,rounds,reward,age,region\n" + "\n".join(survey))
    stores = [f"{place % 3},{line},0.9" for place, line in enumerate(pilot)]
    (tmp_path / "stores.csv").write_text("Woche,Filiale,Preis,rounds,Umsatz (EUR),Retention\n" + "\n".join(stores))
    metric_csv(tmp_path / "metric.csv")
    guide = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    commands = re.findall(r"^voxpop (calibrate (?!subscribers).*)$", guide, re.MULTILINE)  # tests of guardrails run it
    assert len(commands) >= 5
    for command in commands:
        done = main(*shlex.split(command), "--kernel", "matern-5/2")
        assert done.code == 0, command + done.err


REFUSED = {
    "": ["column age never changes within a person", "--ignore age"],
    "--ignore age --low 2000": ["--low price=2000 leaves out 1000"],
    "--ignore age --low prise=2": ["unknown parameter 'prise'", "did you mean 'price'?"],
    "--ignore age --low 0 --log price": ["--log price needs values above 0"],
    "--ignore age --high price": ["--high takes a name and a number"],
    "--ignore age --high 3000.5 --integer price": ["--integer price takes whole numbers, and 3000.5 is not one"],
    "--ignore agee": ["unknown column 'agee'"],
    "--ignore person": ["'person' is not a parameter"],
    "--ignore age --ignore price": ["no column for a parameter"],
}


@pytest.mark.parametrize("options", REFUSED)
def test_what_does_not_fit_is_refused_in_one_sentence_and_nothing_is_written(
    main: Main, tmp_path: Path, options: str
) -> None:
    pandas(tmp_path / "pilot.csv")
    done = main("calibrate", "pilot.csv", *options.split())
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert [part for part in ["error: ", *REFUSED[options]] if part not in done.err] == [], done.err
    assert [path.name for path in tmp_path.iterdir()] == ["pilot.csv"]
