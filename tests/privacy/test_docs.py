"""What docs/privacy.md says in numbers."""

import re

from benchmarks.privacy import alone
from tests.helpers_cli import ROOT
from voxpop.privacy import Ledger, Private
from voxpop.privacy.ledger import exposure


def table_below(heading: str) -> list[list[str]]:
    """Return the cells of the first table of a section, without the line below its headings."""
    page = (ROOT / "docs/privacy.md").read_text(encoding="utf-8")
    found = re.search(rf"### {heading}\n.*?\n(\|.*?)\n\n", page, re.DOTALL)
    assert found is not None
    headings, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines()]
    return [headings, *rows]


def test_what_is_left_if_all_others_are_made_up() -> None:
    assert table_below("If all others are made up") == [list(row) for row in alone()]


def test_what_households_are_exposed_to() -> None:
    for epsilon, *said in table_below("Several studies, and households")[1:]:
        for model, cell in zip(("central", "shuffle", "aggregate"), said, strict=True):
            cost = Private(model, float(epsilon)).cost
            assert cost is not None
            sizes = (2, 3, 4) if model == "central" else (2,)  # binomial noise takes seconds for each
            found = [exposure([Ledger(None, [cost])], 1e-6, size) for size in sizes]
            assert cell.split(" / ")[: len(sizes)] == [f"{each:.2f}" for each in found]
