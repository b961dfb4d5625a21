"""From people to a release: asking them, collecting with a shuffler or helper, and closing a wave.

Only people who registered before the rounds of a wave began are asked about it: the others have not lived through all
of them. The rounds begin when enough people are registered. If some of these do not answer, and nobody else who lived
through the rounds is left, the rounds are played again, as soon as enough others have registered; the reports that are
in stay.

If the study has strata, all of this holds in each: a stratum never has more invitations than its quota, and the quotas
add up to the people of the wave, so that a wave that is whole has heard as many of each as it should. If the wave has
blocks, everyone is invited to one of them, and each stratum has a quota in each block.

A shuffler or helper is told whose reports it may take, whose to forget, and when to add up. Closing a wave adds noise,
appends to log and ledger, and deletes the raw reports, in one transaction.

Where reports are shared, coordinator and helper check each one's proof before they add up. A report that fails is
refused, and somebody else is asked instead. The two totals are put together when the wave closes. If no people can have
such a total, one of the servers has added up wrongly: then the batch is void.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from secrets import SystemRandom, token_bytes
from typing import Any

import sqlalchemy as sa

from voxpop.errors import InputError
from voxpop.journal.journal import Released
from voxpop.journal.wave import Wave, release_wave
from voxpop.model.waves import Tally
from voxpop.privacy.prio3 import SEED
from voxpop.privacy.release import HELPER, SHUFFLER
from voxpop.service.keys import new_key
from voxpop.service.refusals import Refusal
from voxpop.service.reports import matrix
from voxpop.service.shuffler.batches import BatchProgress, SealedBatch
from voxpop.service.shuffler.signed_http import Unsound, verify_shares
from voxpop.service.stores.database import scrub_after
from voxpop.service.stores.schema import counts, inbox, invitations, people, plays, totals
from voxpop.service.study import log, participants
from voxpop.service.study.invitations import Invitations, Seat, all_here, count_later, made
from voxpop.service.study.log import Context, Snapshot, SqlJournal
from voxpop.service.study.response import TOLD, Pace, Response
from voxpop.service.study.stages import Life, Stage

CHUNK = 2_000  # reports added up at a time, to bound memory
ASKED_AT_ONCE = 500  # people in one transaction, for which uploads to the study wait
PAUSE = 0.01  # seconds between two of them
LEAST = 2  # answers about each block with which a wave may be closed before all are in
OVER = (409, 410)  # a helper's refusals of a batch that it has sealed for others, or that was called off


def askable(connection: sa.Connection, snapshot: Snapshot) -> int:
    """Count the people who are registered now and may take part in the current wave."""
    study, most = snapshot.study, snapshot.most_participations
    known = connection.execute(sa.select(counts).where(counts.c.study == study)).one()
    if most <= 1:
        return int(known.never_asked) if most else 0
    may_be_void = snapshot.open_wave.release.second == HELPER  # and a void batch spends people who are in no release
    if len(snapshot.closed) < most and not may_be_void:  # nobody can have taken part so often
        return int(known.registered)
    spent = sa.select(sa.func.count()).select_from(people)  # who are fewer than those who may
    spent = spent.where(people.c.study == study, people.c.participations >= most, ~people.c.withdrawn)
    return int(known.registered) - int(connection.execute(spent).scalar_one())


def enough(connection: sa.Connection, snapshot: Snapshot) -> bool:
    """Return True if the rounds of the current wave can begin: as many people as it needs are registered."""
    here = askable(connection, snapshot) >= snapshot.open_wave.plan.people  # at once, unlike the rest
    return here and (snapshot.definition.strata is None or not lacking(connection, snapshot))


def lacking(connection: sa.Connection, snapshot: Snapshot) -> dict[str | None, int]:
    """Count how many more people of each stratum must register before the rounds of the current wave can begin."""
    if snapshot.definition.strata is None:
        return missing(snapshot, {None: askable(connection, snapshot)})
    return missing(snapshot, count_later(connection, snapshot.study, snapshot.most_participations, newest=0))


def missing(snapshot: Snapshot, here: Mapping[str | None, int]) -> dict[str | None, int]:
    """Return by how many people each stratum is below its quota, of those that are."""
    lack = {stratum: quota - here.get(stratum, 0) for stratum, quota in snapshot.quotas.items()}
    return {stratum: count for stratum, count in lack.items() if count > 0}


def recount(invited: Invitations) -> None:
    """Count again how many invitations to the wave are answered or open, after some have ended."""
    log.update_study(invited.connection, invited.study, invited=invited.held)


def ask(context: Context, snapshot: Snapshot) -> bool:
    """Invite as many people as are missing; return False if nobody is missing or nobody is left.

    All are drawn at once and invited in chunks; the wave collects from the first chunk on. If the process is killed in
    between, the next one draws the rest from those who were not invited: together they are a uniform sample, too.
    """
    study, wave = snapshot.study, snapshot.open_wave
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        if row.seq != snapshot.seq or row.newest is None:
            return True  # another coordinator has gone on, or lets the rounds be played again
        invited, most = Invitations(connection, study, wave.plan.wave), snapshot.most_participations
        asked = invited.funnel.asked  # before looking at who is: whoever is invited from now on is noticed
        seats = snapshot.seats(row.invited + spare(context, invited, row, snapshot))
        wanted = _free(snapshot, seats, {(None, 1): row.invited} if len(seats) == 1 else invited.held_by_seat)
        if not wanted:
            return False
        drawn = {one: invited.draw(len(blocks), most, row.newest, one) for one, blocks in wanted.items()}
        lacks = {one: len(blocks) - len(drawn[one]) for one, blocks in wanted.items() if len(blocks) > len(drawn[one])}
        # The wave can do without spare people; if it lacks others, it waits for them, or asks somebody again.
        short = max(0, min(sum(lacks.values()), wave.plan.people - row.invited - sum(map(len, drawn.values()))))
        others = short > 0 and row.stage == Stage.COLLECTING
        if others:
            later = count_later(connection, study, most, row.newest)
            others = all(later.get(one, 0) >= count for one, count in lacks.items())
        if short and not others:
            for one, count in lacks.items():
                drawn[one] += invited.draw_again(count, most, row.newest, one, besides=drawn[one])
        chosen = [seated for one, some in drawn.items() for seated in zip(some, wanted[one], strict=False)]
        alone = others and not chosen
        waiting = alone and wave.release.second != SHUFFLER and invited.waits
    if alone and not waiting:
        return _play_again(context, snapshot, row.invited)
    if not chosen and row.short == short and row.stage == Stage.COLLECTING:
        return False
    stage = row.stage
    for start in range(0, max(len(chosen), 1), ASKED_AT_ONCE):
        if start:
            time.sleep(PAUSE)
        part = chosen[start : start + ASKED_AT_ONCE]
        if not _invite(context, snapshot, part, (stage, row.invited + start, asked + start), short):
            return True  # another coordinator is asking people, or has closed the wave
        stage = Stage.COLLECTING
    context.note("asked", study=study, wave=wave.plan.wave, people=len(chosen), short=short)
    return bool(chosen)


def spare(context: Context, invited: Invitations, row: Any, snapshot: Snapshot) -> int:
    """Return how many people to invite besides those who hold an invitation, some of whom will not answer."""
    definition, people, now = snapshot.definition, snapshot.open_wave.plan.people, context.clock()
    if definition.strata is not None:  # more answers than the quotas would change their proportions
        return people - int(row.invited)
    span, most, before = definition.rules.deadline, definition.rules.most_invited, invited.before
    answered = invited.funnel.answered
    if snapshot.open_wave.release.second == SHUFFLER:
        answered = context.shuffled.get(row.id, -1)
    if answered < 0:  # this process has not heard from the shuffler how many answered
        return Response(people, most, 0, row.invited, row.invited, before=before).missing
    older, over = invited.exposure(now, span, TOLD)
    fresh, left = invited.young(now, span, TOLD), 1 - over / older if older else 0.0
    lately = _pace(context, row, now).of_late(now, answered, span)
    return Response(people, most, answered, row.invited, fresh, older, left, invited.late, before, lately).missing


def _pace(context: Context, row: Any, now: float) -> Pace:
    """Return how fast answers came to this wave, as far as this process knows."""
    pace = context.paces.get(row.id)
    if pace is None or pace.wave != row.wave:
        pace = context.paces[row.id] = Pace(row.wave, now)
    return pace


def lags(context: Context, invited: Invitations, row: Any, snapshot: Snapshot) -> bool:
    """Return True if more people should be invited; the pace of the answers is looked at now and then."""
    if row.invited < snapshot.open_wave.plan.people:
        return True
    now = context.clock()
    if 0 < _pace(context, row, now).again - now <= snapshot.definition.rules.deadline:
        return False
    return spare(context, invited, row, snapshot) > 0


def _free(snapshot: Snapshot, seats: Mapping[Seat, int], held: Mapping[Seat, int]) -> dict[str | None, list[int]]:
    """Return the blocks that lack people of each stratum, once for each whom they lack, in random order."""
    free = defaultdict[str | None, list[int]](list)
    for (stratum, block), quota in seats.items():
        free[stratum] += [block] * (quota - held.get((stratum, block), 0))
    for blocks in free.values() if snapshot.open_wave.plan.blocks > 1 else ():
        SystemRandom().shuffle(blocks)  # so that those who are asked a second time are not all of one block
    return {stratum: blocks for stratum, blocks in free.items() if blocks}


def _invite(
    context: Context, snapshot: Snapshot, chosen: list[tuple[int, int]], before: tuple[Stage, int, int], short: int
) -> bool:
    """Invite these people in one transaction, unless the stage or the numbers of the invited are not as `before`.

    Beside each is the block to which they are invited.
    """
    study, wave = snapshot.study, snapshot.open_wave
    ready = wave.release.batch is None  # otherwise the second server must know the token first
    deadline = context.clock() + snapshot.definition.rules.deadline
    rows = made(context.secrets.in_use, study, wave.plan.wave, chosen, deadline, ready)
    with context.database.write() as connection:
        row: Any = log.lock_unmoved(connection, snapshot)
        invited = Invitations(connection, study, wave.plan.wave)
        # Those who hold an invitation may be as many as before although others were invited since; who were ever asked
        # are not. So nobody gets two invitations at a time, and no stratum or block more than its quota.
        if row is None or (row.stage, row.invited, invited.funnel.asked) != before:
            return False
        if not all_here(connection, [person for person, _ in chosen], row.newest):
            return False
        invited.insert(rows)
        changes = {"stage": Stage.COLLECTING, "played": wave.plan.asked, "invited": before[1] + len(rows)}
        log.update_study(connection, study, **changes, short=short)
        if row.stage != Stage.COLLECTING:
            log.note_stand(connection, study, context.clock())
    return True


def _play_again(context: Context, snapshot: Snapshot, invited: int) -> bool:
    """Let the rounds of the wave begin again, for people who registered after they were played."""
    study = snapshot.study
    with context.database.write() as connection:
        row: Any = log.lock_unmoved(connection, snapshot)
        if row is not None and (row.stage, row.invited) == (Stage.COLLECTING, invited):
            log.update_study(connection, study, stage=Stage.OPEN, newest=None, played=0, short=0)
            log.note_stand(connection, study, context.clock())
            context.note("played_again", study=study, wave=row.wave)
    return True


def collect(context: Context, snapshot: Snapshot) -> bool:
    """Tell the shuffler about new, overdue and withdrawn tokens; only it knows which of them have answered."""
    study, wave = snapshot.study, snapshot.open_wave
    number = wave.plan.wave
    with context.database.read() as connection:
        row = log.row_of(connection, study)
        open_ones = Invitations(connection, study, number).unanswered
        forget = participants.pending(connection, study, number)
    here = [one for one in open_ones if one.token_hash not in set(forget)]
    new = [one.token_hash for one in here if not one.ready]
    shuffled = wave.release.second == SHUFFLER  # otherwise the coordinator itself knows who has answered
    overdue = [one.token_hash for one in here if shuffled and one.ready and one.deadline < context.clock()]
    progress = _announce(context, row, wave, new, overdue, forget)
    if isinstance(progress, Refusal):
        return not shuffled and progress.status in OVER and _begin_again(context, row, snapshot)
    if shuffled:
        context.shuffled[study] = progress.count
    if new or progress.withdrawn or progress.answered:
        with context.database.write() as connection:
            locked = log.row_of(connection, study, lock=True)
            if (locked.seq, locked.batch) != (snapshot.seq, row.batch):
                return True
            _note_ended(connection, locked, progress, forget)  # the shuffler has done it, even if a pause began since
            if locked.life != Life.RUNNING:
                return True
            deadline = context.clock() + snapshot.definition.rules.deadline
            Invitations(connection, study, number).make_ready(new, deadline)
    with context.database.read() as connection:
        asks = lags(context, Invitations(connection, study, number), log.row_of(connection, study), snapshot)
    return (asks and ask(context, snapshot)) or bool(new)


def total_of(connection: sa.Connection, study: str, wave: int) -> str | None:
    """Return the second server's total of a wave, as JSON; None if it is not here yet."""
    wanted = sa.select(totals.c.body).where(totals.c.study == study, totals.c.wave == wave)
    return connection.execute(wanted).scalar_one_or_none()


