"""`voxpop reproduce`: what it writes, that it goes on where it stopped, and what it says when it cannot."""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pytest

from tests.helpers_cli import ENVIRONMENT, LIGHT, ROOT, VOXPOP, Outcome, main_of, voxpop
from tests.helpers_experiments import Page
from tests.helpers_waiting import HANGING
from voxpop.cli import reproduce
from voxpop.lab import experiments
from voxpop.lab.experiments import all_exhibits, choose
from voxpop.lab.experiments.exhibits import FULL, QUICK, Cell, Exhibit, Scale
from voxpop.lab.experiments.output import COLOURS
from voxpop.lab.experiments.records import Journal, Record, grid, perform
from voxpop.lab.trials import Trial

Main = Callable[..., Outcome]
NAME = "ablation/sphere"
STEM = "ablation-sphere"
ARGUMENTS = ("reproduce", NAME, "--quick", "--jobs", 1)
TINY = Scale(seeds=2, horizon=300, private_horizon=400)
SERIES = ("DPBE", "DPBE-Fixed", "DPBE-NoBatching", "voxpop")
FILES = {
    *(f"{STEM}{ending}" for ending in (".png", ".svg", ".csv", "-curves.csv", "-table-1.csv", ".html")),
    "runs.jsonl",
}


def exhibit_of(scale: Scale, name: str = NAME) -> Exhibit:
    return choose([name], scale)[0]


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def entries(folder: Path) -> list[dict[str, Any]]:
    """The lines of the journal that are whole."""
    found = []
    for line in (folder / "runs.jsonl").read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def of_policy(folder: Path, policy: str) -> list[dict[str, Any]]:
    """The records of a policy, in the order of seeds."""
    found = [entry for entry in entries(folder) if entry["trial"]["policy"] == policy]
    return [entry["record"] for entry in sorted(found, key=lambda entry: int(entry["trial"]["seed"]))]


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def one_line(text: str) -> str:
    """What is said on standard error: one sentence, and no traceback."""
    lines = text.splitlines()
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    """`voxpop ...` in this process, in a folder of its own, with tiny runs unless --quick is given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "FULL", TINY)
    return main_of(monkeypatch)


# What it writes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """One figure, made by the installed command with two seeds."""
    folder = tmp_path_factory.mktemp("made")
    done = voxpop(*ARGUMENTS, "--seeds", 2, "--out", "deep/down", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done, folder / "deep/down"


@pytest.fixture(scope="module")
def folder(made: tuple[subprocess.CompletedProcess[str], Path]) -> Path:
    return made[1]


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page((folder / f"{STEM}.html").read_text())


def test_it_writes_pictures_tables_and_a_page(folder: Path) -> None:
    assert names_in(folder) == FILES


def test_it_says_where_and_what_it_found(made: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, _ = made
    assert "report: deep/down/ablation-sphere.html" in done.stdout
    findings = exhibit_findings(made[1])
    assert len(findings) == 6
    for claim, verdict in findings.items():
        assert re.search(rf"{re.escape(claim)}\s+{verdict}\s", done.stdout)


def exhibit_findings(folder: Path) -> dict[str, str]:
    """Claims with their verdicts, from the journal by hand."""
    exhibit = exhibit_of(replace(QUICK, seeds=2))
    records = Journal(folder / "runs.jsonl").read(exhibit.trials)
    assert len(records) == 8
    made = {n: Cell({t.seed: records[t] for t in trials}, trials) for n, trials in exhibit.series.items()}
    return {finding.claim: finding.verdict for finding in exhibit.present(made).findings}


def test_the_png_is_a_picture(folder: Path) -> None:
    picture = matplotlib.image.imread(folder / f"{STEM}.png")
    height, width = picture.shape[:2]
    assert (height, width) >= (300, 900)
    assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 50


def test_the_svg_is_a_picture(folder: Path) -> None:
    root = ElementTree.fromstring((folder / f"{STEM}.svg").read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 50


def test_the_summary_is_the_mean_over_the_runs(folder: Path) -> None:
    rows = {row["series"]: row for row in rows_of(folder / f"{STEM}.csv")}
    assert tuple(rows) == SERIES
    for name, policy in zip(SERIES, ("dpbe-paper", "dpbe-fixed", "dpbe-nobatching", "dpbe"), strict=True):
        records = of_policy(folder, policy)
        assert (rows[name]["runs"], rows[name]["kept"]) == ("2", str(sum(record["kept"] for record in records)))
        for field in ("regret", "numbers", "merged", "people", "seconds", "left", "norm_bound"):
            values = [record[field] for record in records]
            assert float(rows[name][f"{field} mean"]) == pytest.approx(np.mean(values), rel=1e-5)
            assert float(rows[name][f"{field} std"]) == pytest.approx(np.std(values), rel=1e-5, abs=1e-12)


def test_the_curves_are_the_mean_over_the_runs(folder: Path) -> None:
    rows = rows_of(folder / f"{STEM}-curves.csv")
    rounds = grid(QUICK.horizon)
    assert len(rows) == 4 * len(rounds)
    for name, policy in (("DPBE", "dpbe-paper"), ("voxpop", "dpbe")):
        own = [row for row in rows if row["series"] == name]
        curves = np.array([record["curve"] for record in of_policy(folder, policy)])
        assert [float(row["round"]) for row in own] == rounds.tolist()
        np.testing.assert_allclose([float(row["regret mean"]) for row in own], curves.mean(axis=0), rtol=1e-5)
        np.testing.assert_allclose([float(row["regret std"]) for row in own], curves.std(axis=0), rtol=1e-5, atol=1e-9)
        assert float(own[-1]["regret mean"]) > float(own[10]["regret mean"]) > 0


def test_the_page_loads_nothing_from_outside(folder: Path, page: Page) -> None:
    text = (folder / f"{STEM}.html").read_text()
    assert [address for address in page.addresses if not address.startswith(("#", "data:"))] == []
    assert {"script", "link", "iframe", "img", "object"} & set(page.tags) == set()
    assert not re.search(r"url\(\s*['\"]?(https?:|//)|@import", text)
    assert page.tags.count("svg") == 1


def test_the_page_s_links_lead_somewhere(page: Page) -> None:
    assert NAME in page.ids
    assert f"#{NAME}" in page.addresses


def test_the_page_holds_the_picture(folder: Path) -> None:
    assert (folder / f"{STEM}.svg").read_text().strip() in (folder / f"{STEM}.html").read_text()


def test_the_page_puts_the_paper_s_number_beside_ours(folder: Path, page: Page) -> None:
    """tab:communication_time_baseline: DPBE sends 1.49e3 numbers in 0.07 seconds on the sphere function."""
    heading = next(row for row in page.rows if row[0] == "policy")
    rows = {row[0]: dict(zip(heading, row, strict=True)) for row in page.rows if row[0] in SERIES}
    assert (rows["DPBE"]["numbers sent, paper"], rows["DPBE"]["seconds, paper"]) == ("1,490", "0.07")
    assert (rows["DPBE-NoBatching"]["numbers sent, paper"], rows["voxpop"]["numbers sent, paper"]) == ("6,160", "")
    for name, policy in (("DPBE", "dpbe-paper"), ("voxpop", "dpbe")):
        records = of_policy(folder, policy)
        assert rows[name]["numbers sent"] == f"{np.mean([record['numbers'] for record in records]):,.0f}"
        regret = float(np.mean([record["regret"] for record in records]))
        assert float(rows[name]["regret at T"].split(" ±")[0].replace(",", "")) == pytest.approx(regret, rel=0.01)
    assert list(rows_of(folder / f"{STEM}-table-1.csv")[0].values()) == list(rows["DPBE"].values())


def test_the_page_holds_every_claim_with_its_verdict(folder: Path, page: Page) -> None:
    verdicts = {row[0]: row[1] for row in page.rows if len(row) == 3 and row[1] in COLOURS}
    assert verdicts == exhibit_findings(folder)


def test_the_page_names_the_figures_of_the_paper(page: Page) -> None:
    for label in ("fig:sphere", "fig:regret_optimization_baselines", "tab:communication_time_baseline"):
        assert label in page.text
    assert "8 runs, 2 seeds, T = 4,000" in page.text


def test_a_quick_run_says_so_on_the_figure_and_the_page(folder: Path, page: Page) -> None:
    note = "quick: 2 seeds, T = 4,000"
    assert note in (folder / f"{STEM}.svg").read_text()
    assert note in page.text


def test_a_full_run_does_not(main: Main, tmp_path: Path) -> None:
    done = main("reproduce", NAME, "--jobs", 1, "--out", "full")
    assert (done.code, done.err) == (0, "")
    assert "quick" not in (tmp_path / f"full/{STEM}.svg").read_text()
    text = (tmp_path / f"full/{STEM}.html").read_text()
    assert "quick" not in text
    assert "8 runs, 2 seeds, T = 300" in Page(text).text


def test_the_real_scales_are_the_paper_s_and_the_quick_one() -> None:
    """Guards the tests above, which put tiny runs in the place of full ones."""
    assert (vars(reproduce)["FULL"], vars(reproduce)["QUICK"]) == (FULL, QUICK)
    assert (FULL.seeds, FULL.horizon, FULL.private_horizon) == (20, 40_000, 1_000_000)


def test_everything_goes_into_one_report(main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = ["ablation/camel", NAME]
    monkeypatch.setattr(experiments, "all_exhibits", lambda scale: [e for e in all_exhibits(scale) if e.name in wanted])
    done = main("reproduce", "--jobs", 1, "--seeds", 1)
    assert (done.code, done.err) == (0, "")
    report = Page((tmp_path / "voxpop-paper/report.html").read_text())
    assert {name for name in wanted if name in report.ids} == set(wanted)
    assert report.tags.count("svg") == 2
    assert "report: voxpop-paper/report.html" in done.out


def test_names_that_overlap_are_run_and_drawn_once(main: Main, tmp_path: Path) -> None:
    """However often: the name of the page must still be one the disk can hold."""
    names = [NAME, "fig:sphere", NAME] * 12
    done = main("reproduce", *names, "--jobs", 1, "--seeds", 1, "--out", "out")
    assert (done.code, done.err) == (0, "")
    assert len(entries(tmp_path / "out")) == 4
    pages = list((tmp_path / "out").glob("*.html"))
    assert len(pages) == 1
    assert pages[0].read_text().count("<svg") == 1
    assert str(pages[0].relative_to(tmp_path)) in done.out


def test_a_folder_with_brackets_is_printed_as_it_is(main: Main) -> None:
    name = "a [b] c[/d]"
    done = main("reproduce", NAME, "--jobs", 1, "--seeds", 1, "--out", name)
    assert (done.code, done.err) == (0, "")
    assert f"report: {name}/{STEM}.html" in done.out


# The same seeds give the same pictures, and nothing is computed twice


def test_the_same_seeds_give_the_same_pictures(folder: Path, tmp_path: Path) -> None:
    """Fresh runs in another folder, there one after another, here side by side."""
    done = voxpop("reproduce", NAME, "--quick", "--seeds", 2, "--jobs", 2, "--out", "again", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert {entry["key"] for entry in entries(tmp_path / "again")} == {entry["key"] for entry in entries(folder)}
    for ending in (".png", ".svg", "-curves.csv"):
        assert (tmp_path / "again" / f"{STEM}{ending}").read_bytes() == (folder / f"{STEM}{ending}").read_bytes()


def test_other_seeds_give_other_pictures(folder: Path, main: Main, tmp_path: Path) -> None:
    """Guards the test above."""
    shutil.copy(folder / "runs.jsonl", tmp_path)
    assert main(*ARGUMENTS, "--seeds", 1, "--out", ".").code == 0
    for ending in (".png", ".svg", "-curves.csv"):
        assert (tmp_path / f"{STEM}{ending}").read_bytes() != (folder / f"{STEM}{ending}").read_bytes()


def test_a_second_time_nothing_is_run(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "again")
    before = (tmp_path / "again/runs.jsonl").read_bytes()
    for path in (tmp_path / "again").glob("ablation*"):
        path.unlink()
    done = voxpop(*ARGUMENTS, "--seeds", 2, "--out", "again", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "again/runs.jsonl").read_bytes() == before
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name


def test_runs_are_shared_by_all_that_need_them(main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert main("reproduce", NAME, "--jobs", 1, "--seeds", 1, "--out", "out").code == 0
    performed = counted(monkeypatch)
    assert main("reproduce", "fig:sphere", "--jobs", 1, "--out", "out").code == 0
    assert [trial.seed for trial in performed] == [1, 1, 1, 1]
    assert len(entries(tmp_path / "out")) == 8


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """The trials that will have been performed."""
    performed: list[Trial] = []

    def count(trial: Trial) -> Record:
        performed.append(trial)
        return perform(trial)

    monkeypatch.setattr(reproduce, "perform", count)
    return performed


# Interrupted

STALLS = """
import sys, time
from voxpop.cli import main, reproduce
finish, done = reproduce.perform, []
def perform(trial):
    if len(done) == 3:
        time.sleep(3600)
    done.append(trial)
    return finish(trial)
