"""What replies are made of: each is one value, which is made where it is known and describes itself.

The JSON of a reply is the encoding of its value, the OpenAPI document is made from its type, and the console's pages
show the same value.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

COMPONENT = "#/components/schemas/"


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object with these properties and no others."""


def part(name: str) -> Meta:
    """Describe a value by the component of this name in the OpenAPI document, because its type does not say it."""
    return Meta(extra_json_schema={"$ref": COMPONENT + name})


def says(description: str) -> Meta:
    """Describe a value in a sentence."""
    return Meta(description=description)


Count = Annotated[int, Meta(ge=0)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
NotNegative = Annotated[float, Meta(ge=0)]
Chance = Annotated[float, Meta(gt=0, lt=1)]
Numbers = list[float]
Decision = dict[str, Any] | Numbers  # the values of the parameters by name, or the coordinates of the action