def seal(context: Context, snapshot: Snapshot) -> bool:
    """Check the proofs of the people whose shares are here, and have the helper add up its own of them.

    Its total is kept. Those whose proof is wrong, or whom it misses, are ended instead, and others are asked.
    """
    study, wave = snapshot.study, snapshot.open_wave
    number = wave.plan.wave
    with context.database.write() as connection:
        row = log.lock_unmoved(connection, snapshot)
        here = Invitations(connection, study, number)
        if row is None:
            return True
        if here.waits:  # whoever answers from now on would not be among those who are named to the helper
            here.cut_short(context.clock(), snapshot.definition.rules.deadline)
            recount(here)
        forget = participants.pending(connection, study, number)
        chosen = sorted(here.answered)  # their order tells nothing
    if forget:
        told = _forget(context, row, wave, forget)
        if not isinstance(told, Refusal) or told.status not in OVER:  # it is not sealed yet, and they are not in it
            return isinstance(told, BatchProgress)
    unsound = _unsound(context, row, wave, chosen)
    if isinstance(unsound, Refusal):
        if unsound.status not in OVER:  # otherwise these people may be sealed, and were checked before that
            return False
    elif unsound.refused or unsound.missing:
        return _replace(context, snapshot, row.batch, chosen, unsound)
    sealed = _sealed(context, row, wave, chosen)
    if isinstance(sealed, Refusal) and sealed.status not in OVER:
        return False
    if isinstance(sealed, SealedBatch) and sealed.missing:
        lost = [bytes.fromhex(token) for token in sealed.missing]
        return _replace(context, snapshot, row.batch, chosen, Unsound([], lost))
    with context.database.write() as connection:
        invited = _unsealed(connection, snapshot, row.batch)
        if invited is None:
            return True
        if sorted(invited.answered) != chosen:
            return True  # another coordinator was told who is missing
        if isinstance(sealed, Refusal):
            give_up(context, invited, snapshot)
        else:
            text = json.dumps({"count": len(chosen), "total": sealed.total})
            connection.execute(sa.insert(totals).values(study=study, wave=number, body=text))
            context.note("total", study=study, wave=number, people=len(chosen))
    return True