reproduce.perform = perform
main()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Processes in a session of their own, which heed Ctrl-C whatever ignores it here, and do not outlive the test."""
    running: list[subprocess.Popen[str]] = []

    def run(*command: object) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        running.append(process)
        return process

    yield run
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for_runs(process: subprocess.Popen[str], journal: Path, count: int) -> None:
    while not (journal.exists() and journal.read_bytes().count(b"}\n") >= count):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_an_interrupted_sweep_goes_on_where_it_stopped(
    start: Callable[..., subprocess.Popen[str]], main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = [*ARGUMENTS, "--seeds", 2, "--out", "out"]
    process = start(sys.executable, "-c", STALLS, *command)
    wait_for_runs(process, tmp_path / "out/runs.jsonl", 3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=HANGING)
    assert (process.returncode, out) == (130, "")
    said = one_line(err)
    assert "3 of 8 runs" in said
    assert "out/runs.jsonl" in said
    assert names_in(tmp_path / "out") == {"runs.jsonl"}
    before = (tmp_path / "out/runs.jsonl").read_bytes()
    kept = Journal(tmp_path / "out/runs.jsonl").read(exhibit_of(replace(QUICK, seeds=2)).trials)
    assert len(kept) == 3

    performed = counted(monkeypatch)
    done = main(*command)
    assert (done.code, done.err) == (0, "")
    assert len(performed) == 5
    assert set(performed).isdisjoint(kept)
    assert (tmp_path / "out/runs.jsonl").read_bytes().startswith(before)
    assert len({entry["key"] for entry in entries(tmp_path / "out")}) == len(entries(tmp_path / "out")) == 8
    assert names_in(tmp_path / "out") == FILES


def test_ctrl_c_stops_the_workers_too(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    """The terminal interrupts all processes of the command at once."""
    process = start(VOXPOP, "reproduce", "peers/sphere", "--jobs", 2, "--out", "out")
    wait_for_runs(process, tmp_path / "out/runs.jsonl", 1)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=HANGING)
    assert (process.returncode, out) == (130, "")
    kept = len(entries(tmp_path / "out"))
    assert 1 <= kept < 320
    assert f"{kept} of 320 runs" in one_line(err)
    assert len(Journal(tmp_path / "out/runs.jsonl").read(exhibit_of(FULL, "peers/sphere").trials)) == kept


def test_ctrl_c_while_drawing_is_one_sentence(main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "write_exhibit", interrupt)
    done = main("reproduce", NAME, "--jobs", 1, "--seeds", 1, "--out", "out")
    assert done.code == 130
    assert "stopped" in one_line(done.err)
    assert len(entries(tmp_path / "out")) == 4


# Failed runs


def fail(monkeypatch: pytest.MonkeyPatch, fails: Callable[[Trial], bool]) -> None:
    def attempt(trial: Trial) -> Record:
        if fails(trial):
            raise RuntimeError(f"boom in seed {trial.seed}")
        return perform(trial)

    monkeypatch.setattr(reproduce, "perform", attempt)


def test_one_failed_run_does_not_lose_the_others(main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as patch:
        fail(patch, lambda trial: (trial.policy, trial.seed) == ("dpbe-fixed", 1))
        done = main("reproduce", NAME, "--jobs", 1, "--out", "out")
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
    assert len(entries(tmp_path / "out")) == 7

    done = main("reproduce", NAME, "--jobs", 1, "--out", "out")
    assert (done.code, done.err) == (0, "")
    assert len(entries(tmp_path / "out")) == 8
    assert "boom" not in (tmp_path / f"out/{STEM}.html").read_text()


def test_runs_that_fail_for_different_seeds_are_not_compared(
    main: Main, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of two seeds one is left of each policy, but not the same: no claim about both can be decided."""
    fail(monkeypatch, lambda trial: (trial.policy, trial.seed) in (("dpbe-fixed", 1), ("dpbe-paper", 0)))
    done = main("reproduce", NAME, "--jobs", 1, "--out", "out")
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
    done = main("reproduce", NAME, "--jobs", 1, "--out", "out")
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
    done = main("reproduce", NAME, "ablation/camel", "--jobs", 1, "--out", "out")
    assert done.code == 1
    assert "2 of 16 runs failed" in one_line(done.err)
    assert (tmp_path / f"out/{STEM}.png").exists()
    assert not (tmp_path / "out/ablation-camel.png").exists()
    pages = list((tmp_path / "out").glob("*.html"))
    assert len(pages) == 1
    page = Page(pages[0].read_text())
    assert "boom in seed 0" in page.text
    assert "ablation/camel" not in page.ids


