"""The bodies of requests, by which these are validated, and of replies that only HTTP knows.

Other replies are values of the service, defined where they are made (`service/messages.py`). What a study and its log
consist of is not described a second time either: `openapi.py` makes those schemas from the values themselves, and
bodies name them by `part`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta

from voxpop.journal.journal import Finished, Opened, Released
from voxpop.model.direction import Direction
from voxpop.privacy.release import Batch
from voxpop.service.audit import AuditEntry
from voxpop.service.messages import Chance, Count, Decision, Hash, part, says
from voxpop.service.operators import KeyInfo, KeyRole
from voxpop.service.outbox.receivers import Delivery, Format, Happening, Hook
from voxpop.service.study import participants
from voxpop.service.study.coordinator import MOST_ROUNDS
from voxpop.service.study.life import Wanted
from voxpop.service.study.overview import StudyGlance
from voxpop.service.web.routes import JSON, OCTETS, Message

MOST_STUDY_BYTES = 32 * 2**20  # of a study, and of the messages between coordinator and shuffler

Wave = Annotated[int, Meta(ge=1, le=1000)]
People = Annotated[int, Meta(ge=1, le=10**7)]
Coordinates = Annotated[int, Meta(ge=1, le=100_000)]
Bits = Annotated[int, Meta(ge=1, le=10**9)]
StudyDefinition = Annotated[dict[str, Any], part("StudyDefinition")]
Release = Annotated[dict[str, Any], part("Release")]
LogEvent = Annotated[dict[str, Any], part("LogEvent")]
Changed = Annotated[bool, says("False if it was so before.")]


# Requests


class NewStudy(Message):
    """A study to create."""

    definition: StudyDefinition
    enrolment_code: Annotated[
        str | None, says("8 to 128 characters that a header can hold: visible ASCII, without spaces.")
    ] = None
    public: Annotated[bool, says("Let anyone read the decision in force.")] = False
    draft: Annotated[bool, says("Only keep it: nobody sees it before it is started, and it can be changed.")] = False


class Codes(Message):
    """Enrolment codes, each for one person: 8 to 128 characters of visible ASCII, without spaces."""

    codes: Annotated[list[str], Meta(max_length=10_000)]


class LifeChange(Message):
    """What an operator wants of a study."""

    wanted: Annotated[
        Literal["running", "paused", "ended", "archived"],
        says(
            "running starts a draft, resumes a paused study and shows an archived one again; ended finishes a "
            "study with what is known."
        ),
    ]


class WaveClose(Message):
    """The wave to close with those who answered."""

    wave: Annotated[int, Meta(ge=1), says("So that no later one is closed if this one has been meanwhile.")]


class NewKey(Message):
    """For whom a key is made."""

    role: KeyRole = "operator"
    study: Annotated[str | list[str] | None, says("The study or studies of an owner, a viewer or an application.")] = (
        None
    )
    email: Annotated[str | None, says("Whoever the identity provider says has it signs in; then there is no key.")] = (
        None
    )


class NewHook(Message):
    """Who is told what happens."""

    address: Annotated[str, says("https://..., or the address of an e-mail.")]
    format: Format = "json"
    study: Annotated[str | None, says("null: all.")] = None
    events: Annotated[list[str], says(f"None: all of {', '.join([*Happening][:-1])}.")] = []  # noqa: RUF012


class Public(Message):
    """Whether anyone may read the decision in force."""

    public: bool


class Noted(Message):
    """A note on a wave, of at most 200 characters."""

    text: str


class Granted(Message):
    """The role of a member in a study; null for none."""

    role: Literal["owner", "viewer"] | None


class Rounds(Message):
    """Rounds that an application played."""

    wave: Wave
    rounds: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)]


class Registration(Message):
    """What a person says of themselves; without strata nothing is said."""

    optional: ClassVar[bool] = True
    stratum: Annotated[str | None, says("The part of the population to which the person belongs.")] = None


class Report(Message):
    """A report: one number for each arm; null for one that is missing, if answers are clipped.

    Where reports are shared, the body is the coordinator's share as bytes: a nonce, the public share, and its share of
    Prio3SumVec.
    """

    kinds: ClassVar[tuple[str, ...]] = (JSON, OCTETS)
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

    report: Annotated[
        Annotated[list[float], Meta(min_length=1)] | bytes,
        says("Numbers; where reports are shared, the base64 of the helper's nonce, public share and share."),
    ]

    @property
    def stored(self) -> bytes:
        """The report as it is stored."""
        return self.report if isinstance(self.report, bytes) else np.array(self.report, dtype="<f8").tobytes()


class Announcement(Encoded, kw_only=True):
    """A batch, the tokens that may send reports, those whose time is over, and those of people who withdrew."""

    tokens: list[Hash]
    overdue: list[Hash]
    forget: Annotated[list[Hash], says("Tokens that send nothing more and whose reports are deleted.")] = []  # noqa: RUF012


def bytes_of(hashes: list[str]) -> list[bytes]:
    """Return hashes as the databases keep them."""
    return [bytes.fromhex(each) for each in hashes]


class Seal(Message):
    """The tokens whose shares are added up, as many as the batch has people."""

    tokens: Annotated[list[Hash], Meta(min_length=1)]


class Verify(Message):
    """The coordinator's verifier shares of reports, and the key under which it made them."""

    key: Hash
    verifiers: Annotated[dict[Hash, bytes], says("By token, in base64.")]


