"""Both devices refuse the same releases, whatever a coordinator proposes."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from tests.client.test_hostile_releases import EXTREME, changed, places
from tests.clients_js.oracle import Oracle
from tests.vectors.answers import PRIVATE, promises
from tests.vectors.releases import release
from voxpop.client import Promise
from voxpop.errors import InputError
from voxpop.io.schema import decode_release

FACTORS = [0.5, 0.9, 0.99, 0.999, 1.0, 1.001, 1.01, 1.1, 2.0, 10.0, 1e3, 1e-3, 1e12, 1e-12]
CASES = 400  # for each model
OWN_WORDS = ("this is not a release", "a root of condition")  # a condition beyond 1e16 is mostly rounding


def refusal(promise: dict[str, Any], data: Any) -> str | None:
    try:
        Promise(**promise).check(decode_release(data))
    except InputError as error:
        return str(error)
    return None


def expressible(value: Any) -> bool:
    """Return True for what JSON can say and both read alike.

    JavaScript cannot tell 3.0 from 3, and NumPy reads lists of strings and truths as numbers; the other device refuses
    these.
    """
    if isinstance(value, float):
        return math.isfinite(value) and not value.is_integer()
    return not isinstance(value, bool | str) and value is not None and not (isinstance(value, int) and value > 10**300)


def proposals(model: str) -> list[Any]:
    """Change one or several values of an honest release, at random."""
    draw, honest = random.Random(model), release(model)
    found, values = list(places(honest)), [value for value in EXTREME if expressible(value)]
    made = [honest]
    while len(made) < CASES:
        data: Any = honest
        for _ in range(draw.randint(1, 3)):
            path = draw.choice(found)
            try:
                data = changed(data, path, draw.choice(values), draw.choice([None, *FACTORS, *FACTORS]))
            except (LookupError, TypeError, OverflowError, ValueError):
                break  # an earlier change has removed the place
        made.append(data)
    return made


@pytest.mark.parametrize("model", PRIVATE)
def test_the_verdicts_are_the_same(other: Oracle, model: str) -> None:
    made = [json.loads(json.dumps(data)) for data in proposals(model)]
    cases = [
        {"promise": {**promises(model), "epsilon": epsilon, "delta": 1e-6}, "release": data}
        for data in made
        for epsilon in (5.0, 5.5)
    ]
    mine = [refusal(case["promise"], case["release"]) for case in cases]
    theirs = other.ask(refusals=cases)
    for case, one, two in zip(cases, mine, theirs, strict=True):
        assert (one is None) == (two is None), (case, one, two)
        if one is not None and not any(words in one for words in OWN_WORDS):
            assert two == one
    assert 20 < sum(one is None for one in mine) < len(mine) - 20
