"""What people answered, as `Study.tell` and `Study.attach` take it: a matrix, records, a table or an average.

Where people are promised privacy, nothing is refused for its value: a refusal would reveal something about it. NaN,
words and answers that are missing count as the centre of the ball that answers are clipped to, and infinities are
clipped like any other answer. What is refused does not depend on one person's answer: a wrong shape, an unknown
decision, answers of which none is a number.

If a study knows its strata, three forms say who is of which: records with the key `stratum`, a table with a column of
that name, and one part for each stratum, such as {"young": matrix, "old": matrix}, in which a part is anything that a
study without strata takes.

If the rounds of a wave are in blocks, records have the key `block` and tables a column of that name. Without it, a
matrix or a table must have as many people as were asked, in the order of the question's table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from voxpop.errors import (
    Array,
    InputError,
    all_finite,
    require_array,
    require_choice,
    require_integer,
    require_number,
    said_of,
)
from voxpop.journal.journal import Released
from voxpop.journal.question import Question
from voxpop.journal.wave import Wave, entry_of, release_wave
from voxpop.model.direction import Direction, metrics_of
from voxpop.model.noise import TRUST
from voxpop.model.problem import Evidence, Indices, Problem, Range, require_range
from voxpop.model.state import State
from voxpop.model.strata import Sample, Strata
from voxpop.model.waves import Feedback, Plan, Tally, Weighting, changed, check_scale, in_blocks, of_same
from voxpop.model.words import describe, person_of
from voxpop.privacy import Ledger, Secure
from voxpop.runtime.frames import is_frame, number_of
from voxpop.study.tabular import Blocked, untabled

FORMS = (
    "records with the keys person, decision, average and, if not 1, rounds; an aggregate with the keys decisions, "
    "mean, count and, if not 1, rounds; or Evidence"
)

IN_BLOCK = " in block "  # between a person's name and the block, where everyone answers about each
Design = tuple[tuple[int, float], ...]  # the arms that a person tried, with their rounds


@dataclass(frozen=True, eq=False)
class Answers:
    """One row per person and one column per arm of the plan, and the people's names, if they are known."""

    matrix: Array  # (people, arms)
    names: tuple[str, ...] = ()
    strata: Strata | None = None
    belongs: tuple[str, ...] = ()  # the stratum of each person, if there are strata
    blocks: tuple[int, ...] = ()  # the block that each row is about, from 1 on; empty: there is only one
    each: int = 1  # rows of every person, one below the other's

    @property
    def count(self) -> int:
        """The number of people."""
        return len(self.matrix) // self.each

    @property
    def samples(self) -> list[tuple[Indices, Sample | None]]:
        """The rows of each block's people and, if there are strata, the sample that they are."""
        blocks, found = np.array(self.blocks or [1] * len(self.matrix)), list[tuple[Indices, Sample | None]]()
        for block in np.unique(blocks).tolist():
            rows, sample = np.flatnonzero(blocks == block), None
            if self.strata is not None:
                with said_of(f"block {block}") if self.blocks else nullcontext():
                    sample = self.strata.sample([self.belongs[row] for row in rows.tolist()])
            found.append((rows, sample))
        return found

    @property
    def effective(self) -> float:
        """The number of people whose plain average is as noisy; all blocks count the same."""
        people = [len(rows) if sample is None else sample.effective for rows, sample in self.samples]
        return len(people) ** 2 / math.fsum(1 / count for count in people) / self.each


