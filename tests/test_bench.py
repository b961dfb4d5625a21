"""The benchmark's bookkeeping: targets, regressions, files and exit codes; no time is asserted."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from voxpop.bench import figures, report
from voxpop.bench.clock import exponent, machine_limits
from voxpop.bench.figures import Curve, Figure, Results
from voxpop.bench.plain import plain_program, plain_select, same_plans, timed
from voxpop.cli import app
from voxpop.posterior import select


def test_a_target_is_reached_or_missed() -> None:
    assert Figure("a", 20.0, at_least=20).reached
    assert not Figure("a", 19.9, at_least=20).reached
    assert Figure("a", 4.0, at_most=4).reached
    assert not Figure("a", 4.1, at_most=4).reached


@pytest.mark.parametrize(
    ("figure", "word"),
    [
        (Figure("a", 70.0, at_least=20), "reached"),
        (Figure("a", 60.0, at_least=20), "worse"),
        (Figure("a", 19.0, at_least=20), "missed"),
        (Figure("b", 1.4, at_most=2), "reached"),
        (Figure("b", 1.6, at_most=2), "worse"),
        (Figure("c", 5.0, at_least=4), "reached"),
        (Figure("a", 1.0), ""),
    ],
)
def test_a_ratio_that_fell_by_a_third_is_worse(figure: Figure, word: str) -> None:
    assert report.verdict(figure, {"a": 100.0, "b": 1.0}) == word


def test_exponents_are_those_of_power_laws() -> None:
    sizes = [10, 40, 90]
    assert exponent(sizes, [3 * size**1.7 for size in sizes]) == pytest.approx(1.7)
    assert all(limit > 0 for limit in machine_limits().values())


@pytest.mark.parametrize("quick", [True, False])
def test_the_baseline_knows_every_figure_with_a_target(quick: bool) -> None:
    assert len(report.baseline(quick)) >= 10


def fake(missed: bool) -> Iterator[tuple[str, Results]]:
    curves = [Curve(axis, [1.0, 10.0], [0.1, 1.0], 1.0, 1.1) for axis in ("n", "H", "T", "U")]
    yield "all", Results([Figure("some ratio", 5.0, at_least=10.0 if missed else 2.0)], curves, ["botorch"])


@pytest.mark.parametrize("missed", [False, True])
def test_the_command_writes_its_files_and_says_whether_targets_are_met(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missed: bool
) -> None:
    monkeypatch.setattr(figures, "measure", lambda quick: fake(missed))
    done = CliRunner().invoke(app, ["bench", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == int(missed)
    assert "some ratio" in done.stdout
    assert "botorch: not installed" in done.stdout
    data = json.loads((tmp_path / "speed.json").read_text())
    assert data["figures"][0]["verdict"] == ("missed" if missed else "reached")
    assert {path.name for path in tmp_path.iterdir()} == {"speed.json", "speed.png", "speed.svg"}


def test_the_plain_program_has_the_same_plans() -> None:
    assert same_plans(timed(0)[1], timed(0, plain_program)[1])


def test_the_plain_loop_has_the_same_arms() -> None:
    problem = figures.problem_of(400)
    ours = select(problem, np.arange(400), 60, 1.6)
    plain = plain_select(problem, np.arange(400), 60, 1.6)
    np.testing.assert_array_equal(ours.arms, plain.arms)
    np.testing.assert_array_equal(ours.pulls, plain.pulls)
