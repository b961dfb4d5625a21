"""Sweeps on this machine: complete, equal to one run after the other, and clear about what goes wrong."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers_sweep import DIE, PID, REFUSE, TRIALS, TWO, after, alone, by_trial, facts
from voxpop.simulation.sweep import Backend, sweep
from voxpop.simulation.trials import Trial


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_item_arrives_once(jobs: int) -> None:
    items = [f"{i} // 2" for i in range(50)] * 2
    found = list(sweep(eval, items, Backend(jobs=jobs)))
    assert Counter(done.item for done in found) == Counter(items)
    assert all(done.result == eval(done.item) and not done.error for done in found)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_sweep_of_nothing_gives_nothing(jobs: int) -> None:
    assert list(sweep(abs, [], Backend(jobs=jobs))) == []


def test_trials_side_by_side_are_those_one_after_the_other() -> None:
    found = by_trial(sweep(Trial.run, TRIALS, TWO))
    assert found == {trial: facts(trial.run()) for trial in TRIALS}
    assert len({result["regret"] for result in found.values()}) == len(TRIALS)


def test_results_arrive_as_soon_as_they_are_done(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    found = sweep(eval, [after(flag, "'slow'"), "'quick'"], TWO)
    assert next(found).result == "quick"
    flag.touch()
    assert [done.result for done in found] == ["slow"]


def test_the_work_is_done_in_other_processes_unless_one_job_is_wanted() -> None:
    assert [done.result for done in sweep(eval, [PID], Backend(jobs=1))] == [os.getpid()]
    assert os.getpid() not in [done.result for done in sweep(eval, [PID] * 4, TWO)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_item_that_fails_is_reported_and_the_others_arrive(jobs: int) -> None:
    items = ["1", "1 / 0", "2", "int('x')", REFUSE, "nothing", "3"]
    found = {done.item: (done.result, done.error) for done in sweep(eval, items, Backend(jobs=jobs))}
    assert found == {
        "1": (1, ""),
        "2": (2, ""),
        "3": (3, ""),
        "1 / 0": (None, "ZeroDivisionError: division by zero"),
        "int('x')": (None, "ValueError: invalid literal for int() with base 10: 'x'"),
        REFUSE: (None, "too much"),  # a sentence already
        "nothing": (None, "NameError: name 'nothing' is not defined"),
    }


def test_a_trial_that_is_refused_says_why() -> None:
    good = Trial("sphere", "dpbe", size=10, horizon=50)
    bad = replace(good, settings={"alpha": -1.0})
    errors = {done.item: done.error for done in sweep(Trial.run, [bad, good], TWO)}
    assert errors == {bad: "alpha must be a number above 0 and at most 2, got -1.0", good: ""}


DEATH = """
first, seen = ["1", "2", "3", "4"], set()
try:
    for done in sweep(eval, [*first, {die!r}, *["5"] * 40], Backend(jobs=2)):
        print(done.item, done.result)
        seen.add(done.item)
        if seen.issuperset(first):
            Path({flag!r}).touch()
except InputError as error:
    print(error)
print(sorted(done.result for done in sweep(eval, ["1", "2", "3"], Backend(jobs=2))))
"""


def test_a_worker_that_dies_is_named_and_what_came_before_is_kept(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    ended = alone(DEATH.format(die=after(flag, DIE), flag=str(flag)))
    *kept, refused, afterwards = ended.stdout.splitlines()
    assert set(kept) == {"1 1", "2 2", "3 3", "4 4"} | ({"5 5"} & set(kept))
    assert refused.startswith("a worker process died (TerminatedWorkerError)")
    assert "--jobs" in refused
    assert afterwards == "[1, 2, 3]"
    assert ended.returncode == 0


EARLY = """
found = sweep(eval, ["__import__('time').sleep(0.05) or 1"] * 40, Backend(jobs=2))
print(next(found).result)
found.close()
print(sorted(done.result for done in sweep(eval, ["1", "2", "3"], Backend(jobs=2))))
"""


def test_stopping_early_is_silent_and_does_no_harm() -> None:
    ended = alone(EARLY)
    assert (ended.returncode, ended.stdout) == (0, "1\n[1, 2, 3]\n")
    assert "tasks" not in ended.stderr  # joblib's advice means nothing to our users


BLOCKED = """
import functools, signal
mask = functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK)
print([signal.SIGINT in done.result for done in sweep(mask, [(), ()], Backend(jobs=2))])
print(signal.SIGINT in mask(()))
"""


def test_workers_leave_ctrl_c_to_the_command() -> None:
    ended = alone(BLOCKED)
    assert (ended.returncode, ended.stdout) == (0, "[True, True]\nFalse\n"), ended.stderr
