"""Planted faults of what others may do and are told: roles, applications, webhooks, identity providers, own data."""

from tests.mutants.fault import Fault

APPLICATION = "service/test_application.py"
WEBHOOKS = "service/test_webhooks.py"
OIDC = "service/test_oidc.py"
CONNECT = "service/console/test_connect.py"
INSIDE = f"{WEBHOOKS}::test_no_address_inside_the_network_is_reached_unless_it_is_allowed"

FAULTS = [
    Fault(
        "rounds of no wave are recorded",
        "Between waves devices are told a block, and rewards of other stages get into their averages.",
        "service/study/status.py",
        "index, left, block = (best, 0, 0) if",
        "index, left, block = (best, 0, 1) if",
        (f"{APPLICATION}::test_a_device_records_only_rounds_that_count",),
    ),
    Fault(
        "an application's key sees the study",
        "Whoever has the key of the shop reads estimates and the log.",
        "service/operators.py",
        'self.studies.get(study) in ("owner", "viewer")',
        "study in self.studies",
        (f"{APPLICATION}::test_an_application_s_key_plays_its_study_and_does_nothing_else",),
    ),
    Fault(
        "strangers read the decision",
        "Anyone reads the decision in force of a study that is not public.",
        "service/study/coordinator.py",
        "            if log.row_of(connection, study).public:\n                return True",
        "            return True",
        (f"{APPLICATION}::test_the_decision_is_for_those_with_a_key_unless_it_is_public",),
    ),
    Fault(
        "a name is checked only once",
        "A receiver's name that comes to point inside the network is followed there.",
        "service/outbox/courier.py",
        "    checked = outside.require_reachable(parts, [str(info[4][0]) for info in infos])\n",
        "    checked = str(infos[-1][4][0])\n",
        (INSIDE,),
    ),
    Fault(
        "only the first address counts",
        "A name with two addresses, one of them inside the network, is let through.",
        "service/outbox/receivers.py",
        "        for text in found:",
        "        for text in found[:1]:",
        (INSIDE,),
    ),
    Fault(
        "translated addresses pass",
        "An address of IPv6 that a gateway makes into a private one of IPv4 is let through.",
        "client/addresses.py",
        '"::ffff:0:0:0", "64:ff9b::")',
        '"::ffff:0:0:0")',
        (INSIDE,),
    ),
    Fault(
        "redirects are followed",
        "A receiver sends the service to any address inside the network.",
        "service/outbox/courier.py",
        "follow_redirects=False",
        "follow_redirects=True",
        (f"{WEBHOOKS}::test_no_redirect_is_followed",),
    ),
    Fault(
        "a delivery ends with its sender",
        "A message that was being sent when a process died is never sent again.",
        "service/outbox/receivers.py",
        'values = {"due": now + LEASE, "attempts": part.attempts + 1}',
        'values = {"due": now + LEASE, "attempts": part.attempts + 1, "state": "failed"}',
        (f"{WEBHOOKS}::test_what_was_being_sent_when_a_process_died_is_sent_again",),
    ),
    Fault(
        "what happened is told without a cursor",
        "Every look tells everything that ever happened again.",
        "service/outbox/courier.py",
        'values = {"seq": row.seq + len(events), "body": json.dumps(now)}',
        'values = {"seq": row.seq, "body": json.dumps(now)}',
        (f"{WEBHOOKS}::test_everything_that_happens_is_told_once_in_order_and_signed",),
    ),
    Fault(
        "an end is not told",
        "A study that is ended and deleted before anyone looks is gone without a word.",
        "service/study/life.py",
        "        receivers.tell_last(connection, study)\n",
        "",
        (f"{WEBHOOKS}::test_nothing_is_lost_when_it_happens_while_nobody_listens_at_the_database",),
    ),
    Fault(
        "the provider's word is for anyone",
        "A token for another service of the same provider signs in here.",
        "service/console/sign_in.py",
        '"aud": self.client_id, ',
        "",
        (f"{OIDC}::test_a_word_for_others_or_of_others_is_refused",),
    ),
    Fault(
        "a word is good for every attempt",
        "A token of an earlier sign-in is taken again.",
        "service/console/sign_in.py",
        ', "nonce": nonce}',
        "}",
        (f"{OIDC}::test_a_word_for_others_or_of_others_is_refused",),
    ),
    Fault(
        "unverified addresses are believed",
        "Whoever types somebody's address at the provider becomes them here.",
        "service/console/sign_in.py",
        'verified = claims.get("email_verified") is True and isinstance',
        "verified = isinstance",
        (f"{OIDC}::test_who_has_an_account_signs_in_and_nobody_else",),
    ),
    Fault(
        "an address is an account for ever",
        "Whoever gets somebody's address later gets their account.",
        "service/operators.py",
        "named = (operators.c.email == email.lower(), operators.c.subject.is_(None))",
        "named = (operators.c.email == email.lower(),)",
        (f"{OIDC}::test_another_person_with_the_same_address_later_does_not_get_in",),
    ),
    Fault(
        "the cookie of a sign-in is not signed",
        "A way to sign in that one browser has begun is finished by another, as somebody else.",
        "service/console/sign_in.py",
        "if not any(hmac.compare_digest(_seal(key, text).encode(), seal.encode()) for key in keys.all):",
        "if not text:",
        (f"{OIDC}::test_the_cookie_of_a_way_to_sign_in_cannot_be_changed",),
    ),
    Fault(
        "owners reach receivers of others",
        "The owner of one study sends again what was told of another.",
        "service/outbox/receivers.py",
        '(study is not None and row.study != study):\n            raise Refusal(404, f"there is no delivery',
        'False:\n            raise Refusal(404, f"there is no delivery',
        (f"{CONNECT}::test_an_owner_reaches_no_receiver_of_others",),
    ),
    Fault(
        "an owner of one study owns all",
        "Whoever owns a study changes every other one.",
        "service/operators.py",
        'return self.operates or self.studies.get(study) == "owner"',
        'return self.operates or "owner" in self.studies.values()',
        (f"{CONNECT}::test_an_owner_manages_one_study_and_nothing_else",),
    ),
]
