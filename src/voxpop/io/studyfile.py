"""The study file (TOML), written by people and by `voxpop calibrate`; the `SECTIONS` say what may stand in it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from voxpop.calibration.fit import Calibration, Estimate, todays
from voxpop.errors import Array, InputError, require_array, require_choice, require_integer, said_of
from voxpop.io import schema as wire
from voxpop.io.files import read_text
from voxpop.io.tables import STRATUM
from voxpop.model.calendar import Calendar
from voxpop.model.decisions import Choice, Decisions, Float, Integer, Parameter, Space
from voxpop.model.direction import Direction, of_rule
from voxpop.model.guardrails import Guardrail, Rule
from voxpop.model.menu import KEYS, Menu
from voxpop.model.money import Money
from voxpop.model.options import options_of
from voxpop.model.problem import Evidence, Problem
from voxpop.model.strata import Strata
from voxpop.policies import DEFAULT, Policy, make_policy, policy_options
from voxpop.privacy import NoPrivacy, Privacy
from voxpop.privacy.models import privacy_from_settings

SECTIONS = {
    "name": "what the study is called; the file's name unless given",
    "reward": "what the reward is called",
    "direction": '"minimize" if people answer with costs, of which the least is best',
    "horizon": "the number of rounds",
    "parameters": "a table for each, with its type (float, integer or choice), its range or options, and perhaps its "
    "values, a step or a number of points",
    "decisions": "only, a formula for those that exist; allowed, a list of them; or sobol and perhaps seed: so many "
    "points instead of all combinations",
    "kernel": "its type, and what that takes",
    "model": "noise_std, bias_std and norm_bound; perhaps prior_mean, beta, ridge, reward_range, and shock_std with "
    "shock_freedom",
    "policy": "its name, and what it can be told",
    "calendar": "round, start, zone and perhaps closed: what a round is, and when the first one begins",
    "money": "unit, people and perhaps answer: what a reward is measured in, for how many people, and a number's price",
    "strata": "the share of each part of the population, if people come unevenly",
    "privacy": "the trust model, and what people are promised",
    "service": "how a coordinator asks people",
    "pilot": "what groups of people answered before: people, at, rounds, averages, and perhaps how noisy these are",
    "today": "the decision in force before the study, a value for each parameter",
    "guardrail": "a table for each metric that decisions must keep: its rule, such as 'retention >= -2%', its kernel, "
    "model, pilot and rehearsal, and correlations of people's answers with the objective's and earlier guardrails'",
    "rehearsal": "at and rewards, from which `voxpop run` simulates people",
}
SHOCKS = {
    "shock_std": "what a round does to everybody alike, such as the weather: its standard deviation",
    "shock_freedom": "the degrees of freedom with which that is known",
}
DEEPEST = 20  # tables and lists within each other
MODEL = ("noise_std", "bias_std", "norm_bound", "prior_mean", "beta", "ridge", "reward_range", *SHOCKS)
PARAMETERS: dict[str, type[Parameter]] = {"float": Float, "integer": Integer, "choice": Choice}


def read_study(path: Path) -> tuple[Problem, Policy, dict[str, Any]]:
    """Read the problem and the policy of a study file, and its whole content."""
    data = parse_study(path, read_text(path))
    return *study_of(path, data), data


def parse_study(path: Path, text: str) -> dict[str, Any]:
    """Return the tables of a study file, of which nothing is checked yet; the path is only what errors call it."""
    try:
        found = tomllib.loads(text)
        _require_shallow(found)
        return found
    except (ValueError, RecursionError) as error:  # a ValueError is also a number of thousands of digits
        raise InputError(f"{path} is not valid TOML: {error}; correct the file there") from None


def _require_shallow(value: Any, levels: int = DEEPEST) -> None:
    """Refuse a value that goes deeper than any table of a study."""
    if not levels:
        raise RecursionError(f"tables and lists are nested more than {DEEPEST} deep")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _require_shallow(part, levels - 1)


def study_of(path: Path, data: Mapping[str, Any]) -> tuple[Problem, Policy]:
    """Make the problem and the policy of a study file's tables."""
    with said_of(path):
        problem, given = _problem(data), dict(_table(data, "policy") if "policy" in data else {})
        if (money := money_of(path, data)) is not None:
            given = money.settings([one.name for one in policy_options(given.get("name", DEFAULT))], given)
        return problem, make_policy(**given)


def read_study_file(path: Path) -> tuple[wire.Definition, bool]:
    """Read the definition of a study, and whether the file gives beta instead of leaving it to the horizon."""
    problem, policy, data = read_study(path)
    direction = direction_of(path, data)
    definition = wire.Definition(
        direction.problem(problem),
        policy,
        privacy_of(path, data),
        str(data.get("name", path.stem)),
        str(data.get("reward", direction.measure)),
        direction,
        strata_of(path, data),
        calendar_of(path, data),
        money=money_of(path, data),
    )
    return definition, "beta" in data["model"]


