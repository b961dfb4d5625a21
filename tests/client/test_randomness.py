"""A device's randomness: its key and its noise are the operating system's, unless a test gives it another source."""

import itertools
import json

import numpy as np

from tests.client.test_device import Server, release, told
from tests.helpers_privacy import Silent, promised
from tests.helpers_randomness import assert_from_the_operating_system, opendp
from voxpop.client import Memory, Outcome, Promise


def test_the_key_has_256_bits_of_the_operating_system() -> None:
    assert_from_the_operating_system(lambda: Memory().key, bits=256)


def test_local_noise_is_opendp_s_and_nothing_else() -> None:
    made = release("local")
    server = Server(told(made))
    with opendp(itertools.count(100)) as scales:
        assert server.device(Promise("local", 5.0)).check_in() is Outcome.ANSWERED
    report = json.loads(server.got[0])["report"]
    plain = np.asarray(made.randomize(np.full((1, 4), 0.5), Silent()), dtype=float)
    assert (np.array(report) - plain[0]).tolist() == [100, 101, 102, 103]
    assert scales == [made.std]


def test_a_shuffled_report_follows_from_the_operating_system_s_bits() -> None:
    made = release("shuffle")
    server = Server(told(made, "http://shuffler/v2/x"))
    devices = iter([server.device(promised("shuffle", 5.0)) for _ in range(3)])

    def report() -> bytes:
        assert next(devices).check_in() is Outcome.ANSWERED
        return server.got[-1]

    assert_from_the_operating_system(report, bits=4 * made.encoding.trials * 50)
