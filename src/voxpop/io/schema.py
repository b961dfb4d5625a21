"""Every stored or sent thing as plain JSON data: `encode` writes it, `decode` reads it.

The dataclasses of the model and of privacy are the schema, which msgspec reads; they are not described a second time.
Where the plain form differs, it is said here: a problem has its decisions as points and labels, a kernel has a type
and a release a model, and null stands for an infinite eps or radius.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import msgspec
import numpy as np

from voxpop.errors import InputError, require_array, require_choice, require_integer
from voxpop.model.calendar import Calendar
from voxpop.model.decisions import Decisions
from voxpop.model.direction import Direction, metrics_of
from voxpop.model.guardrails import Guardrail, Rule
from voxpop.model.kernels import KERNELS, Kernel
from voxpop.model.money import Money
from voxpop.model.problem import Evidence, Problem
from voxpop.model.strata import Strata
from voxpop.model.waves import Feedback, Plan
from voxpop.policies import Policy, make_policy
from voxpop.privacy import Budget, Entry, NoPrivacy, Privacy, Release
from voxpop.privacy.ball import Ball
from voxpop.privacy.models import privacy_from_settings, release_type_of
from voxpop.runtime.extensions import find, name_of

if TYPE_CHECKING:
    from voxpop.calibration.fit import Calibration

VERSION = 2  # of sealed documents
NULLS = {"ball": "radius", "cost": "epsilon"}  # the parts of a release in which null stands for infinity

Decoded = TypeVar("Decoded")

PROTECTED = ("noise_std", "epsilon", "delta")  # what is said of a protected pilot
POOLED = ("answers", "covariance")  # and of one whose people tried different actions
RARE: dict[type, tuple[str, ...]] = {  # left out if they say nothing
    Feedback: ("weighting", "by_block"),
    Plan: ("sealed", "orders", "same", "washout", "played", "used", "counts", "planned", "also", "cycle"),
    Evidence: (*PROTECTED, *POOLED, "variances"),
}


class ProblemData(msgspec.Struct, frozen=True, kw_only=True):
    """A problem as it is stored and sent."""

    points: list[list[float]]  # one row per action, in the coordinates of the kernel
    labels: list[dict[str, Any]] | None = None  # the parameters of each action, by name
    kernel: Kernel
    noise_std: float
    bias_std: float
    norm_bound: float
    horizon: int
    prior_mean: float | list[float] = 0.0
    beta: float | None = None
    ridge: float | None = None
    pilot: tuple[Evidence, ...] = ()
    reward_range: str = ":"
    shock_std: float | None = None
    shock_freedom: float = 2.0
    today: int | None = None
    guardrails: tuple[dict[str, Any], ...] = ()  # each is a `GuardrailData`

    def made(self) -> Problem:
        """Make the problem."""
        own = ("points", "labels", "guardrails")
        rest = {name: getattr(self, name) for name in self.__struct_fields__ if name not in own}
        told = [msgspec.convert(one, GuardrailData, dec_hook=_part) for one in self.guardrails]
        guardrails = [Guardrail(one.rule, one.problem.made(), one.correlations) for one in told]
        return Problem(Decisions(self.points, self.labels), guardrails=guardrails, **rest)


class GuardrailData(msgspec.Struct, frozen=True):
    """A guardrail as it is stored and sent."""

    rule: Rule
    problem: ProblemData
    correlations: tuple[float, ...] = ()


def encode(value: Any) -> Any:
    """Write a value as plain data.

    >>> from voxpop.model.kernels import SquaredExponential
    >>> encode(2 * SquaredExponential(0.2))
    {'type': 'scaled', 'kernel': {'type': 'squared-exponential', 'length_scale': 0.2}, 'scale': 2.0}
    >>> from voxpop.privacy.none import PlainRelease
    >>> encode(PlainRelease(0.5, 3))
    {'model': 'none', 'step': 0.5, 'arms': 3, 'low': None, 'high': None}
    """
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: encode(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [encode(part) for part in value]
    if not is_dataclass(value):
        return value
    return _parts(value)


def _parts(value: Any) -> dict[str, Any]:
    """Write a dataclass as plain data."""
    parts = {part.name: encode(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Problem):
        decisions = parts.pop("decisions")
        unsaid: dict[str, Any] = {"reward_range": ":", "guardrails": [], "today": None}
        for name, usual in unsaid.items():
            if parts[name] == usual:
                del parts[name]
        return {"points": encode(decisions.points), "labels": encode(decisions.labels), **parts}
    if isinstance(value, Kernel):
        return {"type": _name_of(value), **parts}
    if hasattr(value, "noise_on_device"):  # a release
        return {"model": value.model, **parts}
    if isinstance(value, Entry) and not value.private:
        parts["epsilon"] = None
    if isinstance(value, Ball) and math.isinf(value.radius):
        parts["radius"] = None
    if isinstance(value, Feedback):
        del parts["kept"]  # everything, where it is stored
    rare = RARE.get(type(value), ())
    return {name: part for name, part in parts.items() if part or name not in rare}


def decode(kind: type[Decoded], data: Any) -> Decoded:
    """Read what `encode` wrote of a value of this type; raise an `InputError` for anything else."""
    made: Any
    try:
        if kind is Problem:
            made = msgspec.convert(data, ProblemData, dec_hook=_part).made()
        elif kind is Entry:
            made = msgspec.convert(_unbounded(data, NULLS["cost"]), Entry)
        else:
            made = msgspec.convert(data, kind, dec_hook=_part)
    except (LookupError, TypeError, msgspec.ValidationError) as error:
        raise InputError(f"this is no {kind.__name__.lower()} ({error}); it must be what encode writes") from None
    return made  # type: ignore[no-any-return]


def _part(kind: Any, data: Any) -> Any:
    """Read what msgspec leaves to us: kernels, and arrays of numbers."""
    if kind is Kernel:
        return decode_kernel(data)
    if np.dtype[np.float64] in get_args(kind):
        return require_array("it", data)
    array = np.array(data if len(data) else [], dtype=None if len(data) else np.intp)
    if array.dtype.kind != "i":
        raise InputError(f"it must be a list of whole numbers, got {array.dtype}")
    return array.astype(np.intp)


def _name_of(kernel: Kernel) -> str:
    name = name_of("kernel", type(kernel), KERNELS)
    if name is None:
        raise InputError(
            f"a kernel of type {type(kernel).__name__} cannot be saved; use the kernels of voxpop, or name yours in an "
            "entry point of the group voxpop.kernels"
        )
    return name


def decode_kernel(data: Any) -> Kernel:
    """Make the kernel that a table describes, such as that of a study file."""
    if not isinstance(data, Mapping) or "type" not in data:
        raise InputError("a kernel is described by a table with a type, such as type = 'squared-exponential'")
    made = find("kernel", data["type"], KERNELS)
    arguments = {
        name: decode_kernel(value)
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


def asks_again(policy: Policy) -> str:
    """Return who answers in every wave, `panel` or `everybody`; empty if nobody is asked twice."""
    return str(policy.settings().get("who", ""))


def require_same_people(policy: Policy, privacy: Privacy) -> None:
    """Refuse to ask people in every wave who are promised something for one answer."""
    if (who := asks_again(policy)) and privacy.model != NoPrivacy.model:
        raise InputError(
            f"who = {who!r} asks the same people in every wave, and the {privacy.model} model's promise is for one "
            "answer of a person; ask fresh people, or leave out the privacy"
        )


def require_keeping(problem: Problem, policy: Policy) -> None:
    """Refuse guardrails of which the policy knows nothing."""
    if problem.guardrails and not policy.keeps_guardrails:
        raise InputError(
            f"policy {policy.name!r} knows no guardrails, and {problem.guardrails[0].rule} is one; use waves"
        )


@dataclass(frozen=True, eq=False)
class Definition:
    """What a study begins with: the first record of its journal."""

    problem: Problem  # it maximises: if the study minimises, its levels have the other sign
    policy: Policy
    privacy: Privacy = field(default_factory=NoPrivacy)
    name: str = "study"
    reward: str = "reward"  # what the reward is called
    direction: Direction = Direction.MAXIMIZE
    strata: Strata | None = None
    calendar: Calendar | None = None  # when its rounds are played, if that is known
    charged: tuple[Entry, ...] = ()  # for releases that were taken back before the journal began: of upgraded files
    calibration: Calibration | None = None  # where the problem's constants come from, if that is known; never stored
    money: Money | None = None  # what the reward is worth, and for how many people, if that is known

    def __post_init__(self) -> None:
        if self.calendar is not None:
            self.calendar.check(self.problem.horizon)
            self.calendar.check_cycle(self.policy.settings().get("cycle"))
        require_same_people(self.policy, self.privacy)
        require_keeping(self.problem, self.policy)
        if self.strata is not None and asks_again(self.policy):
            raise InputError(
                "people who answer in every wave are not weighed; leave out the strata, or ask fresh people"
            )
        tolerance, (low, high) = self.policy.settings().get("tolerance"), self.problem.limits
        if tolerance is not None and tolerance >= high - low:
            raise InputError(
                f"within the reward_range nothing is better by more than {high - low:g}, so that a tolerance of "
                f"{tolerance:g} asks for nothing; give a smaller one"
            )

    @property
    def unit(self) -> str:
        """What gains, costs and losses are measured in: money, or what the reward is called."""
        return self.reward if self.money is None else self.money.unit

    @property
    def budget(self) -> Budget | None:
        """What a person may be exposed to in the whole study; None if nothing is promised."""
        return self.privacy.budget

    def encode(self) -> dict[str, Any]:
        """Return the definition as plain data."""
        rest = {"strata": self.strata and dict(self.strata.shares), "charged": encode(self.charged)}
        rest["calendar"], rest["money"] = encode(self.calendar), encode(self.money)
        return {
            "problem": encode(self.problem),
            "policy": self.policy.settings(),
            "privacy": self.privacy.settings(),
            "name": self.name,
            "reward": self.reward,
            "direction": str(self.direction),
            **{name: value for name, value in rest.items() if value},
        }

    @classmethod
    def decode(cls, data: Mapping[str, Any]) -> Definition:
        """Read what `encode` wrote."""
        return cls(
            decode(Problem, data["problem"]),
            make_policy(**data["policy"]),
            privacy_from_settings(data["privacy"]),
            str(data["name"]),
            str(data["reward"]),
            Direction.of(data["direction"]),
            Strata(data["strata"]) if "strata" in data else None,
            Calendar(**data["calendar"]) if "calendar" in data else None,
            tuple(decode(Entry, entry) for entry in data.get("charged", ())),
            money=Money(**data["money"]) if "money" in data else None,
        )


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
    except (RecursionError, ValueError):
        raise InputError(f"{source} is damaged (nested too deeply, or a number is too long); {remedy}") from None
    document = document if isinstance(document, dict) else {}
    require_version(document, kind, VERSION, source)
    content = document.get("content")
    if not isinstance(content, dict) or document.get("checksum") != _checksum(content):
        raise InputError(f"{source} is damaged (its checksum does not match its content); {remedy}")
    try:
        return decode(content)
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"{source} is damaged ({type(error).__name__}: {error}); {remedy}") from None


def require_version(head: Mapping[str, Any], kind: str, known: int, source: str) -> None:
    """Refuse a file that is not of this kind, or of another version than the known one."""
    if head.get("format") != kind:
        raise InputError(f"{source} is not a {kind} file; name the file that was saved as one")
    version = require_integer(f"the format version of {source}", head.get("version"), least=1)
    if version > known:
        raise InputError(
            f"{source} has format version {version}, and this voxpop reads up to {known}; upgrade voxpop to open it"
        )
    if version < known:
        raise InputError(
            f"{source} has format version {version}, and this voxpop reads {known} only; finish the study with the "
            "voxpop that began it, or begin a new one"
        )


def _checksum(content: dict[str, Any] | None) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def decode_release(data: Any) -> Release:
    """Read what `encode` wrote of a release; raise an `InputError` for anything else."""
    try:
        kind = release_type_of(data["model"])
        _require_finite(data)
        parts = {**data, **{name: _unbounded(data[name], part) for name, part in NULLS.items() if name in data}}
        made = msgspec.convert(parts, kind, dec_hook=_part)
        for part in ("cost", "encoding"):
            _refuse_unknown(part, data.get(part), encode(getattr(made, part, None)))
        return made
    except InputError as error:
        raise InputError(f"this is not a release: {error}; it must be what encode writes") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        problem = f"{type(error).__name__} {error}".strip()
        raise InputError(f"this is not a release ({problem:.200}); it must be what encode writes") from None


def _require_finite(data: Mapping[str, Any]) -> None:
    """Refuse infinities and NaN, which JSON does not have; those in lists are refused where arrays are made of them."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            _require_finite(value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{name} must be finite, got {value}")


