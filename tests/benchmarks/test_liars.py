"""What liars can do to one wave, for a few seeds: none do no harm, many do, and a range makes it take more of them."""

from benchmarks.liars import moved

SEEDS = range(6)


def ways(model: str, share: float, devices: bool = False) -> int:
    """Count the runs in which liars get their way."""
    return sum(moved(model, seed, share, devices) for seed in SEEDS)


def test_liars_get_their_way_if_they_are_enough() -> None:
    assert ways("none", 0.0) == 0
    assert ways("none", 0.3) == len(SEEDS)
    assert ways("central", 0.4) == len(SEEDS)


def test_a_range_and_clipping_to_a_ball_make_it_take_more_of_them() -> None:
    assert ways("none", 0.05) == len(SEEDS)
    assert ways("none, range given", 0.05) == ways("central", 0.05) == 0


def test_modified_devices_can_do_more_than_what_people_say() -> None:
    assert ways("shuffle", 0.1, devices=True) > ways("shuffle", 0.1)
