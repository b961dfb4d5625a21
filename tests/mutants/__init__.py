"""Planted faults: `make mutants` plants each in a copy of the source and shows which test catches it."""

from tests.mutants import (
    answers,
    device,
    noise,
    operators,
    origins,
    outside,
    rounds,
    same_people,
    scale,
    sealing,
    service,
    shares,
    typescript,
    withdrawal,
)
from tests.mutants.fault import Fault

FAULTS: list[Fault] = [
    *noise.FAULTS,
    *answers.FAULTS,
    *device.FAULTS,
    *shares.FAULTS,
    *typescript.FAULTS,
    *service.FAULTS,
    *operators.FAULTS,
    *origins.FAULTS,
    *outside.FAULTS,
    *withdrawal.FAULTS,
    *rounds.FAULTS,
    *scale.FAULTS,
    *sealing.FAULTS,
    *same_people.FAULTS,
]
