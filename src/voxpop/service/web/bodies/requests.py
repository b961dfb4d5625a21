"""The bodies of requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from voxpop.privacy.release import Batch
from voxpop.service.study.coordinator import MOST_ROUNDS
from voxpop.service.web.bodies.base import Body, Hash
from voxpop.service.web.bodies.definition import StudyDefinition

MOST_STUDY_BYTES = 32 * 2**20  # of a study, and of the messages between coordinator and shuffler

People = Annotated[int, Field(ge=1, le=10**7)]
Coordinates = Annotated[int, Field(ge=1, le=100_000)]
Bits = Annotated[int, Field(ge=1, le=10**9)]


class _DocumentedAs:
    """Documents a field with a model that does not validate it; `Definition.of` does, as for the command line."""

    def __init__(self, model: type[Body]) -> None:
        self._model = model

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self._model.__pydantic_core_schema__)


class NewStudy(Body):
    """A study to create."""

    definition: Annotated[dict[str, Any], _DocumentedAs(StudyDefinition)]
    enrolment_code: str | None = Field(
        None, description="8 to 128 characters that a header can hold: visible ASCII, without spaces."
    )
    draft: bool = Field(False, description="Only keep it: nobody sees it before it is started, and it can be changed.")


class LifeChange(Body):
    """What an operator wants of a study."""

    wanted: Literal["running", "paused", "ended", "archived"] = Field(
        description="running starts a draft, resumes a paused study and shows an archived one again; ended finishes a "
        "study with what is known."
    )


class NewKey(Body):
    """For whom a key is made."""

    role: Literal["operator", "viewer"] = "operator"
    study: str | None = Field(None, description="The study that a viewer may see.")


class Rounds(Body):
    """Rounds that an application played."""

    wave: int = Field(ge=1, le=1000)
    rounds: int = Field(ge=1, le=MOST_ROUNDS)


class Report(Body):
    """A report: one number for each arm; null for one that is missing, if answers are clipped."""

    report: list[float | None] = Field(min_length=1)


class Encoded(Body):
    """A batch, and how its reports are encoded."""

    size: People
    coordinates: Coordinates
    levels: Bits
    trials: Bits
    chance: float = Field(gt=0, lt=1)
    shared: bool = Field(False, description="Reports are shares, which the coordinator asks for by their tokens.")

    @property
    def batch(self) -> Batch:
        """The batch as a value."""
        return Batch(self.size, self.coordinates, self.levels, self.trials, self.chance, self.shared)


class ShuffledReport(Encoded):
    """A report, and the batch and encoding for which the device made its noise."""

    report: list[Annotated[float, Field(allow_inf_nan=False)]] = Field(min_length=1)


class Announcement(Encoded):
    """A batch, the tokens that may send reports, those whose time is over, and those of people who withdrew."""

    tokens: list[Hash]
    overdue: list[Hash]
    forget: list[Hash] = Field([], description="Tokens that send nothing more and whose reports are deleted.")


class Seal(Body):
    """The tokens whose shares are added up, as many as the batch has people."""

    tokens: list[Hash] = Field(min_length=1)


class Total(Body):
    """The total of a batch, as a shuffler forwards it."""

    count: int = Field(ge=1)
    total: list[int]
    tokens: list[str]
