"""Planted faults: `make mutants` plants each in a copy of the source and shows which test catches it."""

from tests.mutants import (
    answers,
    device,
    noise,
    operators,
    origins,
    rounds,
    scale,
    sealing,
    service,
    shares,
    withdrawal,
)
from tests.mutants.fault import Fault

FAULTS: list[Fault] = [
    *noise.FAULTS,
    *answers.FAULTS,
    *device.FAULTS,
    *shares.FAULTS,
    *service.FAULTS,
    *operators.FAULTS,
    *origins.FAULTS,
    *withdrawal.FAULTS,
    *rounds.FAULTS,
    *scale.FAULTS,
    *sealing.FAULTS,
]
