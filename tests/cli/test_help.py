"""The help of commands is wrapped by the terminal, and says nothing that is not about them."""

import pytest

from voxpop.cli.commands import MODULES, load


@pytest.mark.parametrize("name", MODULES)
def test_paragraphs_are_single_lines_and_groups_install_nothing(name: str) -> None:
    command = load(name)
    for one in (command, *getattr(command, "commands", {}).values()):
        assert all("\n" not in paragraph for paragraph in one.help.split("\n\n"))
        assert not [flag for parameter in one.params for flag in parameter.opts if "completion" in flag]
