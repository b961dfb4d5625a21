"""Privacy: who must be trusted with what, and what everyone is promised.

| model | device | shuffler | agent |
|---|---|---|---|
| none | send | - | mean |
| central | send | - | whiten, clip, mean, + Gaussian once |
| local | whiten, clip, + Gaussian | - | mean |
| shuffle | whiten, clip, encode into bits (alg:shuffler) | permute | count, debias |
| aggregate | whiten, clip, encode, split into two shares | add up (a helper) | add up, join, debias |
"""

from voxpop.privacy.ledger import Budget, Entry, Ledger
from voxpop.privacy.models import RELEASES, Private, make_privacy
from voxpop.privacy.none import NoPrivacy
from voxpop.privacy.release import Privacy, Release
from voxpop.privacy.sources import Secure, Simulated, Source

__all__ = [
    "RELEASES",
    "Budget",
    "Entry",
    "Ledger",
    "NoPrivacy",
    "Privacy",
    "Private",
    "Release",
    "Secure",
    "Simulated",
    "Source",
    "make_privacy",
]
