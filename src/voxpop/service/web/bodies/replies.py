"""The bodies of replies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from voxpop.service.study.life import Wanted
from voxpop.service.web.bodies.base import Body, Cause, Count, Decision, Hash, Life, Numbers, Stage, State, TrustModel
from voxpop.service.web.bodies.waves import DeviceWave, Forecast, LogEvent


class Error(Body):
    """Why a request was refused, in one sentence."""

    error: str


class Alive(Body):
    """The process is alive."""

    status: Literal["alive"]


class Ready(Body):
    """The service is ready for requests."""

    status: Literal["ready"]


class OpenAPIInfo(Body):
    """What the document is about."""

    title: str
    version: str
    description: str


class OpenAPI(Body):
    """An OpenAPI document."""

    openapi: Literal["3.1.0"]
    info: OpenAPIInfo
    tags: list[dict[str, str]]
    paths: dict[str, Any]
    components: dict[str, Any]


class StudyCreated(Body):
    """The name of the study."""

    study: str


class StudyGlance(Body):
    """A study at a glance."""

    study: str
    state: State = Field(description="Where it is, in a word or three.")
    archived: bool
    wave: Count
    registered: Count
    people: Count = Field(description="Whom the open wave needs; 0 if none is open.")
    answered: Count = Field(description="Who of them has answered.")


class StudyNames(Body):
    """The names of all studies, and each at a glance."""

    studies: list[str]
    glances: list[StudyGlance]


class LifeChanged(Body):
    """Where a study stands now."""

    study: str
    wanted: Wanted
    changed: bool = Field(description="False if it was there already.")


class Deleted(Body):
    """A study was deleted."""

    study: str
    status: Literal["deleted"]


class KeyMade(Body):
    """A new key, which is shown only here."""

    name: str
    key: str


class KeyListed(Body):
    """A key, without the key itself."""

    name: str
    role: Literal["operator", "viewer"]
    study: str | None = Field(description="The study that a viewer may see; null for operators, who see all.")
    created_at: float = Field(description="Seconds since 1970; 0 if an older version made it.")
    revoked_at: float | None


class Keys(Body):
    """All keys by name."""

    keys: list[KeyListed]


class Revoked(Body):
    """A key was revoked, now or before."""

    name: str
    status: Literal["revoked"]


class AuditEntry(Body):
    """Who did what."""

    number: Count
    at: float = Field(description="Seconds since 1970.")
    actor: str
    action: str
    study: str | None
    detail: str


class Audit(Body):
    """The audit trail, the newest entries first."""

    entries: list[AuditEntry]


class BestDecision(Body):
    """The best decision so far, and how sure that is."""

    index: Count
    decision: Decision
    certified: float | None = Field(
        ge=0,
        description="No decision is better by more than this, with the given confidence; null if nothing is known.",
    )
    confidence: float | None = Field(gt=0, lt=1, description="null if the certificate promises nothing.")
    expected_loss: float | None = Field(
        description="What it is expected to lose per round, compared with the decision that is best; null if the "
        "policy does not estimate it."
    )


class DecisionInForce(Body):
    """The decision that is used now: the one that is tried out, or the best so far."""

    index: Count
    decision: Decision
    rounds: Count = Field(description="The number of rounds for which it stays in force.")


class Funnel(Body):
    """What became of the people of a wave."""

    asked: Count = Field(description="Invitations so far.")
    answered: Count = Field(description="Reports that were counted.")
    lapsed: Count = Field(description="Invitations that ended without an answer.")
    refused: Count = Field(description="Reports with a valid token that were not counted.")


class StudyHold(Body):
    """Why a study stands still."""

    cause: Cause
    sentence: str = Field(description="What it waits for, or what to do about it.")


class Status(Body):
    """How far a study is."""

    study: str
    stage: Stage
    life: Life = Field(description="What operators decided: a draft is not begun, and a paused study asks nobody.")
    state: State = Field(description="Both together, in a word or three.")
    wave: Count
    rounds: Count = Field(description="Rounds of the wave.")
    played: Count = Field(description="Rounds of the wave that have been played.")
    people: Count = Field(description="People whose reports the wave needs.")
    answered: Count
    invited: Count = Field(description="People who have not answered yet.")
    short: Count = Field(description="People who are missing because too few have registered.")
    funnel: Funnel
    registered: Count
    never_asked: Count
    withdrawn: Count = Field(description="People who have withdrawn.")
    active: Count = Field(description="Actions that can still be best.")
    in_force: DecisionInForce
    best: BestDecision
    forecast: Forecast | None = Field(description="What the open wave is expected to bring and to cost, if known.")
    arms: Count = Field(description="Decisions that are played in the wave.")
    reason: str | None = Field(description="Why the study is finished; null if it is not.")
    warning: str = Field(description="What the model check found last; empty if nothing is wrong.")
    holds: list[StudyHold] = Field(description="Why the study stands still; empty if it goes on.")
    says: list[str] = Field(description="The same in sentences.")


class Log(Body):
    """The events of a study."""

    events: list[LogEvent]


class WatchedWave(Body):
    """A closed wave."""

    wave: Count
    rounds: Count
    arms: Count
    people: Count
    active: Count
    width: float
    forecast: Forecast | None = Field(description="What it was expected to bring and to cost, if known.")
    warning: str = Field(description="What the model check found afterwards; empty if nothing is wrong.")


class PrivacySummary(Body):
    """What people are promised; null where nothing is."""

    privacy: Literal["none"] | TrustModel
    epsilon: float | None
    delta: float | None
    calibration: str | None
    caveats: list[str]


class LedgerTotals(Body):
    """What all releases together cost the person who is exposed the most."""

    releases: Count
    people: Count
    epsilon: float | None = Field(description="null if nothing is promised.")
    delta: float
    guaranteed: bool


class Watch(Body):
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


class RoundsCounted(Body):
    """The rounds that were counted now, and those played in the wave so far."""

    counted: Count
    played: Count


class Registered(Body):
    """The participant is registered."""

    status: Literal["registered"]


class Withdrawn(Body):
    """The participant has withdrawn, now or before; what may be forgotten is."""

    status: Literal["withdrawn"]


Pause = Annotated[float, Field(ge=0, description="Seconds after which it is worth checking in again.")]


class Invitation(Body):
    """The participant is invited to send a report."""

    invited: Literal[True]
    status: Literal["invited"]
    token: str
    upload: str = Field(description="The path, or the address of a shuffler, to which the report is sent.")
    helper: str = Field("", description="In the aggregate model: the address to which one share is sent first.")
    seconds_left: float = Field(ge=0)
    next_check_in: Pause
    wave: DeviceWave


class Waiting(Body):
    """The participant is not invited now but may be later."""

    invited: Literal[False]
    status: Literal["waiting"]
    participations: Count = Field(description="How often the participant has taken part.")
    next_check_in: Pause


class NotNeeded(Body):
    """The participant has answered in this wave or withdrawn, or the study is over."""

    invited: Literal[False]
    status: Literal["answered", "finished", "withdrawn"]
    next_check_in: Pause | None = Field(description="null if the participant is never asked again.")


class CheckIn(RootModel[Annotated[Invitation | Waiting | NotNeeded, Field(discriminator="status")]]):
    """Whether the participant is invited and, if so, what the device needs."""


class Receipt(Body):
    """The report is stored, now or by an earlier request."""

    status: Literal["counted", "counted before"]


class Taken(Body):
    """The total is stored."""

    status: Literal["taken"]


class BatchProgress(Body):
    """How far a batch is."""

    count: Count = Field(description="Reports so far.")
    withdrawn: list[Hash] = Field(description="Of the overdue and forgotten tokens, those that can no longer answer.")
    answered: list[Hash] = Field(description="Of the overdue and forgotten tokens, those whose reports are counted.")


class SealedBatch(Body):
    """The total of the shares, or the tokens without a share; then nothing was added up."""

    total: list[int]
    missing: list[Hash]


class CalledOff(Body):
    """A batch was deleted, now or before."""

    status: Literal["called off"]