def _unsound(context: Context, row: Any, wave: Wave, chosen: list[bytes]) -> Unsound | Refusal:
    """Find the people whose reports cannot be counted, together with the helper."""
    batch = wave.release.batch
    assert batch is not None
    if context.shuffler is None:
        return _no_second(context, row)

    def shares(tokens: Sequence[bytes]) -> dict[bytes, bytes]:
        with context.database.read() as connection:
            return Invitations(connection, row.id, row.wave).bodies(tokens)

    try:
        return verify_shares(context.shuffler, row.batch, batch, row.verify_key, chosen, shares)
    except Refusal as refusal:
        context.note("not_verified", study=row.id, people=len(chosen), status=refusal.status)
        return refusal


def _replace(context: Context, snapshot: Snapshot, batch: str, chosen: list[bytes], unsound: Unsound) -> bool:
    """End the invitations of people whose reports cannot be counted; those who were refused are not asked again."""
    with context.database.write() as connection:
        invited = _unsealed(connection, snapshot, batch)
        if invited is None or sorted(invited.answered) != chosen:
            return True  # another coordinator has
        invited.refuse(unsound.refused, snapshot.definition.rules.participations)
        invited.take_back(unsound.missing)
        recount(invited)
    place = {"study": snapshot.study, "wave": snapshot.open_wave.plan.wave}
    if unsound.refused:
        context.note("refused", **place, people=len(unsound.refused))
    if unsound.missing:
        context.note("missing", **place, people=len(unsound.missing))
    return True


