"""Reports in transit: decoding JSON to eight bytes per number, and checking that they can be added up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from voxpop.errors import Array, InputError
from voxpop.service.keys import same
from voxpop.service.refusals import Refusal

NUMBERS = {float, type(None)}
UNKNOWN_TOKEN = "this token is not known; check in to get the right one"
FORWARDED = b""  # the digest of a report that was counted and whose own digest is erased


class _Report(msgspec.Struct, forbid_unknown_fields=True):
    report: list[float | None]


_QUICK = msgspec.json.Decoder(_Report)

Verdict = bool | Refusal  # True: counted now; False: counted before


def decode(body: bytes) -> bytes:
    """Decode the numbers of {"report": [...]}; refuse anything else.

    A number that is missing (null) becomes NaN, and one that is too large infinite. Only the release knows what to make
    of them: where answers are clipped, refusing a value would reveal something about it.
    """
    try:
        report = _QUICK.decode(body).report
    except msgspec.MsgspecError:
        report = _unusual(body)
    return np.array(report or _unusual(body), dtype="<f8").tobytes()


def _unusual(body: bytes) -> list[float | None]:
    """Decode a report that the quick decoder does not take, such as one with a number too large, or refuse it."""
    try:
        document = json.loads(body, parse_int=float)  # as whole numbers, those of thousands of digits are refused
    except (ValueError, RecursionError):
        raise Refusal(400, 'the body is not JSON; send {"report": [numbers]}') from None
    report = document.get("report") if isinstance(document, dict) and len(document) == 1 else None
    if not isinstance(report, list) or not report or not NUMBERS.issuperset(map(type, report)):
        raise Refusal(422, 'the body is not a report; send {"report": [numbers]}')
    return report


def check(tally: Callable[[Array], Any], arms: int, bodies: Mapping[int, bytes]) -> dict[int, Refusal]:
    """Find the reports that cannot be added up, by number; usually there are none, and a single sum shows it."""
    sentence = f"a report has {arms} numbers, got {{}}; send one for each arm"
    sizes = {number: len(body) // 8 for number, body in bodies.items() if len(body) != 8 * arms}
    problems = {number: Refusal(422, sentence.format(size)) for number, size in sizes.items()}
    fitting = {number: body for number, body in bodies.items() if number not in problems}
    try:
        if fitting:
            tally(matrix(list(fitting.values()), arms))
    except InputError as error:
        if len(fitting) == 1:
            return problems | dict.fromkeys(fitting, Refusal(422, str(error)))
        for number, body in fitting.items():
            problems |= check(tally, arms, {number: body})
    return problems


def matrix(bodies: Sequence[bytes], arms: int) -> Array:
    """Decode stored reports to numbers, (people, arms)."""
    return np.frombuffer(b"".join(bodies), dtype="<f8").reshape(-1, arms)


def judge(
    place: str, row: Any, digest: bytes, before: bytes | None, belongs: bool, over: bool, problem: Refusal | None
) -> Verdict:
    """Decide on a report, given the row of its token, if any, and the digest that was accepted under it just before."""
    if row is None:
        return Refusal(401, UNKNOWN_TOKEN)
    if not belongs:
        return Refusal(403, f"this token is for another {place}; upload to the address from the check-in")
    known = row.digest if before is None else before
    if known == FORWARDED or (known is not None and same(known, digest)):
        return False
    if known is not None:
        return Refusal(409, "another report was counted under this token; it stays as it is")
    if over:
        return Refusal(410, "this invitation is over; the report came too late and was not counted")
    return True if problem is None else problem
