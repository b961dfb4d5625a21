"""The catalogue covers the paper, and exhibits are chosen from it by name, group and label."""

import re
from dataclasses import replace

import pytest

from reproduction import all_exhibits, choose
from tests.helpers_cli import refusal
from tests.reproduction.helpers import LABELS, PAPER, SMALL, STUDIES, catalogue, of_group
from voxpop.errors import InputError

# The catalogue covers the paper


ILLUSTRATIONS = {"fig:dynamic_pricing", "fig:schedule"}


def test_every_figure_and_table_of_the_paper_is_covered() -> None:
    wanted = {*PAPER["labels"]["figures"], *PAPER["labels"]["tables"]}
    assert len(wanted) >= 30
    assert wanted >= ILLUSTRATIONS | {"fig:tradeoff", "fig:dp_dpbe", "fig:light_dp_delta", "tab:wallclock_functions"}
    covered = {label for exhibit in catalogue() for label in exhibit.labels}
    assert wanted - covered == ILLUSTRATIONS


def test_every_label_of_an_exhibit_is_the_paper_s() -> None:
    assert [(e.name, label) for e in catalogue() for label in e.labels if label not in LABELS] == []


def test_names_and_titles_are_unique_and_fit_for_files() -> None:
    names = [exhibit.name for exhibit in catalogue()]
    assert len(names) == len({name.replace("/", "-") for name in names})
    assert len({exhibit.title for exhibit in catalogue()}) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z]+(/[a-z]+)?", name)] == []


@pytest.mark.parametrize("group", ["ablation", "peers", "privacy", "readings"])
def test_every_study_has_its_figures(group: str) -> None:
    assert [study for study, _ in of_group(group)] == list(STUDIES)


SUBFIGURES = {"sphere": "sphere", "camel": "six-hump", "michalewicz": "michalewicz", "light": "light"}


@pytest.mark.parametrize("study", SUBFIGURES)
def test_a_study_s_figures_carry_its_own_labels(study: str) -> None:
    """A panel of one function is not the panel of another."""
    for group in ("ablation", "peers", "privacy"):
        exhibit = dict(of_group(group))[study]
        named = [label for label in exhibit.labels if any(word in label for word in SUBFIGURES.values())]
        assert named
        assert [label for label in named if not label.startswith(f"fig:{SUBFIGURES[study]}")] == []


# Choosing


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (["tradeoff"], ["tradeoff"]),
        (["ablation/camel"], ["ablation/camel"]),
        (["peers"], [f"peers/{study}" for study in STUDIES]),
        (["fig:tradeoff"], ["readings/synthetic", "tradeoff"]),
        (["tab:runtime"], ["ablation/synthetic", "readings/synthetic"]),
        (["fig:light"], ["ablation/light"]),
        (["tab:wallclock_functions"], [f"peers/{study}" for study in STUDIES[1:]]),
        (["fig:dp_functions_epsilon"], [f"privacy/{study}" for study in STUDIES[1:]]),
        (["trust", "ablation/sphere"], ["trust", "ablation/sphere"]),
        (["ablation/sphere", "trust", "ablation/sphere", "fig:sphere"], ["ablation/sphere", "trust"]),
        (["ablation/camel", "ablation"], ["ablation/camel", *(f"ablation/{s}" for s in STUDIES if s != "camel")]),
        (["fig:dp_dpbe", "fig:regret_time"], ["privacy/synthetic"]),
        (["tab:complexity", "tab:bounds"], ["bounds"]),
    ],
)
def test_exhibits_are_chosen_by_name_group_and_label(wanted: list[str], names: list[str]) -> None:
    assert [exhibit.name for exhibit in choose(wanted, SMALL)] == names


def test_everything_is_chosen_when_nothing_is_named() -> None:
    assert [exhibit.name for exhibit in choose([], SMALL)] == [exhibit.name for exhibit in all_exhibits(SMALL)]
    assert [exhibit.name for exhibit in choose(iter(()), SMALL)] == [exhibit.name for exhibit in all_exhibits(SMALL)]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("tradeof", "tradeoff"),
        ("fig:tradeof", "fig:tradeoff"),
        ("ablaton", "ablation"),
        ("peers/spere", "peers/sphere"),
    ],
)
def test_an_unknown_name_is_refused_with_a_near_one(name: str, near: str) -> None:
    with pytest.raises(InputError) as call:
        choose(["trust", name], SMALL)
    assert f"{name!r}" in refusal(call)
    assert f"did you mean {near!r}?" in refusal(call)


@pytest.mark.parametrize("name", ["", "Ablation", "ablation/", "ablation/pricing", "fig:schedule", "../ablation"])
def test_a_name_that_no_exhibit_has_is_refused(name: str) -> None:
    with pytest.raises(InputError) as call:
        choose([name], SMALL)
    assert f"unknown figure {name!r}" in refusal(call)


def test_a_folder_of_readings_is_for_the_light_study_alone() -> None:
    named = all_exhibits(replace(SMALL, data="folder"))
    assert [exhibit.name for exhibit in named] == [exhibit.name for exhibit in all_exhibits(SMALL)]
    assert {t.data for e in named for t in e.trials if t.study == "light"} == {"folder"}
    assert {t.data for e in named for t in e.trials if t.study != "light"} == {None}
    assert {t.data for e in all_exhibits(SMALL) for t in e.trials} == {None}


@pytest.mark.parametrize("name", ["ablation/light", "peers/light", "fig:light", "fig:light_sec8", "fig:light_dp_delta"])
def test_a_light_figure_needs_no_folder(name: str) -> None:
    chosen = choose([name], SMALL)
    assert len(chosen) == 1
    assert {(trial.study, trial.data) for trial in chosen[0].trials} == {("light", None)}


def test_a_misspelt_light_figure_is_unknown_with_and_without_a_folder() -> None:
    for data in (None, "folder"):
        with pytest.raises(InputError, match="unknown figure 'abltion/light'"):
            choose(["abltion/light"], replace(SMALL, data=data))
