"""Planted faults of counters, pauses between check-ins, and uploads that take the quick way."""

from tests.mutants.fault import Fault

TALLIES = "service/test_tallies.py"
PACING = "service/test_pacing.py"
UPLOADS = "service/test_uploads.py"

FAULTS = [
    Fault(
        "counter not compared",
        "A wave is released although its counter disagrees with its reports.",
        "service/study/collecting.py",
        "    if found != counted:\n",
        "    if found > counted:\n",
        (f"{TALLIES}::test_a_wave_whose_counters_disagree_with_its_reports_is_not_closed",),
    ),
    Fault(
        "one counter for all coordinators",
        "Coordinators that store reports at the same time wait for each other's counter.",
        "service/study/inbox.py",
        "desk.insert(place, context.writer, reports, counted[place])",
        'desk.insert(place, "", reports, counted[place])',
        (f"{TALLIES}::test_each_coordinator_adds_to_counters_of_its_own",),
    ),
    Fault(
        "uploads without the rate limit",
        "One address may send as many uploads as it likes.",
        "service/web/guard.py",
        "            if wait > 0:\n",
        "            if wait < 0:\n",
        (f"{UPLOADS}::test_the_rate_limit_holds",),
    ),
    Fault(
        "invitations noticed too late",
        "Where many devices are registered, they come back after the deadline of an invitation.",
        "service/study/participants.py",
        "spread(min(crowd / CHECK_INS, most))",
        "spread(crowd / CHECK_INS)",
        (f"{PACING}::test_many_devices_come_seldom_but_in_time_for_an_invitation",),
    ),
    Fault(
        "long rounds spread over the deadline",
        "Where a clock plays long rounds, devices come back after the deadline of an invitation.",
        "service/study/participants.py",
        "return round(wait + spread(min(crowd / CHECK_INS, most)), 1)",
        "return spread(wait + min(crowd / CHECK_INS, most))",
        (f"{PACING}::test_however_long_the_rounds_take_devices_come_in_time_for_the_invitation",),
    ),
]
