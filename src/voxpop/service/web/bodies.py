"""The bodies of requests and replies: requests are validated by them, and the OpenAPI document is made from them.

What a study and its log consist of is not described a second time: `openapi.py` makes those schemas from the values
themselves, and bodies name them by `part`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from voxpop.journal.journal import Finished, Opened, Released
from voxpop.model.direction import Direction
from voxpop.model.waves import Forecast
from voxpop.privacy.release import Batch
from voxpop.service.operators import KeyInfo
from voxpop.service.study.coordinator import MOST_ROUNDS
from voxpop.service.study.invitations import Funnel
from voxpop.service.study.life import Wanted
from voxpop.service.study.overview import Glance
from voxpop.service.study.stages import Cause, Life, Stage, State
from voxpop.service.web.routes import Message

COMPONENT = "#/components/schemas/"
MOST_STUDY_BYTES = 32 * 2**20  # of a study, and of the messages between coordinator and shuffler


def part(name: str) -> Meta:
    """Describe a value by the component of this name, which is not one of these bodies."""
    return Meta(extra_json_schema={"$ref": COMPONENT + name})


def says(description: str) -> Meta:
    """Describe a value in a sentence."""
    return Meta(description=description)


Count = Annotated[int, Meta(ge=0)]
Wave = Annotated[int, Meta(ge=1, le=1000)]
People = Annotated[int, Meta(ge=1, le=10**7)]
Coordinates = Annotated[int, Meta(ge=1, le=100_000)]
Bits = Annotated[int, Meta(ge=1, le=10**9)]
NotNegative = Annotated[float, Meta(ge=0)]
Chance = Annotated[float, Meta(gt=0, lt=1)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Numbers = list[float]
Decision = dict[str, Any] | Numbers  # the values of the parameters by name, or the coordinates of the action
Pause = Annotated[float, Meta(ge=0, description="Seconds after which it is worth checking in again.")]
StudyDefinition = Annotated[dict[str, Any], part("StudyDefinition")]
Release = Annotated[dict[str, Any], part("Release")]
LogEvent = Annotated[dict[str, Any], part("LogEvent")]


# Requests


class NewStudy(Message):
    """A study to create."""

    definition: StudyDefinition
    enrolment_code: Annotated[
        str | None, says("8 to 128 characters that a header can hold: visible ASCII, without spaces.")
    ] = None
    draft: Annotated[bool, says("Only keep it: nobody sees it before it is started, and it can be changed.")] = False


class LifeChange(Message):
    """What an operator wants of a study."""

    wanted: Annotated[
        Literal["running", "paused", "ended", "archived"],
        says(
            "running starts a draft, resumes a paused study and shows an archived one again; ended finishes a "
            "study with what is known."
        ),
    ]


class NewKey(Message):
    """For whom a key is made."""

    role: Literal["operator", "viewer"] = "operator"
    study: Annotated[str | None, says("The study that a viewer may see.")] = None


class Rounds(Message):
    """Rounds that an application played."""

    wave: Wave
    rounds: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)]


class Registration(Message):
    """What a person says of themselves; without strata nothing is said."""

    optional: ClassVar[bool] = True
    stratum: Annotated[str | None, says("The part of the population to which the person belongs.")] = None


class Report(Message):
    """A report: one number for each arm; null for one that is missing, if answers are clipped."""

    report: Annotated[list[float | None], Meta(min_length=1)]


class Encoded(Message, kw_only=True):
    """A batch, and how its reports are encoded."""

    size: People
    coordinates: Coordinates
    levels: Bits
    trials: Bits
    chance: Chance
    shared: Annotated[bool, says("Reports are shares, which the coordinator asks for by their tokens.")] = False

    @property
    def batch(self) -> Batch:
        """The batch as a value."""
        return Batch(self.size, self.coordinates, self.levels, self.trials, self.chance, self.shared)


class ShuffledReport(Encoded, kw_only=True):
    """A report, and the batch and encoding for which the device made its noise."""

    report: Annotated[list[float], Meta(min_length=1)]


class Announcement(Encoded, kw_only=True):
    """A batch, the tokens that may send reports, those whose time is over, and those of people who withdrew."""

    tokens: list[Hash]
    overdue: list[Hash]
    forget: Annotated[list[Hash], says("Tokens that send nothing more and whose reports are deleted.")] = []  # noqa: RUF012


class Seal(Message):
    """The tokens whose shares are added up, as many as the batch has people."""

    tokens: Annotated[list[Hash], Meta(min_length=1)]


class Total(Message):
    """The total of a batch, as a shuffler forwards it."""

    count: Annotated[int, Meta(ge=1)]
    total: list[int]
    tokens: list[str]


# Replies


class DeviceWave(Message):
    """What a device needs to know about a wave to make its report."""

    wave: Annotated[int, Meta(ge=1)]
    arms: list[Count]
    decisions: list[Decision]
    rounds: list[Count]
    release: Release
    direction: Annotated[Direction, says("If it minimises, what devices record are costs.")] = Direction.MAXIMIZE


class OpenAPI(Message):
    """An OpenAPI document."""

    openapi: Literal["3.1.0"]
    info: dict[str, str]
    tags: list[dict[str, str]]
    paths: dict[str, Any]
    components: dict[str, Any]


class StudyGlance(Message):
    """A study at a glance."""

    study: str
    state: Annotated[State, says("Where it is, in a word or three.")]
    archived: bool
    wave: Count
    registered: Count
    people: Annotated[Count, says("Whom the open wave needs; 0 if none is open.")]
    answered: Annotated[Count, says("Who of them has answered.")]

    @classmethod
    def of(cls, at: Glance) -> StudyGlance:
        """Make it of what an overview shows."""
        archived = at.life == Life.ARCHIVED
        return cls(at.study, at.state, archived, at.wave, at.registered, at.wanted, at.answered)


class LifeChanged(Message):
    """Where a study stands now."""

    study: str
    wanted: Wanted
    changed: Annotated[bool, says("False if it was there already.")]


class AuditEntry(Message):
    """Who did what."""

    number: Count
    at: Annotated[float, says("Seconds since 1970.")]
    actor: str
    action: str
    study: str | None
    detail: str


class BestDecision(Message):
    """The best decision so far, and how sure that is."""

    index: Count
    decision: Decision
    certified: Annotated[
        NotNegative | None,
        says("No decision is better by more than this, with the given confidence; null if nothing is known."),
    ]
    confidence: Annotated[Chance | None, says("null if the certificate promises nothing.")]
    expected_loss: Annotated[
        float | None,
        says(
            "What it is expected to lose per round, compared with the decision that is best; null if the policy "
            "does not estimate it."
        ),
    ]


class DecisionInForce(Message):
    """The decision that is used now: the one that is tried out, or the best so far."""

    index: Count
    decision: Decision
    rounds: Annotated[Count, says("The number of rounds for which it stays in force.")]


class StudyHold(Message):
    """Why a study stands still."""

    cause: Cause
    sentence: Annotated[str, says("What it waits for, or what to do about it.")]


class Status(Message):
    """How far a study is."""

    study: str
    stage: Stage
    life: Annotated[Life, says("What operators decided: a draft is not begun, and a paused study asks nobody.")]
    state: Annotated[State, says("Both together, in a word or three.")]
    wave: Count
    rounds: Annotated[Count, says("Rounds of the wave.")]
    played: Annotated[Count, says("Rounds of the wave that have been played.")]
    people: Annotated[Count, says("People whose reports the wave needs.")]
    answered: Count
    invited: Annotated[Count, says("People who have not answered yet.")]
    short: Annotated[Count, says("People who are missing because too few have registered.")]
    funnel: Funnel
    registered: Count
    never_asked: Count
    withdrawn: Annotated[Count, says("People who have withdrawn.")]
    active: Annotated[Count, says("Actions that can still be best.")]
    in_force: DecisionInForce
    best: BestDecision
    forecast: Annotated[Forecast | None, says("What the open wave is expected to bring and to cost, if known.")]
    arms: Annotated[Count, says("Decisions that are played in the wave.")]
    reason: Annotated[str | None, says("Why the study is finished; null if it is not.")]
    warning: Annotated[str, says("What the model check found last; empty if nothing is wrong.")]
    holds: Annotated[list[StudyHold], says("Why the study stands still; empty if it goes on.")]
    says: Annotated[list[str], says("The same in sentences.")]


class WatchedWave(Message):
    """A closed wave."""

    wave: Count
    rounds: Count
    arms: Count
    people: Count
    active: Count
    width: float
    forecast: Annotated[Forecast | None, says("What it was expected to bring and to cost, if known.")]
    warning: Annotated[str, says("What the model check found afterwards; empty if nothing is wrong.")]


class PrivacySummary(Message):
    """What people are promised; null where nothing is."""

    privacy: str
    epsilon: float | None
    delta: float | None
    calibration: str | None
    caveats: list[str]
    honest: float = 1.0


class LedgerTotals(Message):
    """What all releases together cost the person who is exposed the most."""

    releases: Count
    people: Count
    epsilon: Annotated[float | None, says("null if nothing is promised.")]
    delta: float
    guaranteed: bool


class Watch(Message):
    """What can be seen of a study."""

    status: Status
    reward: str
    privacy: PrivacySummary
    waves: list[WatchedWave]
    actions: list[str]
    lower: Numbers
    upper: Numbers
    estimates: Numbers
    active: list[Count]
    asked: list[Count]
    ledger: LedgerTotals
    budget: float | None


class CurrentDecision(DecisionInForce):
    """The decision in force, and how far the study is."""

    wave: Count
    stage: Stage


class Invitation(Message, kw_only=True):
    """The participant is invited to send a report."""

    invited: Annotated[bool, Meta(extra_json_schema={"const": True})]
    status: Literal["invited"]
    token: str
    upload: Annotated[str, says("The path, or the address of a shuffler, to which the report is sent.")]
    helper: Annotated[str, says("In the aggregate model: the address to which one share is sent first.")] = ""
    seconds_left: NotNegative
    next_check_in: Pause
    wave: DeviceWave


class Waiting(Message):
    """The participant is not invited now but may be later."""

    invited: Annotated[bool, Meta(extra_json_schema={"const": False})]
    status: Literal["waiting"]
    participations: Annotated[Count, says("How often the participant has taken part.")]
    next_check_in: Pause


class NotNeeded(Message):
    """The participant has answered in this wave or withdrawn, or the study is over."""

    invited: Annotated[bool, Meta(extra_json_schema={"const": False})]
    status: Literal["answered", "finished", "withdrawn"]
    next_check_in: Annotated[Pause | None, says("null if the participant is never asked again.")]


class BatchProgress(Message):
    """How far a batch is."""

    count: Annotated[Count, says("Reports so far.")]
    withdrawn: Annotated[list[Hash], says("Of the overdue and forgotten tokens, those that can no longer answer.")]
    answered: Annotated[list[Hash], says("Of the overdue and forgotten tokens, those whose reports are counted.")]


# Small replies


def reply(name: str, description: str, /, **properties: Any) -> type[msgspec.Struct]:
    """Make the body of a reply that nobody but its reader takes apart."""
    return msgspec.defstruct(name, list(properties.items()), bases=(Message,), namespace={"__doc__": description})


def event(kind: str, description: str, body: Any) -> type[msgspec.Struct]:
    """Make the body of a record of a study's log; its time is that of the coordinator that appended it, since 1970."""
    return reply(f"{kind.capitalize()}Event", description, seq=Count, at=float, kind=Literal[kind], body=body)


