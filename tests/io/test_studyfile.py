"""Study files: `run` reads what `calibrate` writes, and errors name what is wrong in a file."""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import ROOT, STUDY, pilot_csv, read_pilot, refusal, study_file
from voxpop.calibration.fit import calibrate
from voxpop.errors import InputError
from voxpop.io import studyfile
from voxpop.io.studyfile import read_study, write_study
from voxpop.model.decisions import Choice, Float, Integer, Space
from voxpop.model.kernels import Matern, SquaredExponential, Sum
from voxpop.model.options import options_of
from voxpop.policies.dpbe import DPBE
from voxpop.policies.waves import Waves
from voxpop.simulation.rehearsals import Rehearsal

POLICY = {"name": "dpbe", "alpha": 0.7, "ratio": 1.6}


@pytest.fixture
def study(tmp_path: Path) -> Any:
    return lambda text=STUDY: study_file(tmp_path / "tea.toml", text)


def test_a_study_file_is_the_problem_it_says(study: Any) -> None:
    problem, policy, _ = read_study(study())
    assert problem.kernel == SquaredExponential(0.3)
    assert (problem.noise_std, problem.bias_std, problem.norm_bound, problem.prior_mean) == (0.1, 0.2, 1.5, 0.5)
    assert problem.horizon == 500
    assert list(problem.decisions) == [{"price": price} for price in (1.0, 1.5, 2.0, 2.5, 3.0)]
    assert policy == DPBE(alpha=0.6)


def test_the_policy_is_waves_unless_named(study: Any) -> None:
    _, policy, _ = read_study(study(STUDY.replace('[policy]\nname = "dpbe"\nalpha = 0.6\n', "")))
    assert policy == Waves()


def test_beta_and_ridge_may_be_given(study: Any) -> None:
    problem, _, _ = read_study(study(STUDY.replace("[policy]", "beta = 0.01\nridge = 0.3\n\n[policy]")))
    assert (problem.beta, problem.ridge) == (0.01, 0.3)


PARAMETERS: dict[str, tuple[str, list[Any]]] = {
    "float": ('type = "float"\nlow = 1\nhigh = 3\npoints = 3', [1.0, 2.0, 3.0]),
    "logarithmic": ('type = "float"\nlow = 1\nhigh = 100\nlog = true\npoints = 3', [1.0, 10.0, 100.0]),
    "integer": ('type = "integer"\nlow = 2\nhigh = 4', [2, 3, 4]),
    "choice": ('type = "choice"\noptions = ["red", "blue"]', ["red", "blue"]),
}


@pytest.mark.parametrize("kind", PARAMETERS)
def test_every_kind_of_parameter_makes_its_decisions(study: Any, kind: str) -> None:
    table, values = PARAMETERS[kind]
    rest = STUDY[STUDY.index("[kernel]") :]
    problem, _, _ = read_study(study(f"horizon = 9\n[parameters.it]\n{table}\n{rest}"))
    assert [label["it"] for label in problem.decisions] == pytest.approx(values)


def test_parameters_combine(study: Any) -> None:
    tables = "".join(f"[parameters.{kind}]\n{table}\n" for kind, (table, _) in PARAMETERS.items())
    problem, _, _ = read_study(study(f"horizon = 9\n{tables}{STUDY[STUDY.index('[kernel]') :]}"))
    assert problem.size == 3 * 3 * 3 * 2
    assert problem.decisions.points.shape[1] == 3 + 2  # a choice of two takes two dimensions


def test_a_range_may_have_ends_of_seventeen_digits(study: Any) -> None:
    """Pilots that a program exported have such values."""
    text = STUDY.replace("low = 1.0\nhigh = 3.0", f"low = {1 / 3!r}\nhigh = {2 / 3!r}")
    problem, _, _ = read_study(study(text))
    prices = [label["price"] for label in problem.decisions]
    assert prices == pytest.approx(np.linspace(1 / 3, 2 / 3, 5), rel=1e-9)


def test_nested_kernels_are_read(study: Any) -> None:
    sum_of_two = (
        '[kernel]\ntype = "sum"\nleft = {type = "squared-exponential", length_scale = [0.3]}\n'
        'right = {type = "matern", length_scale = 0.2, nu = 1.5}\n'
    )
    problem, _, _ = read_study(
        study(STUDY.replace('[kernel]\ntype = "squared-exponential"\nlength_scale = 0.3\n', sum_of_two))
    )
    assert problem.kernel == Sum(SquaredExponential((0.3,)), Matern(0.2, nu=1.5))


