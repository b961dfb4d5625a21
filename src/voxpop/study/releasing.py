"""Releasing what was told of a phase: with noise if people are promised any, once, and if the ledger allows it."""

from __future__ import annotations

from voxpop.errors import InputError
from voxpop.io.record import Released
from voxpop.model.waves import Answered, Feedback
from voxpop.privacy import Ledger, Secure
from voxpop.study import weighting
from voxpop.study.answers import Answers
from voxpop.study.wave import Phase, entry_of, release_phase


def released(phase: Phase, told: Answers | Feedback, ledger: Ledger, private: bool) -> Released:
    """Release answers, or take an average that was computed elsewhere. This draws noise: call it once per phase."""
    if isinstance(told, Answers):
        again = any(entry.phase == phase.plan.phase for entry in ledger.entries)
        if private and again and not told.names:
            raise InputError(
                f"phase {phase.plan.phase} was released before and taken back; tell records with names, so that "
                "nobody is counted twice"
            )
        if told.sample is None:
            tally = phase.release.tally(told.matrix)
            feedback, entry = release_phase(phase, tally, ledger, Secure(), told.names)
        else:
            feedback, entry = weighting.release(phase, told, ledger, Secure())
        return Released(Answered(phase.plan, feedback), entry)
    entry = entry_of(phase, told.count)
    ledger.check(entry)
    return Released(Answered(phase.plan, told), entry)
