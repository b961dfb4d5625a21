"""A shuffler that lies: the coordinator takes a total of the whole announced batch, or nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.helpers_fuzzing import fuzz
from tests.service.world import STUDY, World, definition, own_shuffler, private, take_total, world
from voxpop.service.refusals import Refusal


@contextmanager
def complete_batch(folder: Path) -> Iterator[tuple[World, str, dict[str, Any]]]:
    """Yield a study whose batch is complete at the shuffler, with the name of the batch and its true total."""
    made = definition(private("shuffle"))
    with own_shuffler(str(folder / "s.db")) as shuffler, world(str(folder / "c.db"), made, 30, shuffler) as it:
        it.settle()
        it.play_all()
        it.settle()
        for key, invitation in list(it.invited()):
            assert it.answer(key, invitation) is True
        ((batch, total),) = shuffler.sealed()
        yield it, batch, total


NUMBERS: st.SearchStrategy[Any] = (
    st.integers() | st.floats() | st.sampled_from([None, True, "3", "", [], {}, 10**30, -1, 1e308])
)
TOKENS = st.sampled_from(["", "ff" * 32, "0" * 63, "zz" * 32, 7, None, "\ud800", "00" * 10_000])


def change() -> st.SearchStrategy[Any]:
    """Generate changes of a total: a name, and what it becomes."""
    return st.one_of(
        st.tuples(st.just("count"), NUMBERS),
        st.tuples(st.just("total"), NUMBERS | st.lists(NUMBERS, max_size=3)),
        st.tuples(st.just("tokens"), NUMBERS | st.lists(TOKENS, max_size=15)),
        st.tuples(st.just("drop"), st.sampled_from(["count", "total", "tokens"])),
        st.tuples(st.just("token"), TOKENS),
        st.tuples(st.just("twice"), st.none()),
        st.tuples(st.just("other"), st.sampled_from([None, 3, [], "x", {"count": 1}])),
    )


def changed(total: dict[str, Any], kind: str, value: Any) -> Any:
    if kind == "other":
        return value
    if kind == "drop":
        return {name: part for name, part in total.items() if name != value}
    if kind == "token":
        return {**total, "tokens": [value, *total["tokens"][1:]]}
    if kind == "twice":
        return {**total, "tokens": [total["tokens"][1], *total["tokens"][1:]]}
    return {**total, kind: value}


def could_be_true(ones: Any, total: dict[str, Any]) -> bool:
    return isinstance(ones, list) and len(ones) == 1 and type(ones[0]) is int and 0 <= ones[0] <= 12 * total["total"][0]


def test_only_the_total_of_the_whole_batch_is_taken(tmp_path: Path) -> None:
    with complete_batch(tmp_path) as (it, batch, total):

        def attack(example: tuple[str, Any]) -> None:
            body = changed(total, *example)
            if example[0] == "total" and could_be_true(example[1], total):
                return  # that it is not the sum of the reports, only the shuffler knows
            with pytest.raises(Refusal) as refusal:
                take_total(it.coordinator, batch, body)
            assert refusal.value.status in (410, 422)
            assert it.status.stage == "collecting"

        fuzz(attack, change(), 150)
        assert take_total(it.coordinator, batch, total) is True
        assert take_total(it.coordinator, batch, total) is False
        other = {**total, "total": [total["total"][0] - 1]}
        with pytest.raises(Refusal, match="another total"):
            take_total(it.coordinator, batch, other)
        it.settle()
        assert [wave.feedback.count for wave in it.coordinator.snapshots.current(STUDY).closed] == [12]


def test_a_total_for_no_open_batch_is_refused(tmp_path: Path) -> None:
    with complete_batch(tmp_path) as (it, batch, total):
        for name in ("", "x" * 500, batch[:-1], "\x00", batch.upper() + "!"):
            with pytest.raises(Refusal, match="no wave waits for this batch"):
                take_total(it.coordinator, name, total)
