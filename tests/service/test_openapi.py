"""The OpenAPI document is true: schemathesis sends valid and invalid requests, and finds no undocumented reply."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core import NOT_SET
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.helpers import evidence
from tests.helpers_fuzzing import SECONDS, fuzz
from tests.service.served import served
from tests.service.test_http import KEY, SHUFFLER_KEY, Site
from voxpop.model import kernels
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import Constant, Kernel, Linear, Matern, Precomputed, SquaredExponential
from voxpop.model.problem import Problem
from voxpop.policies import POLICIES, Policy, make_policy, settings_of
from voxpop.privacy import NoPrivacy
from voxpop.service.keys import new_key, sign
from voxpop.service.shuffler.batches import Shuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.definition import Definition, Rules
from voxpop.service.web.coordinator_app import CoordinatorApp
from voxpop.service.web.limits import RateLimit
from voxpop.service.web.openapi import components
from voxpop.service.web.shuffler_app import ShufflerApp

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 20


def send(case: Any, role: str, headers: dict[str, dict[str, str]]) -> int:
    """Send a generated request with the key of the role that may make it."""
    case.headers.update(headers.get(role, {}))
    if role in ("shuffler", "coordinator"):
        if not isinstance(case.body, bytes):
            case.body = b"" if case.body is NOT_SET else json.dumps(case.body).encode()
        case.headers["x-voxpop-signature"] = sign(SHUFFLER_KEY, case.method, case.formatted_path, case.body)
    response = case.call()
    case.validate_response(response, checks=CHECKS)
    return int(response.status_code)


def exercise(url: str, headers: dict[str, dict[str, str]]) -> tuple[int, set[int]]:
    """Send valid and invalid requests to every operation; return the number of operations and the statuses seen."""
    seen: set[int] = set()
    results = list(schemathesis.openapi.from_url(f"{url}/openapi.json").get_all_operations())
    for result, mode in product(results, GenerationMode):
        operation: Any = result.ok()
        role = operation.definition.raw["x-voxpop-role"]
        if mode is GenerationMode.NEGATIVE and not operation.body and not operation.path_parameters:
            continue  # there is nothing to get wrong

        def run(drawn: tuple[Any, str]) -> None:
            seen.add(send(*drawn, headers))

        cases = st.tuples(operation.as_strategy(generation_mode=mode), st.just(role))
        fuzz(run, cases, EXAMPLES, SECONDS / len(results) / len(GenerationMode))
    return len(results), seen


@pytest.mark.filterwarnings("ignore")
def test_the_coordinator_answers_as_documented(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.collect()
    token = site.invited()[0]["token"]
    keys = {"operator": KEY, "participant": new_key(), "token": token}
    headers = {role: {"authorization": f"Bearer {key}"} for role, key in keys.items()}
    with served(CoordinatorApp(site.coordinator, SHUFFLER_KEY).guarded(RateLimit(0, 1), 4096), "on") as url:
        operations, seen = exercise(url, headers)
    assert operations == sum(route.documented for route in site.service.routes()) - 1  # all but the description itself
    assert {200, 404} <= seen
    site.close()


@pytest.mark.filterwarnings("ignore")
def test_the_shuffler_answers_as_documented(tmp_path: Path) -> None:
    database = open_store(str(tmp_path / "s.db"), "shuffler")
    service = ShufflerApp(Shuffler(database, lambda kind, **values: None), "http://127.0.0.1:1", SHUFFLER_KEY)
    headers = {"token": {"authorization": f"Bearer {new_key()}"}}
    with served(service.guarded(RateLimit(0, 1), 4096)) as url:
        operations, seen = exercise(url, headers)
    assert operations == len(service.routes()) - 1
    assert 200 in seen
    database.close()


KERNELS: list[Kernel] = [
    SquaredExponential((0.3,)),
    Matern(0.3, 1.5),
    Linear(1.0, 0.5),
    Constant(2.0),
    Precomputed(np.eye(3)),
    SquaredExponential(0.3) + Constant(1.0),
    Matern(0.3) * Linear(1.0),
    2 * SquaredExponential(0.3),
]


SCHEMAS = components([])


def described(kernel: Kernel, policy: Policy) -> dict[str, Any]:
    """Return the definition of a study; what the document does not describe is an error."""
    decisions = Decisions([0.0, 1.0, 2.0], [{"colour": name} for name in ("red", "green", "blue")])
    pilot = [evidence([[0.0], [1.0], [2.0]], [20, 10, 5], 40, [0.1, 0.4, 0.2])]
    problem = Problem(decisions, kernel, 0.1, 0.1, norm_bound=1.0, horizon=31, prior_mean=[0.1, 0.2, 0.3], pilot=pilot)
    made = Definition(problem, policy, NoPrivacy(), rules=Rules(rounds_per_second=1.0))
    plain: dict[str, Any] = json.loads(json.dumps(made.encode()))
    document = {"$ref": "#/components/schemas/StudyDefinition", "components": {"schemas": SCHEMAS}}
    jsonschema_rs.validate(document, plain)
    return plain


def test_the_document_knows_every_kernel() -> None:
    found = [described(kernel, make_policy("dpbe"))["problem"]["kernel"] for kernel in KERNELS]
    assert {kernel["type"] for kernel in found} == set(kernels.KERNELS)


def test_the_document_knows_every_policy_of_a_service() -> None:
    made = [make_policy(name, **({"people": 5} if name == "dpbe-fixed" else {})) for name in POLICIES]
    for policy in made:
        if policy.aggregates:
            assert described(KERNELS[0], policy)["policy"]["name"] == policy.name


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "dpbe-fixed"])
def test_the_document_has_the_defaults_and_settings_of_every_policy(name: str) -> None:
    """A policy without settings is the one that the document describes: same settings, same values."""
    made = make_policy(name)
    mapping = SCHEMAS["Policy"]["discriminator"]["mapping"]
    assert (name in mapping) == made.aggregates
    if not made.aggregates:
        return
    described = SCHEMAS[mapping[name].rpartition("/")[2]]["properties"]
    assert set(described) == {"name", *settings_of(name)}
    defaults = {option: said["default"] for option, said in described.items() if "default" in said}
    assert make_policy(name, **defaults) == made


def test_a_definition_without_a_policy_has_the_default_one() -> None:
    whole = described(KERNELS[0], make_policy("halving"))
    for given_policy in ({}, {"policy": None}, {"policy": make_policy().settings()}):
        without = {name: part for name, part in whole.items() if name != "policy"}
        assert Definition.decode({**without, **given_policy}).policy == make_policy()
