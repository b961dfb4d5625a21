"""`voxpop compare`: the same people for every policy, a table, a picture, and which policies no other beats."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor

from tests.helpers_cli import STUDY, Outcome, main_of, study_file
from tests.reproduction.helpers import summary
from voxpop.calibration.fit import Calibration, calibrate
from voxpop.calibration.pilot import Pilot
from voxpop.errors import InputError
from voxpop.report import drawing
from voxpop.simulation.comparison import CONTENDERS, RunSummary
from voxpop.simulation.pictures import picture
from voxpop.simulation.runs import Run, Scenario
from voxpop.simulation.scenarios import SCENARIOS, Options

Main = Callable[..., Outcome]
PEERS = "dpbe,pilot-only,equal-split,halving,thompson,dbcare,rho,gp-ucb"
SPHERE = ("compare", "sphere", "--horizon", 200, "--runs", 2, "--seed", 5, "--jobs", 1)
TEA = ("compare", "tea.toml", "--runs", 2, "--jobs", 1)
PRIVATE = '\n[privacy]\nmodel = "central"\nepsilon = 5.0\n'


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("voxpop.cli.simulate.picture", lambda *_: drawing.sheet(1, 1))  # drawing takes a while
    study_file(tmp_path / "tea.toml")
    study_file(tmp_path / "private.toml", STUDY.replace("[rehearsal]", f"{PRIVATE}\n[rehearsal]"))
    return main_of(monkeypatch)


def compared(main: Main, *arguments: object) -> dict[str, Any]:
    done = main(*arguments, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert isinstance(found, dict)
    return found


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["policy"]: row for row in found["policies"]}


def test_every_policy_meets_the_people_whom_simulate_asks(main: Main) -> None:
    found = compared(main, *SPHERE, "--policies", "dpbe,halving")
    assert (found["study"], found["seeds"], found["horizon"], found["privacy"]) == ("sphere", [5, 6], 200, "none")
    assert list(rows(found)) == ["dpbe", "halving"]
    for name, row in rows(found).items():
        lines = main("simulate", "sphere", "--policy", name, *SPHERE[2:], "--json").out.splitlines()
        runs = [json.loads(line) for line in lines]
        for field in ("regret", "numbers", "people"):
            values = [run[field] for run in runs]
            assert row[field] == pytest.approx({"mean": np.mean(values), "std": np.std(values)})
        assert row["waves"]["mean"] == np.mean([len(run["waves"]) for run in runs])
        assert row["optimum_kept"] == sum(run["optimum_kept"] for run in runs)
    assert (rows(found)["dpbe"]["certificates"], rows(found)["dpbe"]["certificate_true"]) == (2, 2)
    assert (rows(found)["halving"]["certificates"], rows(found)["halving"]["certificate_true"]) == (0, 0)


def test_the_table_says_what_the_data_says(main: Main) -> None:
    found = compared(main, *SPHERE, "--policies", "dpbe, equal-split ,dpbe")
    done = main(*SPHERE, "--policies", "dpbe, equal-split ,dpbe")
    assert (done.code, done.err) == (0, "")
    lines = {line.split()[0]: line.split() for line in done.out.splitlines() if line.strip()}
    for name, row in rows(found).items():
        assert f"{row['numbers']['mean']:,.0f}" in lines[name]
        assert ("2/2" in lines[name]) == (name == "dpbe")
    assert "sphere, seeds 5 to 6" in done.out
    assert lines["equal-split"][4:7] == ["10,000", "100", "1"]
    assert "picture: voxpop-compare/sphere.png" in done.out


def test_the_picture_is_written_where_it_should_be(main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("voxpop.cli.simulate.picture", picture)
    found = compared(main, *SPHERE, "--policies", "dpbe,equal-split", "--out", "a/b")
    assert found["picture"] == "a/b/sphere.png"
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["sphere.png"]
    data = (tmp_path / "a/b/sphere.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert (int.from_bytes(data[16:20]), int.from_bytes(data[20:24])) == (1728, 480)


def test_without_a_pilot_there_is_nothing_to_keep(main: Main) -> None:
    done = main(*SPHERE, "--policies", "dpbe,pilot-only")
    assert done.code == 0
    assert "left out: pilot-only needs a pilot, and this study has none" in done.out
    assert "No policy beats dpbe in both regret and numbers sent." in done.out


def test_a_pilot_counts(main: Main) -> None:
    found = compared(main, "compare", "pricing", "--horizon", 100, "--runs", 1, "--policies", "equal-split,pilot-only")
    assert rows(found)["pilot-only"]["numbers"] == {"mean": 0.0, "std": 0.0}
    assert "pilot-only" in found["frontier"]
    assert found["left_out"] == {}


def test_one_person_per_round_cannot_be_hidden(main: Main) -> None:
    found = compared(main, *SPHERE, "--policies", "gp-ucb,dpbe", "--epsilon", 5)
    assert (found["privacy"], found["epsilon"]) == ("central", 5.0)
    assert list(rows(found)) == ["dpbe"]
    assert found["left_out"] == {"gp-ucb": "asks one person per round, whom the central model cannot hide"}


def test_a_study_file_is_compared_with_its_own_settings(main: Main, tmp_path: Path) -> None:
    found = compared(main, *TEA, "--policies", "dpbe,equal-split,gp-ucb")
    assert (found["study"], found["horizon"], found["picture"]) == ("tea", 500, "voxpop-compare/tea.png")
    study_file(tmp_path / "tea.toml", STUDY.replace("alpha = 0.6", "alpha = 1.2"))
    changed = compared(main, *TEA, "--policies", "dpbe,equal-split,gp-ucb")
    assert rows(changed)["dpbe"]["people"] != rows(found)["dpbe"]["people"]
    for name in ("equal-split", "gp-ucb"):
        assert rows(changed)[name]["regret"] == rows(found)[name]["regret"]


def test_another_horizon_is_as_if_the_file_had_it(main: Main, tmp_path: Path) -> None:
    found = compared(main, *TEA, "--policies", "dpbe", "--horizon", 90)
    study_file(tmp_path / "tea.toml", STUDY.replace("horizon = 500", "horizon = 90"))
    changed = compared(main, *TEA, "--policies", "dpbe")
    assert found["horizon"] == 90
    assert rows(found)["dpbe"]["regret"] == rows(changed)["dpbe"]["regret"]


def test_a_study_file_s_promise_is_kept_unless_another_is_made(main: Main) -> None:
    arguments = ("compare", "private.toml", "--runs", 1, "--jobs", 1, "--policies", "equal-split,gp-ucb")
    assert compared(main, *arguments)["privacy"] == "central"
    assert list(compared(main, *arguments)["left_out"]) == ["gp-ucb"]
    assert compared(main, *arguments, "--privacy", "none")["left_out"] == {}


def test_all_cores_give_the_same_result(main: Main) -> None:
    arguments = [*TEA[:-2], "--policies", "dpbe,equal-split"]
    get_reusable_executor().shutdown()  # workers that another test left know another folder
    one, two = (rows(compared(main, *arguments, "--jobs", jobs)) for jobs in (1, 2))
    assert {name: row["regret"] for name, row in one.items()} == {name: row["regret"] for name, row in two.items()}


def test_the_contenders_are_the_default(main: Main) -> None:
    words = main("compare", "--help").out.replace("│", " ").split()
    assert CONTENDERS[1:] == tuple(PEERS.split(","))
    assert "".join(words).count(",".join(CONTENDERS)) == 1


REFUSED: dict[str, list[str]] = {
    "compare sphre": ["'sphre'", "did you mean 'sphere'?"],
    "compare none.toml": ["none.toml", "No such file"],
    "compare .": ["directory"],
    "compare silent.toml": ["silent.toml", "[rehearsal]"],
    "compare sphere --policies dpeb": ["'dpeb'", "did you mean 'dpbe'?"],
    "compare sphere --policies ,": ["','", "--policies"],
    "compare sphere --policies pilot-only": ["nothing is left to compare", "pilot-only needs a pilot"],
    "compare tea.toml --policies dpbe-fixed": ["dpbe-fixed", "people"],
    "compare sphere --policies gp-ucb --epsilon 5": ["nothing is left to compare", "one person per round"],
    "compare sphere --runs 0": ["runs", "at least 1", "0"],
    "compare sphere --seed -1": ["seed", "at least 0", "-1"],
    "compare sphere --horizon 0": ["horizon", "at least 1", "0"],
    "compare tea.toml --horizon 0": ["horizon", "at least 1", "0"],
    "compare sphere --privacy central": ["central", "--epsilon"],
    "compare tea.toml --privacy central": ["central", "--epsilon"],
    "compare sphere --privacy none --epsilon 5": ["epsilon 5", "--privacy"],
    "compare sphere --epsilon -1": ["epsilon", "-1"],
    "compare sphere --jobs 0": ["jobs", "at least 1", "0"],
    "compare sphere --out tea.toml": ["tea.toml"],
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_bad_input_is_refused_before_anything_is_written(main: Main, tmp_path: Path, arguments: str) -> None:
    study_file(tmp_path / "silent.toml", STUDY[: STUDY.index("[rehearsal]")])
    before = sorted(tmp_path.iterdir())
    done = main(*arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert [part for part in REFUSED[arguments] if part not in done.err] == [], done.err
    assert sorted(tmp_path.iterdir()) == before


def test_every_run_is_done_once(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []

    def summarise(run: Run) -> RunSummary:
        done.append((run.policy.name, run.seed))
        return summary()

    monkeypatch.setattr("voxpop.cli.simulate.comparison.summarise", summarise)
    assert main(*SPHERE, "--policies", "dpbe,halving,dpbe").code == 0
    assert sorted(done) == [("dpbe", 5), ("dpbe", 6), ("halving", 5), ("halving", 6)]


@pytest.mark.parametrize("seeds", [1, 3])
def test_every_pilot_is_calibrated_once_for_all_policies(
    main: Main, monkeypatch: pytest.MonkeyPatch, seeds: int
) -> None:
    pilots: list[Pilot] = []

    def counted(pilot: Pilot, *others: Any, **named: Any) -> Calibration:
        pilots.append(pilot)
        return calibrate(pilot, *others, **named)

    monkeypatch.setattr("voxpop.simulation.scenarios.calibrate", counted)
    study = ("compare", "pricing", "--horizon", 100, "--runs", seeds, "--jobs", 1)
    found = compared(main, *study, "--policies", "dpbe,equal-split,pilot-only,gp-ucb")
    assert len(pilots) == len(found["seeds"]) == seeds
    assert [len(found["policies"]), found["left_out"]] == [4, {}]


def test_a_failed_study_is_named_with_its_seed(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(options: Options) -> Scenario:
        if options.seed == 6:
            raise InputError("there is nobody here")
        return sphere(options)

    sphere = SCENARIOS["sphere"]
    monkeypatch.setitem(SCENARIOS, "sphere", fail)
    done = main(*SPHERE, "--policies", "dpbe,halving")
    assert (done.code, done.err) == (2, "error: the run of policy 'dpbe' with seed 6 failed: there is nobody here\n")


def test_a_failed_run_is_named(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(run: Run) -> RunSummary:
        if (run.policy.name, run.seed) == ("dpbe", 6):
            raise InputError("the people are on strike")
        return summary()

    monkeypatch.setattr("voxpop.cli.simulate.comparison.summarise", fail)
    done = main(*SPHERE, "--policies", "dpbe,halving")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: the run of policy 'dpbe' with seed 6 failed: the people are on strike\n"


def test_without_matplotlib_nothing_is_run(main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(*_: object) -> None:
        raise InputError("pictures need matplotlib; install it with: pip install 'voxpop[report]'")

    monkeypatch.setattr("voxpop.cli.simulate.sheet", missing)
    done = main(*SPHERE)
    assert (done.code, done.out) == (2, "")
    assert "voxpop[report]" in done.err
    assert not (tmp_path / "voxpop-compare").exists()