def read(
    problem: Problem,
    plan: Plan,
    told: object,
    private: bool,
    strata: Strata | None = None,
    measure: str = "reward",
    order: list[int] | None = None,
    partial: bool = False,
) -> Answers | Feedback:
    """Return what was told as answers, or as an average that was computed elsewhere; `partial`: of whole people only.

    If there are strata or blocks, answers know who is of which. People of whom nothing else is said are of the blocks
    in `order`, which is that of the question unless given.
    """
    assigned = Question.of(problem, plan, strata).assigned if plan.in_blocks and order is None else {}
    order = [block for part in assigned.values() for block in part] if order is None else order
    optional = frozenset({"block"} if not plan.in_blocks or not isinstance(told, Sequence) else ())
    if strata is None or is_frame(told):
        kept = [*(() if strata is None else ("stratum",)), *(("block",) if plan.in_blocks else ())]
        kept += [guardrail.name for guardrail in problem.guardrails]
        told = untabled(problem, plan, told, measure, kept)
    if strata is not None and isinstance(told, Mapping) and any(str(name) in strata.shares for name in told):
        parts = dict[str, Answers | Feedback]()
        for name, part in told.items():
            stratum = strata.find(name)
            with said_of(f"stratum {stratum!r}"):
                parts[stratum] = read(problem, plan, part, private, None, measure, assigned.get(stratum, []), partial)
        if len(parts) < len(told):
            raise InputError(f"the strata {', '.join(map(repr, told))} are not all different as text; join them first")
        return _joined(strata, parts)
    names, belongs, blocks = tuple[str, ...](), list[str](), list[str]()
    metrics = [guardrail.name for guardrail in problem.guardrails]
    numbers = [str(block) for block in plan.numbered]
    if isinstance(told, Blocked):
        blocks = [_member("block", block, numbers) for block in told.blocks]
        told = told.matrix
    if isinstance(told, Sequence) and any(isinstance(record, Mapping) for record in told):
        groups = {**({} if strata is None else {"stratum": list(strata.shares)}), "block": numbers}
        apart = plan.same > 0 and plan.blocks > 1
        people, found = _by_person(
            told,
            groups,
            lambda record, said: (_asked(problem, plan, record, said), _reply(record, metrics)),
            optional,
            apart,
            metrics,
        )
        belongs, blocks = found.get("stratum", []), found["block"]
        told, names = _rows(plan, people), tuple(people)
    elif strata is not None:
        known = list(strata.shares)
        raise InputError(
            f"the study has the strata {', '.join(known)}, and nothing says who is of which; tell records with the key "
            f"stratum, or one part for each: {{{', '.join(f'{name!r}: ...' for name in known)}}}"
        )
    elif isinstance(told, Feedback | Mapping):
        if private:  # before anything is said of its values
            raise InputError("an aggregate cannot be made private afterwards; tell the answers one by one")
        if isinstance(told, Mapping) and set(told) != {"mean", "count"}:
            raise InputError(f"an aggregate has the keys mean and count, got {sorted(map(str, told))}")
        feedback = told if isinstance(told, Feedback) else Feedback(told["mean"], told["count"])
        feedback.check(plan)
        check_scale(float(np.abs(feedback.mean).max()), problem.grid_step)
        return of_same(feedback, plan.blocks) if plan.same and feedback.weighting is None else feedback
    matrix = _numbers(told, private, names)
    if matrix.ndim != 2 or matrix.shape[1] != plan.coordinates or not len(matrix):
        each = f", {len(plan.arms)} for each of {1 + plan.also} metrics" if plan.also else ""
        raise InputError(
            f"wave {plan.wave} takes a matrix of shape (people, {plan.coordinates}){each}, got {matrix.shape}"
        )
    asked = _in_blocks(plan, list(map(int, blocks)), len(matrix), order)
    seen = np.isfinite(matrix)
    if private or seen.all():
        answers = Answers(matrix, names, strata, tuple(belongs), asked)
        return _of_everyone(plan, answers) if plan.same and plan.blocks > 1 else answers
    usable = np.asarray(seen.all(axis=1) if plan.also else seen.any(axis=1))
    if partial and not np.isinf(matrix).any() and usable.any() and not plan.same:
        asked = tuple(compress(asked, usable))
        _require_blocks(plan, asked)
        names, of = (tuple(compress(each, usable)) for each in (names, tuple(belongs)))
        return Answers(matrix[usable], names, strata, of, asked)
    person, column = map(int, np.argwhere(~seen)[0])
    who = repr(names[person]) if names else f"row {person}"
    about = f"about {problem.decisions[int(plan.arms[column % len(plan.arms)])]!r}"
    about += f", {metrics[column // len(plan.arms) - 1]}" if column >= len(plan.arms) else ""
    if np.isinf(matrix[person, column]):
        raise InputError(f"feedback must be finite, got {matrix[person, column]} of {who} {about}; correct it")
    lack = f"{len(matrix) - seen.all(axis=1).sum():,} of {len(matrix):,} people lack an answer"
    remedy = "leave those people out" if plan.also or plan.same else "hand in what there is"
    remedy += "" if plan.same else ", as --partial (partial=True) does"
    raise InputError(f"{who} has no answer {about}, and {lack}; complete them, or {remedy}")


