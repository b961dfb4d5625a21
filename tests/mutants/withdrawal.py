"""Planted faults of withdrawal and of the rotation of keys."""

from tests.mutants.fault import Fault

WITHDRAWAL = "service/test_withdrawal.py"
FORGETTING = "service/test_forgetting.py"
ROTATION = "service/test_rotation.py"
MODULE = "service/study/participants.py"

FAULTS = [
    Fault(
        "report of a person who withdrew kept",
        "The report that waits in the inbox of the open wave stays, and is released.",
        MODULE,
        "    _delete_by(connection, inbox.c.invitation, [one.id for one in found])\n",
        "",
        (f"{WITHDRAWAL}::test_a_report_that_waits_is_deleted_and_somebody_else_is_asked",),
    ),
    Fault(
        "receipt of a person who withdrew kept",
        "The digest of a deleted report stays, and guesses can be compared with it.",
        MODULE,
        "    _delete_by(connection, receipts.c.invitation, [one.id for one in found])\n",
        "",
        (f"{WITHDRAWAL}::test_nothing_of_one_who_withdrew_is_on_disk",),
    ),
    Fault(
        "withdrawn person drawn again",
        "A person who withdrew after a release is drawn where people may take part again.",
        "service/study/invitations.py",
        "(people.c.participations < most) & ~people.c.withdrawn",
        "(people.c.participations < most)",
        (f"{WITHDRAWAL}::test_one_who_withdrew_is_never_asked_again_where_people_may_take_part_again",),
    ),
    Fault(
        "withdrawn person invited after the draw",
        "A person who withdraws between the draw and the invitation is invited.",
        "service/study/collecting.py",
        "if not all_here(connection, [person for person, _ in chosen], row.newest):",
        "if False:",
        (f"{WITHDRAWAL}::test_one_who_leaves_between_the_draw_and_the_invitation_is_not_invited",),
    ),
    Fault(
        "person who took part forgotten entirely",
        "The row of a person who is in a release is deleted, and the same key can be asked beyond its budget.",
        MODULE,
        "people.c.withdrawn, people.c.participations == 0, ~held)",
        "people.c.withdrawn, ~held)",
        (f"{WITHDRAWAL}::test_of_one_who_took_part_only_key_hash_and_participations_stay",),
    ),
    Fault(
        "withdrawal not scrubbed",
        "What is deleted of a person stays readable in SQLite's write-ahead log.",
        MODULE,
        "    scrub_after(connection)\n",
        "",
        (f"{WITHDRAWAL}::test_nothing_of_one_who_withdrew_is_on_disk",),
    ),
    Fault(
        "restored backup remembers",
        "Nothing is written down of those who withdrew, and a restored backup asks them again.",
        MODULE,
        "            context.released.note_forgotten(study, hashed)\n",
        "            pass\n",
        (f"{WITHDRAWAL}::test_a_restored_backup_forgets_again_those_who_withdrew_since",),
    ),
    Fault(
        "shuffler keeps the report of a person who withdrew",
        "The shuffler withdraws the token and keeps its report in the batch.",
        "service/shuffler/batches.py",
        '    connection.execute(sa.delete(reports).where(reports.c.token_hash == sa.bindparam("token")), given)\n',
        "",
        (f"{FORGETTING}::test_no_report_of_one_who_withdraws_is_on_the_shuffler_s_disk",),
    ),
    Fault(
        "shuffler keeps an ended batch",
        "The reports of a study that an operator ended stay at the shuffler.",
        "service/shuffler/batches.py",
        "            for table in (reports, tokens):\n",
        "            for table in ():\n",
        (f"{FORGETTING}::test_ending_a_study_has_the_shuffler_delete_its_batch",),
    ),
    Fault(
        "total without those who withdrew",
        "A whole batch gives a report back that is already in its total.",
        "service/shuffler/batches.py",
        "            if not whole:\n",
        "            if True:\n",
        (
            f"{FORGETTING}::test_a_report_in_a_whole_batch_is_part_of_the_release_and_the_person_is_forgotten_afterwards",
        ),
    ),
    Fault(
        "old secret not accepted",
        "Tokens are made with the secret in use only, and those who were invited before get another one.",
        "service/keys.py",
        "made = (token_of(key, nonce) for key in self.all)",
        "made = (token_of(key, nonce) for key in self.all[:1])",
        (f"{ROTATION}::test_a_secret_replaced_in_the_middle_of_a_wave_loses_no_report",),
    ),
    Fault(
        "any token for any invitation",
        "An invitation gets the token of the secret in use although another one made it.",
        "service/keys.py",
        "if same(hash_key(token), hashed)), None)",
        "), None)",
        (f"{ROTATION}::test_a_secret_replaced_in_the_middle_of_a_wave_loses_no_report",),
    ),
    Fault(
        "old shuffler key not accepted",
        "Only messages signed with the key in use are taken.",
        "service/keys.py",
        "return any(same(sign(key, method, path, body).encode(), given) for key in self.all)",
        "return same(sign(self.in_use, method, path, body).encode(), given)",
        (f"{ROTATION}::test_a_shuffler_key_replaced_in_the_middle_of_a_wave_loses_no_total",),
    ),
    Fault(
        "needed secret retired",
        "A secret is dropped although invitations that it made are still open.",
        "service/rotation.py",
        "    if needing:\n",
        "    if False:\n",
        (f"{ROTATION}::test_the_command_rotates_a_secret_and_refuses_to_drop_one_that_is_needed",),
    ),
]
