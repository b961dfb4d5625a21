"""The dates of a study on the command line: the [calendar] table, `voxpop ask --schedule`, status and report."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers_cli import STUDY, Outcome, main_of, study_file
from voxpop.service.study.definition import read_definition
from voxpop.study.study import Study

Main = Callable[..., Outcome]
TEA = STUDY.replace('name = "dpbe"\nalpha = 0.6', 'name = "waves"').replace("noise_std = 0.1", "noise_std = 3.0")
CALENDAR = '\n[calendar]\nround = "week"\nstart = 2026-03-02\nzone = "Europe/Berlin"\nclosed = ["sunday", 2026-12-24]\n'


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    study_file(tmp_path / "tea.toml", TEA + CALENDAR)
    return main_of(monkeypatch)


def test_ask_says_when_each_decision_is_played(main: Main) -> None:
    question = json.loads(main("ask", "tea.toml", "--json").out)
    assert question["calendar"] == {
        "round": "week",
        "start": "2026-03-02",
        "zone": "Europe/Berlin",
        "closed": ["sunday", "2026-12-24"],
    }
    rounds = sum(question["rounds"]) + question["rest"]
    done = main("ask", "tea.toml")
    said = " ".join(done.out.split())
    assert done.code == 0
    calendar = Study.from_file("tea.toml", looking=True).calendar
    assert calendar is not None
    assert "round from until play 1" in said
    assert "2 March 2026" in said
    assert f"wave 1 takes {rounds} weeks, until {calendar.until(1, rounds)}" in said
    assert rounds >= 4
    assert "round 4 (23 March 2026) has 167 hours, as clocks change" in said


def test_a_wave_whose_dates_have_passed_says_so_once(main: Main) -> None:
    study_file(Path("late.toml"), TEA + CALENDAR.replace("2026-03-02", "2000-03-06"))
    study_file(Path("early.toml"), TEA + CALENDAR.replace("2026-03-02", "9000-03-03"))
    done, again, early = main("ask", "late.toml"), main("ask", "late.toml"), main("ask", "early.toml")
    rounds = len(Study.from_file("late.toml", looking=True).course.question.schedule())  # type: ignore[union-attr]
    assert f"note: by the calendar {rounds} rounds of wave 1 began before it was asked; move the start" in done.err
    assert [done.code, again.code, early.code, again.err, early.err] == [0, 0, 0, "", ""]


def test_schedules_are_written_once_and_not_over_other_files(main: Main) -> None:
    for name in ("plan.csv", "plan.ics"):
        assert main("ask", "tea.toml", "--schedule", name).code == 0
        written = Path(name).read_text()
        refused = main("ask", "tea.toml", "--schedule", name)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert f"{name} exists; choose another name, or replace it with --force" in refused.err
        assert main("ask", "tea.toml", "--schedule", name, "--force").code == 0
        assert Path(name).read_text().splitlines()[0] == written.splitlines()[0]
    assert Path("plan.csv").read_text().startswith("round,from,until,price,block\n1,2026-03-02T00:00:00+01:00,")
    assert Path("plan.ics").read_bytes().startswith(b"BEGIN:VCALENDAR\r\n")


def test_a_schedule_that_cannot_be_written_opens_no_wave(main: Main) -> None:
    study_file(Path("tea.toml"), TEA)
    for name, says in {
        "plan.ics": "the study has no dates; add a [calendar]",
        "plan.txt": "must end in .csv or .ics",
    }.items():
        done = main("ask", "tea.toml", "--schedule", name)
        assert done.code == 2
        assert says in done.err
        assert not Path(name).exists()
    assert Study.from_file("tea.toml", looking=True).course.pending is None
    assert main("ask", "tea.toml", "--schedule", "plan.csv").code == 0
    assert Path("plan.csv").read_text().splitlines()[1].startswith("1,,,")


def test_status_and_report_have_dates(main: Main) -> None:
    main("ask", "tea.toml")
    said = " ".join(main("status", "tea.toml").out.split())
    assert "Played" in said
    assert "from 2 March 2026 on, time of Europe/Berlin" in said
    assert "Horizon" in said
    assert main("report", "tea.toml").code == 0
    page = next(Path("voxpop-report").glob("*.html")).read_text()
    assert "wave 1 takes " in page
    assert "to ask, until " in page  # in a picture


def test_the_table_of_waves_says_how_long_each_took(main: Main) -> None:
    question = json.loads(main("ask", "tea.toml", "--json").out)
    rows = [f"u{n},{one['price']},{n % 3}" for n in range(question["people"]) for one in question["decisions"]]
    Path("answers.csv").write_text("person,price,reward\n" + "\n".join(rows) + "\n")
    assert main("tell", "tea.toml", "answers.csv").code == 0
    said = main("status", "tea.toml").out
    line = next(line for line in said.splitlines() if line.split()[:1] == ["wave"] and "takes" in line)
    assert line.split()[:7] == ["wave", "rounds", "played", "people", "numbers", "takes", "until"]
    assert f"{sum(question['rounds']) + question['rest']} weeks" in said


def test_the_dates_of_a_study_that_has_begun_may_change(main: Main) -> None:
    """Answers that come late shift what follows: the days that passed are closed."""
    main("ask", "tea.toml")
    study_file(Path("tea.toml"), TEA + CALENDAR.replace('"sunday"', '"2026-03-02 to 2026-03-08"'))
    done = main("ask", "tea.toml")
    assert (done.code, done.err) == (0, "")
    assert "9 March 2026" in done.out
    assert "2 March 2026" not in done.out.replace("22 March 2026", "")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (("week", "fortnight"), "tea.toml: unknown calendar.round 'fortnight'"),
        (("Europe/Berlin", "Europe/Berln"), "did you mean 'Europe/Berlin'?"),
        (("2026-03-02", '"2026-03-29T02:30"'), "does not exist in Europe/Berlin"),
        (('"sunday"', '"sonntag"'), "calendar.closed must be a weekday or a date"),
        (("closed", "holidays"), "unknown entry of [calendar] 'holidays'"),
        (("zone = ", "closed = [] # "), "[calendar] lacks zone; add it, such as zone = 'Europe/Berlin'"),
        (('"week"', '"99999 weeks"'), "end after the year 9999"),
    ],
)
def test_a_calendar_that_cannot_be_is_refused_in_one_sentence(main: Main, wrong: tuple[str, str], says: str) -> None:
    text = CALENDAR.replace(*wrong)
    if "lacks" in says:
        text = text.rsplit("closed", 1)[0]
    study_file(Path("tea.toml"), TEA + text)
    done = main("ask", "tea.toml")
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1
    assert not Path("tea.json").exists()


def test_a_service_reads_the_same_calendar(main: Main) -> None:
    name, made = read_definition(Path("tea.toml"))
    assert made.calendar == Study.from_file("tea.toml", looking=True).calendar
    assert type(made).decode(made.encode(), name).calendar == made.calendar
    assert made.calendar is not None
