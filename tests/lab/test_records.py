"""What is kept of a run: the numbers are right, and nothing that was written is lost or taken for another run."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers_cli import ENVIRONMENT, ROOT, refusal
from tests.helpers_experiments import exact_regret, record
from voxpop.core.errors import InputError
from voxpop.drivers.simulate import Run
from voxpop.lab.experiments import records
from voxpop.lab.experiments.records import Journal, grid, key_of, perform, summarise
from voxpop.lab.trials import Trial
from voxpop.policies import POLICIES

TRIALS = [Trial("sphere", policy, seed, horizon=100) for policy in ("dpbe", "gp-ucb") for seed in (0, 1)]


# The rounds at which curves are kept


@pytest.mark.parametrize("horizon", [1, 2, 7, 100, 161, 4_000, 40_000, 1_000_000])
def test_the_grid_is_whole_rounds_from_none_to_all(horizon: int) -> None:
    rounds = grid(horizon)
    assert (rounds[0], rounds[-1]) == (0, horizon)
    assert (np.diff(rounds) >= 1).all()
    assert (rounds == rounds.astype(int)).all()
    assert len(rounds) <= min(horizon + 1, 161 + 81)


@pytest.mark.parametrize("horizon", [4_000, 40_000, 1_000_000])
def test_the_grid_is_fine_on_both_axes(horizon: int) -> None:
    rounds = grid(horizon)
    gaps = np.diff(rounds)
    assert gaps.max() <= horizon / 160 + 1
    assert (gaps <= 1 + 0.2 * rounds[:-1]).all()


# A run in numbers


def every_round(run: Run) -> list[int]:
    """The action of every round, the slow way."""
    arms: list[int] = []
    for plan in run.plans:
        for arm, pulls in zip(plan.arms.tolist(), plan.pulls.tolist(), strict=True):
            arms += [arm] * pulls
    return arms + [run.best] * (run.scenario.problem.horizon - len(arms))


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """A run of every policy."""
    return {policy: Trial("camel", policy, seed=3, size=25, horizon=700).run() for policy in POLICIES}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_curve_is_the_regret_at_every_round_of_the_grid(runs: dict[str, Run], policy: str) -> None:
    run = runs[policy]
    lost = exact_regret(every_round(run), run.scenario.f)
    kept = summarise(run)
    assert len(lost) == 701
    assert lost[-1] > 0
    np.testing.assert_allclose(kept.curve, lost[grid(700).astype(int)], rtol=1e-5, atol=1e-9)
    assert kept.regret == pytest.approx(lost[-1], rel=1e-12)


@pytest.mark.parametrize("policy", ["dpbe", "dpbe-paper", "dpbe-fixed"])
def test_people_who_average_send_a_number_for_each_action(runs: dict[str, Run], policy: str) -> None:
    run = runs[policy]
    kept = summarise(run)
    assert kept.numbers == sum(plan.participants * len(set(plan.arms.tolist())) for plan in run.plans)
    assert kept.merged == kept.numbers
    assert kept.people == sum(plan.participants for plan in run.plans)


def test_without_batching_every_round_is_sent(runs: dict[str, Run]) -> None:
    run = runs["dpbe-nobatching"]
    kept = summarise(run)
    assert kept.numbers == sum(plan.participants * plan.pulls.sum() for plan in run.plans)
    assert kept.merged == sum(plan.participants * len(set(plan.arms.tolist())) for plan in run.plans)
    assert kept.merged < kept.numbers


@pytest.mark.parametrize("policy", ["gp-ucb", "bpe", "bbkb", "mini-gp-opt"])
def test_one_person_a_round_sends_one_number_a_round(runs: dict[str, Run], policy: str) -> None:
    run = runs[policy]
    kept = summarise(run)
    rounds = sum(int(plan.pulls.sum()) for plan in run.plans)
    assert (kept.numbers, kept.merged, kept.people) == (rounds, rounds, rounds)
    if policy == "gp-ucb":
        assert rounds == 700


def test_the_rest_of_a_record_is_the_run_s(runs: dict[str, Run]) -> None:
    for run in runs.values():
        kept, data = summarise(run), run.as_dict()
        assert (kept.kept, kept.seconds) == (data["optimum_kept"], data["seconds"])
        assert (kept.left, kept.norm_bound) == (len(run.state.active), data["norm_bound"]["final"])


def test_a_trial_is_performed_alike_every_time() -> None:
    trial = Trial("sphere", seed=2, size=20, horizon=300)
    first, second = perform(trial), perform(trial)
    assert {**vars(first), "seconds": 0} == {**vars(second), "seconds": 0}
    assert perform(Trial("sphere", seed=3, size=20, horizon=300)).curve != first.curve


# The journal


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "runs.jsonl")


def write(journal: Journal, *trials: Trial, regret: float = 1.0) -> None:
    with journal.writing() as writer:
        for trial in trials:
            writer.append(trial, record(regret=regret + trial.seed))


def test_a_journal_that_is_not_there_is_empty(journal: Journal) -> None:
    assert journal.read(TRIALS) == {}
    assert not journal.path.exists()


def test_what_is_written_is_read(journal: Journal, runs: dict[str, Run]) -> None:
    kept = {Trial("camel", policy, seed=3, size=25, horizon=700): summarise(run) for policy, run in runs.items()}
    with journal.writing() as writer:
        for trial, found in kept.items():
            writer.append(trial, found)
    again = journal.read(kept)
    assert again == kept
    assert {(type(found.curve), type(found.kept)) for found in again.values()} == {(tuple, bool)}


def test_numbers_survive_to_the_last_digit(journal: Journal) -> None:
    odd = record(regret=0.1 + 0.2, seconds=1e-17, norm_bound=float("inf"), numbers=2**60 + 1, curve=(0.0, 1 / 3))
    with journal.writing() as writer:
        writer.append(TRIALS[0], odd)
    assert journal.read(TRIALS) == {TRIALS[0]: odd}


def test_only_the_trials_that_were_asked_for_are_read(journal: Journal) -> None:
    write(journal, *TRIALS)
    assert list(journal.read(TRIALS[:1])) == TRIALS[:1]
    others = [
        Trial("camel", "dpbe", horizon=100),
        Trial("sphere", "dpbe", seed=2, horizon=100),
        Trial("sphere", "dpbe", horizon=101),
        Trial("sphere", "dpbe", horizon=100, alpha=0.7),
        Trial("sphere", "dpbe", horizon=100, true_norm=True),
        Trial("sphere", "dpbe", horizon=100, privacy="central", epsilon=1.0),
        Trial("sphere", "dpbe", horizon=100, floor=0),
        Trial("sphere", "dpbe", horizon=100, noise_std=0.01),
    ]
    assert journal.read(others) == {}


def test_a_journal_is_continued(journal: Journal) -> None:
    write(journal, TRIALS[0])
    first = journal.path.read_bytes()
    write(journal, TRIALS[1])
    assert journal.path.read_bytes().startswith(first)
    assert set(journal.read(TRIALS)) == set(TRIALS[:2])


def test_the_later_of_two_records_counts(journal: Journal) -> None:
    write(journal, TRIALS[0], regret=1.0)
    write(journal, TRIALS[0], regret=5.0)
    assert journal.read(TRIALS)[TRIALS[0]].regret == 5.0


@pytest.mark.parametrize("lost", [1, 2, 30, 200])
def test_a_line_that_was_cut_short_is_ignored_and_the_next_is_not(journal: Journal, lost: int) -> None:
    write(journal, TRIALS[0])
    whole = len(journal.path.read_bytes())
    write(journal, TRIALS[1])
    os.truncate(journal.path, len(journal.path.read_bytes()) - lost)
    assert len(journal.path.read_bytes()) > whole
    # With only the newline lost the entry is whole.
    assert set(journal.read(TRIALS)) == set(TRIALS[: 2 if lost == 1 else 1])
    write(journal, TRIALS[2])
    assert set(journal.read(TRIALS)) == {*TRIALS[: 2 if lost == 1 else 1], TRIALS[2]}


def entry(**changes: object) -> bytes:
    known = {"key": key_of(TRIALS[1]), "trial": TRIALS[1].as_dict(), "record": vars(record())}
    return json.dumps({**known, **changes}).encode()


GARBAGE: dict[str, Callable[[], bytes]] = {
    "text": lambda: b"hello",
    "zeros": lambda: bytes(100),
    "not text": lambda: bytes(range(128, 256)),
    "a number": lambda: b"7",
    "a list": lambda: b'[{"key": 1}]',
    "nothing": lambda: b"null",
    "an object": lambda: b"{}",
    "no key": lambda: json.dumps({"record": vars(record())}).encode(),
    "no record": lambda: json.dumps({"key": key_of(TRIALS[1])}).encode(),
    "an empty record": lambda: entry(record={}),
    "no curve": lambda: entry(record={n: v for n, v in vars(record()).items() if n != "curve"}),
    "a field too few": lambda: entry(record={n: v for n, v in vars(record()).items() if n != "people"}),
    "a field too many": lambda: entry(record={**vars(record()), "mood": "good"}),
    "a curve that is none": lambda: entry(record={**vars(record()), "curve": 3}),
    "a key of another kind": lambda: entry(key=["a", "list"]),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_between_the_lines_is_ignored(journal: Journal, kind: str) -> None:
    write(journal, TRIALS[0])
    with journal.path.open("ab") as file:
        file.write(GARBAGE[kind]())
    write(journal, TRIALS[2])
    assert set(journal.read(TRIALS)) == {TRIALS[0], TRIALS[2]}


def test_guard_an_entry_like_the_garbage_but_whole_is_read(journal: Journal) -> None:
    journal.path.write_bytes(entry())
    assert journal.read(TRIALS) == {TRIALS[1]: record()}


def test_runs_of_another_program_are_not_found(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    write(journal, *TRIALS)
    with monkeypatch.context() as patch:
        patch.setattr(records, "fingerprint", lambda: "another program")
        assert journal.read(TRIALS) == {}
        write(journal, TRIALS[0], regret=9.0)
        assert journal.read(TRIALS)[TRIALS[0]].regret == 9.0
    assert len(journal.read(TRIALS)) == len(TRIALS)
    assert journal.read(TRIALS)[TRIALS[0]].regret == 1.0


def test_a_second_writer_is_refused_while_the_first_writes(journal: Journal) -> None:
    with journal.writing() as writer:
        with pytest.raises(InputError) as call, Journal(journal.path).writing():
            pass
        writer.append(TRIALS[0], record())
    assert str(journal.path) in refusal(call)
    assert "another process" in refusal(call)
    write(journal, TRIALS[1])
    assert set(journal.read(TRIALS)) == set(TRIALS[:2])


def test_a_journal_being_written_can_be_read(journal: Journal) -> None:
    with journal.writing() as writer:
        writer.append(TRIALS[0], record())
        assert set(Journal(journal.path).read(TRIALS)) == {TRIALS[0]}


def test_a_full_disk_is_one_sentence(journal: Journal) -> None:
    journal.path.symlink_to("/dev/full")
    with pytest.raises(InputError) as call, journal.writing() as writer:
        writer.append(TRIALS[0], record())
    assert str(journal.path) in refusal(call)
    assert "No space left on device" in refusal(call)


@pytest.mark.parametrize("kind", ["a folder", "in a file", "nowhere"])
def test_a_journal_that_cannot_be_opened_is_one_sentence(tmp_path: Path, kind: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    places = {"a folder": "folder", "in a file": "file/runs.jsonl", "nowhere": "none/runs.jsonl"}
    path = tmp_path / places[kind]
    with pytest.raises(InputError) as call, Journal(path).writing():
        pass
    assert str(path) in refusal(call)


def test_the_journal_is_not_blamed_for_the_trouble_of_others(journal: Journal) -> None:
    """A cluster that goes away raises an OSError too; then the disk is not what to look at."""
    with pytest.raises(Exception, match="scheduler is gone") as call, journal.writing():
        raise ConnectionError("the scheduler is gone")
    assert "cannot write" not in str(call.value)


# What a run is known by


def test_every_choice_of_a_trial_is_part_of_its_key() -> None:
    changes: dict[str, Any] = dict(
        zip(
            ("study", "policy", "seed", "horizon", "size", "alpha", "ratio", "noise_std", "bias_std", "true_norm"),
            ("camel", "bpe", 1, 10, 10, 0.5, 1.5, 0.2, 0.3, True),
            strict=True,
        )
    )
    changes |= {"privacy": "local", "epsilon": 1.0, "delta": 1e-5, "calibration": "paper", "floor": 3, "data": "/there"}
    assert changes.keys() == Trial.__dataclass_fields__.keys()
    trials = [Trial("sphere"), *(replace(Trial("sphere"), **{name: value}) for name, value in changes.items())]
    assert len({key_of(trial) for trial in trials}) == len(trials)


def test_a_key_is_the_same_in_another_process() -> None:
    code = (
        "from voxpop.lab.experiments.records import key_of\nfrom voxpop.lab.trials import Trial\n"
        "import sys\nsys.stdout.write(key_of(Trial('sphere', 'bpe', 4, horizon=100, alpha=0.3)))"
    )
    environment = {**ENVIRONMENT, "PYTHONHASHSEED": "12345"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == key_of(Trial("sphere", "bpe", 4, horizon=100, alpha=0.3))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the source code, of which the fingerprint is taken."""
    copy = tmp_path / "voxpop"
    shutil.copytree(ROOT / "src/voxpop", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(records, "files", lambda _: copy)
    return copy


def fingerprint() -> str:
    return records.fingerprint.__wrapped__()


@pytest.mark.parametrize(
    "name",
    [
        "selection/posterior.py",
        "lab/trials.py",
        "policies/dpbe.py",
        "privacy/ball.py",
        "lab/populations/gp.py",
        "lab/populations/light.csv",
        "lab/experiments/records.py",
    ],
)
def test_code_that_makes_records_is_part_of_the_fingerprint(package: Path, name: str) -> None:
    """That includes `grid` and `summarise`: a curve on another grid cannot be put beside an old one."""
    before = fingerprint()
    with (package / name).open("a") as file:
        file.write("\n# changed\n")
    assert fingerprint() != before


@pytest.mark.parametrize("name", ["cli/run.py", "report/page.py", "lab/experiments/ablation.py", "__pycache__/a.py"])
def test_code_that_only_shows_them_is_not(package: Path, name: str) -> None:
    """Nobody wants to run for an hour because of a colour."""
    before = fingerprint()
    (package / name).parent.mkdir(exist_ok=True)
    with (package / name).open("a") as file:
        file.write("\n# changed\n")
    assert fingerprint() == before


def test_the_fingerprint_does_not_depend_on_where_the_code_is(package: Path) -> None:
    copied = fingerprint()
    moved = package.rename(package.with_name("elsewhere"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "files", lambda _: moved)
        assert fingerprint() == copied
