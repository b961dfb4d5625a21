"""How often a person may take part before the privacy budget is spent."""

from __future__ import annotations

import math

from voxpop.errors import InputError
from voxpop.privacy import Entry, Ledger
from voxpop.privacy.ledger import compose_any
from voxpop.service.study.definition import Definition

MARGIN = 1.03


def most_participations(ledger: Ledger, entry: Entry, wanted: int) -> int:
    """Compute how often a person may take part in releases like this and the earlier ones, up to `wanted`.

    Whichever of them a person took part in before, the ledger then allows this release.
    """
    if ledger.budget is None:
        return wanted
    budget, most, kinds = ledger.budget, 0, [*ledger.entries, entry]
    while most < wanted and compose_any(kinds, most + 1, budget.delta) <= budget.epsilon * (1 + 1e-9):
        most += 1
    return most


def require_affordable(definition: Definition) -> None:
    """Refuse a budget that does not pay for one release, or for two if people may take part more than once.

    Such a study would silently wait for other people.
    """
    entry, budget, rules = definition.privacy.cost, definition.budget, definition.rules
    if entry is None or budget is None:
        return
    if most_participations(Ledger(budget), entry, 1) == 0:
        raise InputError(
            f"service.budget {budget.epsilon:g} does not pay for one release of epsilon {entry.epsilon:g}; raise it"
        )
    # Releases with binomial noise differ by a few percent, and this one is only typical.
    margin = 1.0 if entry.binomial is None else MARGIN
    least = math.ceil(100 * margin * compose_any([entry], 2, budget.delta)) / 100
    if rules.participations == 1 or budget.epsilon >= least:
        return
    raise InputError(
        f"service.participations {rules.participations} needs a service.budget of at least {least:g}, "
        f"which is what two releases may cost, got {budget.epsilon:g}; raise it, or leave the participations at 1"
    )