def test_sobol_decisions_are_the_space_s_sobol_points(study: Any) -> None:
    problem, _, _ = read_study(study(STUDY.replace("[kernel]", "[decisions]\nsobol = 12\nseed = 3\n\n[kernel]")))
    expected = Space(price=Float(1.0, 3.0)).sobol(12, seed=3)
    assert problem.size == 12
    np.testing.assert_array_equal(problem.decisions.points, expected.points)


def test_calibrate_write_read_gives_the_same_problem(tmp_path: Path) -> None:
    pilot, space = read_pilot(pilot_csv(tmp_path / "pilot.csv"))
    found = calibrate(pilot, space, kernel="matern-5/2")
    path = study_file(tmp_path / "study.toml", write_study(found, space, 700, 21, "tea", POLICY))
    read, policy, data = read_study(path)
    expected = found.problem(space.grid(21), 700)
    assert read.kernel == expected.kernel
    assert list(read.decisions) == list(expected.decisions)
    np.testing.assert_array_equal(read.decisions.points, expected.decisions.points)
    for name in ("noise_std", "bias_std", "norm_bound", "prior_mean"):
        assert getattr(read, name) == pytest.approx(getattr(expected, name), rel=1e-5)
    assert (read.horizon, read.beta, policy, data["name"]) == (700, expected.beta, DPBE(alpha=0.7, ratio=1.6), "tea")


def test_a_choice_survives_the_round_trip(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"u{u},{p},{tea},{rng.normal():.3f}" for u in range(8) for p in (1, 2, 3) for tea in ("a b", 'x"y')]
    path = tmp_path / "pilot.csv"
    path.write_text("person,price,tea,reward\n" + "\n".join(rows).replace('x"y', '"x""y"') + "\n")
    pilot, space = read_pilot(path)
    text = write_study(calibrate(pilot, space, kernel="matern-5/2"), space, 700, 4, "tea", POLICY)
    read, _, _ = read_study(study_file(tmp_path / "study.toml", text))
    assert list(read.decisions) == list(space.grid(4))


def test_every_kind_of_parameter_can_be_written(tmp_path: Path) -> None:
    pilot, space = read_pilot(pilot_csv(tmp_path / "pilot.csv"))
    found = calibrate(pilot, space, kernel="squared-exponential")
    wide = Space(price=Float(1, 3, log=True), cups=Integer(1, 5), tea=Choice(("green", "black")))
    text = write_study(found, wide, 700, 3, "tea", POLICY)
    assert {name: table["type"] for name, table in tomllib.loads(text)["parameters"].items()} == {
        "price": "float",
        "cups": "integer",
        "tea": "choice",
    }


def test_the_file_says_how_sure_each_constant_is(tmp_path: Path) -> None:
    pilot, space = read_pilot(pilot_csv(tmp_path / "pilot.csv"))
    found = calibrate(pilot, space, kernel="squared-exponential")
    text = write_study(found, space, 700, 21, "tea", POLICY)
    lines = {line.split(" = ")[0]: line for line in text.splitlines() if "#" in line}
    for name in ("noise_std", "bias_std", "prior_mean", "norm_bound"):
        estimate = getattr(found, name)
        assert f"# {estimate.low:.3g} to {estimate.high:.3g}" in lines[name]


def test_the_rehearsal_passes_through_the_given_rewards(study: Any) -> None:
    scenario = Rehearsal(str(study())).scenario()
    assert (scenario.name, scenario.settings["name"]) == ("tea", "dpbe")
    given = {1.0: 0.2, 2.0: 1.1, 3.0: 0.4}
    found = {label["price"]: scenario.f[i] for i, label in enumerate(scenario.problem.decisions)}
    assert {price: found[price] for price in given} == pytest.approx(given, abs=1e-4)


def test_a_study_without_a_rehearsal_can_be_read_but_not_run(study: Any) -> None:
    path = study(STUDY[: STUDY.index("[rehearsal]")])
    assert read_study(path)[0].size == 5
    with pytest.raises(InputError, match=r"tea\.toml has no \[rehearsal\].*voxpop calibrate.*voxpop ask") as caught:
        Rehearsal(str(path)).scenario()
    refusal(caught)


