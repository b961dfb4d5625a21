"""`python -m reproduction`: what it writes, lists and says."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pytest

from reproduction import __main__ as reproduce
from reproduction import all_exhibits, output
from reproduction.exhibits import FULL, QUICK, STUDIES
from reproduction.journal import Journal
from reproduction.output import COLOURS
from tests.helpers_cli import light_readings
from tests.reproduction.helpers import Page
from tests.reproduction.helpers_command import (
    FILES,
    NAME,
    SERIES,
    STEM,
    TINY,
    Main,
    besides_progress,
    entries,
    exhibit_of,
    names_in,
    of_policy,
    rows_of,
)
from voxpop.report.page import fill
from voxpop.simulation.comparison import Cell, grid

# What it writes


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
    """Derive the claims with their verdicts from the journal, by hand."""
    exhibit = exhibit_of(replace(QUICK, seeds=2))
    summaries = Journal(folder / "runs.jsonl").read(exhibit.trials)
    assert len(summaries) == 8
    made = {n: Cell({t.seed: summaries[t] for t in trials}, trials) for n, trials in exhibit.series.items()}
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
        runs = of_policy(folder, policy)
        assert (rows[name]["runs"], rows[name]["kept"]) == ("2", str(sum(run["kept"] for run in runs)))
        for field in ("regret", "numbers", "merged", "people", "seconds", "left", "norm_bound"):
            values = [run[field] for run in runs]
            assert float(rows[name][f"{field} mean"]) == pytest.approx(np.mean(values), rel=1e-5)
            assert float(rows[name][f"{field} std"]) == pytest.approx(np.std(values), rel=1e-5, abs=1e-12)


def test_the_curves_are_the_mean_over_the_runs(folder: Path) -> None:
    rows = rows_of(folder / f"{STEM}-curves.csv")
    rounds = grid(QUICK.horizon)
    assert len(rows) == 4 * len(rounds)
    for name, policy in (("DPBE", "dpbe-paper"), ("voxpop", "dpbe")):
        own = [row for row in rows if row["series"] == name]
        curves = np.array([run["curve"] for run in of_policy(folder, policy)])
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
        runs = of_policy(folder, policy)
        assert rows[name]["numbers sent"] == f"{np.mean([run['numbers'] for run in runs]):,.0f}"
        regret = float(np.mean([run["regret"] for run in runs]))
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


def test_a_full_run_does_not_call_itself_quick(main: Main, tmp_path: Path) -> None:
    done = main(NAME, "--jobs", 1, "--out", "full")
    assert (done.code, besides_progress(done.err)) == (0, "")
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
    monkeypatch.setattr("reproduction.all_exhibits", lambda scale: [e for e in all_exhibits(scale) if e.name in wanted])
    done = main("--jobs", 1, "--seeds", 1)
    assert (done.code, besides_progress(done.err)) == (0, "")
    report = Page((tmp_path / "voxpop-paper/report.html").read_text())
    assert {name for name in wanted if name in report.ids} == set(wanted)
    assert report.tags.count("svg") == 2
    assert "report: voxpop-paper/report.html" in done.out


def test_names_that_overlap_are_run_and_drawn_once(main: Main, tmp_path: Path) -> None:
    """However often a name is repeated, the name of the page stays short enough for the disk."""
    names = [NAME, "fig:sphere", NAME] * 12
    done = main(*names, "--jobs", 1, "--seeds", 1, "--out", "out")
    assert (done.code, besides_progress(done.err)) == (0, "")
    assert len(entries(tmp_path / "out")) == 4
    pages = list((tmp_path / "out").glob("*.html"))
    assert len(pages) == 1
    assert pages[0].read_text().count("<svg") == 1
    assert str(pages[0].relative_to(tmp_path)) in done.out


def test_a_folder_with_brackets_is_printed_as_it_is(main: Main) -> None:
    name = "a [b] c[/d]"
    done = main(NAME, "--jobs", 1, "--seeds", 1, "--out", name)
    assert (done.code, besides_progress(done.err)) == (0, "")
    assert f"report: {name}/{STEM}.html" in done.out


# Light


def test_every_exhibit_is_listed_with_and_without_a_folder(main: Main, tmp_path: Path) -> None:
    every = {exhibit.name for exhibit in all_exhibits(FULL)}
    assert {f"{group}/light" for group in ("ablation", "peers", "privacy")} <= every
    folder = light_readings(tmp_path / "readings")
    for data in ([], ["--data", folder]):
        done = main("--list", *data)
        assert (done.code, besides_progress(done.err)) == (0, "")
        assert listed(done.out).keys() == every
    assert list(tmp_path.iterdir()) == [folder]


def listed(text: str) -> dict[str, str]:
    """Read the names in a list, with the number of runs that each needs."""
    return {line.split()[0]: line.split()[1] for line in text.splitlines()[1:]}


def test_only_the_named_exhibits_are_listed(main: Main) -> None:
    found = listed(main("peers", "fig:tradeoff", "--list").out)
    assert found.keys() == {*(f"peers/{study}" for study in STUDIES), "tradeoff", "readings/synthetic"}
    assert found["tradeoff"] == str(len(exhibit_of(TINY, "tradeoff").trials))


def test_the_light_study_is_made_from_the_shipped_figures(main: Main, tmp_path: Path) -> None:
    done = main("ablation/light", "--jobs", 1, "--seeds", 1, "--out", "out")
    assert (done.code, besides_progress(done.err)) == (0, "")
    assert (tmp_path / "out/ablation-light.png").stat().st_size > 10_000
    assert "5,170" in (tmp_path / "out/ablation-light.html").read_text()
    assert len(entries(tmp_path / "out")) == 4
    assert not any("data" in entry["trial"] for entry in entries(tmp_path / "out"))


def test_the_light_study_is_made_from_a_folder_of_readings(main: Main, tmp_path: Path) -> None:
    folder = light_readings(tmp_path / "readings")
    for data in ([], ["--data", "readings"]):
        done = main("ablation/light", "--jobs", 1, "--seeds", 1, *data, "--out", "out")
        assert (done.code, besides_progress(done.err)) == (0, "")
    runs = entries(tmp_path / "out")
    assert {run["trial"].get("data") for run in runs} == {None, str(folder.resolve())}
    assert len({run["summary"]["regret"] for run in runs}) == len(runs) == 8  # other readings, other runs


def test_templates_keep_the_names_that_they_are_given() -> None:
    """The base page defines names of its own, which must hide none of a page's."""
    values = dict.fromkeys(("notices", "parts", "claims", "targets"), ())
    finding = SimpleNamespace(claim="a claim", verdict="holds", evidence="seen", reason="")
    scale = SimpleNamespace(seeds=1, horizon=10, private_horizon=10, note="")
    given: dict[str, Any] = {**values, "claims": [finding], "scale": scale, "runs": 1, "counts": lambda _: {"holds": 1}}
    page = fill("paper.html.j2", Path(output.__file__).parent, colours={"holds": "good"}, **given)
    assert page.count('class="verdict good"') == 2