# Light


NOTICE = "light-sensor study is left out"


def test_without_the_data_the_light_study_is_left_out_with_a_word(
    made: tuple[subprocess.CompletedProcess[str], Path], page: Page
) -> None:
    assert NOTICE in made[0].stdout
    assert "--data FOLDER" in made[0].stdout
    assert NOTICE in page.text


def test_the_data_is_found_beside_the_project_or_where_it_is_said_to_be(main: Main, tmp_path: Path) -> None:
    """Every exhibit is listed by its name; those of the light study where there is data."""
    every = {exhibit.name for exhibit in all_exhibits(replace(FULL, data=str(LIGHT)))}
    process = voxpop("reproduce", "--list", "--out", tmp_path / "out", cwd=ROOT)
    assert (process.returncode, process.stderr) == (0, "")
    assert listed(process.stdout).keys() == every
    done = main("reproduce", "--list", "--data", LIGHT)
    assert (done.code, done.err) == (0, "")
    assert listed(done.out).keys() == every
    done = main("reproduce", "--list")
    assert (done.code, done.err) == (0, "")
    assert listed(done.out).keys() == {name for name in every if not name.endswith("/light")}
    assert list(tmp_path.iterdir()) == []


def listed(text: str) -> dict[str, str]:
    """The names in a list, with how many runs they need."""
    return {line.split()[0]: line.split()[1] for line in text.splitlines()[1:]}