class Total(Message):
    """The total of a batch, as a shuffler forwards it."""

    count: Annotated[int, Meta(ge=1)]
    total: list[int]
    tokens: list[Hash]


# Replies


class FurtherMetric(Message):
    """A metric that devices record besides the reward."""

    name: str
    direction: Annotated[Direction, says("If it minimises, less of it is better.")]


class DeviceWave(Message):
    """What a device needs to know about a wave to make its report."""

    wave: Annotated[int, Meta(ge=1)]
    arms: list[Count]
    decisions: list[Decision]
    rounds: Annotated[list[Count], says("Of each decision: the rounds that the report is about.")]
    release: Release
    block: Annotated[int, Meta(ge=1), says("The block of the wave whose rounds these are.")] = 1
    direction: Annotated[Direction, says("If it minimises, what devices record are costs.")] = Direction.MAXIMIZE
    metrics: Annotated[
        tuple[FurtherMetric, ...], says("Of guardrails: a report has their numbers after the reward's, one by one.")
    ] = ()


class OpenAPI(Message):
    """An OpenAPI document."""

    openapi: Literal["3.1.0"]
    info: dict[str, str]
    tags: list[dict[str, str]]
    paths: dict[str, Any]
    components: dict[str, Any]


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
KeyMade = reply(
    "KeyMade", "A new key, which is shown only here; null for an account without one.", name=str, key=str | None
)
LifeChanged = reply("LifeChanged", "Where a study stands now.", study=str, wanted=Wanted, changed=Changed)
WaveClosed = reply("WaveClosed", "A wave was closed with those who answered.", study=str, wave=int, changed=Changed)
Keys = reply("Keys", "All keys by name.", keys=list[KeyInfo])
Revoked = reply("Revoked", "A key was revoked, now or before.", name=str, status=Literal["revoked"])
Hooks = reply("Hooks", "Who is told what happens, by name.", webhooks=list[Hook])
Deliveries = reply("Deliveries", "What was told, or is to be, the newest first.", deliveries=list[Delivery])
Done = reply("Done", "It is done.", done=bool)
Audit = reply("Audit", "The audit trail, the newest entries first.", entries=list[AuditEntry])
Log = reply("Log", "The events of a study.", events=list[LogEvent])
Registered = reply("Registered", "The participant is registered.", status=Literal["registered"])
Withdrawn = reply(
    "Withdrawn", "The participant has withdrawn, now or before; what may be forgotten is.", status=Literal["withdrawn"]
)
Receipt = reply(
    "Receipt", "The report is stored, now or by an earlier request.", status=Literal["counted", "counted before"]
)
Taken = reply("Taken", "The total is stored.", status=Literal["taken"])
CalledOff = reply("CalledOff", "A batch was deleted, now or before.", status=Literal["called off"])
CheckIn = reply("CheckIn", "Whether the participant is invited and, if so, what the device needs.")  # one of these:
CHECK_INS = (participants.Invitation, participants.Waiting, participants.NotNeeded)
EVENTS = (
    event("created", "The study was created.", StudyDefinition),
    event("opened", "A wave was planned.", Opened),
    event("closed", "A wave was released.", Released),
    event("finished", "There is nothing left to learn.", Finished),
)
