"""The definition of a study: problem, policy, trust model, and the rules by which people are asked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from voxpop.errors import InputError, require_choice, said_of
from voxpop.io.files import read_text
from voxpop.io.recovered import tables_of
from voxpop.io.schema import asks_again
from voxpop.io.studyfile import calendar_of, direction_of, money_of, parse_study, privacy_of, strata_of, study_of
from voxpop.journal import journal
from voxpop.model.calendar import Calendar, Span
from voxpop.model.direction import Direction
from voxpop.model.options import check, option
from voxpop.policies import make_policy
from voxpop.privacy import Budget, Entry, Ledger
from voxpop.privacy.ledger import compose_any
from voxpop.service.stores.schema import NAME

PARTS = ("problem", "policy", "privacy", "rules", "reward")  # of a definition, as it is stored
NEWER = {"wave_deadline", "most_invited"}  # rules that are stored if they are not as usual
RARE = {"direction", "strata", "calendar", "money"}  # parts that may be missing
MOST_TEXT = 200  # characters of a label, a name or a setting
UNSAYABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # what XML cannot hold
MOST_NUMBER = 1e100  # whose square is still a number
MARGIN = 1.03  # releases with binomial noise differ by so much
CODE = re.compile(r"[\x21-\x7e]{8,128}")  # devices send it in a header


@dataclass(frozen=True)
class Rules:
    """How people are asked and who counts the rounds: the [service] table of a study file."""

    deadline: float = option(
        86_400.0,
        above=0,
        most=1e9,
        unit="seconds",
        label="Seconds to answer",
        help="Seconds to answer an invitation before someone else is invited.",
    )
    wave_deadline: float | None = option(
        None,
        above=0,
        most=1e9,
        unit="seconds",
        label="Seconds until a wave closes",
        help="Seconds after which a wave closes with those who answered; unless given, it waits for all answers.",
    )
    most_invited: float = option(
        3.0,
        least=1,
        most=100,
        unit="people",
        label="Most people invited for an answer",
        help="People invited at most for each answer that a wave lacks, if some do not answer; 1: no spare ones.",
    )
    rounds_per_second: float | None = option(
        None,
        above=0,
        most=1e12,
        unit="rounds",
        help="Rounds per second of a clock that plays them; unless given, the calendar or the application does.",
    )
    participations: int = option(
        1, least=1, most=1000, label="Times a person may be asked", help="How often a person may take part."
    )
    budget: float | None = option(
        None,
        above=0,
        most=1e6,
        label="Budget of epsilon",
        help="The total epsilon of a person; unless given, the epsilon of one release.",
    )

    def __post_init__(self) -> None:
        check(self, "service.")


@dataclass(frozen=True, eq=False)
class Definition(journal.Definition):
    """Everything that defines a study of the service; it never changes. Its name is the study's, and is not stored.

    As in every journal, the problem maximises. Devices record rewards or costs, as the direction says, and turn them.
    """

    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.policy.aggregates:
            raise InputError(
                f"policy {self.policy.name!r} asks one person per round, but a service asks many per wave; use waves"
            )
        if who := asks_again(self.policy):
            raise InputError(
                f"who = {who!r} asks the same people in every wave, and a service invites others each time; use fresh "
                "people here, or ask with: voxpop ask"
            )
        if self.rules.budget is not None and self.privacy.budget is None:
            raise InputError(f"service.budget {self.rules.budget:g} needs a trust model; add a [privacy] table")
        if self.rules.wave_deadline is not None and (second := self.privacy.release_type.second) is not None:
            raise InputError(
                f"service.wave_deadline closes a wave with fewer people than asked, and the noise of a study with a "
                f"{second} is made for all of them; leave it out: people who do not answer are replaced"
            )
        if self.rules.wave_deadline is not None and self.strata is not None:
            raise InputError(
                "service.wave_deadline closes a wave with fewer people than asked, whose strata would not be in "
                "proportion; leave it out"
            )
        if self.rules.rounds_per_second is not None and self.calendar is not None:
            raise InputError(
                "rounds are played by the [calendar] or by service.rounds_per_second; leave one of them out"
            )

    @property
    def budget(self) -> Budget | None:
        """The privacy budget of one person for the whole study."""
        promised = self.privacy.budget
        if promised is None:
            return None
        return Budget(self.rules.budget or promised.epsilon, promised.delta, self.rules.participations)

    @property
    def population(self) -> int | None:
        """How many people there are, of whom no more can register; None if the policy is told of no such number."""
        return getattr(self.policy, "population", None)

    @property
    def by_clock(self) -> bool:
        """True if a clock plays the rounds, at a rate or by the calendar; otherwise the application reports them."""
        return self.rules.rounds_per_second is not None or self.calendar is not None

    def rounds_since(self, begun: float, now: float) -> int:
        """Count the rounds that a clock has played of a wave; by the calendar, -1 before its first round begins."""
        if self.calendar is None:
            return math.floor(max(0.0, now - begun) * (self.rules.rounds_per_second or 0.0))
        before, moment = self.calendar.begun(_time(begun)), _time(now)
        started = self.calendar.begun(moment)
        return -1 if started <= before else started - before - (self.calendar.round_at(moment) is not None)

    def end_of_rounds(self, begun: float, rounds: int) -> float:
        """Return when a clock will have played so many rounds of a wave; infinity if there is no clock."""
        if self.calendar is not None:
            return last_round(self.calendar, begun, rounds).ends.timestamp()
        return begun + rounds / self.rules.rounds_per_second if self.rules.rounds_per_second else math.inf

    def encode(self) -> dict[str, Any]:
        """Return the definition as plain data."""
        data = {name: value for name, value in super().encode().items() if name in {*PARTS, *RARE}}
        if self.direction is Direction.MAXIMIZE:  # then nothing is said, as in studies of earlier versions
            del data["direction"]
        rules = {part.name: getattr(self.rules, part.name) for part in fields(Rules)}
        for part in fields(Rules):
            if part.name in NEWER and rules[part.name] == part.default:  # then studies of earlier versions are the same
                del rules[part.name]
        return {**data, "rules": rules}

    @classmethod
    def decode(cls, data: Any, name: str = "study") -> Definition:
        """Read what `encode` wrote; raise `InputError` if that is impossible."""
        if not isinstance(data, Mapping) or {"policy", *data} - RARE != set(PARTS):
            raise InputError(
                f"a study is an object with the parts {', '.join(PARTS)}; make it with: voxpop study create"
            )
        direction = data.get("direction", Direction.MAXIMIZE)
        policy = make_policy().settings() if data.get("policy") is None else data["policy"]
        try:
            begun = journal.Definition.decode({**data, "policy": policy, "name": name, "direction": direction})
            parts = {part.name: getattr(begun, part.name) for part in fields(begun)}
            return cls(**parts, rules=rules_of(data["rules"]))
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
            raise InputError(
                f"the study cannot be read ({type(error).__name__}); make it with: voxpop study create"
            ) from None


def require_sayable(part: Any) -> None:
    """Refuse texts and numbers in a definition that pages, pictures and files could not show."""
    if isinstance(part, Mapping):
        for name, value in part.items():
            require_sayable(name)
            require_sayable(value)
    elif isinstance(part, list | tuple):
        for value in part:
            require_sayable(value)
    elif isinstance(part, str) and (len(part) > MOST_TEXT or UNSAYABLE.search(part)):
        raise InputError(
            f"a text of a study has at most {MOST_TEXT} characters of Unicode, got {part!a:.60}; change it"
        )
    elif isinstance(part, int | float) and abs(part) > MOST_NUMBER:
        raise InputError(f"a number of a study is at most {MOST_NUMBER:g}, got {part:.6g}; use another unit")


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def last_round(calendar: Calendar, begun: float, rounds: int) -> Span:
    """Return when the last of so many rounds is played, of which the first is the next after a time."""
    return calendar.span(calendar.begun(_time(begun)) + rounds)


def rules_of(data: Mapping[str, Any]) -> Rules:
    """Read the rules from a [service] table."""
    known = [part.name for part in fields(Rules)]
    for key in data:
        require_choice("entry of [service]", key, known)
    return Rules(**data)


def read_definition(path: Path) -> tuple[str, Definition]:
    """Read the name and the definition of a study from a study file."""
    return definition_of(path, parse_study(path, read_text(path)))


def definition_of(path: Path, data: Mapping[str, Any]) -> tuple[str, Definition]:
    """Make the name and the definition of a study of a study file's tables; the path is only what errors call it."""
    problem, policy = study_of(path, data)
    direction = direction_of(path, data)
    with said_of(path):
        rules = rules_of(data.get("service", {}))
        reward = str(data.get("reward", direction.measure))
        privacy = privacy_of(path, data)
        strata, calendar = strata_of(path, data), calendar_of(path, data)
        said: dict[str, Any] = {"reward": reward, "direction": direction, "strata": strata, "calendar": calendar}
        said["money"] = money_of(path, data)
        definition = Definition(direction.problem(problem), policy, privacy, **said, rules=rules)
    name = re.sub(r"[^a-z0-9]+", "-", str(data.get("name", path.stem)).lower()).strip("-")
    return require_name(name[:63]), definition