def _sealed(context: Context, row: Any, wave: Wave, chosen: list[bytes]) -> SealedBatch | Refusal:
    """Have the helper seal the batch; refuse what no helper says of these people."""
    batch = wave.release.batch
    assert batch is not None
    if context.shuffler is None:
        return _no_second(context, row)
    try:
        sealed = context.shuffler.seal(row.batch, chosen)
        if not {token.hex() for token in chosen}.issuperset(sealed.missing):
            raise Refusal(502, "the helper misses people of whom nobody spoke; ask its operator")
        if not sealed.missing and not batch.could_be_shares(sealed.total):
            raise Refusal(502, "the helper's total is not one of shares; ask its operator")
    except Refusal as refusal:
        context.note("not_sealed", study=row.id, people=len(chosen), status=refusal.status)
        return refusal
    return sealed


def _unsealed(connection: sa.Connection, snapshot: Snapshot, batch: str) -> Invitations | None:
    """Lock the study, and return its invitations; None if another coordinator has sealed the batch, or gone on."""
    row = log.lock_unmoved(connection, snapshot)
    if row is None or row.batch != batch or total_of(connection, row.id, row.wave):
        return None
    return Invitations(connection, row.id, row.wave)


def _begin_again(context: Context, row: Any, snapshot: Snapshot) -> bool:
    """Give a batch up that the helper has sealed although people are missing here: shares of this side were lost."""
    with context.database.write() as connection:
        invited = _unsealed(connection, snapshot, row.batch)
        if invited is None or invited.funnel.answered >= snapshot.open_wave.plan.people:
            return True
        give_up(context, invited, snapshot)
    return False  # so that a helper that refuses everything is asked once a second, and no more often


