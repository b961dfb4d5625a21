"""The command line: what it prints, what it writes, and a whole study from pilot to answer."""

import csv
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import STUDY, Outcome, main_of, pilot_csv, study_file, voxpop
from voxpop import __version__
from voxpop.policies import POLICIES
from voxpop.simulation.scenarios import SCENARIOS
from voxpop.study.study import Study

KEYS = {
    *("study", "policy", "seed", "horizon", "regret", "numbers", "people"),
    *("best", "optimum_kept", "seconds", "waves"),
}
WAVE_KEYS = {"wave", "length", "arms", "pulls", "people", "active_before", "active_after", "max_width"}
COMMANDS = ("run", "simulate", "compare", "calibrate", "ask", "tell")
Main = Callable[..., Outcome]


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    """`voxpop ...` in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return main_of(monkeypatch)


def test_the_installed_command_simulates(tmp_path: Path) -> None:
    command = "simulate synthetic --policy dpbe --alpha 0.6 --ratio 1.5 --horizon 2000 --size 30 --seed 7 --json"
    done = voxpop(*command.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    assert data.keys() >= KEYS
    assert (data["study"], data["policy"], data["horizon"], data["size"], data["seed"]) == (
        "synthetic",
        "dpbe",
        2000,
        30,
        7,
    )
    assert (data["settings"]["alpha"], data["settings"]["ratio"]) == (0.6, 1.5)
    assert list(tmp_path.iterdir()) == []


def test_the_installed_command_refuses_without_a_traceback(tmp_path: Path) -> None:
    done = voxpop("simulate", "synthetc", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: unknown study 'synthetc'; did you mean 'synthetic'\? .*\n", done.stderr)


def test_the_version_is_the_package_s(main: Main) -> None:
    assert main("--version").out == f"voxpop {__version__}\n"


def test_help_mentions_every_command(main: Main) -> None:
    done = main("--help")
    assert done.code == 0
    assert [name for name in COMMANDS if not re.search(rf"\b{name}\b", done.out)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(main: Main, command: str) -> None:
    done = main(command, "--help")
    assert done.code == 0
    assert "Usage: voxpop" in done.out


def test_help_names_every_study_and_policy(main: Main) -> None:
    words = re.findall(r"[\w-]+", main("simulate", "--help").out)
    assert [name for name in (*SCENARIOS, *POLICIES) if name not in words] == []


STUDIES: dict[str, list[Any]] = {
    "synthetic": ["--horizon", 2000],
    "sphere": ["--horizon", 2000],
    "camel": ["--horizon", 2000],
    "michalewicz": ["--horizon", 500],
    "light": ["--horizon", 2000],
    "sphere-minimum": ["--horizon", 2000],
    "camel-minimum": ["--horizon", 2000],
    "pricing": ["--horizon", 500, "--size", 21],
    "train": ["--horizon", 500, "--size", 21],
    "tariff": ["--horizon", 500, "--size", 21],
    "voters": ["--horizon", 500, "--size", 21],
}


@pytest.mark.parametrize("study", SCENARIOS)
@pytest.mark.parametrize("policy", ["dpbe", "dpbe-paper"])
def test_simulate_prints_one_object_with_the_promised_keys(main: Main, study: str, policy: str) -> None:
    done = main("simulate", study, "--policy", policy, "--json", *STUDIES[study])
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert data.keys() >= KEYS
    assert data["best"].keys() >= {"index", "action"}
    assert data["waves"]
    assert all(wave.keys() >= WAVE_KEYS for wave in data["waves"])
    assert (data["study"], data["policy"]) == (study, policy)


def test_simulate_shows_waves_and_a_summary(main: Main) -> None:
    done = main("simulate", "sphere", "--policy", "dpbe", "--horizon", 500, "--size", 20)
    assert done.code == 0
    for word in ("wave", "people", "widest bound", "Do this", "Certified", "Lost while learning", "sphere"):
        assert word in done.out
    assert "Expected loss" not in done.out  # dpbe has no such figure


def test_several_runs_print_one_object_a_line(main: Main) -> None:
    done = main("simulate", "camel", "--horizon", 500, "--size", 20, "--seed", 5, "--runs", 3, "--json")
    runs = [json.loads(line) for line in done.out.splitlines()]
    assert [run["seed"] for run in runs] == [5, 6, 7]
    single = json.loads(main("simulate", "camel", "--horizon", 500, "--size", 20, "--seed", 6, "--json").out)
    assert {**runs[1], "seconds": 0} == {**single, "seconds": 0}


def test_several_runs_show_their_mean(main: Main) -> None:
    arguments = ["simulate", "camel", "--horizon", 500, "--size", 20, "--runs", 3]
    runs = [json.loads(line) for line in main(*arguments, "--json").out.splitlines()]
    done = main(*arguments)
    row = next(line for line in done.out.splitlines() if "numbers sent" in line)
    assert f"{np.mean([run['numbers'] for run in runs]):,.0f}" in row.split()
    assert f"optimum kept in {sum(run['optimum_kept'] for run in runs)} of 3 runs" in done.out


class Page(HTMLParser):
    """Counts the tags and collects every address that a browser would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "data", "srcset")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path, Path]:
    """One study rehearsed twice with its report."""
    folder = tmp_path_factory.mktemp("report")
    study = study_file(folder / "study.toml")
    with pytest.MonkeyPatch.context() as patch:
        outcomes = [main_of(patch)("run", study, "--seed", 1, "--out", folder / name) for name in ("a/deep", "b")]
    assert outcomes[0].code == 0
    return outcomes[0], folder / "a/deep", folder / "b"


