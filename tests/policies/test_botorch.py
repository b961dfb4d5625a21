"""The policy `botorch` where BoTorch is not installed; `make botorch` tests it where it is."""

import sys

import pytest

from tests.helpers import random_problem
from voxpop.errors import InputError
from voxpop.policies import make_policy
from voxpop.simulation.comparison import compare
from voxpop.simulation.scenarios import Options, make_scenario

PROBLEM = random_problem(1)


def test_without_botorch_one_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botorch", None)
    with pytest.raises(InputError, match=r"^the policy 'botorch' needs BoTorch; install it with: pip install botorch$"):
        make_policy("botorch").init(PROBLEM)
    study = make_scenario("sphere", Options(size=15, horizon=300))
    found = compare(study, ["equal-split", "botorch"], seeds=[0])
    assert found.left_out == {"botorch": "needs BoTorch, which is not installed (pip install botorch)"}
    with pytest.raises(InputError, match=r"^nothing is left to compare: botorch needs BoTorch"):
        compare(study, ["botorch"], seeds=[0])


@pytest.mark.parametrize("setting", ["batches", "arms", "people"])
def test_a_bad_setting_is_refused(setting: str) -> None:
    with pytest.raises(InputError, match=f"^{setting} must be a whole number, at least 1, got 0$"):
        make_policy("botorch", **{setting: 0})
