"""Answers of people who were sampled unevenly, as `Study.tell` takes them if the study knows its strata.

Three forms say who is of which stratum: records with the key `stratum`, a table with a column of that name, and one
part for each stratum, such as {"young": matrix, "old": matrix}, in which a part is anything that a study without strata
takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from voxpop.errors import InputError, said_of
from voxpop.io.frames import is_frame
from voxpop.journal.wave import Wave, entry_of
from voxpop.model.problem import Problem
from voxpop.model.strata import Strata
from voxpop.model.waves import Feedback, Plan
from voxpop.privacy import Entry, Ledger, Source
from voxpop.study import answers
from voxpop.study.answers import Answers
from voxpop.study.tabular import untabled


def read(
    problem: Problem, plan: Plan, told: object, private: bool, strata: Strata | None, measure: str = "reward"
) -> Answers | Feedback:
    """Return what was told, with the sample that its people are if there are strata."""
    if strata is None:
        return answers.read(problem, plan, told, private, measure)
    if is_frame(told):
        told = untabled(problem, plan, told, measure, ["stratum"])
    if isinstance(told, Mapping) and any(str(name) in strata.shares for name in told):
        parts = {strata.find(name): part for name, part in told.items()}
        if len(parts) < len(told):
            raise InputError(f"the strata {', '.join(map(repr, told))} are not all different as text; join them first")
        averages = {name: _part(problem, plan, name, part, private, measure) for name, part in parts.items()}
        return _joined(strata, averages)
    if isinstance(told, Sequence) and any(isinstance(record, Mapping) for record in told):
        rest, belongs = split(told, strata)
        found = answers.read(problem, plan, rest, private)
        assert isinstance(found, Answers)
        return Answers(found.matrix, found.names, strata.sample([belongs[name] for name in found.names]))
    names = list(strata.shares)
    raise InputError(
        f"the study has the strata {', '.join(names)}, and nothing says who is of which; tell records with the key "
        f"stratum, or one part for each: {{{', '.join(f'{name!r}: ...' for name in names)}}}"
    )


def split(records: Sequence[object], strata: Strata) -> tuple[list[dict[Any, Any]], dict[str, str]]:
    """Return records without their strata, and the stratum of each person."""
    rest, belongs = list[dict[Any, Any]](), dict[str, str]()
    for number, record in enumerate(records, start=1):
        if not isinstance(record, Mapping) or "stratum" not in record:
            raise InputError(
                f"record {number} needs the key stratum, one of {', '.join(strata.shares)}; got {record!r}"
            )
        with said_of(f"record {number}"):
            stratum, person = strata.find(record["stratum"]), str(record.get("person"))
        if belongs.setdefault(person, stratum) != stratum:
            raise InputError(
                f"person {person!r} is of stratum {belongs[person]!r} and of {stratum!r}; give one of them"
            )
        rest.append({key: value for key, value in record.items() if key != "stratum"})
    return rest, belongs


def release(wave: Wave, told: Answers, ledger: Ledger, source: Source) -> tuple[Feedback, Entry]:
    """Release the answers of a sample, if the ledger allows it; like `release_wave`, this draws noise."""
    assert told.sample is not None
    entry = entry_of(wave, told.count, told.names)
    ledger.check(entry)
    return wave.release.weighted(told.matrix, told.sample, source), entry


def _part(problem: Problem, plan: Plan, name: str, told: object, private: bool, measure: str) -> Answers | Feedback:
    with said_of(f"stratum {name!r}"):
        return answers.read(problem, plan, told, private, measure)


def _joined(strata: Strata, parts: Mapping[str, Answers | Feedback]) -> Answers | Feedback:
    """Put the parts of all strata together."""
    averages = {name: part for name, part in parts.items() if isinstance(part, Feedback)}
    if len(averages) == len(parts):
        return strata.average(averages)
    people = {name: part for name, part in parts.items() if isinstance(part, Answers)}
    if averages:
        raise InputError(
            f"stratum {next(iter(averages))!r} is told as an average and {next(iter(people))!r} is not; tell all "
            "strata in the same form"
        )
    sample = strata.sample([name for name, part in people.items() for _ in range(part.count)])
    named = all(part.names for part in people.values())
    names = tuple(name for part in people.values() for name in part.names) if named else ()
    return Answers(np.concatenate([part.matrix for part in people.values()]), names, sample)
