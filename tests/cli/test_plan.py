"""`voxpop plan`: the table, the picture, and what-ifs that leave the file alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers_cli import STUDY, Outcome, main_of, study_file

Main = Callable[..., Outcome]
WAVES = STUDY.replace('name = "dpbe"\nalpha = 0.6', 'name = "waves"').replace("horizon = 500", "horizon = 2000")
QUICK = ("--runs", 3, "--jobs", 1)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    return main_of(monkeypatch)


def aims(out: str) -> dict[str, list[str]]:
    rows = [line for line in out.splitlines() if line.startswith(("while", "until", "ask "))]
    return {line[:15].strip(): line[15:].split() for line in rows}


def test_a_row_for_each_aim_and_a_picture(main: Main, tmp_path: Path) -> None:
    file = study_file(tmp_path / "tea.toml", WAVES)
    done = main("plan", "tea.toml", *QUICK)
    assert done.code == 0, done.err
    rows = aims(done.out)
    assert next(iter(rows)) == "while it pays"
    assert list(rows)[-1] == "ask nobody"
    assert len(rows) == 6
    assert done.out.count("pays") >= 2
    assert "medians of 3 rehearsals" in done.out
    assert (tmp_path / "voxpop-plan" / "tea.png").read_bytes().startswith(b"\x89PNG")
    assert file.read_text() == WAVES
    assert not (tmp_path / "tea.json").exists()  # nothing was begun


def test_what_ifs_need_no_other_file(main: Main, tmp_path: Path) -> None:
    study_file(tmp_path / "tea.toml", WAVES + '\n[money]\nunit = "EUR"\npeople = 5000\nanswer = 0.1\n')
    usual, longer, sure, private = (
        aims(main("plan", "tea.toml", *QUICK, *more).out)
        for more in ((), ("--horizon", 40_000), ("--tolerance", 0.04), ("--epsilon", 5))
    )
    assert "until 0.04" in sure
    assert "until 0.04" not in usual
    people = [int(rows["while it pays"][0].replace(",", "")) for rows in (usual, private)]
    assert people[0] < people[1]
    nobody = [float(rows["ask nobody"][5].replace(",", "")) for rows in (usual, longer)]
    assert nobody[1] == pytest.approx(20 * nobody[0], rel=1e-3)


def test_weeks_are_said_if_there_is_a_calendar(main: Main, tmp_path: Path) -> None:
    calendar = '\n[calendar]\nround = "week"\nstart = 2026-03-02\nzone = "Europe/Berlin"\n'
    study_file(tmp_path / "tea.toml", WAVES.replace("2000", "400") + calendar)
    done = main("plan", "tea.toml", *QUICK)
    assert done.code == 0, done.err
    assert " weeks)" in done.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--runs", 2), "runs must be a whole number, at least 3"),
        (("--horizon", 0), "horizon must be a whole number, at least 1"),
        (("--tolerance", -1), "tolerance must be a number above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(main: Main, tmp_path: Path, options: tuple[object, ...], said: str) -> None:
    study_file(tmp_path / "tea.toml", WAVES)
    done = main("plan", "tea.toml", "--jobs", 1, *options)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "voxpop-plan").exists()
