"""Versioned JSON codecs, for saved studies and for the events of a service."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

import numpy as np

from voxpop.errors import InputError, require_choice, require_integer
from voxpop.model.decisions import Decisions
from voxpop.model.kernels import KERNELS, Kernel
from voxpop.model.problem import Evidence, Problem
from voxpop.model.waves import Feedback, Forecast, Plan, Weighting
from voxpop.policies import Policy, make_policy
from voxpop.privacy import Budget, Entry, Ledger, Release
from voxpop.privacy.models import release_type_of

VERSION = 2

Decoded = TypeVar("Decoded")


def kernel_to_dict(kernel: Kernel) -> dict[str, Any]:
    """Write a kernel as plain data.

    >>> from voxpop.model.kernels import SquaredExponential
    >>> kernel_to_dict(2 * SquaredExponential(0.2))
    {'type': 'scaled', 'kernel': {'type': 'squared-exponential', 'length_scale': 0.2}, 'scale': 2.0}
    """
    names = [name for name, made in KERNELS.items() if type(kernel) is made]
    if not names:
        raise InputError(f"a kernel of type {type(kernel).__name__} cannot be saved; use the kernels of voxpop")
    data: dict[str, Any] = {"type": names[0]}
    for part in fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, part.name)
        if isinstance(value, Kernel):
            value = kernel_to_dict(value)
        elif isinstance(value, np.ndarray | tuple):
            value = np.asarray(value).tolist()
        data[part.name] = value
    return data


def kernel_from_dict(data: Any) -> Kernel:
    """Make the kernel that `kernel_to_dict` described."""
    if not isinstance(data, Mapping) or "type" not in data:
        raise InputError("a kernel is described by a table with a type, such as type = 'squared-exponential'")
    made = KERNELS[require_choice("kernel", data["type"], KERNELS)]
    arguments = {
        name: kernel_from_dict(value)
        if name in ("left", "right", "kernel") or (isinstance(value, Mapping) and "type" in value)
        else value
        for name, value in data.items()
        if name != "type"
    }
    known = [part.name for part in fields(made)]  # type: ignore[arg-type]
    for name in arguments:
        require_choice(f"setting of the {data['type']} kernel", name, known)
    try:
        return made(**arguments)
    except TypeError:
        raise InputError(f"the {data['type']} kernel needs {known}, got {sorted(arguments)}") from None


def problem_to_dict(problem: Problem) -> dict[str, Any]:
    """Write a problem as plain data."""
    labels = problem.decisions.labels
    return {
        "points": problem.decisions.points.tolist(),
        "labels": None if labels is None else [dict(label) for label in labels],
        "kernel": kernel_to_dict(problem.kernel),
        "noise_std": problem.noise_std,
        "bias_std": problem.bias_std,
        "norm_bound": problem.norm_bound,
        "horizon": problem.horizon,
        "prior_mean": np.asarray(problem.prior_mean).tolist(),
        "beta": problem.beta,
        "ridge": problem.ridge,
        "pilot": [group.to_dict() for group in problem.pilot],
    }


def problem_from_dict(data: dict[str, Any]) -> Problem:
    """Make the problem that `problem_to_dict` described."""
    rest = {name: value for name, value in data.items() if name not in ("points", "labels", "kernel", "pilot")}
    pilot = map(Evidence.from_dict, data.get("pilot", ()))
    return Problem(Decisions(data["points"], data["labels"]), kernel_from_dict(data["kernel"]), **rest, pilot=pilot)


def policy_to_dict(policy: Policy) -> dict[str, Any]:
    """Write a policy as plain data."""
    return policy.settings()


def policy_from_dict(data: dict[str, Any]) -> Policy:
    """Make the policy that `policy_to_dict` described."""
    return make_policy(**data)


def ledger_to_list(ledger: Ledger) -> list[dict[str, Any]]:
    """Write the entries of a ledger as plain data; None stands for an infinite eps."""
    return [entry.as_dict() for entry in ledger.entries]


def ledger_from_list(budget: Budget | None, data: list[dict[str, Any]]) -> Ledger:
    """Make the ledger that `ledger_to_list` described."""
    return Ledger(budget, [Entry.from_dict(row) for row in data])


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """Write a plan as plain data."""
    return {
        "wave": plan.wave,
        "arms": plan.arms.tolist(),
        "pulls": plan.pulls.tolist(),
        "people": plan.people,
        "reference": plan.reference,
        "reports": plan.reports,
        "rest": plan.rest,
        "forecast": None if plan.forecast is None else asdict(plan.forecast),
    }


def plan_from_dict(data: dict[str, Any]) -> Plan:
    """Make the plan that `plan_to_dict` described."""
    arms, pulls = (np.array(data[name], dtype=np.intp) for name in ("arms", "pulls"))
    forecast = None if data.get("forecast") is None else Forecast(**data["forecast"])
    return Plan(
        data["wave"], arms, pulls, data["people"], data["reference"], data["reports"], data.get("rest", 0), forecast
    )


def feedback_to_dict(feedback: Feedback) -> dict[str, Any]:
    """Write feedback as plain data."""
    data = {
        "mean": feedback.mean.tolist(),
        "count": feedback.count,
        "noise": None if feedback.noise is None else feedback.noise.tolist(),
        "clipping": None if feedback.clipping is None else feedback.clipping.tolist(),
        "printed": feedback.printed,
        "scatter": None if feedback.scatter is None else feedback.scatter.tolist(),
    }
    return data if feedback.weighting is None else {**data, "weighting": feedback.weighting._asdict()}


def feedback_from_dict(data: dict[str, Any]) -> Feedback:
    """Make the feedback that `feedback_to_dict` described."""
    noise, clipping, scatter = (
        None if data.get(name) is None else np.array(data[name], float) for name in ("noise", "clipping", "scatter")
    )
    weighting = Weighting(**data["weighting"]) if "weighting" in data else None
    return Feedback(np.array(data["mean"]), data["count"], noise, clipping, data["printed"], scatter, weighting)


def pack(kind: str, content: dict[str, Any]) -> str:
    """Write a document with its format, version, checksum and content."""
    head = {"format": kind, "version": VERSION, "checksum": _checksum(content)}
    return json.dumps({**head, "content": content}, allow_nan=False)


def unpack(kind: str, text: str, source: str, decode: Callable[[dict[str, Any]], Decoded]) -> Decoded:
    """Decode the content of a packed document, or raise an `InputError` that says what is wrong with it."""
    remedy = "restore it from a copy"
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{source} is damaged (line {error.lineno}, column {error.colno}: {error.msg}); {remedy}"
        ) from None
    except RecursionError:
        raise InputError(f"{source} is damaged (nested too deeply); {remedy}") from None
    if not isinstance(document, dict) or document.get("format") != kind:
        raise InputError(f"{source} is not a {kind} file; name the file that was saved as one")
    version = document.get("version")
    if isinstance(version, int) and version > VERSION:
        raise InputError(
            f"{source} has format version {version}, and this voxpop reads up to {VERSION}; upgrade voxpop to open it"
        )
    if require_integer(f"the format version of {source}", version, least=1) < VERSION:
        raise InputError(
            f"{source} has format version {version}, and this voxpop reads {VERSION} only; finish the study with the "
            "voxpop that began it, or begin a new one"
        )
    content = document.get("content")
    if not isinstance(content, dict) or document.get("checksum") != _checksum(content):
        raise InputError(f"{source} is damaged (its checksum does not match its content); {remedy}")
    try:
        return decode(content)
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"{source} is damaged ({type(error).__name__}: {error}); {remedy}") from None


def _checksum(content: dict[str, Any] | None) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def release_to_dict(release: Release) -> dict[str, Any]:
    """Write a release as plain data.

    >>> from voxpop.privacy.none import PlainRelease
    >>> release_to_dict(PlainRelease(0.5, 3))
    {'model': 'none', 'step': 0.5, 'arms': 3}
    """
    return {"model": release.model, **release.to_dict()}


def release_from_dict(data: Mapping[str, Any]) -> Release:
    """Read what `release_to_dict` wrote; raise an `InputError` for anything else."""
    try:
        return release_type_of(data["model"]).from_dict(data)
    except InputError as error:
        raise InputError(f"this is not a release: {error}; it must be what release_to_dict writes") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__} {error}".strip()
        raise InputError(f"this is not a release ({problem:.200}); it must be what release_to_dict writes") from None


def for_devices(data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the largest part, which devices do not need: the tail by which the agent accounts for clipping."""
    if "ball" not in data:
        return dict(data)
    return {**data, "ball": {**data["ball"], "tail": [[], []]}}


def wave_for_devices(problem: Problem, plan: Plan, release: Mapping[str, Any]) -> dict[str, Any]:
    """Write what devices are told of a wave, as plain data: what was played, and how to make a report of it."""
    arms = plan.arms.tolist()
    return {
        "wave": plan.wave,
        "arms": arms,
        "decisions": [problem.decisions[arm] for arm in arms],
        "rounds": plan.pulls.tolist(),
        "release": for_devices(release),
    }