def direction_of(path: Path, data: Mapping[str, Any]) -> Direction:
    """Return whether a study file maximises rewards or minimises costs."""
    with said_of(path):
        return Direction.of(data.get("direction", Direction.MAXIMIZE))


def privacy_of(path: Path, data: Mapping[str, Any]) -> Privacy:
    """Make the trust model of a study file, from its [privacy] table: model, epsilon, delta, floor, honest."""
    if "privacy" not in data:
        return NoPrivacy()
    with said_of(path):
        return privacy_from_settings(_table(data, "privacy"))


def strata_of(path: Path, data: Mapping[str, Any]) -> Strata | None:
    """Read the strata of a study file, from its [strata] table: a share for each; None without one."""
    if "strata" not in data:
        return None
    with said_of(path):
        if STRATUM in data["parameters"]:
            raise InputError("a parameter is called stratum, as is the column of people's strata; rename the parameter")
        return Strata(_table(data, "strata"))


def calendar_of(path: Path, data: Mapping[str, Any]) -> Calendar | None:
    """Read the calendar of a study file, from its [calendar] table; None without one."""
    with said_of(path):
        return Calendar(**_settings(data, "calendar", Calendar)) if "calendar" in data else None


def money_of(path: Path, data: Mapping[str, Any]) -> Money | None:
    """Read the money of a study file, from its [money] table; None without one."""
    with said_of(path):
        return Money(**_settings(data, "money", Money)) if "money" in data else None


def _settings(data: Mapping[str, Any], name: str, kind: type) -> Mapping[str, Any]:
    """Return a table of settings; refuse entries that it does not have, and one without what it needs."""
    table, known = _table(data, name), options_of(kind)
    for key in table:
        require_choice(f"entry of [{name}]", key, [one.name for one in known])
    for one in known:
        if one.required and one.name not in table:
            raise InputError(f"[{name}] lacks {one.name}; add it, such as {one.name} = {one.example!r}")
    return table


def rehearsal_rewards(path: Path, problem: Problem, data: Mapping[str, Any]) -> Array:
    """Compute the rewards of a study file's [rehearsal]: the smoothest f through the pilot's estimates."""
    if "rehearsal" not in data:
        raise InputError(
            f"{path} has no [rehearsal] table to simulate answers from; add one (voxpop calibrate writes it), "
            "or ask real people with voxpop ask and voxpop tell"
        )
    with said_of(path):
        table = _table(data, "rehearsal")
        rewards = require_array("rehearsal.rewards", table.get("rewards"))
        with said_of("[rehearsal]"):
            points = _points(space_of(data), table.get("at"))
        if rewards.shape != (len(points),):
            raise InputError(f"[rehearsal] needs rewards of the same length as at, {len(points)}, got {rewards.shape}")
    gram = problem.kernel(points, points)
    gram.flat[:: len(points) + 1] *= 1 + 1e-6
    centre = float(np.mean(problem.means))
    weights = cho_solve(cho_factor(gram), rewards - centre)
    return problem.within(centre + problem.kernel(problem.decisions.points, points) @ weights)


def space_of(data: Mapping[str, Any]) -> Space:
    """Read the parameters of a study file."""
    tables = _table(data, "parameters")
    parameters: dict[str, Parameter] = {}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise InputError(f"parameters.{name} must be a table with a type, got {table!r}")
        made = PARAMETERS[require_choice(f"type of parameter {name}", table.get("type"), PARAMETERS)]
        arguments = {key: value for key, value in table.items() if key not in ("type", *KEYS)}
        numbers = [value for value in table.get("values") or () if isinstance(value, int | float)]
        if made is not Choice and numbers:
            arguments = {"low": min(numbers), "high": max(numbers), **arguments}
        try:
            with said_of(f"parameter {name}"):
                parameters[name] = made(**arguments)
        except TypeError:
            wanted = ", ".join(part.name for part in fields(made))
            raise InputError(
                f"parameter {name} of type {table['type']} takes {wanted}, got {dict(arguments)}"
            ) from None
    return Space(parameters)


def _problem(data: Mapping[str, Any]) -> Problem:
    for key in data:
        require_choice("entry", key, SECTIONS)
    space = space_of(data)
    decisions = _decisions(data, space)
    model = _table(data, "model")
    for key in model:
        require_choice("entry of [model]", key, MODEL)
    for key in MODEL[:3]:
        if key not in model:
            raise InputError(f"[model] lacks {key}; add it, or let voxpop calibrate write the file")
    if "horizon" not in data:
        raise InputError("the entry horizon is missing; add the number of rounds, such as horizon = 20000")
    kernel, today = wire.decode_kernel(data.get("kernel")), None
    if "today" in data:
        today = todays(decisions, dict(_table(data, "today")))
    rails = _guardrails(data, space, decisions)
    pilot = _pilot(data, space)
    return Problem(decisions, kernel, horizon=data["horizon"], **model, pilot=pilot, guardrails=rails, today=today)


