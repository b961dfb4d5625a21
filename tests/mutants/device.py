"""Planted faults of a person's device."""

from tests.mutants.fault import Fault

DEVICE = "client/test_device.py"
PROMISE = "client/test_promise.py"
LIMITS = "client/test_limits.py"
RANDOMNESS = "client/test_randomness.py"

FAULTS = [
    Fault(
        "promise not checked",
        "A device answers whatever it is asked for.",
        "client/device.py",
        "        self.promise.check(release)\n",
        "",
        (DEVICE,),
    ),
    Fault(
        "only the name checked",
        "A device compares the model's name with its promise and nothing else.",
        "client/promise.py",
        "if weakness is not None:",
        "if False:",
        (DEVICE,),
    ),
    Fault(
        "local: noise not compared",
        "A device takes any noise of the local model for enough.",
        "privacy/local.py",
        "self.std >= needed * (1 - 1e-6)",
        "self.std > 0",
        (PROMISE,),
    ),
    Fault(
        "local: rounding not compared",
        "A device leaves rounding out when it compares the noise with its promise.",
        "privacy/local.py",
        "(2 * steps + math.sqrt(self.arms))",
        "(2 * steps)",
        ("privacy/test_sensitivity.py",),
    ),
    Fault(
        "shuffle: noise not compared",
        "A device takes any encoding whose privacy can be computed for private enough.",
        "privacy/shuffle.py",
        "enough = known and",
        "enough = known or",
        (PROMISE,),
    ),
    Fault(
        "new noise for a repeated upload",
        "A device makes a new report, with new noise, when the last one was not acknowledged.",
        "client/device.py",
        "            left = self.memory.outgoing()\n",
        "            left = None\n",
        (DEVICE, "client/test_answers.py"),
    ),
    Fault(
        "report replaced while it waits",
        "A report that waits to be sent is replaced by a new one with new noise.",
        "client/storage.py",
        "INSERT OR IGNORE INTO outbox",
        "INSERT OR REPLACE INTO outbox",
        (DEVICE,),
    ),
    Fault(
        "counted after the acknowledgement",
        "A report counts against the promise only once it was counted, so a reply that is held back is free.",
        "client/storage.py",
        '                self._file.execute("INSERT INTO made (phase) VALUES (?)", [outgoing.phase])\n',
        "                pass\n",
        (LIMITS,),
    ),
    Fault(
        "participations unlimited",
        "A device answers as often as it is asked.",
        "client/storage.py",
        "            if self.reports >= most:\n                return None\n",
        "",
        (LIMITS,),
    ),
    Fault(
        "device with a seed",
        "A device draws its noise from a generator with a fixed seed unless it is given a source.",
        "client/device.py",
        "self._source = source or Secure()",
        'self._source = source or __import__("voxpop").privacy.Simulated(np.random.default_rng(0))',
        (RANDOMNESS, "test_imports.py"),
    ),
    Fault(
        "predictable device key",
        "A device's key comes from Python's ordinary generator.",
        "client/storage.py",
        "secrets.token_urlsafe(32)",
        '__import__("random").randbytes(32).hex()',
        (RANDOMNESS,),
    ),
    Fault(
        "device key of 32 bits",
        "A device's key has four random bytes.",
        "client/storage.py",
        "secrets.token_urlsafe(32)",
        "secrets.token_hex(4)",
        (RANDOMNESS,),
    ),
    Fault(
        "device keeps what it deletes",
        "A deleted report or reward stays readable in the device's file.",
        "client/storage.py",
        "PRAGMA secure_delete = ON",
        "PRAGMA secure_delete = OFF",
        ("client/test_storage.py",),
    ),
    Fault(
        "bits sent to the coordinator",
        "A device sends a report that only a shuffler may see to the coordinator.",
        "client/device.py",
        "if release.batch is not None and there == mine:",
        "if False:",
        (DEVICE,),
    ),
    Fault(
        "batch not stated",
        "A device does not say for which batch its noise was made.",
        "client/device.py",
        "            said |= asdict(release.batch)\n",
        "            pass\n",
        (DEVICE,),
    ),
]