def test_a_list_of_some(main: Main) -> None:
    found = listed(main("reproduce", "peers", "fig:tradeoff", "--list").out)
    assert found.keys() == {"peers/synthetic", "peers/sphere", "peers/camel", "peers/michalewicz", "tradeoff"}
    assert found["tradeoff"] == str(len(exhibit_of(TINY, "tradeoff").trials))


def test_the_light_study_is_made_from_its_data(main: Main, tmp_path: Path) -> None:
    done = main("reproduce", "ablation/light", "--jobs", 1, "--seeds", 1, "--data", LIGHT, "--out", "out")
    assert (done.code, done.err) == (0, "")
    assert NOTICE not in done.out
    assert (tmp_path / "out/ablation-light.png").stat().st_size > 10_000
    assert "5,170" in (tmp_path / "out/ablation-light.html").read_text()
    assert {entry["trial"]["data"] for entry in entries(tmp_path / "out")} == {str(LIGHT.resolve())}


# Refused


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """Folders and files that are of no use."""
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
    "ablation/light": ["'ablation/light'", "--data FOLDER"],
    f"{NAME} --seeds 0": ["seeds", "at least 1", "0"],
    f"{NAME} --seeds -3": ["seeds", "at least 1", "-3"],
    f"{NAME} --jobs 0": ["jobs", "at least 1", "0"],
    f"{NAME} --backend nope": ["'nope'", "dask", "local", "ray"],
    f"{NAME} --backend dask": ["--address"],
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
    done = main("reproduce", *arguments.split())
    said = one_line(done.err)
    assert (done.code, done.out) == (2, "")
    assert said.startswith("error: ")
    assert [part for part in REFUSALS[arguments] if part not in said] == []
    assert contents(bad) == before