def _reply(record: Mapping[Any, Any], metrics: Sequence[str]) -> list[Any]:
    """Return what a record says of the objective and of each metric."""
    return [math.nan if (value := record[name]) is None else value for name in ("average", *metrics)]


def _of_everyone(plan: Plan, told: Answers) -> Answers:
    """Return answers about all blocks with one name for each person; refuse a person who left one out."""
    found: list[dict[object, int]] = [{} for _ in range(plan.blocks)]
    for row, block in enumerate(told.blocks):
        part = found[block - 1]
        part[told.names[row].rpartition(IN_BLOCK)[0] or told.names[row] if told.names else len(part)] = row
    everyone = {person: None for part in found for person in part}
    for block, part in enumerate(found, start=1):
        for person in everyone:
            if person not in part:
                who = f"person {person!r}" if told.names else f"the person in row {person} of another block"
                raise InputError(f"{who} has no answer about block {block}; leave out or complete this person")
    rows = [part[person] for part in found for person in everyone]
    names = tuple(map(str, everyone)) if told.names else ()
    return Answers(told.matrix[rows], names, blocks=tuple(told.blocks[row] for row in rows), each=plan.blocks)


def _in_blocks(plan: Plan, blocks: list[int], people: int, order: list[int]) -> tuple[int, ...]:
    """Return the block that each person was asked about, if there are several: as told, or by the order of people."""
    if not plan.in_blocks:
        return ()
    if not blocks and people != len(order):
        asked = plan.people if plan.same else len(order)
        raise InputError(
            f"wave {plan.wave} asked {asked:,} people about {plan.blocks} blocks, and nothing says which of them "
            f"each of these {people:,} {'answers is' if plan.same else 'was asked'} about; add the column block, or "
            "the key block to records"
        )
    _require_blocks(plan, blocks or order)
    return tuple(blocks or order)


def _require_blocks(plan: Plan, blocks: Sequence[int]) -> None:
    """Refuse answers that lack a block, if there are several."""
    missing = set(plan.numbered) - set(blocks) if plan.in_blocks else set()
    if missing:
        raise InputError(
            f"nobody answered about block {min(missing)} of wave {plan.wave}; add answers about it, since the other "
            "blocks cannot stand for it"
        )


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
    belongs = tuple(name for name, part in people.items() for _ in range(part.count))
    blocks = tuple(block for part in people.values() for block in part.blocks)
    named = all(part.names for part in people.values())
    names = tuple(name for part in people.values() for name in part.names) if named else ()
    return Answers(np.concatenate([part.matrix for part in people.values()]), names, strata, belongs, blocks)


def require_within(problem: Problem, plan: Plan, told: Answers | Feedback, direction: Direction) -> None:
    """Refuse rewards or costs outside of the study's limits, and say whose they are."""

    def name(called: str, place: tuple[int, ...]) -> str:
        about = f"{called}about {problem.decisions[int(plan.arms[place[-1]])]!r}"
        if isinstance(told, Feedback):
            return f"the average {about}"
        return f"the answer of {repr(told.names[place[0] % told.count]) if told.names else f'row {place[0]}'} {about}"

    values = told.mean if isinstance(told, Feedback) else told.matrix
    known = metrics_of(problem, direction)
    for (called, towards, each), part in zip(known, np.split(values, len(known), axis=-1), strict=True):
        require_range(part, towards.bounds(*each.limits), partial(name, f"{called} ".lstrip()))