def guardrail_tables(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tables [[guardrail]] of a study file."""
    tables = data.get("guardrail", [])
    wanted = ("rule", "kernel", "model", "pilot", "rehearsal", "correlations")
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise InputError(f"guardrails are tables [[guardrail]] with {', '.join(wanted)}, got {tables!r}")
    for table in tables:
        for key in table:
            require_choice("entry of [[guardrail]]", key, wanted)
        if "rule" not in table:
            raise InputError("a table [[guardrail]] lacks its rule; add it, such as rule = 'retention >= -2%'")
    return tables


def _guardrails(data: Mapping[str, Any], space: Space, decisions: Decisions) -> list[Guardrail]:
    found = []
    for table in guardrail_tables(data):
        with said_of(f"the guardrail {table['rule']!r}"):
            rule, kernel = Rule.of(table["rule"]), wire.decode_kernel(table.get("kernel"))
            model = _table(table, "model")
            for key in model:
                require_choice("entry of [model]", key, MODEL)
            metric = Problem(decisions, kernel, horizon=data["horizon"], **model, pilot=_pilot(table, space))
            found.append(Guardrail(rule, of_rule(rule).problem(metric), tuple(table.get("correlations", ()))))
    return found


def _decisions(data: Mapping[str, Any], space: Space) -> Decisions:
    """Make the decisions of the parameters' tables and of the table [decisions]."""
    said = {key: {name: table[key] for name, table in data["parameters"].items() if key in table} for key in KEYS}
    table = _table(data, "decisions") if "decisions" in data else {}
    for key in table:
        require_choice("entry of [decisions]", key, ("sobol", "seed", "only", "allowed"))
    menu = Menu.of(said["points"] or None, said["values"], said["step"], table.get("only"), table.get("allowed"))
    if "sobol" not in table:
        return menu.decisions(space)
    seed = require_integer("decisions.seed", table["seed"], least=0) if "seed" in table else None
    among = space.sobol(require_integer("decisions.sobol", table["sobol"], least=1), seed)
    return menu.decisions(space, among)


def _pilot(data: Mapping[str, Any], space: Space) -> list[Evidence]:
    """Read the answers of the pilot's groups of people."""
    groups, wanted = data.get("pilot", []), {"people", "at", "rounds", "averages"}
    kinds = [wanted | set(more) for more in ((), wire.PROTECTED, wire.POOLED)]
    if not isinstance(groups, list) or not all(
        isinstance(group, Mapping) and {*group} - {"variances"} in kinds for group in groups
    ):
        raise InputError(
            "each table [[pilot]] needs people, at, rounds and averages, a protected one also "
            f"{', '.join(wire.PROTECTED)}, one of people who tried different decisions also "
            f"{' and '.join(wire.POOLED)}; it may have variances, and nothing else"
        )
    found = []
    for number, group in enumerate(groups, start=1):
        with said_of(f"table {number} of [[pilot]]"):
            points = _points(space, group["at"])
            more = {name: group[name] for name in (*wire.PROTECTED, "answers", "variances") if name in group}
            if "covariance" in group:
                more["covariance"] = _symmetric(group["covariance"])
            found.append(Evidence(points, group["rounds"], group["people"], group["averages"], **more))
    return found


def _symmetric(triangle: Any) -> Array:
    """Return the symmetric matrix of which a study file holds the rows up to the diagonal."""
    rows = list(triangle) if isinstance(triangle, list) else []
    if not rows or [len(row) if isinstance(row, list) else 0 for row in rows] != [*range(1, len(rows) + 1)]:
        raise InputError("covariance must be a list of rows with 1, 2, 3 and so on numbers, up to the diagonal")
    lower = require_array("covariance", [row + [0.0] * (len(rows) - len(row)) for row in rows])
    return np.asarray(lower + np.tril(lower, -1).T)


def _points(space: Space, at: Any) -> Array:
    """Return the points that stand for a list of decisions."""
    if not isinstance(at, list) or not at or not all(isinstance(label, Mapping) for label in at):
        raise InputError(f"at must be a list of decisions such as {{price = 2.0}}, got {at!r}")
    return np.array([space.scale(label) for label in at])


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = data.get(name)
    if not isinstance(table, Mapping) or not table:
        raise InputError(f"the table [{name}] is missing; see the study file of voxpop calibrate for an example")
    return table


def write_study(
    calibration: Calibration,
    space: Space,
    horizon: int,
    menu: Menu | int,
    name: str,
    policy: Mapping[str, Any],
    reward: str = "",
    money: Money | None = None,
) -> str:
    """Write the text of a study file for a calibrated model; a number instead of a menu is one of points."""
    menu = menu if isinstance(menu, Menu) else Menu(menu).fitted(space, ())
    whole, found = calibration.known_shocks, dict[str, Any]()
    if policy["name"] == DEFAULT and "cycle" not in policy:
        calibration, found = calibration.in_cycles(horizon)
        policy = {**policy, **found}
    import tomlkit as toml

    document = toml.document()
    document.add(
        toml.comment(
            f"Calibrated from {calibration.people} people and {len(calibration.pilot)} actions; "
            "the comments give 95 % intervals."
        )
    )
    document.update(name=name, horizon=horizon)
    if reward:
        document.add("reward", reward)
    if calibration.direction is not Direction.MAXIMIZE:
        document.add("direction", str(calibration.direction))
    parameters = toml.table(is_super_table=True)
    for key, parameter in space.parameters.items():
        kind = next(kind for kind, made in PARAMETERS.items() if isinstance(parameter, made))
        parameters[key] = {"type": kind, **asdict(parameter), **menu.entry(key)}
    document["parameters"] = parameters
    if menu.only or menu.allowed:
        table = toml.table()
        table.update({"only": menu.only} if menu.only else {})
        table.update({"allowed": _decision_list(menu.allowed)} if menu.allowed else {})
        document["decisions"] = table
    if calibration.today is not None:
        document["today"] = dict(calibration.today)
    document["kernel"] = wire.encode(calibration.kernel)
    document["model"] = _model_table(calibration)
    document["policy"] = _policy_table(policy)
    if found:
        document["policy"]["cycle"].comment(f"without it, shock_std is {whole['shock_std']:.6g}")
    if money is not None:
        document["money"] = {name: value for name, value in asdict(money).items() if value is not None}
    _add_pilot(document, calibration)
    guardrails = toml.aot()
    for one in calibration.guardrails:
        table = toml.table()
        table.update(rule=one.rule.text, correlations=[round(each, 4) for each in one.correlations])
        table["kernel"] = wire.encode(one.calibration.kernel)
        table["model"] = _model_table(one.calibration)
        _add_pilot(table, one.calibration)
        guardrails.append(table)
    if calibration.guardrails:
        document["guardrail"] = guardrails
    return toml.dumps(document)


def _model_table(calibration: Calibration) -> Any:
    """Write the constants of the objective or of a metric."""
    import tomlkit as toml

    model = toml.table()
    for key in ("noise_std", "bias_std", "norm_bound", "prior_mean"):
        estimate: Estimate = getattr(calibration, key)
        note = f", with a margin of {calibration.margin:g}" if key == "norm_bound" else ""
        model[key] = toml.float_(repr(float(f"{estimate.value:.6g}")))
        model[key].comment(f"{estimate.range}{note}")
    model["ridge"] = float(f"{calibration.ridge:.6g}")
    if calibration.reward_range != ":":
        model["reward_range"] = calibration.reward_range
        if calibration.range_found:
            model["reward_range"].comment("as the pilot's answers show; write : if there are no limits")
    for key, value in calibration.known_shocks.items():
        model[key] = float(f"{value:.6g}")
        model[key].comment(SHOCKS[key])
    return model


def _add_pilot(document: Any, calibration: Calibration) -> None:
    """Write what the pilot's people answered, and what a rehearsal takes for true."""
    import tomlkit as toml

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
        if group.variances is not None:
            table["variances"] = [float(f"{variance:.6g}") for variance in group.variances.tolist()]
        if group.answers is not None and group.covariance is not None:
            table["answers"] = [int(count) for count in group.answers]
            table["covariance"] = toml.array().multiline(True)
            for place, row in enumerate(group.covariance.tolist(), start=1):
                table["covariance"].append([float(f"{entry:.8g}") for entry in row[:place]])
        if (promise := calibration.protection) is not None:
            table.update(noise_std=group.noise_std, epsilon=float(promise.epsilon), delta=float(promise.delta))
        groups.append(table)
    document["pilot"] = groups
    rewards = [round(estimate.value, 9) for estimate in calibration.rewards]
    document["rehearsal"] = {"at": _decision_list(labels), "rewards": rewards}


def _policy_table(policy: Mapping[str, Any]) -> Any:
    """Write the policy, with what may be said about stopping as comments."""
    import tomlkit as toml

    table = toml.table()
    table.update(policy)
    if policy["name"] == DEFAULT:
        table.add(toml.comment("When to stop asking. Nothing needs to be given; take away the # of what you want:"))
        for one in policy_options(DEFAULT):
            if one.panel and one.name not in policy:
                said = f"{one.help[0].lower()}{one.help[1:].rstrip('.')}"
                table.add(toml.comment(f"{f'{one.name} = {one.example!r}':22} # {said}"))
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
