"""Private runs from the outside: the simulation and the command line."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import Outcome, main_of, voxpop
from tests.helpers_privacy import CALIBRATED, MODELS
from voxpop.errors import InputError
from voxpop.policies import make_policy
from voxpop.privacy import Private
from voxpop.privacy.central import Central
from voxpop.privacy.encoded import Encoded
from voxpop.privacy.local import Local
from voxpop.simulation.runs import Run, simulate
from voxpop.simulation.scenarios import Options, make_scenario

Main = Callable[..., Outcome]
SHORT = "simulate synthetic --size 20 --horizon 300"


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Main:
    """`voxpop ...` in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return main_of(monkeypatch)


def run(seed: int, privacy: Private | None, horizon: int = 300, size: int | None = 20) -> Run:
    scenario = make_scenario("synthetic", Options(seed=seed, size=size, horizon=horizon))
    return simulate(scenario, make_policy("dpbe", **scenario.settings), seed, privacy)


def data_of(done: Outcome) -> dict[str, Any]:
    assert (done.code, done.err) == (0, "")
    data: dict[str, Any] = json.loads(done.out)
    return data


def timeless(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != "seconds"}


@pytest.mark.parametrize(("model", "calibration"), CALIBRATED)
def test_the_same_seed_is_the_same_private_run(model: str, calibration: str) -> None:
    privacy = Private(model, 8.0, calibration=calibration, floor=20)
    first, again, other = (run(seed, privacy) for seed in (1, 1, 2))
    assert timeless(first.as_dict()) == timeless(again.as_dict())
    for one, two in zip(first.closed, again.closed, strict=True):
        np.testing.assert_array_equal(one.feedback.mean, two.feedback.mean)
    assert not np.array_equal(first.closed[0].feedback.mean, other.closed[0].feedback.mean)


def test_privacy_changes_the_noise_but_not_the_people() -> None:
    plain, private = (run(1, privacy) for privacy in (None, Private("central", 1000.0, floor=0)))
    assert plain.closed[0].plan.people == private.closed[0].plan.people
    gap = np.abs(plain.closed[0].feedback.mean - private.closed[0].feedback.mean)
    noise = private.closed[0].feedback.noise
    assert noise is not None
    assert 0 < gap.max() < 5 * math.sqrt(float(noise.max()))


def test_the_command_reports_what_was_promised_and_spent(main: Main) -> None:
    command = "simulate synthetic --horizon 2000 --privacy central --epsilon 5 --json"
    data = data_of(main(*command.split()))
    assert (data["privacy"], data["epsilon"], data["delta"]) == ("central", 5.0, 1e-6)
    assert (data["calibration"], data["caveats"]) == ("exact", [])
    assert data["ledger"] == {
        "releases": len(data["waves"]),
        "people": data["people"],
        "epsilon": 5.0,
        "delta": 1e-6,
        "guaranteed": True,
    }
    for wave in data["waves"]:
        assert wave["release"]["model"] == "central"
        assert (wave["release"]["epsilon"], wave["release"]["delta"]) == (5.0, 1e-6)
        assert wave["release"]["noise_std"] > 0


def test_without_privacy_nothing_is_promised(main: Main) -> None:
    data = data_of(main(*SHORT.split(), "--json"))
    assert data["privacy"] == "none"
    assert data["ledger"]["epsilon"] is None


def test_the_printed_calibration_says_what_it_does_not_keep(main: Main) -> None:
    command = f"{SHORT} --policy dpbe-paper --privacy central --calibration paper --json --epsilon"
    low, high = (data_of(main(*command.split(), epsilon)) for epsilon in (5, 15))
    assert low["calibration"] == high["calibration"] == "paper"
    assert low["ledger"]["guaranteed"] is False
    assert len(low["caveats"]) == 2
    assert "no guarantee" in low["caveats"][0]
    assert "anything else is voxpop's own combination" in low["caveats"][1]
    assert len(high["caveats"]) == 3
    assert "1e-05 at epsilon = 15, not 5e-07" in high["caveats"][1]


@pytest.mark.parametrize("model", ["central", "local", "shuffle"])
def test_the_printed_calibration_is_refused_with_waves_which_the_paper_does_not_have(main: Main, model: str) -> None:
    done = main(*SHORT.split(), "--privacy", model, "--epsilon", 5, "--calibration", "paper")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "use dpbe-paper, or the exact calibration" in done.err


@pytest.mark.parametrize("policy", ["dpbe-paper", "dpbe", "halving", "thompson"])
def test_the_printed_calibration_goes_with_policies_that_do_not_forecast(main: Main, policy: str) -> None:
    done = main(*SHORT.split(), *f"--policy {policy} --privacy central --epsilon 5 --calibration paper --json".split())
    assert data_of(done)["ledger"]["guaranteed"] is False