def _refuse_unknown(name: str, data: Any, known: Any) -> None:
    """Refuse entries that say more of a release's privacy than this voxpop knows."""
    if isinstance(data, Mapping) and isinstance(known, Mapping):
        if unknown := sorted(set(data) - set(known)):
            raise InputError(f"{name} has the unknown entries {unknown}; leave them out")
        for part in data:
            _refuse_unknown(part, data[part], known[part])


def _unbounded(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return plain data in which null, where it stands for infinity, is infinite."""
    return {**data, name: math.inf if data[name] is None else data[name]}


def for_devices(data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the largest part, which devices do not need: the tail by which the agent accounts for clipping."""
    if "ball" not in data:
        return dict(data)
    return {**data, "ball": {**data["ball"], "tail": [[], []]}}


def wave_for_devices(
    problem: Problem, plan: Plan, release: Mapping[str, Any], direction: Direction = Direction.MAXIMIZE, block: int = 1
) -> dict[str, Any]:
    """Write what devices are told of a wave, as plain data: what was played, and how to make a report of it.

    If the study minimises, devices record costs, and the release is made for their negative. The devices of each block
    report on its rounds alone. The numbers of guardrails' metrics follow those of the objective, metric after metric.
    """
    arms = plan.arms.tolist()
    told = {
        "wave": plan.wave,
        "arms": arms,
        "decisions": [problem.decisions[arm] for arm in arms],
        "rounds": plan.lived.tolist(),
        "release": for_devices(release),
    }
    if plan.blocks > 1:
        told["block"] = block
    if plan.also:
        further = metrics_of(problem, direction)[1:]
        told["metrics"] = [{"name": name, "direction": str(towards)} for name, towards, _ in further]
    return told if direction is Direction.MAXIMIZE else {**told, "direction": str(direction)}


def asked_of_device(told: Mapping[str, Any], coordinates: int, decisions: int) -> list[tuple[str, Direction]]:
    """Return the metrics of a report and their directions, as a device is told them; the objective's name is empty.

    A report whose length is not that of the release is refused: what is promised is promised for the release's numbers.
    """
    further, ways = told.get("metrics", []), list(Direction)
    if not isinstance(further, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) and one["name"] and one.get("direction") in ways
        for one in further
    ):
        raise InputError(f"the coordinator asks about the metrics {further!r:.100}; nothing is sent")
    if decisions * (1 + len(further)) != coordinates:
        each = f" and {1 + len(further)} metrics" if further else ""
        raise InputError(f"a report has {coordinates} numbers, got {decisions} decisions{each}; nothing is sent")
    objective = Direction.of(told.get("direction", Direction.MAXIMIZE))
    return [("", objective), *((one["name"], Direction(one["direction"])) for one in further)]
