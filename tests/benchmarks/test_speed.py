"""The benchmark's bookkeeping: targets, regressions, files and exit codes; no time is asserted."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from benchmarks import __main__ as command
from benchmarks import studies
from benchmarks.measure import Absent, Curve, Figure, machine_limits, together
from benchmarks.plain import plain_program, plain_rounds, plain_select, same_plans, timed
from benchmarks.selection import counted, problem_of, selection
from tests.helpers_cli import refusal
from voxpop.errors import InputError
from voxpop.gp.selection import select
from voxpop.model.kernels import SquaredExponential
from voxpop.policies import make_policy
from voxpop.simulation.runs import simulate
from voxpop.simulation.scenarios import Options, make_scenario


def test_a_target_is_reached_or_missed() -> None:
    assert Figure("a", 20.0, at_least=20).verdict({}) == "reached"
    assert Figure("a", 19.9, at_least=20).verdict({}) == "missed"
    assert Figure("a", 4.0, at_most=4).verdict({}) == "reached"
    assert Figure("a", 4.1, at_most=4).verdict({}) == "missed"


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
    assert figure.verdict({"a": 100.0, "b": 1.0}) == word


def test_exponents_are_those_of_power_laws() -> None:
    sizes = [10, 40, 90]
    assert Curve("n", sizes, [3 * size**1.7 for size in sizes]).exponent == pytest.approx(1.7)
    assert all(limit > 0 for limit in machine_limits().values())


def test_functions_are_timed_in_turns() -> None:
    order: list[str] = []
    found = together([lambda: order.append("a"), lambda: order.append("b")], 3)
    assert order == ["a", "b"] * 3
    assert min(found) > 0


@pytest.mark.parametrize("quick", [True, False])
def test_the_baseline_has_ratios_of_every_kind(quick: bool) -> None:
    names = " ".join(command.baseline(quick))
    for part in (
        "plain program",
        "plain loop",
        "matrix product",
        "flops",
        "memory",
        "widths",
        "gp-ucb",
        "plain rounds",
        "people",
    ):
        assert part in names


def fake(missed: bool) -> dict[str, Any]:
    curves = [Curve(axis, [1.0, 10.0], [0.1, 1.0], 1.1) for axis in ("n", "H", "T", "U")]
    figure = Figure("some ratio", 5.0, at_least=10.0 if missed else 2.0)
    return {"all": lambda: iter([figure, Figure("for interest", 1.0), *curves, Absent("botorch")])}


def bench(*options: str) -> Result:
    return CliRunner().invoke(command.app, ["--quick", *options])


@pytest.mark.parametrize("missed", [False, True])
def test_the_command_writes_its_files_and_says_whether_targets_are_met(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missed: bool
) -> None:
    monkeypatch.setattr(command, "pieces", lambda quick: fake(missed))
    done = bench("--out", str(tmp_path))
    assert done.exit_code == int(missed)
    assert "some ratio" in done.stdout
    assert "botorch: not installed" in done.stdout
    data = json.loads((tmp_path / "speed.json").read_text())
    assert data["figures"][0]["verdict"] == ("missed" if missed else "reached")
    assert {path.name for path in tmp_path.iterdir()} == {"speed.json", "speed.png", "speed.svg"}


def test_a_kept_baseline_shows_a_regression(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "pieces", lambda quick: fake(False))
    monkeypatch.setattr(command, "draw", lambda *_: None)
    kept, out = tmp_path / "kept.json", ("--out", str(tmp_path))
    kept.write_text(json.dumps({"full": {"another": 1.0}}))
    assert bench(*out, "--keep", str(kept)).exit_code == 0
    assert json.loads(kept.read_text()) == {"quick": {"some ratio": 5.0}, "full": {"another": 1.0}}
    assert bench(*out, "--baseline", str(kept)).exit_code == 0
    kept.write_text(json.dumps({"quick": {"some ratio": 8.0}}))
    again = bench(*out, "--baseline", str(kept))
    assert again.exit_code == 1
    assert "worse" in again.stdout


@pytest.mark.parametrize("text", [None, "[1]", "no json", '{"quick": 3}', '{"quick": {"a": "b"}}'])
def test_a_file_that_is_not_a_baseline_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "kept.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match="write one with --keep") as caught:
        command.baseline(True, path)
    refusal(caught)


def test_what_is_not_installed_is_named_and_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "find_spec", lambda name: None)
    assert list(studies.crowds()) == [Absent("dp_accounting"), Absent("opendp")]


def test_effort_is_counted_exactly() -> None:
    """Where all actions are brought up to date at every batch, every column is computed for all of them."""
    problem = problem_of(3000)
    with counted() as one:
        chosen = selection(problem, 40)
    with counted() as other:
        selection(problem, 40)
    assert one == other
    values, columns = sum(actions for actions, _ in one), chosen.batches
    assert 0.5 * 3000 * columns < values < 3 * 3000 * columns


@pytest.mark.parametrize("name", [name for name in ("sklearn", "botorch") if find_spec(name)])
def test_the_upper_bounds_of_peers_follow_from_the_equations(name: str) -> None:
    """The upper bounds of a Gaussian process, from the equations."""
    rng = np.random.default_rng(0)
    played, answers, points = rng.random((12, 3)), rng.standard_normal(12), rng.random((30, 3))
    kernel = SquaredExponential(studies.LENGTH)
    solve = np.linalg.solve(kernel(played, played) + studies.NOISE * np.eye(12), kernel(played, points))
    std = np.sqrt(1 - np.einsum("ij,ij->j", kernel(played, points), solve))
    bounds = getattr(studies, f"{name}_bounds")(played, answers, points)
    np.testing.assert_allclose(bounds, answers @ solve + studies.WIDTH * std, rtol=1e-6)


def test_the_plain_program_has_the_same_plans() -> None:
    assert same_plans(timed(0)[1], timed(0, plain_program)[1])


def test_plain_rounds_play_the_same_arms() -> None:
    scenario = make_scenario("synthetic", Options(size=30, horizon=300))
    run = simulate(scenario, make_policy("gp-ucb"), 0)
    answers = np.concatenate([wave.feedback.mean for wave in run.closed])
    arms = np.concatenate([wave.plan.arms for wave in run.closed])
    assert len(set(arms.tolist())) > 1
    np.testing.assert_array_equal(plain_rounds(scenario.problem, answers), arms)
    assert not np.array_equal(plain_rounds(scenario.problem, answers[::-1]), arms)


def test_the_plain_loop_has_the_same_arms() -> None:
    problem = problem_of(400)
    ours = select(problem, np.arange(400), 60, 1.6)
    plain = plain_select(problem, np.arange(400), 60, 1.6)
    np.testing.assert_array_equal(ours.arms, plain.arms)
    np.testing.assert_array_equal(ours.pulls, plain.pulls)