def test_run_writes_a_page_and_a_picture_and_says_where(reports: tuple[Outcome, Path, Path]) -> None:
    _, folder, _ = reports
    assert sorted(path.name for path in folder.iterdir()) == ["tea.html", "tea.png"]
    assert (folder / "tea.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_the_page_loads_nothing_from_outside(reports: tuple[Outcome, Path, Path]) -> None:
    text = (reports[1] / "tea.html").read_text()
    page = Page(text)
    assert [address for address in page.loaded if not address.startswith(("#", "data:"))] == []
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert not re.search(r"url\(\s*['\"]?https?:|@import", text)


def test_the_page_has_its_pictures_and_the_answer(reports: tuple[Outcome, Path, Path]) -> None:
    page = Page((reports[1] / "tea.html").read_text())
    assert page.tags.count("svg") == page.tags.count("figure") == 7
    text = " ".join(page.text)
    for said in ("price = 2", "norm bound", "0.5", "people", "Tea"):
        assert said in text


def test_the_page_shows_the_constants_the_study_assumed(reports: tuple[Outcome, Path, Path]) -> None:
    rows = re.findall(r"<tr><td>([^<]*)</td><td>([^<]*)</td>", (reports[1] / "tea.html").read_text())
    constants = {label.split(":")[0]: value for label, value in rows}
    assert constants["norm bound B"] == "1.5"
    assert constants["prior mean"] == "0.5"


def test_the_same_run_gives_the_same_report(reports: tuple[Outcome, Path, Path]) -> None:
    _, first, second = reports
    for name in ("tea.html", "tea.png"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_run_without_a_report_writes_nothing(main: Main, tmp_path: Path) -> None:
    study_file(tmp_path / "study.toml")
    done = main("run", "study.toml", "--no-report")
    assert done.code == 0
    assert "Do this" in done.out
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_a_study_name_cannot_lead_out_of_the_report_folder(main: Main, tmp_path: Path) -> None:
    study_file(tmp_path / "study.toml", STUDY.replace('name = "tea"', 'name = "../tea"'))
    done = main("run", "study.toml", "--out", "report/here")
    outside = [path for path in tmp_path.rglob("*") if path.suffix in (".html", ".png") and path.parent.name != "here"]
    assert outside == []
    assert done.code in (0, 2)


def answers_csv(path: Path, question: dict[str, Any]) -> Path:
    """Write people's answers to a question; the best price is near 2."""
    rng = np.random.default_rng(question["wave"])
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["person", "block", "price", "reward"])
        for person in range(question["people"]):
            for decision in question["decisions"]:
                reward = 1 - (decision["price"] - 2) ** 2 + rng.normal(0, 0.1)
                block = 1 + person % question["blocks"]
                rows.writerow([f"p{question['wave']}-{person}", block, decision["price"], reward])
    return path


def test_from_a_pilot_to_an_answer(main: Main, tmp_path: Path) -> None:
    pilot_csv(tmp_path / "pilot.csv")
    done = main("calibrate", "pilot.csv", "--out", "tea.toml", "--horizon", 20_000, "--points", 21)
    assert done.code == 0
    for constant in (
        "length-scale of price",
        "personal deviation v",
        "noise sigma",
        "prior mean",
        "norm bound B",
        "skewness",
    ):
        assert constant in done.out
    assert main("run", "tea.toml", "--no-report").code == 0
    wave = 0
    while (question := json.loads(main("ask", "tea.toml", "--json").out))["wave"] is not None:
        wave += 1
        assert question["wave"] == wave
        assert json.loads(main("ask", "tea.toml", "--json").out) == question
        done = main("tell", "tea.toml", answers_csv(tmp_path / "answers.csv", question))
        assert done.code == 0
        assert re.search("^best( so far)?: price = ", done.out, re.MULTILINE)
    best = Study.load(tmp_path / "tea.json").best
    assert abs(best.decision["price"] - 2) < 0.3
    assert "nothing is left to ask" in main("ask", "tea.toml").out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["answers.csv", "pilot.csv", "tea.json", "tea.toml"]


def test_answers_may_name_decisions_as_ask_prints_them(main: Main, tmp_path: Path) -> None:
    """People type the digits that they were shown, not all seventeen."""
    study_file(tmp_path / "tea.toml", STUDY.replace("points = 5", "points = 8"))
    seen: list[str] = []
    for _ in range(4):
        printed = " ".join(main("ask", "tea.toml").out.split("until the answers are in")[0].split())
        prices = re.findall(r"price = ([\d.]+)", printed)
        people = re.search(r"ask ([\d,]+) people", printed)
        assert people is not None
        rows = [f"w{len(seen)}-{person},{price},0.5" for person in range(int(people[1])) for price in prices]
        (tmp_path / "answers.csv").write_text("person,price,reward\n" + "\n".join(rows) + "\n")
        done = main("tell", "tea.toml", "answers.csv")
        assert (done.code, done.err) == (0, "")
        seen += prices
    assert max(map(len, seen)) == 7  # such as 1.28571, which stands for 9/7


def test_options_that_look_like_numbers_can_be_answered(main: Main, tmp_path: Path) -> None:
    choice = 'type = "choice"\noptions = ["10", "large"]'
    study_file(tmp_path / "tea.toml", STUDY.replace('type = "float"\nlow = 1.0\nhigh = 3.0\npoints = 5', choice))
    question = json.loads(main("ask", "tea.toml", "--json").out)
    rows = [f"u{u},{d['price']},0.5" for u in range(question["people"]) for d in question["decisions"]]
    (tmp_path / "answers.csv").write_text("person,price,reward\n" + "\n".join(rows) + "\n")
    assert main("tell", "tea.toml", "answers.csv").err == ""