Error = reply("Error", "Why a request was refused, in one sentence.", error=str)
Alive = reply("Alive", "The process is alive.", status=Literal["alive"])
Ready = reply("Ready", "The service is ready for requests.", status=Literal["ready"])
StudyCreated = reply("StudyCreated", "The name of the study.", study=str)
StudyNames = reply(
    "StudyNames", "The names of all studies, and each at a glance.", studies=list[str], glances=list[StudyGlance]
)
Deleted = reply("Deleted", "A study was deleted.", study=str, status=Literal["deleted"])
KeyMade = reply("KeyMade", "A new key, which is shown only here.", name=str, key=str)
Keys = reply("Keys", "All keys by name.", keys=list[KeyInfo])
Revoked = reply("Revoked", "A key was revoked, now or before.", name=str, status=Literal["revoked"])
Audit = reply("Audit", "The audit trail, the newest entries first.", entries=list[AuditEntry])
Log = reply("Log", "The events of a study.", events=list[LogEvent])
RoundsCounted = reply(
    "RoundsCounted",
    "The rounds that were counted now, and those played in the wave so far.",
    counted=Count,
    played=Count,
)
Registered = reply("Registered", "The participant is registered.", status=Literal["registered"])
Withdrawn = reply(
    "Withdrawn", "The participant has withdrawn, now or before; what may be forgotten is.", status=Literal["withdrawn"]
)
Receipt = reply(
    "Receipt", "The report is stored, now or by an earlier request.", status=Literal["counted", "counted before"]
)
Taken = reply("Taken", "The total is stored.", status=Literal["taken"])
SealedBatch = reply(
    "SealedBatch",
    "The total of the shares, or the tokens without a share; then nothing was added up.",
    total=list[int],
    missing=list[Hash],
)
CalledOff = reply("CalledOff", "A batch was deleted, now or before.", status=Literal["called off"])
CheckIn = reply("CheckIn", "Whether the participant is invited and, if so, what the device needs.")  # one of these:
CHECK_INS = (Invitation, Waiting, NotNeeded)
EVENTS = (
    event("created", "The study was created.", StudyDefinition),
    event("opened", "A wave was planned.", Opened),
    event("closed", "A wave was released.", Released),
    event("finished", "There is nothing left to learn.", Finished),
)
