"""The types that several bodies use."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Numbers = list[float]
Matrix = list[Numbers]
Decision = dict[str, Any] | Numbers  # the values of the parameters by name, or the coordinates of the action
Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Stage = Literal["new", "open", "playing", "collecting", "closed", "finished"]
Life = Literal["draft", "running", "paused", "archived"]
State = Literal["draft", "planning", "waiting for people", "playing", "collecting", "paused", "finished", "archived"]
Cause = Literal["few people", "nobody left", "clock back", "old database"]
TrustModel = Literal["central", "local", "shuffle", "aggregate"]


class Body(BaseModel):
    """An object with these properties and no others."""

    model_config = ConfigDict(extra="forbid")
