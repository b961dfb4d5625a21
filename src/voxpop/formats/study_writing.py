"""Writing the study file of a calibrated model, with what is known and what may be said as comments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from voxpop.calibration.fit import Calibration, Estimate
from voxpop.core.direction import Direction
from voxpop.core.spaces import Space
from voxpop.formats import wire
from voxpop.formats.studyfile import PARAMETERS

# Examples of what may be added to [policy], which `voxpop calibrate` writes as comments.
STOPPING = (
    "answer_cost = 0.01     # what one number costs, in units of reward; about a hundredth of v unless given",
    "tolerance = 0.02       # good enough: go on until nothing can be better by more than this",
    "most_people = 1000     # budgets; also most_numbers and most_waves",
    "population = 50000     # the people there are; nobody is asked twice",
    "answer_delay = 200     # rounds that pass while people answer; the best so far is in force",
    "delta = 0.05           # what is certified may fail with this probability",
)


def write_study(
    calibration: Calibration, space: Space, horizon: int, points: int, name: str, policy: Mapping[str, Any]
) -> str:
    """Write the text of a study file for a calibrated model."""
    import tomlkit as toml

    document = toml.document()
    document.add(
        toml.comment(
            f"Calibrated from {calibration.people} people and {len(calibration.pilot)} actions; "
            "the comments give 95 % intervals."
        )
    )
    document.update(name=name, horizon=horizon)
    if calibration.direction is not Direction.MAXIMIZE:
        document.add("direction", str(calibration.direction))
    parameters = toml.table(is_super_table=True)
    for key, parameter in space.parameters.items():
        kind = next(kind for kind, made in PARAMETERS.items() if isinstance(parameter, made))
        grid = {} if kind == "choice" else {"points": points}
        parameters[key] = {"type": kind, **asdict(parameter), **grid}
    document["parameters"] = parameters
    document["kernel"] = wire.kernel_to_dict(calibration.kernel)
    model = toml.table()
    for key in ("noise_std", "bias_std", "norm_bound", "prior_mean"):
        estimate: Estimate = getattr(calibration, key)
        note = f", with a margin of {calibration.margin:g}" if key == "norm_bound" else ""
        model[key] = toml.float_(repr(float(f"{estimate.value:.6g}")))
        model[key].comment(f"{estimate.range}{note}")
    model["ridge"] = float(f"{calibration.ridge:.6g}")
    document["model"] = model
    document["policy"] = _policy_table(policy)
    labels = calibration.pilot.labels or ()
    groups = toml.aot()
    for group in calibration.groups:
        table = toml.table()
        table.update(
            people=group.people,
            at=_decision_list([labels[action] for action in group.actions]),
            rounds=group.counts.tolist(),
            averages=[round(average, 9) for average in group.mean.tolist()],
        )
        if (promise := calibration.protection) is not None:
            table.update(noise_std=group.noise_std, epsilon=float(promise.epsilon), delta=float(promise.delta))
        groups.append(table)
    document["pilot"] = groups
    rewards = [round(estimate.value, 9) for estimate in calibration.rewards]
    document["rehearsal"] = {"at": _decision_list(labels), "rewards": rewards}
    return toml.dumps(document)


def _policy_table(policy: Mapping[str, Any]) -> Any:
    """Write the policy, with what may be said about stopping as comments."""
    import tomlkit as toml

    table = toml.table()
    table.update(policy)
    if policy["name"] == "waves":
        table.add(toml.comment("When to stop asking. Nothing needs to be given; take away the # of what you want:"))
        for line in STOPPING:
            table.add(toml.comment(line))
    return table


def _decision_list(labels: Iterable[Mapping[str, Any]]) -> Any:
    """Write decisions one below the other."""
    import tomlkit as toml

    rows = toml.array().multiline(True)
    for label in labels:
        row = toml.inline_table()
        row.update(label)
        rows.append(row)
    return rows
