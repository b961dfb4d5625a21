"""A study whose budget does not allow for its participations is refused when it is created."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.service.world import SECRET, STUDY, DirectShuffler, definition, own_shuffler, private
from voxpop.errors import InputError
from voxpop.model.waves import Plan
from voxpop.privacy import Private
from voxpop.privacy.ledger import compose
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.coordinator import Coordinator
from voxpop.service.study.definition import require_affordable


@pytest.mark.parametrize(
    ("model", "rules", "sentence"),
    [
        ("shuffle", {"participations": 3, "budget": 7.0}, "needs a service.budget of at least 8.1"),
        ("shuffle", {"participations": 2}, "needs a service.budget of at least 8.1"),
        ("shuffle", {"participations": 3, "budget": 100.0}, None),
        ("aggregate", {"participations": 2}, "needs a service.budget of at least 8.3"),
        ("aggregate", {"budget": 4.0}, "does not pay for one release of epsilon 5"),
        ("aggregate", {"participations": 3, "budget": 100.0}, None),
        ("central", {"participations": 2}, "needs a service.budget of at least 7.4"),
        ("local", {"participations": 5, "budget": 7.0}, "needs a service.budget of at least 7.4"),
        ("central", {"budget": 4.0}, "does not pay for one release of epsilon 5"),
        ("shuffle", {"budget": 4.0}, "does not pay for one release of epsilon 5"),
        ("central", {"participations": 5, "budget": 8.0}, None),
        ("local", {"participations": 2, "budget": 8.0}, None),
        ("shuffle", {"participations": 1, "budget": 100.0}, None),
        ("none", {"participations": 5}, None),
    ],
)
def test_participations_beyond_the_budget_are_refused_when_a_study_is_created(
    model: str, rules: dict[str, Any], sentence: str | None, tmp_path: Path
) -> None:
    made = definition(None if model == "none" else private(model), **rules)
    database = open_store(str(tmp_path / "c.db"), "coordinator")
    with own_shuffler(str(tmp_path / "s.db")) as shuffler:
        coordinator = Coordinator(database, SECRET, DirectShuffler(shuffler))
        if sentence is None:
            assert coordinator.create(STUDY, made)
        else:
            with pytest.raises(InputError, match=sentence):
                coordinator.create(STUDY, made)
            assert coordinator.studies() == []
    database.close()


@pytest.mark.parametrize("model", ["central", "local", "shuffle", "aggregate"])
def test_the_cost_is_that_of_the_releases(model: str) -> None:
    made = definition(private(model))
    state = made.policy.init(made.problem)
    plan = made.policy.plan(made.problem, state)
    assert isinstance(plan, Plan)
    plan = made.privacy.enlist(made.problem, state, plan)
    cost, entry = made.privacy.cost, made.privacy.calibrate(made.problem, state, plan).entry(0)
    assert cost is not None
    assert replace(cost, binomial=None) == replace(entry, binomial=None)
    assert compose([cost] * 2, 1e-6) == pytest.approx(compose([entry] * 2, 1e-6), rel=0.02)


def test_the_printed_calibration_promises_nothing() -> None:
    require_affordable(definition(Private("shuffle", 5.0, 1e-6, "paper", 12), participations=3))
