"""What must hold when a study is over, whatever broke meanwhile."""

from collections import Counter

import sqlalchemy as sa

from tests.faults.simulation import Simulation
from tests.service.world import STUDY
from voxpop.service.demo.crowd import disagreements
from voxpop.service.stores.schema import inbox, invitations, people, receipts, reports
from voxpop.service.study.log import fold
from voxpop.service.study.stages import Kind


def wrongs(run: Simulation) -> list[str]:
    """Return what is wrong, in words; ideally nothing."""
    if not run.finished:
        row = run.coordinators[0].does.decision(STUDY)
        return [f"the study is stuck in wave {row.wave}, which is {row.stage}"]
    found, coordinator = [], run.coordinators[0].does
    events = coordinator.log(STUDY)
    kinds = Counter(event.kind for event in events)
    course = fold(events, STUDY)
    counted = {wave.plan.wave: wave.feedback.count for wave in course.closed}
    if kinds[Kind.CREATED] != 1 or kinds[Kind.OPENED] != kinds[Kind.CLOSED] or kinds[Kind.FINISHED] != 1:
        found.append(f"the log holds {dict(kinds)}")
    charged = {entry.wave: entry.people for entry in course.ledger.entries}
    if run.model != "none" and charged != counted:
        found.append(f"the ledger charges {charged}, and {counted} were released")
    with coordinator.database.read() as connection:
        left = connection.execute(sa.select(sa.func.count()).select_from(inbox)).scalar_one()
        most = connection.execute(sa.select(sa.func.max(people.c.participations))).scalar_one()
        given = sa.select(invitations.c.token_hash).join(receipts, receipts.c.invitation == invitations.c.id)
        stored = set(connection.execute(given).scalars())
    if left:
        found.append(f"{left} reports are left in the inbox")
    if most > 1:
        found.append(f"somebody took part {most} times")
    heard: dict[int, list[list[float]]] = {wave: [] for wave in counted}
    made = run.made
    for token in sorted(stored):
        wave, report = made[token]
        heard[wave].append(report)
    if run.lies & stored:
        found.append(f"{len(run.lies & stored)} reports with a wrong proof were counted")
    voided = bool(run.counts["voided"])  # then people were told so in vain
    if run.acknowledged - stored and not voided:
        found.append(f"{len(run.acknowledged - stored)} reports were acknowledged, and not counted")
    if {wave: len(some) for wave, some in heard.items()} != counted and not voided:
        found.append(f"{ {wave: len(some) for wave, some in heard.items()} } were stored, and {counted} released")
    if run.second in run.processes:
        with run.second.does.database.read() as connection:
            kept = connection.execute(sa.select(sa.func.count()).select_from(reports)).scalar_one()
        if kept:
            found.append(f"{kept} reports are left at the second server")
    if not found and not voided:
        found += disagreements(events, heard, own_noise=True)
    return found
