"""The participant's side: rewards stay on the device until it is invited, and leave it only as the promise allows.

promise = Promise("shuffle", epsilon=5, shuffler="https://shuffler.example")
device = Device("https://study.example", "espresso", promise, path="espresso.db")
device.record(wave=3, arm=17, reward=2.4)    # after each round; works offline
device.check_in()                             # now and then; answers if the device was invited
"""

from voxpop.client.device import Device, Outcome, StudyOverError
from voxpop.client.promise import Promise
from voxpop.client.storage import Memory

__all__ = ["Device", "Memory", "Outcome", "Promise", "StudyOverError"]