FLOAT = 'type = "float"\nlow = 1.0\nhigh = 3.0'
BROKEN: dict[str, tuple[str, str, list[str]]] = {
    # what is replaced, by what, and what must be said
    "syntax": ("horizon = 500", "horizon = = 500", ["line 2", "column 11"]),
    "open string": ('name = "tea"', 'name = "tea', ["line 1", "column 12"]),
    "key twice": ("high = 3.0", "high = 3.0\nhigh = 4.0", ["line 8", "column 11"]),
    "unknown entry": ("horizon = 500", "horizonn = 500", ["'horizonn'", "did you mean 'horizon'?"]),
    "no horizon": ("horizon = 500", "", ["horizon", "missing"]),
    "horizon word": ("horizon = 500", 'horizon = "long"', ["horizon", "whole number", "'long'"]),
    "horizon zero": ("horizon = 500", "horizon = 0", ["horizon", "at least 1", "0"]),
    "no parameters": ("[parameters.price]\n" + FLOAT + "\npoints = 5\n", "", ["[parameters]"]),
    "parameters not a table": ("[parameters.price]\n" + FLOAT + "\npoints = 5\n", "parameters = 3\n", ["parameters"]),
    "parameter not a table": (
        "[parameters.price]\n" + FLOAT + "\npoints = 5\n",
        "[parameters]\nprice = 3\n",
        ["parameters.price", "3"],
    ),
    "no type": ('type = "float"', "", ["type", "price"]),
    "unknown type": ('type = "float"', 'type = "flaot"', ["'flaot'", "did you mean 'float'?"]),
    "unknown setting": ("high = 3.0", "high = 3.0\nstep = 0.1", ["price", "step"]),
    "no high": ("high = 3.0", "", ["price", "high"]),
    "low above high": ("low = 1.0", "low = 4.0", ["price", "high", "3"]),
    "points zero": ("points = 5", "points = 0", ["points of price", "0"]),
    "points word": ("points = 5", 'points = "many"', ["points of price", "'many'"]),
    "one option": (FLOAT + "\npoints = 5", 'type = "choice"\noptions = ["a"]', ["price", "two different options"]),
    "options number": (FLOAT + "\npoints = 5", 'type = "choice"\noptions = 3', ["price", "options"]),
    "decisions word": ("[kernel]", '[decisions]\nsobol = "x"\n[kernel]', ["decisions.sobol", "'x'"]),
    "decisions unknown": ("[kernel]", "[decisions]\nsobl = 5\n[kernel]", ["decisions", "sobol"]),
    "decisions not a table": ("[parameters.price]", "decisions = 5\n[parameters.price]", ["decisions"]),
    "seed word": ("[kernel]", '[decisions]\nsobol = 5\nseed = "x"\n[kernel]', ["seed"]),
    "no kernel": ('[kernel]\ntype = "squared-exponential"\nlength_scale = 0.3\n', "", ["kernel"]),
    "unknown kernel": ("squared-exponential", "squared-exponental", ["did you mean 'squared-exponential'?"]),
    "unknown kernel setting": ("length_scale = 0.3", "lengthscale = 0.3", ["did you mean 'length_scale'?"]),
    "negative length": ("length_scale = 0.3", "length_scale = -0.3", ["length_scale", "-0.3"]),
    "lengths of another dimension": ("length_scale = 0.3", "length_scale = [0.3, 0.2]", ["length_scale has 2"]),
    "no model": ("[model]\nnoise_std = 0.1\nbias_std = 0.2\nnorm_bound = 1.5\nprior_mean = 0.5", "", ["[model]"]),
    "no noise": ("noise_std = 0.1\n", "", ["[model] lacks noise_std"]),
    "unknown model entry": ("noise_std", "noise_sd", ["'noise_sd'", "did you mean 'noise_std'?"]),
    "negative noise": ("noise_std = 0.1", "noise_std = -0.1", ["noise_std", "above 0", "-0.1"]),
    "nan bias": ("bias_std = 0.2", "bias_std = nan", ["bias_std", "nan"]),
    "great noise": ("noise_std = 0.1", f"noise_std = 1{'0' * 400}", ["noise_std", "above 0"]),
    "great mean": ("prior_mean = 0.5", f"prior_mean = 1{'0' * 400}", ["prior_mean"]),
    "infinite norm": ("norm_bound = 1.5", "norm_bound = inf", ["norm_bound", "inf"]),
    "beta": ("norm_bound = 1.5", "norm_bound = 1.5\nbeta = 1.0", ["beta", "below 1", "1.0"]),
    "unknown policy": ('name = "dpbe"', 'name = "dpeb"', ["did you mean 'dpbe'?"]),
    "policy not a table": ("horizon = 500", "horizon = 500\npolicy = 3", ["policy"]),
    "unknown policy setting": ("alpha = 0.6", "alpah = 0.6", ["alpah"]),
    "alpha": ("alpha = 0.6", "alpha = -0.6", ["alpha", "above 0", "-0.6"]),
    "alpha word": ("alpha = 0.6", 'alpha = "x"', ["alpha", "'x'"]),
    "ratio": ("alpha = 0.6", "ratio = 1.0", ["ratio", "above 1", "1.0"]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_study_file_is_refused_with_its_reason(study: Any, case: str) -> None:
    old, new, said = BROKEN[case]
    assert old in STUDY
    text = STUDY.replace(old, new, 1)
    if case == "policy not a table":
        text = text.replace('[policy]\nname = "dpbe"\nalpha = 0.6\n', "")
    path = study(text)
    with pytest.raises(InputError) as caught:
        read_study(path)
    message = refusal(caught)
    assert [part for part in [str(path), *said] if part not in message] == [], message


REHEARSALS: dict[str, tuple[str, str, list[str]]] = {
    "lengths differ": ("[0.2, 1.1, 0.4]", "[0.2, 1.1]", ["at", "rewards", "length"]),
    "no rewards": ("rewards = [0.2, 1.1, 0.4]", "", ["rewards"]),
    "nan reward": ("[0.2, 1.1, 0.4]", "[0.2, nan, 0.4]", ["rewards", "nan"]),
    "other parameter": ("{price = 2.0}", "{cost = 2.0}", ["price", "cost"]),
    "outside": ("{price = 2.0}", "{price = 9.0}", ["price", "9.0"]),
    "a number for a decision": ("{price = 2.0}", "2.0", ["2.0"]),
    "not a table": (STUDY[STUDY.index("[rehearsal]") :], "", ["rehearsal"]),
}


@pytest.mark.parametrize("case", REHEARSALS)
def test_a_broken_rehearsal_is_refused_with_its_reason(study: Any, case: str) -> None:
    old, new, said = REHEARSALS[case]
    text = STUDY.replace(old, new, 1)
    path = study("rehearsal = 3\n" + text if case == "not a table" else text)
    with pytest.raises(InputError) as caught:
        Rehearsal(str(path)).scenario()
    message = refusal(caught)
    assert [part for part in [str(path), *said] if part not in message] == [], message


def test_the_hints_about_stopping_become_settings_without_their_hash(study: Any, tmp_path: Path) -> None:
    records, space = read_pilot(pilot_csv(tmp_path / "pilot.csv"))
    text = write_study(calibrate(records, space), space, 500, 5, "tea", {"name": "waves"})
    assert read_study(study(text))[1] == Waves()
    wanted = re.sub(r"^# (?=\w+ = )", "", text, flags=re.MULTILINE)
    offered = {one.name: one.example for one in options_of(Waves) if one.panel}
    assert read_study(study(wanted))[1] == Waves(**offered)
    assert None not in offered.values()


EXAMPLE = """
name = "espresso"
horizon = 20000
direction = "maximize"        # optional: "minimize" if people answer with costs, of which the least is best

[parameters.price]            # float, integer or choice
type = "float"
low = 2.0
high = 12.0
points = 101                  # number of grid points; or [decisions] sobol = 200

[kernel]
type = "matern"
nu = 1.5
length_scale = [0.33]

[model]
noise_std = 0.66
bias_std = 1.43
norm_bound = 2.6
prior_mean = 0.62

[policy]                      # optional, and so is each of its entries
name = "waves"
answer_cost = 0.01            # what the policy can be told; `voxpop calibrate` lists all of it
most_people = 1000

[strata]                      # optional: the parts of the population and their shares, if people come unevenly
young = 0.3
old = 0.7

[privacy]                     # optional: what people are promised
model = "central"
epsilon = 5.0
delta = 1e-6

[[pilot]]                     # optional: what people answered before the study, which learns from it
people = 40                   # they tried the same decisions for the same numbers of rounds
at = [{price = 2.0}, {price = 4.5}]
rounds = [20, 20]
averages = [0.48, 1.83]
noise_std = 0.03              # of a protected pilot only: the noise of each average, and what its people were promised
epsilon = 1.0
delta = 1e-6

[rehearsal]                   # the pilot's estimates of the rewards, from which `voxpop run` simulates people
at = [{price = 2.0}, {price = 4.5}]
rewards = [0.5, 1.8]
"""


def test_a_study_file_with_all_its_sections_is_read(study: Any) -> None:
    problem, policy, data = read_study(study(EXAMPLE))
    assert problem.size == 101
    assert policy == Waves(answer_cost=0.01, most_people=1000)
    assert set(data) == set(studyfile.SECTIONS) - {
        *("reward", "decisions", "service", "calendar", "money", "today", "guardrail")
    }


def test_the_guide_names_every_section() -> None:
    table = (ROOT / "docs/guide.md").read_text().partition("## The study file")[2].partition("\nAfter the first")[0]
    entries = " ".join(re.findall(r"^\| (`[^|]*)", table, re.MULTILINE))
    assert set(re.findall(r"`\[*(\w+)", entries)) == set(studyfile.SECTIONS)