@pytest.mark.parametrize("arguments", ["ablaton", f"{NAME} --data infinite"])
def test_the_installed_command_refuses_in_one_sentence(bad: Path, arguments: str) -> None:
    before = contents(bad)
    done = voxpop("reproduce", *arguments.split(), cwd=bad)
    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr).startswith("error: ")
    assert contents(bad) == before


def python(code: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command after some preparation, in a process of its own."""
    command = [sys.executable, "-B", "-c", f"{code}\nfrom voxpop.cli import main\nmain()", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, timeout=HANGING, check=False
    )


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense"])
def test_an_unreachable_cluster_is_one_sentence(tmp_path: Path, address: str) -> None:
    impatient = "import voxpop.lab.sweep\nvoxpop.lab.sweep.PATIENCE = 1"
    done = python(impatient, "reproduce", NAME, "--quick", "--backend", "dask", "--address", address, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert address in one_line(done.stderr)
    written = {path.name: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    assert written in ({}, {"runs.jsonl": 0})


def test_two_commands_do_not_write_into_one_folder(main: Main, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with Journal(tmp_path / "out/runs.jsonl").writing():
        done = main("reproduce", NAME, "--jobs", 1, "--out", "out")
    assert (done.code, done.out) == (2, "")
    assert "another process" in one_line(done.err)
    assert entries(tmp_path / "out") == []


# A full disk: files may not grow beyond a limit

FULL_DISK = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))"


def test_a_disk_that_fills_up_between_runs_keeps_what_is_finished(main: Main, tmp_path: Path) -> None:
    command = [*ARGUMENTS, "--seeds", 1, "--out", "out"]
    done = python(FULL_DISK.format(6000), *command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "out/runs.jsonl" in one_line(done.stderr)
    assert (tmp_path / "out/runs.jsonl").stat().st_size == 6000
    kept = entries(tmp_path / "out")
    assert 1 <= len(kept) < 4
    assert names_in(tmp_path / "out") == {"runs.jsonl"}
    assert main(*command).code == 0
    assert len({entry["key"] for entry in entries(tmp_path / "out")}) == len(entries(tmp_path / "out")) == 4
    assert entries(tmp_path / "out")[: len(kept)] == kept
    assert names_in(tmp_path / "out") == FILES


def test_a_disk_that_fills_up_between_pictures_leaves_no_halves(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "runs.jsonl", tmp_path)
    done = python(FULL_DISK.format(50_000), *ARGUMENTS, "--seeds", 2, "--out", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert f"{STEM}." in one_line(done.stderr)
    assert (tmp_path / "runs.jsonl").read_bytes() == (folder / "runs.jsonl").read_bytes()
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name
