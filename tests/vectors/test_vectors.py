"""The test vectors against the Python device; `tests/clients_js` runs them with the other one."""

import json
import math

import numpy as np
import pytest

from tests.vectors.answers import MODELS
from tests.vectors.running import FOLDER, Case, run, script, vectors
from voxpop.privacy.binomial import Binomial
from voxpop.privacy.gaussian import noise_multiplier


def test_there_is_a_file_for_every_model() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*MODELS, "refusals", "numbers"}


@pytest.mark.parametrize("model", MODELS)
def test_what_is_sent(model: str) -> None:
    cases = vectors(model)
    assert len(cases) >= 8
    for case in cases:
        give, whole = script(case.get("random", ""))
        assert run(case, give) == {"outcome": case["outcome"], "uploads": case["uploads"]}, case["name"]
        assert whole(), case["name"]


def nothing(count: int) -> bytes:
    raise AssertionError("noise is drawn for a report that is not made")


def test_what_is_refused_and_in_which_words() -> None:
    cases = vectors("refusals")
    assert len(cases) >= 150
    for case in cases:
        assert case["words"] in run({"invitation": {}, **case}, nothing).get("refused", ""), case["name"]


def test_numbers() -> None:
    read: Case = json.loads((FOLDER / "numbers.json").read_text(encoding="utf-8"))
    for epsilon, delta, multiplier in read["multipliers"]:
        assert noise_multiplier(epsilon, delta) == pytest.approx(multiplier, rel=1e-9)
    for trials, chance, shift, epsilon, delta in read["deltas"]:
        assert math.isclose(Binomial(trials, chance, shift).delta(epsilon), delta, rel_tol=1e-9)
    for root, condition in read["conditions"]:
        assert np.linalg.cond(np.array(root)) == pytest.approx(condition, rel=1e-7)