def clean_up(context: Context, snapshot: Snapshot) -> bool:
    """Have the shuffler forget what it may not keep of a study that is paused or over; return True if it did."""
    with context.database.read() as connection:
        row = log.row_of(connection, snapshot.study)
        if row.batch is None:
            return False
        here = total_of(connection, row.id, row.wave)
        forget = [] if here else participants.pending(connection, row.id, row.wave)
    if row.stage != Stage.FINISHED:
        told = _forget(context, row, snapshot.wave, forget) if forget and snapshot.wave is not None else None
        return isinstance(told, BatchProgress) and bool(told.withdrawn)  # otherwise the reports are in the total
    if context.shuffler is None:
        _no_second(context, row)
        return False
    context.shuffler.call_off(row.batch)
    with context.database.write() as connection:
        log.row_of(connection, row.id, lock=True)
        log.update_study(connection, row.id, batch=None)  # only now is the study done with it
    context.note("called_off", study=row.id, wave=row.wave)
    return True


def _forget(context: Context, row: Any, wave: Wave, forget: list[bytes]) -> BatchProgress | Refusal:
    """Have the second server forget people who withdrew, and erase here what it has forgotten."""
    told = _announce(context, row, wave, [], [], forget)
    if isinstance(told, BatchProgress) and told.withdrawn:
        with context.database.write() as connection:
            locked = log.row_of(connection, row.id, lock=True)
            if locked.batch == row.batch:
                _note_ended(connection, locked, told, forget)
    return told


def _announce(
    context: Context, row: Any, wave: Wave, new: list[bytes], overdue: list[bytes], forget: list[bytes]
) -> BatchProgress | Refusal:
    """Tell the second server; return why not if there is none, or if it refuses."""
    batch = wave.release.batch
    assert batch is not None
    if context.shuffler is None:
        return _no_second(context, row)
    try:
        told = context.shuffler.announce(row.batch, batch, new, overdue, forget)
    except Refusal as refusal:  # for instance a batch that is too small for it: the two operators must settle that
        context.note("not_announced", study=row.id, people=batch.size, status=refusal.status)
        return refusal
    # A helper that takes an announcement has not sealed the batch: it has forgotten all of them, whatever it says.
    return BatchProgress(told.count, [token.hex() for token in forget], []) if batch.shared else told


def _no_second(context: Context, row: Any) -> Refusal:
    context.note("no_shuffler", study=row.id)
    return Refusal(503, "this coordinator has no shuffler or helper; start it with --shuffler-url")


def _note_ended(connection: sa.Connection, row: Any, progress: BatchProgress, forget: list[bytes]) -> None:
    """Write down which tokens ended and which have answered, and erase what the shuffler has forgotten."""
    gone, invited = set(forget), Invitations(connection, row.id, row.wave)
    withdrawn = set(map(bytes.fromhex, progress.withdrawn))
    invited.withdraw(sorted(withdrawn - gone))
    participants.erase_confirmed(connection, row, withdrawn & gone)
    invited.note_answered([bytes.fromhex(token) for token in progress.answered])
    recount(invited)


def why_open(invited: Invitations, snapshot: Snapshot) -> str:
    """Say why a wave cannot be closed before it has all its answers; empty if it can be, with those that are in."""
    wave, blocks = snapshot.open_wave, snapshot.open_wave.plan.blocks
    if wave.release.batch is not None:
        noise = f"its noise was made for {wave.plan.people:,} people, and with fewer everyone's privacy would be weaker"
        return f"{noise}; wait for the others"
    if snapshot.definition.strata is not None:
        return "its strata would no longer be in proportion; wait for the others"
    if (min(invited.answered_by_block(blocks)) if blocks > 1 else invited.funnel.answered) < LEAST:
        each = f" about each of its {blocks} blocks" if blocks > 1 else ""
        return f"it takes at least {LEAST} answers{each}; wait for more"
    return ""