def turned(told: Answers | Feedback, direction: Direction, problem: Problem, plan: Plan) -> Answers | Feedback:
    """Turn what people told, rewards or costs, into what the study maximises, of every metric."""
    towards = [each for _, each, _ in metrics_of(problem, direction)]

    def turn(values: Array) -> Array:
        parts = np.split(values, len(towards), axis=-1)
        return np.concatenate([each.turn(part) for each, part in zip(towards, parts, strict=True)], axis=-1)

    if not isinstance(told, Feedback):
        return changed(told, matrix=turn(told.matrix))
    if not plan.also:
        return direction.feedback(told)
    signs, scatter = turn(np.ones(plan.coordinates)), told.scatter
    scatter = scatter if scatter is None or scatter.ndim == 1 else scatter * np.outer(signs, signs)
    by_block = None if told.by_block is None else turn(told.by_block)
    return changed(told, mean=turn(told.mean), by_block=by_block, scatter=scatter)


def _numbers(values: object, private: bool, names: Sequence[str] = ()) -> Array:
    """Return the values as a float array, NaN and infinities included; what is not a number is refused, or NaN."""
    try:
        array = np.array(values)
    except (TypeError, ValueError):
        raise InputError(f"feedback must be an array of numbers of one shape, got {type(values).__name__}") from None
    if array.dtype.kind in "biuf":
        return array.astype(float)
    array = np.array(values, dtype=object)  # whole numbers beyond 64 bits are here, and what is missing
    cells, numbers = array.ravel().tolist(), list(map(number_of, array.ravel().tolist()))
    for place, (cell, number) in enumerate(zip(cells, numbers, strict=True)):
        if number is None and not private:
            who = f" of {names[place * len(names) // len(cells)]!r}" if names else ""
            remedy = "write 1 for yes and 0 for no" if str(cell).lower() in ("yes", "no") else "complete this person"
            raise InputError(f"every answer must be a number, got {cell!r}{who}; {remedy}, or leave the person out")
    if all(number is None for number in numbers):
        raise InputError(f"none of the answers is a number, got {type(values).__name__}; check what holds them")
    return np.array(numbers, dtype=float).reshape(array.shape)


def _by_person(
    records: Iterable[object],
    groups: Mapping[str, list[str]],
    answer: Callable[[Mapping[Any, Any], str], tuple[int, Any]],
    perhaps: frozenset[str] = frozenset(),
    apart: bool = False,
    metrics: Sequence[str] = (),
) -> tuple[dict[str, dict[int, Any]], dict[str, list[str]]]:
    """Return each person's answers by arm, and of which stratum or block each is; refuse other keys, or what is twice.

    `answer` makes the arm and the answer of a record, which it is told how to call. What a person says of several
    blocks may be kept `apart`.
    """
    people, belongs = dict[str, dict[int, Any]](), {key: dict[str, str]() for key in groups}
    wanted = {key: known for key, known in groups.items() if key not in perhaps}
    keys, named = {"person", "decision", "average", *metrics, *wanted} | perhaps, "person, decision and average"
    named = ", ".join(["person, decision, average", *metrics]) if metrics else named
    if wanted:
        said = (f"{key}, one of {', '.join(known)}" for key, known in wanted.items())
        named = f"person, decision, average and {', and '.join(said)}"
    for number, record in enumerate(records, start=1):
        if not isinstance(record, Mapping) or set(record) | perhaps != keys:
            more = f", and perhaps {', '.join(perhaps)}" if perhaps else ""
            raise InputError(f"record {number} must have the keys {named}{more}; got {record!r}")
        with said_of(f"record {number}"):
            person = person_of(record["person"])
        arm, reply = answer(record, f"record {number}")
        person += f"{IN_BLOCK}{record['block']}" if apart and "block" in record else ""
        for key, known in groups.items():
            if key not in record:
                continue
            with said_of(f"record {number}"):
                group = _member(key, record[key], known)
            if (first := belongs[key].setdefault(person, group)) != group:
                raise InputError(f"person {person!r} is of {key} {first!r} and of {group!r}; give one of them")
        if arm in people.setdefault(person, {}):
            about = f"person {record['person']!r} answered twice about {record['decision']!r}"
            raise InputError(f"{about}; give one average")
        people[person][arm] = reply
    return people, {key: list(each.values()) for key, each in belongs.items()}


