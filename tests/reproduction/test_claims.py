"""The claims of the exhibits, in made-up worlds in which the answer is known."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from reproduction import all_exhibits, choose
from reproduction import paper as printed
from reproduction.compare import contenders
from reproduction.exhibits import Exhibit, Shown
from reproduction.output import COLOURS
from tests.reproduction.helpers import SMALL, STUDIES, summary
from voxpop.simulation.comparison import Cell, RunSummary, grid
from voxpop.simulation.trials import Trial

World = Callable[[str, Trial], dict[str, Any]]


def flat(horizon: int) -> tuple[float, ...]:
    """All regret early."""
    return tuple(float(min(rounds / (0.1 * horizon), 1)) for rounds in grid(horizon))


def steady(horizon: int) -> tuple[float, ...]:
    """As much regret late as early."""
    return tuple(float(rounds / horizon) for rounds in grid(horizon))


def ablation_world(name: str, _: Trial) -> dict[str, Any]:
    regret = {"DPBE": 100.0, "DPBE-Fixed": 200.0, "DPBE-NoBatching": 90.0, "voxpop": 40.0}[name]
    sent = {"DPBE": 1000, "DPBE-Fixed": 1000, "DPBE-NoBatching": 9000, "voxpop": 500}[name]
    seconds = {"DPBE": 0.1, "DPBE-Fixed": 0.2, "DPBE-NoBatching": 0.9, "voxpop": 0.1}[name]
    return {"regret": regret, "numbers": sent, "seconds": seconds}


def tradeoff_world(_: str, trial: Trial) -> dict[str, Any]:
    alpha = float(dict(trial.settings)["alpha"])
    return {"regret": 100 / alpha, "numbers": round(10_000 * alpha)}


def privacy_world(_: str, trial: Trial) -> dict[str, Any]:
    regret = 1000 / (trial.epsilon or 1000)
    if trial.true_norm:
        regret = 100.0 if trial.epsilon is None else 150.0
    return {"regret": regret, "curve": flat(int(trial.horizon or 0))}


def peers_world(_: str, trial: Trial) -> dict[str, Any]:
    sent = {"dpbe-paper": 1000, "dpbe": 500}.get(trial.policy, 40_000)
    regret = {"dpbe-paper": 100.0, "dpbe": 60.0}.get(trial.policy, 80.0)
    return {"regret": regret, "numbers": sent, "seconds": 0.1 if trial.policy.startswith("dpbe") else 5.0}


def trust_world(_: str, trial: Trial) -> dict[str, Any]:
    return {"regret": {"none": 90.0, "central": 100.0, "shuffle": 100.0, "local": 500.0}[trial.privacy]}


def norms_world(_: str, trial: Trial) -> dict[str, Any]:
    return {"regret": 100.0 if trial.policy == "dpbe-paper" else 40.0, "numbers": 9 if trial.policy == "dpbe" else 99}


def compare_world(name: str, _: Trial) -> dict[str, Any]:
    ours = name == contenders("pricing")[0]
    return {"regret": 50.0 if ours else 100.0, "numbers": 100 if ours else 900}


WORLDS: dict[str, World] = {
    "compare": compare_world,
    "ablation": ablation_world,
    "peers": peers_world,
    "privacy": privacy_world,
    "tradeoff": tradeoff_world,
    "trust": trust_world,
    "norms": norms_world,
}
GOOD, BAD = {"reproduced", "reached"}, {"not reproduced", "not reached"}


def show(exhibit: Exhibit, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Shown:
    """Show the exhibit of a made-up world; every seed scales all its numbers, so that only comparing pairs works."""
    world, cells = WORLDS[exhibit.name.split("/")[0]], {}
    for name, trials in exhibit.series.items():
        runs: dict[int, RunSummary] = {}
        for trial in trials:
            made = {**world(name, trial), **(changes or {}).get(name, {})}
            known = {"horizon": int(trial.horizon or 0), **made, "regret": made["regret"] * (1 + trial.seed)}
            runs[trial.seed] = summary(**known)
        cells[name] = Cell(runs, trials)
    return exhibit.present(cells)


@cache
def small(name: str) -> Exhibit:
    return choose([name], SMALL)[0]


@cache
def shown_as_claimed(name: str) -> Shown:
    return show(small(name))


@pytest.mark.parametrize("name", [e.name for e in all_exhibits(SMALL) if e.name.split("/")[0] in WORLDS])
def test_claims_hold_in_a_world_where_they_are_true(name: str) -> None:
    shown = shown_as_claimed(name)
    assert [f"{f.claim}: {f.verdict}, {f.evidence}" for f in shown.findings if f.verdict not in GOOD] == []
    assert len({finding.claim for finding in shown.findings}) == len(shown.findings) >= 2
    assert not any(finding.reason for finding in shown.findings)
    for finding in shown.findings:
        assert finding.target == (finding.verdict == "reached") == ("voxpop" in finding.claim)


# A claim of the paper or a target of ours: its exhibit, and a change to the world that makes it false.
TWISTS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "DPBE loses less than DPBE-Fixed": ("ablation/camel", {"DPBE-Fixed": {"regret": 95.0}}),
    "NoBatching loses a little less": ("ablation/camel", {"DPBE-NoBatching": {"regret": 105.0}}),
    "NoBatching sends more": ("ablation/camel", {"DPBE-NoBatching": {"numbers": 900}}),
    "NoBatching takes longer": ("ablation/camel", {"DPBE-NoBatching": {"seconds": 0.05}}),
    "our regret is half": ("ablation/camel", {"voxpop": {"regret": 60.0}}),
    "we send no more": ("ablation/camel", {"voxpop": {"numbers": 1200}}),
    "regret falls with alpha": ("tradeoff", {"DPBE, alpha = 0.9": {"regret": 5000.0}}),
    "regret falls with alpha all the way": ("tradeoff", {"DPBE, alpha = 0.5": {"regret": 90.0}}),
    "cost rises with alpha": ("tradeoff", {"DPBE, alpha = 0.9": {"numbers": 5}}),
    "regret falls with eps": ("privacy/camel", {"DP-DPBE, eps = 30": {"regret": 5000.0}}),
    "our privacy costs little at eps = 5": (
        "privacy/camel",
        {"voxpop, private, true norm, eps = 5": {"regret": 210.0}},
    ),
    "our privacy costs little at eps = 30": (
        "privacy/camel",
        {"voxpop, private, true norm, eps = 30": {"regret": 210.0}},
    ),
    "regret per round tends to 0": ("privacy/camel", {"DP-DPBE, eps = 15": {"curve": steady(600)}}),
    "corrected, it falls with eps": ("privacy/camel", {"DP-DPBE, errata corrected, eps = 15": {"regret": 5000.0}}),
    "corrected, it tends to 0": ("privacy/camel", {"DP-DPBE, errata corrected, eps = 15": {"curve": steady(600)}}),
    "DPBE is close to GP-UCB": ("peers/camel", {"GP-UCB": {"regret": 45.0}, "voxpop, alpha = 0.9": {"regret": 9.0}}),
    "DPBE is close to BPE": ("peers/camel", {"BPE": {"regret": 45.0}}),
    "at a fraction of GP-UCB's time": ("peers/camel", {"GP-UCB": {"seconds": 0.5}}),
    "at a fraction of BPE's time": ("peers/camel", {"BPE": {"seconds": 0.05}}),
    "at a fraction of GP-UCB's cost": ("peers/camel", {"GP-UCB": {"numbers": 700}}),
    "we beat GP-UCB": ("peers/camel", {"voxpop, alpha = 0.9": {"regret": 90.0}}),
    "we send less than GP-UCB": ("peers/camel", {"voxpop, alpha = 0.9": {"numbers": 41_000}}),
    "shuffle beats local": ("trust", {"shuffle, as printed": {"regret": 600.0}}),
    "central beats local": ("trust", {"central, as printed": {"regret": 600.0}}),
    "our shuffle beats local": ("trust", {"local, voxpop": {"regret": 99.0}}),
    "our shuffle costs little": ("trust", {"none, voxpop": {"regret": 70.0}}),
    "half with a valid norm": ("norms", {"camel, voxpop, true norm": {"regret": 60.0}}),
    "we lose less than the pilot's best": ("compare/pricing", {"pilot-only": {"regret": 40.0}}),
    "we lose less than one person per round": ("compare/synthetic", {"gp-ucb": {"regret": 40.0}}),
    "we send less than one person per round": ("compare/synthetic", {"gp-ucb": {"numbers": 40}}),
    "no more numbers with a valid norm": ("norms", {"camel, voxpop, true norm": {"numbers": 120}}),
}


@pytest.mark.parametrize("claim", TWISTS)
def test_a_claim_fails_in_a_world_where_it_is_false(claim: str) -> None:
    name, changes = TWISTS[claim]
    exhibit = small(name)
    assert changes.keys() <= exhibit.series.keys()
    failed = [finding for finding in show(exhibit, changes).findings if finding.verdict not in GOOD]
    assert len(failed) == 1
    assert failed[0].verdict in BAD
    assert failed[0].target == (failed[0].verdict == "not reached")


@pytest.mark.parametrize("name", [e.name for e in all_exhibits(SMALL) if e.name.split("/")[0] in WORLDS])
def test_tables_are_whole_and_labelled(name: str) -> None:
    exhibit, shown = small(name), shown_as_claimed(name)
    assert shown.tables
    assert {table.label for table in shown.tables} <= {*exhibit.labels, ""}
    for sheet in shown.tables:
        assert sheet.rows
        assert {len(row) for row in sheet.rows} == {len(sheet.headings)}
        assert all(isinstance(cell, str) for row in sheet.rows for cell in row)
        assert not any("nan" in cell for row in sheet.rows for cell in row)


def columns(shown: Shown, number: int = 0) -> dict[str, dict[str, str]]:
    """Index a table by the name of the row and the heading of the column."""
    sheet = shown.tables[number]
    return {row[0]: dict(zip(sheet.headings, row, strict=True)) for row in sheet.rows}


@pytest.mark.parametrize("study", STUDIES)
def test_the_paper_s_costs_stand_beside_ours(study: str) -> None:
    rows = columns(shown_as_claimed(f"ablation/{study}"))
    for policy, (sent, seconds) in printed.COST[study].items():
        assert rows[policy]["numbers sent, paper"] == f"{sent:,.0f}"
        assert float(rows[policy]["seconds, paper"]) == seconds
        assert rows[policy]["numbers sent"] == f"{ablation_world(policy, Trial(study))['numbers']:,}"
    assert (rows["voxpop"]["numbers sent"], rows["voxpop"]["numbers sent, paper"]) == ("500", "")
    assert rows["voxpop"]["regret at T"].startswith("80 ±")  # 40, 80, 120


@pytest.mark.parametrize("study", STUDIES)
def test_the_paper_s_seconds_stand_beside_ours(study: str) -> None:
    shown = shown_as_claimed(f"peers/{study}")
    row = columns(shown)["paper, DPBE"]
    alphas, ucb, bpe = printed.SECONDS[study]
    assert [float(row[f"alpha = {alpha}"]) for alpha in printed.ALPHAS] == list(alphas)
    assert (float(row["GP-UCB"]), float(row["BPE"])) == pytest.approx((ucb, bpe), rel=0.005)
    ours = columns(shown)["here, DPBE"]
    assert (ours["alpha = 0.4"], ours["GP-UCB"], ours["BPE"]) == ("0.1", "5", "5")


def test_the_tradeoff_s_numbers_stand_beside_ours() -> None:
    rows = columns(shown_as_claimed("tradeoff"))
    assert (rows["0.7"]["numbers, paper"], rows["0.7"]["numbers, DPBE"]) == ("5,870", "7,000")
    assert (rows["0.9"]["numbers, paper"], rows["0.9"]["numbers, DPBE"]) == ("11,900", "9,000")
    assert rows["0.3"]["numbers, paper"] == ""


def test_our_lemmas_hold_and_what_does_not_hold_has_a_reason() -> None:
    exhibit = small("bounds")
    cells = {name: Cell({t.seed: summary(400) for t in trials}, trials) for name, trials in exhibit.series.items()}
    shown = exhibit.present(cells)
    ours = [finding for finding in shown.findings if "our form" in finding.claim]
    said = [finding for finding in shown.findings if "our form" not in finding.claim]
    assert len(ours) == len(said) == 4
    assert {finding.verdict for finding in ours} == {"reached"}
    assert {bool(finding.reason) for finding in said if finding.verdict == "not reproduced"} <= {True}
    assert [table.label for table in shown.tables] == ["tab:complexity", "tab:bounds"]
    assert {row[0] for row in shown.tables[0].rows} == {"GP-UCB", "BBKB", "mini-GP-Opt", "DPBE"}


def test_every_verdict_has_a_colour() -> None:
    assert COLOURS.keys() == GOOD | BAD | {"undecided"}
    assert len({COLOURS[verdict] for verdict in ("reproduced", "not reproduced", "undecided")}) == 3
