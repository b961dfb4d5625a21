"""The pilot in a study file: `calibrate` writes the answers, and the study learns from the same ones."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers_cli import STUDY, pilot_csv, read_pilot, refusal, study_file
from voxpop.calibration.fit import calibrate
from voxpop.errors import InputError
from voxpop.io.studyfile import read_study, write_study
from voxpop.study.study import Study

PILOT = """
[[pilot]]
people = 40
at = [{price = 1.0}, {price = 2.5}]
rounds = [20, 10]
averages = [0.4, 1.3]

[[pilot]]
people = 3
at = [{price = 2.5}]
rounds = [7]
averages = [1.5]
"""


def test_calibrate_write_read_gives_the_same_answers(tmp_path: Path) -> None:
    source = pilot_csv(tmp_path / "pilot.csv")
    text = source.read_text().splitlines()
    source.write_text("\n".join(text[:-2]) + "\n")  # the last person tried two prices fewer: all are pooled
    pilot, space = read_pilot(source)
    found = calibrate(pilot, space, kernel="matern-5/2")
    path = study_file(tmp_path / "study.toml", write_study(found, space, 700, 21, "tea", {"name": "dpbe"}))
    read, expected = read_study(path)[0].pilot, found.problem(space.grid(21), 700).pilot
    assert [group.people for group in read] == [12]
    for one, other in zip(read, expected, strict=True):
        assert one.people == other.people
        np.testing.assert_allclose(one.points, other.points, rtol=1e-8, atol=1e-8)
        np.testing.assert_array_equal(one.rounds, other.rounds)
        np.testing.assert_allclose(one.mean, other.mean, rtol=0, atol=1e-9)
        assert one.rounds.tolist() == [10.0] * len(one.mean)
        assert one.answers is not None
        assert one.answers.tolist() == [12, 12, 12, 12, 11, 11]
        assert one.covariance is not None
        assert other.covariance is not None
        assert one.covariance.ravel() == pytest.approx(other.covariance.ravel(), rel=1e-7)


def test_the_pilot_s_averages_are_those_of_its_people(tmp_path: Path) -> None:
    source = pilot_csv(tmp_path / "pilot.csv")
    rows = [line.split(",") for line in source.read_text().splitlines()[1:]]
    prices = sorted({float(price) for _, price, _, _ in rows})
    means = [np.mean([float(reward) for _, price, reward, _ in rows if float(price) == value]) for value in prices]
    pilot, space = read_pilot(source)
    (group,) = calibrate(pilot, space, kernel="matern-5/2").evidence
    order = np.argsort(group.points[:, 0])
    assert group.points[order, 0] == pytest.approx((np.array(prices) - 1) / 2)
    assert group.mean[order] == pytest.approx(means)
    assert group.people == 12


def test_the_tables_are_read_in_order_at_the_points_of_the_kernel(tmp_path: Path) -> None:
    problem, _, _ = read_study(study_file(tmp_path / "tea.toml", STUDY + PILOT))
    first, second = problem.pilot
    assert first.points.tolist() == [[0.0], [0.75]]
    assert (first.people, first.rounds.tolist(), first.mean.tolist()) == (40, [20.0, 10.0], [0.4, 1.3])
    assert (second.people, second.points.tolist()) == (3, [[0.75]])


def test_a_study_begins_with_the_decision_that_the_pilot_suggests(tmp_path: Path) -> None:
    problem, policy, _ = read_study(study_file(tmp_path / "tea.toml", STUDY + PILOT))
    assert Study(problem, policy).best.decision == {"price": 2.5}


def test_a_study_file_needs_no_pilot(tmp_path: Path) -> None:
    assert read_study(study_file(tmp_path / "tea.toml", STUDY))[0].pilot == ()


NEEDED = "each table [[pilot]] needs people, at, rounds and averages, a protected one also noise_std, epsilon, delta"
BROKEN: dict[str, tuple[str, str, list[str]]] = {
    # what is replaced, by what, and what must be said
    "no people": ("people = 3\n", "", [NEEDED]),
    "no averages": ("averages = [0.4, 1.3]\n", "", [NEEDED]),
    "another entry": ("people = 3", "people = 3\nseed = 1", [NEEDED]),
    "half a promise": ("people = 3", "people = 3\nepsilon = 1.0", [NEEDED]),
    "no promise": ("people = 3", "people = 3\nnoise_std = 0.1\nepsilon = 0.0\ndelta = 1e-6", ["epsilon", "above 0"]),
    "negative noise": ("people = 3", "people = 3\nnoise_std = -1\nepsilon = 1.0\ndelta = 1e-6", ["noise_std", "-1"]),
    "one table of values": (PILOT, "\n[pilot]\npeople = 3\n", [NEEDED]),
    "another parameter": ("{price = 1.0}", "{cost = 1.0}", ["table 1 of [[pilot]]", "'price'", "'cost'"]),
    "one parameter too many": ("{price = 1.0}", "{price = 1.0, tea = 2}", ["table 1 of [[pilot]]", "'tea'"]),
    "outside the study": ("at = [{price = 2.5}]", "at = [{price = 9.0}]", ["table 2 of [[pilot]]", "price", "9.0"]),
    "no decisions": ("at = [{price = 2.5}]", "at = []", ["table 2 of [[pilot]]", "at must be a list of decisions"]),
    "a number for a decision": ("at = [{price = 2.5}]", "at = [2.5]", ["table 2 of [[pilot]]", "[2.5]"]),
    "too few rounds": ("[20, 10]", "[20]", ["table 1 of [[pilot]]", "(2, 1), (1,) and (2,)"]),
    "too many averages": ("[1.5]", "[1.5, 1.6]", ["table 2 of [[pilot]]", "(1, 1), (1,) and (2,)"]),
    "no rounds": ("rounds = [7]", "rounds = [0]", ["table 2 of [[pilot]]", "positive number of rounds, got 0"]),
    "nobody": ("people = 3", "people = 0", ["table 2 of [[pilot]]", "people", "at least 1, got 0"]),
    "a word for an average": ("[1.5]", '["good"]', ["table 2 of [[pilot]]", "numbers"]),
    "not a number": ("[1.5]", "[nan]", ["table 2 of [[pilot]]", "nan"]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_pilot_is_refused_with_its_reason(tmp_path: Path, case: str) -> None:
    old, new, said = BROKEN[case]
    assert old in PILOT
    path = study_file(tmp_path / "tea.toml", STUDY + PILOT.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        read_study(path)
    message = refusal(caught)
    assert [part for part in [str(path), *said] if part not in message] == [], message