def _member(key: str, value: object, known: list[str]) -> str:
    """Return the name of a stratum or a block, also if a table made a float of it; refuse one that is unknown."""
    said = str(value)
    said = said if said in known else said.removesuffix(".0")
    if key == "block" and said not in known:
        raise InputError(f"unknown block {said!r}; known: {', '.join(known)}; leave out answers about other blocks")
    return require_choice(key, said, known)


def _asked(problem: Problem, plan: Plan, record: Mapping[Any, Any], said: str) -> int:
    """Return the arm that a record is about; refuse one that was not asked."""
    arm = problem.decisions.find(record["decision"])
    if arm not in plan.arms:
        left = " as it was played; leave its answers out" if plan.played is not None else ""
        raise InputError(f"{said} is about {record['decision']!r}, which wave {plan.wave} did not ask{left}")
    return arm


def _rows(plan: Plan, people: Mapping[str, Mapping[int, Any]]) -> list[list[Any]]:
    """Return a row of answers for each person, metric after metric, with NaN for those that are missing."""
    missing = [math.nan] * (1 + plan.also)
    return [
        [answers.get(arm, missing)[metric] for metric in range(1 + plan.also) for arm in plan.arms.tolist()]
        for answers in people.values()
    ]


def require_people(plan: Plan, told: Answers | Feedback, ledger: Ledger) -> None:
    """Refuse people who answered before, or where the same people answer in every wave, more of them than there are."""
    names = told.names if isinstance(told, Answers) else ()
    before = {name: entry.wave for entry in ledger.entries for name in entry.names if entry.wave != plan.wave}
    people = max(told.count, len({*before, *names}))
    if plan.same and people > plan.same:
        new = next((f"with {name!r} " for name in names if before and name not in before), "")
        raise InputError(
            f"{new}{people:,} people have answered, and only {plan.same:,} people answer in this study, the same in "
            "every wave; leave out who is not one of them"
        )
    again = next((name for name in names if name in before), None)
    if again is not None and not plan.same:
        raise InputError(
            f"{again!r} answered in wave {before[again]} already, and what is certified counts on people who have not; "
            "leave out who answered before, or begin a study of people who answer in every wave: who = 'panel' or "
            "'everybody'"
        )


def too_few(plan: Plan, count: int, ratio: float, state: State) -> str:
    """Say what it costs to close a wave with fewer people than were asked."""
    cost, others = price(plan, state), ", as those who are missing may differ" if plan.same else ""
    return (
        f"wave {plan.wave} asked {plan.people:,} people and {count:,} answered, so that {larger(ratio)}{others}; wait "
        f"for the others, or close the wave with these: --partial (partial=True){f', and {cost}' if cost else ''}"
    )


def larger(ratio: float) -> str:
    """Say how much larger errors are because fewer people answered."""
    return f"the errors of its averages would be about {ratio:.1f} times as large as planned"


def price(plan: Plan, state: State) -> str:
    """Say what it costs later certificates to close a wave early; empty if nothing."""
    cost = dearer(state, state.closed_early(plan.people))
    return f"as the answers may have chosen the moment, {cost}" if cost else ""


def dearer(before: State, after: State) -> str:
    """Say what it costs later certificates that the owner may have acted upon what was seen; empty if nothing."""
    then, now = after.error_factor, before.error_factor
    if then is None or now is None or then == now:
        return ""
    if math.isinf(then):
        return "nothing more is certified from then on"
    return f"certificates count errors {then / now:.1f} times from then on"