def close(context: Context, invited: Invitations, snapshot: Snapshot, early: bool = False) -> bool:
    """Release the wave from the second server's total, the reports in the inbox, or both; return False if they lack.

    All answers that are in count, also if they are more than the wave needs. If it is `early`, they may be fewer, where
    nobody's privacy rests on the others.
    """
    connection, study, wave = invited.connection, invited.study, snapshot.open_wave
    alone = wave.release.batch is None
    total = None if alone else total_of(connection, study, invited.wave)
    whole = invited.funnel.answered >= wave.plan.people if alone else total
    if not whole and (not early or why_open(invited, snapshot)):
        return False  # someone withdrew, or another coordinator found the batch void
    tallies = _tallies(invited, wave, total)
    if tallies is None:
        give_up(context, invited, snapshot)
        return True
    invited.cut_short(context.clock(), snapshot.definition.rules.deadline)
    counted = invited.settle()
    named = counted if snapshot.definition.rules.participations > 1 else ()  # otherwise nobody takes part twice
    feedback, entry = release_wave(wave, tallies, snapshot.ledger, context.noise, named)
    _delete_reports(invited)
    connection.execute(sa.delete(plays).where(plays.c.study == study))
    invited.forget()
    participants.erase_rest(connection, study, invited.wave)
    scrub_after(connection)
    # Last, because it writes the release into the record, and what follows is the commit.
    journal = SqlJournal(connection, study, context.clock(), context.released)
    journal.append([Released(feedback, entry)], snapshot.seq, stage=Stage.CLOSED, short=0, batch=None)
    context.shuffled.pop(study, None)
    context.paces.pop(study, None)
    context.note("closed", study=study, wave=invited.wave, people=feedback.count)
    return True


def _tallies(invited: Invitations, wave: Wave, total: str | None) -> list[Tally] | None:
    """Return the inbox's totals, the second server's, or both put together; None if no people can have that."""
    if total is None:
        return _add_up(invited, wave)
    said = json.loads(total)
    theirs = Tally(said["count"], tuple(said["total"]), 1.0)
    if wave.release.second == SHUFFLER:
        return [theirs]
    (ours,) = _add_up(invited, wave)
    try:
        return [wave.release.join(ours, theirs)]
    except InputError:
        return None


def give_up(context: Context, invited: Invitations, snapshot: Snapshot) -> None:
    """Begin a new batch with other people: those of this one have answered, and their answers are spent."""
    connection, study = invited.connection, invited.study
    invited.cut_short(context.clock(), snapshot.definition.rules.deadline)
    invited.settle()
    invited.spend(snapshot.definition.rules.participations)
    counted = invited.answered
    _delete_reports(invited)
    invited.take_back(counted)
    participants.erase_rest(connection, study, invited.wave)
    log.update_study(connection, study, batch=new_key(), verify_key=token_bytes(SEED), invited=0, short=0)
    context.note("voided", study=study, wave=invited.wave, people=len(counted))


def _delete_reports(invited: Invitations) -> None:
    for table in (inbox, totals):
        ours = (table.c.study == invited.study, table.c.wave == invited.wave)
        invited.connection.execute(sa.delete(table).where(*ours))


def _add_up(invited: Invitations, wave: Wave) -> list[Tally]:
    """Add up the reports of each block in the inbox, one chunk at a time."""
    ours = sa.select(inbox.c.body).where(inbox.c.study == invited.study, inbox.c.wave == invited.wave)
    words, blocks, tallies = wave.release.words, wave.plan.blocks, list[Tally]()
    of_block = ours.join(invitations, invitations.c.id == inbox.c.invitation)
    for block in range(1, blocks + 1):
        wanted = ours if blocks == 1 else of_block.where(invitations.c.block == block)
        rows = invited.connection.execute(wanted.execution_options(stream_results=True))
        parts = (wave.release.gather(matrix(part, words)) for part in rows.scalars().partitions(CHUNK))
        tallies.append(reduce(add, parts))
    found, counted = sum(tally.count for tally in tallies), invited.funnel.answered
    if found != counted:
        raise RuntimeError(f"the inbox holds {found} reports of the wave, and {counted} were counted")
    return tallies
