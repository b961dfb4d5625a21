"""Measure the aggregate model's proofs: 20 numbers of 20 bits, on a device, on each server, and on the wire.

    python -m benchmarks.proofs [--chromium]

Proofs are made by the device in Python, in Node and, with --chromium, in the system's Chromium; verified 1,000 at a
time, as a coordinator and as a helper; and both servers store uploads, 100 at a time, into SQLite. Times are those
of the quickest tenth, which other programs on the machine disturb least. Then devices try to move a total: by the
largest report that is in range, and by reports that are not.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.clients_js.npm import NODE, SDK, bundle
from tests.privacy.test_prio3 import Liar
from voxpop.privacy.prio3 import Prio3, sum_vec
from voxpop.privacy.release import Batch
from voxpop.service.keys import Keyring, hash_key, new_key
from voxpop.service.shuffler.batches import EncodedReport, Shuffler
from voxpop.service.shuffler.signed_http import HttpShuffler
from voxpop.service.stores.migrate import open_store
from voxpop.service.study.inbox import Upload, store

NUMBERS, MOST, REPORTS, GROUP = 20, 2**20 - 1, 1000, 100
BATCH = Batch(REPORTS, NUMBERS, 2**19, 2**19 - 1, 0.5, shared=True)
PRIO3 = sum_vec(NUMBERS, MOST)
PROGRAM = """
import { shares, RANDOM_BYTES } from "MODULE";
globalThis.measure = () => {
  const numbers = Array.from({ length: 20 }, (_, i) => i * 50_000);
  const times = Array.from({ length: 120 }, () => {
    const random = crypto.getRandomValues(new Uint8Array(RANDOM_BYTES));
    const start = performance.now();
    shares(numbers, 2 ** 20 - 1, random);
    return performance.now() - start;
  });
  return times.slice(20).sort((a, b) => a - b)[10];
};
"""


def milliseconds(work: Any, times: int) -> float:
    def once() -> float:
        start = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - start)

    once()
    return sorted(once() for _ in range(times))[times // 10]


def made() -> list[bytes]:
    return PRIO3.shard([50_000 * i for i in range(NUMBERS)], os.urandom(PRIO3.random_bytes))


def in_node(folder: Path) -> float:
    program = folder / "measure.ts"
    program.write_text(PROGRAM.replace("MODULE", str(SDK / "src/prio3.ts")) + "console.log(measure());", "utf-8")
    return float(subprocess.run([NODE, program], capture_output=True, text=True, check=True).stdout)


def in_chromium(folder: Path) -> float:
    from tests.browser.chromium import chromium

    program = folder / "page.ts"
    program.write_text(PROGRAM.replace("MODULE", str(SDK / "src/prio3.ts")), "utf-8")
    bundle(folder, program)
    with chromium() as browser:
        page = browser.new_page()
        page.add_script_tag(content=(folder / "page.js").read_text("utf-8"), type="module")
        page.wait_for_function("globalThis.measure")
        return float(page.evaluate("measure()"))


def moved() -> None:
    """Print by how much devices move a total of others."""
    lies = {"the largest report": 0, "a bit that is 2": 2, "a bit that is -1": -1, "a bit that is 2^40": 2**40}
    circuit: Any = PRIO3.circuit
    for name, lie in lies.items():
        if lie:
            free = Liar(circuit.numbers, circuit.most, circuit.chunk, circuit.field)
            object.__setattr__(free, "lie", lie % circuit.field.modulus)
            device, numbers = Prio3(free, PRIO3.algorithm, PRIO3.proofs), [0] * NUMBERS
        else:
            device, numbers = PRIO3, [MOST] * NUMBERS
        sent = device.shard(numbers, os.urandom(PRIO3.random_bytes))
        checks = [PRIO3.verify(bytes(32), holder, [one]) for holder, one in enumerate(sent)]
        (message,) = PRIO3.messages(*(check.verifiers for check in checks))
        taken = all(check.seeds[0] == message for check in checks)
        outputs = (PRIO3.outputs(holder, [one]) for holder, one in enumerate(sent))
        number = circuit.field.add(*outputs)[0][0] if taken else 0
        print(f"  {name}: {'taken' if taken else 'refused'}, a number moves by {int(number):,} of {MOST:,} at most")


def stored(folder: Path) -> tuple[float, float]:
    """Return the milliseconds in which each server takes a share: checked and committed, 100 at a time."""
    from benchmarks import service_load

    service_load.PEOPLE, service_load.ARMS = REPORTS, NUMBERS
    link = HttpShuffler(service_load.ELSEWHERE, Keyring.of(b"k" * 32), service_load.ELSEWHERE)
    coordinator, tokens = service_load.prepare(str(folder / "c.db"), "aggregate", link)
    wave = coordinator.snapshots.current(service_load.STUDY).wave
    assert wave is not None
    batch = wave.release.batch
    assert batch is not None
    prio3 = batch.prio3
    both = [prio3.shard([0] * NUMBERS, os.urandom(prio3.random_bytes)) for _ in range(REPORTS)]
    helper, name = Shuffler(open_store(str(folder / "h.db"), "shuffler"), lambda kind, **values: None), new_key()
    helper.announce(name, batch, [hash_key(token) for token in tokens], [])
    times: list[float] = []
    for holder in (0, 1):
        start = time.perf_counter()
        for place in range(0, REPORTS, GROUP):
            some = range(place, place + GROUP)
            if holder:
                given = [EncodedReport(name, tokens[i], both[i][1], batch) for i in some]
                assert helper.store(given) == [True] * GROUP
            else:
                ours = [Upload((service_load.STUDY, 1), tokens[i], both[i][0]) for i in some]
                assert store(coordinator.context, ours) == [True] * GROUP
        times.append(1e3 * (time.perf_counter() - start) / REPORTS)
    return times[0], times[1]


def main() -> None:
    sent = [made() for _ in range(REPORTS)]
    helper = json.dumps({"report": "x" * (len(sent[0][1]) * 4 // 3), **BATCH.stated()})
    print(f"a report: {len(sent[0][0]):,} bytes to the coordinator, {len(helper):,} to the helper")
    with tempfile.TemporaryDirectory(prefix="voxpop-bench-") as name:
        print(f"a proof: {milliseconds(made, 50):.1f} ms in Python, {in_node(Path(name)):.1f} ms in Node")
        if "--chromium" in sys.argv:
            print(f"  {in_chromium(Path(name)):.1f} ms in Chromium")
        shares = list(zip(*sent, strict=True))
        parts = range(0, REPORTS, PRIO3.at_once)

        def verified(holder: int) -> list[bytes]:
            checks = (PRIO3.verify(bytes(32), holder, shares[holder][i : i + PRIO3.at_once]) for i in parts)
            return [one for check in checks for one in check.verifiers]

        ours, theirs = (verified(holder) for holder in (0, 1))
        decided = milliseconds(lambda: PRIO3.messages(ours, theirs), 3) / REPORTS
        one, other = (milliseconds(lambda holder=holder: verified(holder), 3) / REPORTS for holder in (0, 1))
        print(f"verifying a report: {one:.2f} ms at the coordinator, {other + decided:.2f} ms at the helper")
        print(f"  a verifier share has {PRIO3.verifier_bytes:,} bytes")
        at_coordinator, at_helper = stored(Path(name))
        print(f"storing a share: {at_coordinator:.2f} ms at the coordinator, {at_helper:.2f} ms at the helper")
        whole = (at_coordinator + one) / (at_helper + other + decided)
        print(f"  storing and verifying, the helper's rate is {whole:.2f} of the coordinator's")
    print("moving a total:")
    moved()


if __name__ == "__main__":
    main()
