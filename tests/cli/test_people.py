"""One's own people on the command line: simulate, run and compare, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_refusals import assert_refused
from tests.helpers_cli import Outcome, main_of, pilot_csv, study_file

Main = Callable[..., Outcome]
PROFIT = "(price-1.5)*(wtp>=price)"
FORMULA = ("--population", "people.csv", "--formula", PROFIT, "--grid", "price=2:8:13")
QUICK = ("--horizon", 1000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    study_file(tmp_path / "tea.toml")
    pilot_csv(tmp_path / "table.csv", people=60, prices=5)
    whole = (tmp_path / "table.csv").read_text().splitlines()
    people = ["person,kind,wtp", *(f"u{number},{'ab'[number % 2]},{2 + number / 20}" for number in range(120))]
    tables = {
        "people": people,
        "gap": whole[:9] + whole[10:],
        "one": whole[:6],
        "single": people[:2],
        "priced": ["person,price", "a,1", "b,2"],
        "wide": ["person,price,reward", "a,1,0.1", "a,9,0.2", "b,1,0.3", "b,9,0.1"],
        "word": ["person,wtp", "a,3", "b,4", "c,much"],
        "zero": ["person,wtp", "a,3", "b,0"],
        "heading": ["person,wtp"],
    }
    for name, lines in tables.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Main:
    monkeypatch.chdir(folder)
    return main_of(monkeypatch)


def test_simulate_a_formula(main: Main) -> None:
    done = main("simulate", *FORMULA, *QUICK, "--noise", 0.1, "--pilot-people", 30, "--most-waves", 1, "--json")
    assert (done.code, done.err) == (0, "")
    run = json.loads(done.out)
    assert (run["study"], run["size"], run["horizon"], run["policy"]) == ("people", 13, 1000, "waves")
    assert run["settings"].items() >= {"population": 90, "most_waves": 1}.items()
    assert set(run["best"]["action"]) == {"price"}


def test_simulate_a_table_many_times(main: Main) -> None:
    done = main("simulate", "--population", "table.csv", "--runs", 2, *QUICK, "--json")
    runs = [json.loads(line) for line in done.out.splitlines()]
    assert [(run["study"], run["seed"], run["size"]) for run in runs] == [("table", 0, 5), ("table", 1, 5)]
    assert runs[0]["settings"]["population"] == 30  # half of few people take part in the pilot


def test_columns_are_named_as_for_a_pilot(main: Main, folder: Path) -> None:
    rows = [f"{line},{30 + int(line.split(',')[0][1:])}" for line in Path("table.csv").read_text().splitlines()[1:]]
    Path("aged.csv").write_text("person,price,reward,rounds,age\n" + "\n".join(rows))
    command = ["simulate", "--population", "aged.csv", *QUICK, "--json"]
    assert_refused(main, folder, command, ["aged.csv", "column age", "--ignore age"])
    for option in (("--ignore", "age"), ("--parameter", "price")):
        assert set(json.loads(main(*command, *option).out)["best"]["action"]) == {"price"}


def test_simulate_says_who_there_was(main: Main) -> None:
    said = main("simulate", "--population", "table.csv", "--policy", "gp-ucb", "--horizon", 50).out
    assert "30 people could be asked, about 5 decisions; 30 others took part in the pilot" in said
    assert "some were asked twice\n" in said
    private = ("--privacy", "central", "--epsilon", 5, "--policy", "dpbe", *QUICK)
    assert (
        "twice, and what they were promised does not hold"
        in main("simulate", "tea.toml", "--population", "table.csv", *private).out
    )
    said = main("simulate", "tea.toml", "--population", "table.csv").out
    assert "60 people could be asked, about 5 decisions\n" in said


def test_a_study_file_is_simulated_by_its_own_policy_or_another(main: Main) -> None:
    own = json.loads(main("simulate", "tea.toml", "--json").out)
    assert own["settings"].items() >= {"name": "dpbe", "alpha": 0.6}.items()
    assert json.loads(main("simulate", "tea.toml", "--alpha", 0.5, "--json").out)["settings"]["alpha"] == 0.5
    assert json.loads(main("simulate", "tea.toml", "--policy", "waves", "--json").out)["policy"] == "waves"
    private = json.loads(main("simulate", "tea.toml", "--privacy", "central", "--epsilon", 5, "--json").out)
    assert private["epsilon"] == 5


def test_run_them(main: Main) -> None:
    done = main("run", *FORMULA, "--most-waves", 1, "--no-report")
    assert (done.code, done.err) == (0, "")
    assert "80 people could be asked, about 13 decisions; 40 others took part in the pilot" in done.out
    assert "budget of 1 wave" in done.out


def test_run_the_pilot_s_own_people(main: Main) -> None:
    assert main("calibrate", "table.csv", "--points", 11, "--horizon", 1000, "--out", "study.toml").code == 0
    gaussian = main("run", "study.toml", "--no-report")
    own = main("run", "study.toml", "--resample", "table.csv", "--no-report")
    assert (gaussian.code, own.code) == (0, 0)
    assert gaussian.out != own.out
    assert json.loads(main("simulate", "study.toml", "--resample", "table.csv", "--json").out)["study"] == "study"


def test_compare_on_them(main: Main, folder: Path) -> None:
    policies = ("--policies", "waves,pilot-only,thompson", "--runs", 1, "--jobs", 1)
    done = main("compare", "--population", "table.csv", "--horizon", 200, *policies)
    assert (done.code, done.err) == (0, "")
    assert "there are 30 people to ask; asked some twice: thompson" in done.out
    assert (folder / "voxpop-compare/table.png").exists()


GRID = "--grid price=2:8:13"
REFUSED: dict[str, list[str]] = {
    "simulate": ["name a study", "pricing", "--population people.csv"],
    "compare": ["name a study", "--population people.csv"],
    "simulate --population none.csv": ["none.csv", "No such file"],
    "simulate --population 3.5": ["3.5", "No such file"],
    "simulate pricing --population table.csv": ["'pricing' has its own people", "--population table.csv"],
    "compare pricing --population table.csv": ["'pricing' has its own people"],
    "simulate pricing --resample table.csv": ["'pricing' has its own people", "--resample table.csv"],
    "simulate --population table.csv --resample table.csv": ["--resample table.csv", "give that file"],
    "run --resample table.csv": ["--resample table.csv", "give that file"],
    "run tea.toml --resample table.csv --population table.csv": ["--resample", "no --population"],
    "run tea.toml --population table.csv --pilot-people 5": ["tea.toml", "leave --pilot-people out"],
    "simulate pricing --formula wtp": ["--formula is about your own people", "--population people.csv"],
    "compare pricing --grid price=1:2:3": ["--grid is about your own people"],
    "run --noise 0": ["--noise is about your own people"],
    "run --ignore age": ["--ignore is about your own people"],
    "compare pricing --parameter price": ["--parameter is about your own people"],
    "simulate pricing --choice plan": ["--choice is about your own people"],
    "run --pilot-people 30": ["--pilot-people is about your own people"],
    "simulate --population table.csv --size 5": ["--size", "built-in", "leave it out"],
    "simulate tea.toml --bias-std 5": ["--bias-std", "built-in"],
    "simulate tea.toml --true-norm": ["--true-norm", "built-in"],
    "simulate --population gap.csv": ["gap.csv", "person u1 has no reward for {'price': 2.5}", "add the row"],
    "simulate --population one.csv": ["one.csv", "at least two people, got 1"],
    "simulate --population table.csv --pilot-people 59": ["60 people", "the pilot takes 59"],
    "simulate --population table.csv --pilot-people 1": ["the pilot's people", "at least 2", "1"],
    "simulate --population table.csv --noise -1": ["noise", "at least 0", "-1"],
    "simulate --population table.csv --noise nan": ["noise", "nan"],
    "simulate --population table.csv --horizon 0": ["horizon", "at least 1"],
    f"simulate --population table.csv {GRID}": ["--grid", "--formula"],
    "simulate tea.toml --population wide.csv": ["wide.csv", "price", "at most 3, got 9"],
    f"simulate --population people.csv --formula {PROFIT}": ["--grid price=2:12:101"],
    f"simulate --population people.csv --formula wpt+price {GRID}": ["'wpt'", "did you mean 'wtp'?"],
    f"simulate --population people.csv --formula wtp.real {GRID}": ["'wtp.real'", "character 1", "not allowed"],
    f"simulate --population people.csv --formula kind+price {GRID}": ["'kind'", "character 1", "a word"],
    f"simulate --population people.csv --formula price {GRID}": ["no column of people.csv", "wtp"],
    f"simulate --population people.csv --formula wtp {GRID}": ["no parameter", "price"],
    f"simulate --population single.csv --formula {PROFIT} {GRID}": ["single.csv", "one person"],
    f"simulate --population zero.csv --formula price/wtp {GRID}": [
        "zero.csv",
        "gives inf",
        "{'price': 2.0}",
        "'b'",
        "division by zero",
    ],
    f"simulate --population people.csv --formula log(wtp-price) {GRID}": ["gives -inf for {'price': 2.0}", "'u0'"],
    f"simulate --population priced.csv --formula price {GRID}": ["priced.csv has a column price", "rename"],
    f"simulate --population word.csv --formula {PROFIT} {GRID}": ["word.csv, line 4", "'much'"],
    f"simulate --population heading.csv --formula {PROFIT} {GRID}": ["heading.csv", "no rows"],
    "simulate --population people.csv --formula wtp*price --grid price=2:8": ["--grid price=2:8", "low:high:count"],
    f"simulate tea.toml --population people.csv --formula {PROFIT} {GRID}": ["study file", "leave --grid out"],
    "simulate tea.toml --population people.csv --formula wtp*cost": ["'cost'", "known"],
}


@pytest.mark.parametrize("command", REFUSED)
def test_bad_people_are_refused(main: Main, folder: Path, command: str) -> None:
    assert_refused(main, folder, command.split(), REFUSED[command])


def test_everybody_the_same_is_refused(main: Main, folder: Path) -> None:
    flat = "person,price,reward\n" + "".join(f"u{u},{price},1.0\n" for u in range(10) for price in (1, 2, 3))
    (folder / "flat.csv").write_text(flat)
    assert_refused(main, folder, ["simulate", "--population", "flat.csv"], ["flat.csv", "every reward", "is 1"])