def released(problem: Problem, wave: Wave, told: Answers | Feedback, ledger: Ledger, private: bool) -> Released:
    """Release answers, or take an average that was computed elsewhere. This draws noise: call it once per wave."""
    if isinstance(told, Answers):
        again = any(entry.wave == wave.plan.wave for entry in ledger.entries)
        if private and again and not told.names:
            raise InputError(
                f"wave {wave.plan.wave} was released before and taken back; tell records with names, so that "
                "nobody is counted twice"
            )
        if told.strata is None and (private or all_finite(told.matrix)):
            tallies = [wave.release.tally(told.matrix[rows]) for rows, _ in told.samples]
            return Released(*release_wave(wave, tallies, ledger, Secure(), told.names))
    entry = entry_of(wave, told.count, told.names if isinstance(told, Answers) else ())
    ledger.check(entry)
    if isinstance(told, Feedback):
        return Released(told, entry)

    def average(rows: Indices, sample: Sample | None) -> Feedback:
        if sample is None:
            return filled(problem, wave, told.matrix[rows])
        if private:
            return wave.release.weighted(told.matrix[rows], sample, Secure())
        return sample.strata.average(
            {name: filled(problem, wave, told.matrix[rows[some]]) for name, some in sample.members.items()}
        )

    return Released(in_blocks([average(*each) for each in told.samples]), entry)


def filled(problem: Problem, wave: Wave, answers: Array) -> Feedback:
    """Average answers some of which are missing (NaN), so that a gap costs that answer and not the person.

    With S the covariance of a person's answers and E_p what person p answered, the average is P^-1 sum of W_p y_p, with
    W_p = E_p'(E_p S E_p')^-1 E_p and P their sum: the best that is unbiased, and the plain average of rows whose gaps
    are filled with what is likely. The scatter is that of such rows; what gaps add to S/U counts as added noise.
    """
    plan, release = wave.plan, wave.release
    if all_finite(answers):
        return release.tally(answers).feedback()
    rows = np.clip(answers[np.lexsort(answers.T)], *release.limits)  # sums do not depend on the order of people
    seen, people, size = np.isfinite(rows), len(rows), len(plan.arms)
    answered = seen.sum(axis=0)
    if not answered.all():
        nobody = describe(problem.decisions[int(plan.arms[int(answered.argmin())])])
        raise InputError(f"nobody of a block or a stratum answered about {nobody}; add answers about it")
    check_scale(float(np.nanmax(np.abs(rows))), problem.grid_step)
    model = problem.answer_noise(plan.arms, plan.lived)
    model.flat[:: size + 1] *= 1 + 1e-9  # people may not differ at all
    shapes, of, counts = np.unique(seen, axis=0, return_inverse=True, return_counts=True)
    groups, weights = [of.ravel() == place for place in range(len(shapes))], np.zeros((len(shapes), size, size))
    for weight, shape in zip(weights, shapes, strict=True):
        weight[np.ix_(shape, shape)] = np.linalg.inv(model[np.ix_(shape, shape)])
    known, precision = np.where(seen, rows, 0.0), np.einsum("s,sij->ij", counts, weights)
    mean = np.linalg.solve(precision, sum(w @ known[some].sum(axis=0) for w, some in zip(weights, groups, strict=True)))
    away, scaled = np.where(seen, rows - mean, 0.0), np.empty_like(rows)
    for weight, some in zip(weights, groups, strict=True):
        scaled[some] = away[some] @ weight
    varying = float((scaled * away).sum()) / max(int(answered.sum()) - size, 1)  # times the model's variance
    away, freedom = np.where(seen, away, scaled @ model), float(answered.min() - 1)
    scatter = away.T @ away + varying * (people * model - model @ precision @ model)
    scatter /= max(people - 1, 1)
    shown = (TRUST * model + freedom * scatter) / (TRUST + freedom)
    spread = np.einsum("s,sij,jk,skl->il", counts, weights, shown, weights)
    noise = np.linalg.solve(precision, np.linalg.solve(precision, spread).T) - shown / people
    return Feedback(mean, people, (noise + noise.T) / 2, scatter=scatter, weighting=Weighting(people, freedom))


