"""`python -m reproduction` when runs fail, and when it is asked for something impossible."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reproduction import __main__ as reproduce
from reproduction.journal import Journal
from tests.reproduction.helpers import Page
from tests.reproduction.helpers_command import (
    FILES,
    NAME,
    SERIES,
    STEM,
    Main,
    besides_progress,
    entries,
    names_in,
    of_policy,
    one_line,
    reproduction,
    rows_of,
)
from voxpop.simulation.comparison import RunSummary, perform
from voxpop.simulation.trials import Trial

# Failed runs


def fail(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Trial], bool]) -> None:
    def attempt(trial: Trial) -> RunSummary:
        if fails(trial):
            raise RuntimeError(f"boom in seed {trial.seed}")
        return perform(trial)

    monkeypatch.setattr(reproduce, "perform", attempt)


def test_one_failed_run_does_not_lose_the_others(main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        fail(patch, lambda trial: (trial.policy, trial.seed) == ("dpbe-fixed", 1))
        done = main(NAME, "--jobs", 1, "--out", "out")
    assert done.code == 1
    said = one_line(done.err)
    for part in ("1 of 8 runs failed", "dpbe-fixed", "RuntimeError: boom in seed 1"):
        assert part in said
    assert names_in(tmp_path / "out") == FILES
    rows = rows_of(tmp_path / f"out/{STEM}.csv")
    assert {row["series"]: row["runs"] for row in rows} == {
        name: "1" if name == "DPBE-Fixed" else "2" for name in SERIES
    }
    kept = of_policy(tmp_path / "out", "dpbe-fixed")
    assert float(rows[1]["regret mean"]) == pytest.approx(kept[0]["regret"], rel=1e-5)
    text = Page((tmp_path / f"out/{STEM}.html").read_text()).text
    assert "boom in seed 1" in text
    assert "dpbe-fixed" in text
    assert "7 runs" in text
    assert "incomplete: 1 of 8 runs are missing" in text
    assert "incomplete: 1 of 8 runs are missing" in (tmp_path / f"out/{STEM}.svg").read_text()
    assert len(entries(tmp_path / "out")) == 7

    done = main(NAME, "--jobs", 1, "--out", "out")
    assert (done.code, besides_progress(done.err)) == (0, "")
    assert len(entries(tmp_path / "out")) == 8
    whole = (tmp_path / f"out/{STEM}.html").read_text()
    assert "boom" not in whole
    assert "incomplete" not in whole


def test_runs_that_fail_for_different_seeds_are_not_compared(
    main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of two seeds one is left of each policy, but not the same: no claim about both can be decided."""
    fail(monkeypatch, lambda trial: (trial.policy, trial.seed) in (("dpbe-fixed", 1), ("dpbe-paper", 0)))
    done = main(NAME, "--jobs", 1, "--out", "out")
    assert done.code == 1
    assert "2 of 8 runs failed" in one_line(done.err)
    rows = Page((tmp_path / f"out/{STEM}.html").read_text()).rows
    verdict, evidence = next((row[1], row[2]) for row in rows if "DPBE-Fixed at the same cost" in row[0])
    assert verdict == "undecided"
    assert "nan" not in evidence


def test_a_series_without_a_run_is_a_sentence_with_the_reason(
    main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fail(monkeypatch, lambda trial: trial.policy == "dpbe-fixed")
    done = main(NAME, "--jobs", 1, "--out", "out")
    assert done.code in (1, 2)
    said = one_line(done.err)
    assert "no figure could be made" in said
    assert "boom in seed" in said
    assert len(entries(tmp_path / "out")) == 6
    assert names_in(tmp_path / "out") == {"runs.jsonl"}


def test_a_series_without_a_run_does_not_lose_the_other_figures(
    main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fail(monkeypatch, lambda trial: trial.policy == "dpbe-fixed" and trial.study == "camel")
    done = main(NAME, "ablation/camel", "--jobs", 1, "--out", "out")
    assert done.code == 1
    assert "2 of 16 runs failed" in one_line(done.err)
    assert (tmp_path / f"out/{STEM}.png").exists()
    assert not (tmp_path / "out/ablation-camel.png").exists()
    pages = list((tmp_path / "out").glob("*.html"))
    assert len(pages) == 1
    page = Page(pages[0].read_text())
    assert "boom in seed 0" in page.text
    assert "ablation/camel" not in page.ids


# Refused


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """Folders and files that cannot be used."""
    (tmp_path / "file").write_text("a file")
    for name, text in {
        "words": "light,sensor\n1,2\n",
        "ragged": "1,2,3\n4,5\n",
        "short": "1,2,3\n",
        "constant": "1,2\n1,3\n",
        "infinite": "1,2\ninf,3\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "light_train_601x41.csv").write_text(text)
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary/light_train_601x41.csv").write_bytes(bytes(range(256)))
    (tmp_path / "empty").mkdir()
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


REFUSALS: dict[str, list[str]] = {
    "ablation/spere": ["'ablation/spere'", "did you mean 'ablation/sphere'?"],
    "ablation/ligth": ["'ablation/ligth'", "did you mean 'ablation/light'?"],
    f"{NAME} --seeds 0": ["seeds", "at least 1", "0"],
    f"{NAME} --seeds -3": ["seeds", "at least 1", "-3"],
    f"{NAME} --jobs 0": ["jobs", "at least 1", "0"],
    f"{NAME} --backend nope": ["'nope'", "local", "pip install voxpop-dask"],
    f"{NAME} --address tcp://127.0.0.1:8786": ["'tcp://127.0.0.1:8786'", "--backend"],
    f"{NAME} --data nowhere": ["'nowhere'", "light_train_601x41.csv"],
    f"{NAME} --data empty": ["'empty'", "light_train_601x41.csv"],
    f"{NAME} --data file": ["'file'", "light_train_601x41.csv"],
    f"{NAME} --data words": ["words/light_train_601x41.csv"],
    f"{NAME} --data ragged": ["ragged/light_train_601x41.csv"],
    f"{NAME} --data short": ["short/light_train_601x41.csv"],
    f"{NAME} --data constant": ["constant/light_train_601x41.csv"],
    f"{NAME} --data infinite": ["infinite/light_train_601x41.csv"],
    f"{NAME} --data binary": ["binary/light_train_601x41.csv"],
    f"{NAME} --out file": ["file"],
    f"{NAME} --out file/in": ["file/in"],
    f"{NAME} --out /proc/voxpop": ["/proc/voxpop"],
    "--list nothing": ["'nothing'"],
}


@pytest.mark.parametrize("arguments", REFUSALS)
def test_bad_input_is_one_sentence_and_nothing_is_written(main: Main, bad: Path, arguments: str) -> None:
    before = contents(bad)
    done = main(*arguments.split())
    said = one_line(done.err)
    assert (done.code, done.out) == (2, "")
    assert said.startswith("error: ")
    assert [part for part in REFUSALS[arguments] if part not in said] == []
    assert contents(bad) == before


@pytest.mark.parametrize("arguments", ["ablaton", f"{NAME} --data infinite"])
def test_the_installed_command_refuses_in_one_sentence(bad: Path, arguments: str) -> None:
    before = contents(bad)
    done = reproduction(*arguments.split(), cwd=bad)
    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr).startswith("error: ")
    assert contents(bad) == before


def test_two_commands_do_not_write_into_one_folder(main: Main, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with Journal(tmp_path / "out/runs.jsonl").writing():
        done = main(NAME, "--jobs", 1, "--out", "out")
    assert (done.code, done.out) == (2, "")
    assert "another process" in one_line(done.err)
    assert entries(tmp_path / "out") == []
