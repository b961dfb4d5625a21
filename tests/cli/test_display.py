"""What the commands show where there is no terminal: tables that are not broken."""

import pytest
from rich.console import Console
from rich.table import Table

from voxpop.cli import display
from voxpop.cli.display import print_table


def long_table() -> Table:
    table = Table("claim", "evidence", box=None)
    table.add_row("c" * 150, "e" * 150)
    return table


@pytest.mark.parametrize(("columns", "whole"), [(None, True), ("80", False)])
def test_a_table_is_as_wide_as_its_rows_unless_a_width_is_set(
    columns: str | None, whole: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(display, "console", Console())
    print_table(long_table())
    assert ("c" * 150 in capsys.readouterr().out) == whole
