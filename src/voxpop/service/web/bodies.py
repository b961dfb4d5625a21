"""What the bodies of requests look like."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from voxpop.service.study.coordinator import MOST_ROUNDS
from voxpop.service.web.standard_routes import schema

MOST_STUDY_BYTES = 32 * 2**20


class NewStudy(BaseModel):
    """A study to create."""

    model_config = ConfigDict(extra="forbid")
    definition: dict[str, Any]
    enrolment_code: str | None = Field(None, min_length=8, max_length=128)


class Rounds(BaseModel):
    """Rounds that an application played."""

    model_config = ConfigDict(extra="forbid")
    phase: int = Field(ge=1, le=1000)
    rounds: int = Field(ge=1, le=MOST_ROUNDS)


class Total(BaseModel):
    """What a shuffler forwards."""

    model_config = ConfigDict(extra="forbid")
    count: int = Field(ge=1)
    total: list[int]
    tokens: list[str]


REPORT = {
    "type": "object",
    "properties": {"report": {"type": "array", "items": {"type": "number"}, "minItems": 1}},
    "required": ["report"],
    "additionalProperties": False,
}
RECEIPT = schema(status={"enum": ["counted", "counted before"]})
