"""Planted faults of a person's device."""

from tests.mutants.fault import Fault

DEVICE = "client/test_device.py"
PROMISE = "client/test_promise.py"
LIMITS = "client/test_limits.py"
HOSTILE = "client/test_hostile_releases.py"
RANDOMNESS = "client/test_randomness.py"

FAULTS = [
    Fault(
        "always the first block",
        "A device reports on the first block of a wave, whichever it is asked about.",
        "client/device.py",
        'wave.get("block", 1), least=1',
        "1, least=1",
        (
            (
                "service/test_blocks.py::"
                "test_a_study_over_http_learns_from_each_block_what_its_people_lived_through_there"
            ),
        ),
    ),
    Fault(
        "promise not checked",
        "A device answers whatever it is asked for.",
        "client/device.py",
        "        self.promise.check(release)\n",
        "",
        (f"{DEVICE}::test_nothing_is_sent_that_the_promise_does_not_allow",),
    ),
    Fault(
        "only the name checked",
        "A device compares the model's name with its promise and nothing else.",
        "client/promise.py",
        "if weakness is not None:",
        "if False:",
        (f"{DEVICE}::test_nothing_is_sent_that_the_promise_does_not_allow",),
    ),
    Fault(
        "local: noise not compared",
        "A device takes any noise of the local model for enough.",
        "privacy/local.py",
        "self.std >= needed * (1 - 1e-6)",
        "self.std > 0",
        (f"{PROMISE}::test_a_local_release_that_passes_has_the_noise",),
    ),
    Fault(
        "local: rounding not compared",
        "A device leaves rounding out when it compares the noise with its promise.",
        "privacy/local.py",
        "(2 * steps + math.sqrt(self.arms))",
        "(2 * steps)",
        ("privacy/test_sensitivity.py::test_a_device_counts_rounding_when_it_compares_noise_with_its_promise",),
    ),
    Fault(
        "shuffle: noise not compared",
        "A device takes any encoding whose privacy can be computed for private enough.",
        "privacy/encoded.py",
        "enough = known and",
        "enough = known or",
        (f"{PROMISE}::test_a_shuffled_release_that_passes_has_the_noise",),
    ),
    Fault(
        "new noise for a repeated upload",
        "A device makes a new report, with new noise, when the last one was not acknowledged.",
        "client/device.py",
        "            left = self.memory.outgoing()\n",
        "            left = None\n",
        (f"{DEVICE}::test_the_same_report_is_sent_until_it_is_acknowledged",),
    ),
    Fault(
        "report replaced while it waits",
        "A report that waits to be sent is replaced by a new one with new noise.",
        "client/storage.py",
        "INSERT OR IGNORE INTO outbox",
        "INSERT OR REPLACE INTO outbox",
        (f"{DEVICE}::test_the_memory_is_persistent_and_averages_rewards",),
    ),
    Fault(
        "counted after the acknowledgement",
        "A report counts against the promise only once it was counted, so a reply that is held back is free.",
        "client/storage.py",
        '                self._file.execute("INSERT INTO made (wave) VALUES (?)", [outgoing.wave])\n',
        "                pass\n",
        (f"{LIMITS}::test_a_device_answers_as_often_as_was_promised",),
    ),
    Fault(
        "participations unlimited",
        "A device answers as often as it is asked.",
        "client/storage.py",
        "            if self.reports >= most:\n                return None\n",
        "",
        (f"{LIMITS}::test_counting_and_keeping_are_one_transaction",),
    ),
    Fault(
        "device with a seed",
        "A device draws its noise from a generator with a fixed seed unless it is given a source.",
        "client/device.py",
        "self._source = source or Secure()",
        'self._source = source or __import__("voxpop").privacy.Simulated(np.random.default_rng(0))',
        (f"{RANDOMNESS}::test_local_noise_is_opendp_s_and_nothing_else",),
    ),
    Fault(
        "predictable device key",
        "A device's key comes from Python's ordinary generator.",
        "client/storage.py",
        "secrets.token_urlsafe(32)",
        '__import__("random").randbytes(32).hex()',
        (f"{RANDOMNESS}::test_the_key_has_256_bits_of_the_operating_system",),
    ),
    Fault(
        "device key of 32 bits",
        "A device's key has four random bytes.",
        "client/storage.py",
        "secrets.token_urlsafe(32)",
        "secrets.token_hex(4)",
        (f"{RANDOMNESS}::test_the_key_has_256_bits_of_the_operating_system",),
    ),
    Fault(
        "device keeps what it deletes",
        "A deleted report or reward stays readable in the device's file.",
        "client/storage.py",
        "PRAGMA secure_delete = ON",
        "PRAGMA secure_delete = OFF",
        ("client/test_storage.py::test_nothing_of_a_report_or_a_reward_is_on_the_device_after_its_wave",),
    ),
    Fault(
        "bits sent to the coordinator",
        "A device sends a report that only a shuffler may see to the coordinator.",
        "client/device.py",
        "        if there == mine:\n",
        "        if False:\n",
        (f"{DEVICE}::test_bits_go_to_the_shuffler_only_and_other_reports_to_the_coordinator_only",),
    ),
    Fault(
        "promised shuffler in the clear",
        "A device that was promised a shuffler under TLS sends its report to the same server without.",
        "client/device.py",
        "return urlsplit(url).scheme, _server(url)",
        'return "", _server(url)',
        (f"{DEVICE}::test_a_report_goes_to_the_promised_shuffler_only",),
    ),
    Fault(
        "batch not stated",
        "A device does not say for which batch its noise was made.",
        "privacy/shuffle.py",
        '{"report": report.tolist(), **self.batch.stated()}',
        '{"report": report.tolist()}',
        (f"{DEVICE}::test_a_shuffled_report_says_what_it_was_calibrated_for",),
    ),
    Fault(
        "silence about what was missed",
        "A device that missed a decision sends nothing, which says that it was not there.",
        "client/device.py",
        "if np.isnan(averages).any() and not release.fills_gaps:",
        "if np.isnan(averages).any():",
        (f"{DEVICE}::test_what_a_device_missed_is_answered_with_the_centre_and_spent",),
    ),
    Fault(
        "any amount of noise accepted",
        "A device adds so much noise that floats round the sum, in a way that tells the answer.",
        "privacy/local.py",
        "if self.std > MOST_STD:",
        "if False:",
        (f"{HOSTILE}::test_noise_too_large_for_exact_sums_is_refused",),
    ),
    Fault(
        "any root accepted",
        "A device whitens its answer by a matrix that is nearly singular.",
        "privacy/clipped.py",
        "if not ball.condition <= MOST_CONDITION:",
        "if False:",
        (f"{HOSTILE}::test_a_root_that_is_nearly_singular_is_refused",),
    ),
    Fault(
        "honest share not compared",
        "A device compares the noise with its promise as if every other device were honest.",
        "client/promise.py",
        "release.weakness(self.epsilon, self.delta, self.honest)",
        "release.weakness(self.epsilon, self.delta)",
        (PROMISE,),
    ),
]
