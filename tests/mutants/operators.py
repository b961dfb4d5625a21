"""Planted faults of what operators decide: the life of a study, keys, sessions and the audit trail."""

from tests.mutants.fault import Fault

LIFE = "service/test_life.py"
DELETED = "service/test_deleted.py"
KEYS = "service/test_operators.py"

FAULTS = [
    Fault(
        "pause overtaken by a step",
        "A step that began before a pause goes on after it.",
        "service/study/log.py",
        "return row if row.seq == snapshot.seq and row.life == Life.RUNNING else None",
        "return row if row.seq == snapshot.seq else None",
        (f"{LIFE}::test_a_step_that_began_before_a_pause_changes_nothing_after_it",),
    ),
    Fault(
        "pause at the expense of the invited",
        "The time of a pause is taken from those who are invited.",
        "service/study/life.py",
        "        Invitations(connection, row.id, row.wave).postpone(paused)\n",
        "        pass\n",
        (f"{LIFE}::test_a_pause_takes_no_time_from_those_who_are_invited",),
    ),
    Fault(
        "draft shown to devices",
        "Devices may register for a study that is only a draft.",
        "service/study/participants.py",
        "if row is None or row.life == Life.DRAFT:",
        "if row is None:",
        (f"{LIFE}::test_a_draft_is_seen_by_nobody_and_can_be_changed_until_it_is_started",),
    ),
    Fault(
        "reports kept after the end",
        "The reports of the open wave stay when an operator ends the study.",
        "service/study/life.py",
        "    for table in (inbox, totals, plays):\n",
        "    for table in (totals, plays):\n",
        (f"{LIFE}::test_a_study_that_is_ended_keeps_what_was_released_and_nothing_of_the_open_wave",),
    ),
    Fault(
        "receipts kept after deleting",
        "Deleting a study leaves the digests of its reports.",
        "service/study/life.py",
        "    connection.execute(sa.delete(schema.receipts).where(schema.receipts.c.invitation.in_(ours)))\n",
        "",
        (f"{LIFE}::test_deleting_leaves_no_row_and_no_coordinator_misses_the_study",),
    ),
    Fault(
        "deleted studies come back",
        "A restored backup brings a deleted study back, and its reports are released a second time.",
        "service/study/life.py",
        "        context.released.bury(study, created)  # which",
        "        context.released.forget(study)  # which",
        (f"{DELETED}::test_a_start_deletes_again_what_a_restored_backup_knows",),
    ),
    Fault(
        "nobody to blame",
        "What is done to a study is not written into the audit trail.",
        "service/study/life.py",
        "        audit.note(connection, context.clock(), actor, action, study)\n",
        "",
        (f"{LIFE}::test_a_paused_study_plays_asks_and_releases_nothing_and_still_takes_reports",),
    ),
    Fault(
        "revoked keys accepted",
        "A key that was revoked still works.",
        "service/operators.py",
        "    if row.revoked_at is not None:\n        raise Refusal(401",
        "    if False:\n        raise Refusal(401",
        (f"{KEYS}::test_a_key_is_known_until_it_is_revoked_or_replaced",),
    ),
    Fault(
        "sessions without an end",
        "A browser that is not used stays signed in for as long as a session can last.",
        "service/operators.py",
        "sessions.c.seen_at < at - IDLE_SECONDS",
        "sessions.c.seen_at < 0.0",
        (f"{KEYS}::test_a_session_ends_when_it_is_idle_old_signed_out_or_its_key_is_gone",),
    ),
    Fault(
        "sessions outlive their key",
        "A browser stays signed in although its key was replaced.",
        "service/operators.py",
        "        connection.execute(sa.delete(sessions).where(sessions.c.operator == name))\n"
        "        connection.execute(sa.delete(operators)",
        "        connection.execute(sa.delete(operators)",
        (f"{KEYS}::test_a_session_ends_when_it_is_idle_old_signed_out_or_its_key_is_gone",),
    ),
    Fault(
        "viewers who operate",
        "The key of a viewer changes studies.",
        "service/operators.py",
        'return self.role == "operator"',
        "return True",
        (f"{KEYS}::test_over_http_viewers_see_their_study_and_change_nothing",),
    ),
    Fault(
        "viewers of everything",
        "The key of a viewer of one study shows all.",
        "service/operators.py",
        "return self.study is None or self.study == study",
        "return True",
        (f"{KEYS}::test_over_http_viewers_see_their_study_and_change_nothing",),
    ),
]
