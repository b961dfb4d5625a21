"""The town of these tests is the same each time: a study that goes another way lets a browser wait for nothing."""

from pathlib import Path

from tests.browser.town import espresso, town
from voxpop.io.schema import encode
from voxpop.service.study.status import status_of


def test_a_town_is_the_same_each_time(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        with town(tmp_path / name) as it:
            espresso(it)
            waves = [wave.plan for wave in it.coordinator.snapshots.current("espresso").closed]
            found.append((status_of(it.coordinator.context, "espresso"), encode(waves), it.keys))
    assert found[0] == found[1]
    assert found[0][0].state == "collecting"