def evidence_of(
    problem: Problem, told: object, strata: Strata | None = None, direction: Direction = Direction.MAXIMIZE
) -> tuple[Evidence, ...]:
    """Return earlier answers, with one group for all people who tried the same decisions for the same rounds."""
    limits = direction.bounds(*problem.limits)
    if isinstance(told, Evidence):
        return (told,)
    if isinstance(told, Mapping):
        group, about = _earlier_average(problem, told, strata), told["decisions"]
        require_range(group.mean, limits, lambda place: f"the average about {about[place[0]]!r}")
        return (group,)
    if isinstance(told, Sequence) and told and not isinstance(told, str):
        if all(isinstance(group, Evidence) for group in told):
            return tuple(told)
        if all(isinstance(record, Mapping) for record in told):
            return _groups(problem, told, strata, limits)
    raise InputError(f"earlier answers are {FORMS}; got {type(told).__name__}")


def _earlier_average(problem: Problem, told: Mapping[Any, Any], strata: Strata | None) -> Evidence:
    if set(told) | {"rounds"} != {"decisions", "mean", "count", "rounds"}:
        raise InputError(f"earlier answers are {FORMS}; got the keys {', '.join(sorted(map(str, told)))}")
    if strata is not None:
        raise InputError(
            "the study has strata, and an average of all earlier people does not say who is of which; attach records "
            "with the key stratum"
        )
    arms = [_find(problem, decision) for decision in told["decisions"]]
    rounds = require_array("the rounds of the earlier answers", told.get("rounds", 1))
    rounds = np.broadcast_to(rounds, (len(arms),)) if rounds.ndim == 0 else rounds
    return Evidence(problem.decisions.points[arms], rounds, told["count"], told["mean"])


def _groups(
    problem: Problem, records: Sequence[Mapping[Any, Any]], strata: Strata | None, limits: Range
) -> tuple[Evidence, ...]:
    def earlier(record: Mapping[Any, Any], said: str) -> tuple[int, tuple[float, float]]:
        rounds = require_integer(f"{said}'s rounds", record.get("rounds", 1), least=1)
        average = require_number(f"{said}'s average", record["average"])
        require_range(average, limits, lambda _: f"{said}'s average, of {record['person']!r},")
        return _find(problem, record["decision"]), (average, float(rounds))

    groups = {} if strata is None else {"stratum": list(strata.shares)}
    people, belongs = _by_person(records, groups, earlier, frozenset({"rounds"}))
    alike: dict[Design, dict[str, list[list[float]]]] = {}  # people by what they tried, then by stratum
    for answered, stratum in zip(people.values(), belongs.get("stratum", [""] * len(people)), strict=True):
        design = tuple((arm, answered[arm][1]) for arm in sorted(answered))
        rows = alike.setdefault(design, {}).setdefault(stratum, [])
        rows.append([answered[arm][0] for arm, _ in design])
    return tuple(_group(problem, design, parts, strata) for design, parts in alike.items())


def _group(problem: Problem, design: Design, parts: Mapping[str, Iterable[object]], strata: Strata | None) -> Evidence:
    averages = {name: Tally.of(rows, problem.grid_step).feedback() for name, rows in parts.items()}
    feedback = averages[""] if strata is None else strata.average(averages)
    arms, rounds = np.array(design).T
    points = problem.decisions.points[arms.astype(np.intp)]
    return Evidence(points, rounds, math.floor(feedback.effective), feedback.mean, variances=feedback.variances)


def _find(problem: Problem, decision: object) -> int:
    try:
        return problem.decisions.find(decision)
    except InputError:
        raise InputError(
            f"{decision!r} is not in the decision set; leave out answers about it, or attach them as Evidence, whose "
            "points may be any of the kernel's space"
        ) from None