def test_floors_on_the_command_line(main: Main) -> None:
    def people(*options: object) -> list[int]:
        command = [*SHORT.split(), "--policy", "dpbe", "--privacy", "central", "--epsilon", 5, "--json"]
        data = data_of(main(*command, *options))
        return [wave["people"] for wave in data["waves"]]

    none, given, chosen = people("--floor", 0), people("--floor", 70), people()
    assert none[:3] == [math.ceil(2 ** (0.7 * l)) for l in (1, 2, 3)]
    assert min(given) >= 70
    assert given[0] == 70
    assert chosen[0] > none[0]


def test_the_summary_on_the_terminal_names_the_promise(main: Main) -> None:
    done = main(*SHORT.split(), "--privacy", "central", "--epsilon", 5)
    assert done.code == 0
    assert "(5, 1e-06)-differential privacy" in done.out
    assert "to everyone, whatever they answer" in " ".join(done.out.split())


def test_the_summary_of_the_printed_calibration_does_not_promise_it_to_everyone(main: Main) -> None:
    printed = ("--policy", "dpbe", "--privacy", "central", "--epsilon", 5, "--calibration", "paper")
    done = main(*SHORT.split(), *printed)
    assert done.code == 0
    said = " ".join(done.out.replace("│", " ").split())
    assert "no guarantee" in said
    assert "to everyone" not in said
    assert "anything else is voxpop's own combination" in said


def test_privacy_costs_little_regret_with_its_own_floor() -> None:
    """A floor makes up for the regret, at the price of more numbers sent."""
    seeds = range(3)
    plain = [run(seed, None, 100_000, None) for seed in seeds]
    private = [run(seed, Private("central", 5.0), 100_000, None) for seed in seeds]
    assert np.mean([r.metrics.regret for r in private]) <= 1.5 * np.mean([r.metrics.regret for r in plain])
    assert sum(r.metrics.numbers for r in private) > sum(r.metrics.numbers for r in plain)
    assert all(int(r.scenario.f.argmax()) in r.state.active for r in private)


class OnePersonARound:
    """A policy that does not average over people."""

    name = "one-by-one"
    aggregates = False

    def __getattr__(self, name: str) -> Any:
        return getattr(make_policy("dpbe"), name)


def test_a_policy_that_asks_one_person_a_round_cannot_be_private() -> None:
    scenario = make_scenario("synthetic", Options(size=10, horizon=100))
    with pytest.raises(InputError, match="'one-by-one' asks one person per round"):
        simulate(scenario, OnePersonARound(), 0, Private("central", 5.0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--privacy central", "the central model needs to know what to promise; add --epsilon"),
        ("--epsilon 5", "epsilon 5 needs a trust model; add --privacy"),
        ("--privacy centrall --epsilon 5", "did you mean 'central'?"),
        ("--privacy central --epsilon 0", "epsilon must be a number above 0 and at most 1000, got 0"),
        ("--privacy central --epsilon nan", "got nan"),
        ("--privacy local --epsilon inf", "got inf"),
        ("--privacy local --epsilon 5 --delta 1", "delta must be a number above 0 and below 1, got 1"),
        ("--privacy local --epsilon 5 --delta 0", "got 0"),
        ("--privacy shuffle --epsilon 5 --calibration printed", "unknown calibration 'printed'"),
        ("--privacy shuffle --epsilon 5 --floor -3", "floor must be a whole number, at least 0, got -3"),
    ],
)
def test_unusable_options_are_one_line_and_exit_2(main: Main, options: str, said: str) -> None:
    done = main(*SHORT.split(), *options.split())
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("error: ")
    assert said in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [("--privacy none", "unknown trust model 'none'"), ("--trials 5", "trials must be"), ("--epsilon -1", "got -1")],
)
def test_an_unusable_audit_is_one_line_and_exit_2(main: Main, options: str, said: str) -> None:
    done = main("audit", *options.split())
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert said in done.err


def test_the_installed_command_audits_itself(tmp_path: Path) -> None:
    done = voxpop("audit", "--trials", 300, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    names = [*MODELS, "- coordinator", "- helper"]
    assert [line.split("  ")[0] for line in lines[1:7]] == names
    assert all(" holds " in line for line in lines[1:7])
    assert "claimed mu" in lines[0]
    assert lines[0].rstrip().endswith("worst along")
    assert "600" in lines[7]


@pytest.mark.parametrize("model", MODELS)
def test_an_audit_of_half_the_noise_exits_1(main: Main, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    calibrate = Private.calibrate

    def halved(self: Private, *arguments: Any) -> Any:
        release = calibrate(self, *arguments)
        if isinstance(release, Encoded):
            return replace(release, encoding=replace(release.encoding, trials=release.encoding.trials // 4))
        assert isinstance(release, Central | Local)
        return replace(release, std=release.std / 2)

    monkeypatch.setattr(Private, "calibrate", halved)
    done = main("audit", "--privacy", model, "--trials", 1500)  # 600 would miss the shuffle model's once in 5,000 runs
    assert done.code == 1
    assert "VIOLATED" in done.out


def test_run_refuses_a_trust_model_without_an_epsilon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = main_of(monkeypatch)("run", "--privacy", "local", "--out", tmp_path / "report")
    assert done.code == 2
    assert "add --epsilon" in done.err
    assert not (tmp_path / "report").exists()