def study_text(name: str, definition: Definition) -> str:
    """Write the study file that makes this study; refuse one that would make another."""
    import tomlkit

    rules = {key: value for key, value in asdict(definition.rules).items() if value != getattr(Rules(), key)}
    tables = {**tables_of(definition), "name": name, **({"service": rules} if rules else {})}
    text = tomlkit.dumps(tables)
    made = definition_of(Path(f"{name}.toml"), parse_study(Path(f"{name}.toml"), text))[1]
    if not alike(made.encode(), definition.encode()):
        raise InputError(f"no study file makes the study {name!r} again; take what is stored: everything (JSON)")
    return text


def alike(one: Any, other: Any) -> bool:
    """Tell whether two definitions as plain data are the same, up to the last digits of numbers."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def require_code(code: str) -> str:
    """Return an enrolment code if devices can send it, as they do in the header of a request."""
    if not CODE.fullmatch(code):
        raise InputError(
            "an enrolment code has 8 to 128 characters: letters without accents, digits and signs, and no spaces; "
            "change it"
        )
    return code


def require_name(name: str) -> str:
    """Return the name if it can be part of a URL; refuse it otherwise."""
    if not NAME.fullmatch(name):
        raise InputError(f"a study's name has 1 to 63 of a-z, 0-9 and -, and begins with a-z or 0-9, got {name!r}")
    return name


def most_participations(ledger: Ledger, entry: Entry, wanted: int) -> int:
    """Compute how often a person may take part in releases like this and the earlier ones, up to `wanted`.

    Whichever of them a person took part in before, the ledger then allows this release.
    """
    if ledger.budget is None:
        return wanted
    budget, most, kinds = ledger.budget, 0, [*ledger.entries, entry]
    while most < wanted and compose_any(kinds, most + 1, budget.delta) <= budget.epsilon * (1 + 1e-9):
        most += 1
    return most


def require_affordable(definition: Definition) -> None:
    """Refuse a budget that does not pay for one release, or for two if people may take part more than once.

    Such a study would silently wait for other people.
    """
    entry, budget, rules = definition.privacy.cost, definition.budget, definition.rules
    if entry is None or budget is None:
        return
    if most_participations(Ledger(budget), entry, 1) == 0:
        raise InputError(
            f"service.budget {budget.epsilon:g} does not pay for one release of epsilon {entry.epsilon:g}; raise it"
        )
    # Releases with binomial noise differ by a few percent, and this one is only typical.
    margin = 1.0 if entry.binomial is None else MARGIN
    least = math.ceil(100 * margin * compose_any([entry], 2, budget.delta)) / 100
    if rules.participations == 1 or budget.epsilon >= least:
        return
    raise InputError(
        f"service.participations {rules.participations} needs a service.budget of at least {least:g}, "
        f"which is what two releases may cost, got {budget.epsilon:g}; raise it, or leave the participations at 1"
    )
