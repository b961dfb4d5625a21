"""Releasing what was told of a wave: with noise if people are promised any, once, and if the ledger allows it."""

from __future__ import annotations

from voxpop.errors import InputError
from voxpop.journal.record import Released
from voxpop.journal.wave import Wave, entry_of, release_wave
from voxpop.model.waves import Answered, Feedback
from voxpop.privacy import Ledger, Secure
from voxpop.study import weighting
from voxpop.study.answers import Answers


def released(wave: Wave, told: Answers | Feedback, ledger: Ledger, private: bool) -> Released:
    """Release answers, or take an average that was computed elsewhere. This draws noise: call it once per wave."""
    if isinstance(told, Answers):
        again = any(entry.wave == wave.plan.wave for entry in ledger.entries)
        if private and again and not told.names:
            raise InputError(
                f"wave {wave.plan.wave} was released before and taken back; tell records with names, so that "
                "nobody is counted twice"
            )
        if told.sample is None:
            tally = wave.release.tally(told.matrix)
            feedback, entry = release_wave(wave, tally, ledger, Secure(), told.names)
        else:
            feedback, entry = weighting.release(wave, told, ledger, Secure())
        return Released(Answered(wave.plan, feedback), entry)
    entry = entry_of(wave, told.count)
    ledger.check(entry)
    return Released(Answered(wave.plan, told), entry)
