"""What the page of a study says, against studies that are known."""

import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.service.world import STUDY, World, definition, private, world
from voxpop import Choice, Float, Problem, Space, SquaredExponential
from voxpop.model.waves import Plan
from voxpop.policies import make_policy
from voxpop.privacy import NoPrivacy
from voxpop.service.console.findings import LEVELS, MOST_LISTED, MOST_POINTS, findings_of, promise_of
from voxpop.service.console.pages import render
from voxpop.service.console.studies import StudyView, study_view
from voxpop.service.operators import Principal, Session
from voxpop.service.study import life
from voxpop.service.study.definition import Definition
from voxpop.service.study.life import Wanted
from voxpop.service.study.log import Snapshot
from voxpop.service.study.stages import State
from voxpop.simulation.people import GPPeople

MARKUP = "</script><b>white"


def wave(it: World, people: int | None = None) -> None:
    """Conduct a wave; its people answer around a reward with its peak in the middle."""
    it.settle()
    it.play_all()
    it.settle()
    made = it.coordinator.snapshots.current(STUDY).definition.problem
    f = 1.5 * np.exp(-4 * np.square(made.decisions.points - 0.55).sum(axis=1))
    for key, invitation in list(it.invited())[:people]:
        told = invitation["wave"]
        plan = Plan(told["wave"], np.array(told["arms"]), np.array(told["rounds"]), 1)
        it.answer(key, invitation, GPPeople(made, f).observe(plan, 1, it.rng))
    if people is None:
        it.settle()


def spaced(**parameters: Float | Choice) -> Definition:
    decisions = Space(dict(parameters)).grid(5)
    made = Problem(decisions, SquaredExponential(0.4), 0.2, 0.2, norm_bound=3.0, horizon=4000)
    return Definition(made, make_policy("waves"), NoPrivacy())


def part_of(name: str, view: StudyView) -> str:
    """Return a part of the page, as an operator gets it."""
    return render(f"parts/study-{name}", Session("c" * 43, Principal("ada", "operator")), "/", view=view)


def words_of(name: str, view: StudyView) -> str:
    """Return what a part of the page says."""
    return " ".join(re.sub(r"<[^>]+>", " ", part_of(name, view)).split())


def snapshot_of(it: World) -> Snapshot:
    return it.coordinator.snapshots.current(STUDY)


def test_one_number_is_a_line_with_its_bands(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), spaced(price=Float(1.0, 3.0)), people=2000) as it:
        wave(it)
        course = snapshot_of(it)
        found = findings_of(course, [])
    (chart,) = found.charts
    assert found.map is None
    assert chart.x == (1.0, 1.5, 2.0, 2.5, 3.0)
    by_label = {series.label: series.values for series in chart.series}
    assert by_label["estimate"] == pytest.approx(course.estimates, rel=1e-5)
    assert by_label["certified from"] == pytest.approx(course.bounds[0], rel=1e-5)
    assert by_label["certified to"] == pytest.approx(course.bounds[1], rel=1e-5)
    best = course.answer.index
    assert [place for place, value in enumerate(by_label["chosen"]) if value is not None] == [best]
    asked = course.closed[0].plan.arms.tolist()
    assert [by_label["answers"][arm] for arm in asked] == pytest.approx(course.closed[0].feedback.mean, rel=1e-5)
    json.dumps(msgspec.to_builtins(chart), allow_nan=False)


def test_two_numbers_are_a_map_and_two_lines_through_the_choice(tmp_path: Path) -> None:
    made = spaced(price=Float(1.0, 3.0), milk=Float(0.0, 1.0))
    with world(str(tmp_path / "c.db"), made, people=3000) as it:
        wave(it)
        course = snapshot_of(it)
        found = findings_of(course, [])
    assert found.map is not None
    assert {len(row) for row in found.map.rows} == {5}
    assert len(found.map.rows) == 5
    strongest = int(np.argmax(course.estimates))
    column, row = strongest // 5, 4 - strongest % 5  # the last parameter varies first; up is more
    assert found.map.rows[row][column] == LEVELS - 1
    best = course.answer.index
    assert found.map.chosen == (best // 5, 4 - best % 5)
    assert [chart.x_label for chart in found.charts] == ["price", "milk"]
    assert all(len(chart.x) == 5 for chart in found.charts)


def test_names_are_listed_and_not_drawn_as_lines(tmp_path: Path) -> None:
    made = spaced(kind=Choice(("green", MARKUP)), price=Float(1.0, 3.0))
    with world(str(tmp_path / "c.db"), made, people=3000) as it:
        wave(it)
        found = findings_of(snapshot_of(it), [])
    assert [chart.x_label for chart in found.charts] == ["price"]
    assert found.map is None
    assert found.bars[0].known["best"]
    assert sum(bar.known["best"] for bar in found.bars) == 1
    places = [bar.estimate_at for bar in found.bars[1:]]
    assert places == sorted(places, reverse=True)
    for bar in found.bars:
        assert bar.certified_at is not None
        assert 0 <= bar.certified_at[0] <= bar.certified_at[1] <= 100


def test_a_long_line_and_a_long_list_are_thinned_out_but_keep_the_choice(tmp_path: Path) -> None:
    made = spaced(price=Float(1.0, 3.0))
    problem = Problem(
        Space(price=Float(1.0, 3.0)).grid(2001), SquaredExponential(0.4), 0.2, 0.2, norm_bound=3.0, horizon=4000
    )
    with world(str(tmp_path / "c.db"), replace(made, problem=problem), people=2000) as it:
        wave(it)
        found = findings_of(snapshot_of(it), [])
    (chart,) = found.charts
    assert len(chart.x) <= MOST_POINTS + 1
    (chosen,) = (series for series in chart.series if series.role == "chosen")
    assert sum(value is not None for value in chosen.values) == 1
    assert len(found.bars) <= MOST_LISTED
    assert found.bars[0].known["best"]


def test_before_anybody_has_answered_nothing_is_drawn(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), spaced(price=Float(1.0, 3.0))) as it:
        found = findings_of(snapshot_of(it), [])
        view = study_view(it.coordinator, STUDY)
    assert (found.charts, found.map) == ((), None)
    assert all((bar.certified_at, bar.known["people"]) == (None, 0) for bar in found.bars)
    assert view.findings.headline.startswith("Use price = ")
    assert view.findings.headline.endswith(
        " for now: nobody has answered, so this is a start and not a recommendation."
    )
    assert view.findings.costs == ()
    assert view.findings.waves_chart is None


def test_the_history_tells_what_was_known_after_each_wave(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), spaced(price=Float(1.0, 3.0)), people=3000) as it:
        wave(it)
        first = snapshot_of(it)
        wave(it)
        snapshot = snapshot_of(it)
        found = findings_of(snapshot, [])
    assert snapshot.known[:2] == first.known
    assert [name for name, *_ in found.known] == ["before", "wave 1", "wave 2"][: len(snapshot.known)]
    assert len(found.known) > 1
    assert found.waves_chart is not None
    drawn = found.waves_chart.series[0].values
    assert drawn[-1] == pytest.approx(snapshot.state.certificate, rel=1e-5)
    assert found.known[-1][-1] != "–"


def test_the_ledger_names_every_release_and_the_most_exposed(tmp_path: Path) -> None:
    made = definition(private("central"))
    with world(str(tmp_path / "c.db"), made, people=400) as it:
        assert promise_of(snapshot_of(it)) is not None
        it.settle()
        it.play_all()
        it.settle()
        it.answer_all()
        it.settle()
        found = promise_of(snapshot_of(it))
    assert found is not None
    assert "(5, 1e-06)-differential privacy for the whole study, in the central model" in found.promised
    assert [(release.wave, release.epsilon) for release in found.releases] == [(1, 5.0)]
    assert "the most exposed are exposed to epsilon 5, of 5, at delta 1e-06" in found.exposed
    with world(str(tmp_path / "d.db"), definition()) as it:
        assert promise_of(snapshot_of(it)) is None


def test_the_open_wave_says_who_is_missing_and_until_when(address: str) -> None:
    with world(address, definition(deadline=600.0), people=400) as it:
        it.settle()
        view = study_view(it.coordinator, STUDY)
        assert (view.status.funnel.asked, view.until) == (0, None)
        assert "Wave 1: People are invited as soon as its rounds are played." in words_of("wave", view)
        it.play_all()
        it.settle()
        invited = list(it.invited())
        it.answer(*invited[0])
        found = study_view(it.coordinator, STUDY)
        assert found.status.funnel.asked == len(invited)
        assert len(invited) == 2
        assert "1 answer is in of wave 1; nothing is read before the wave closes. It lacks 1" in words_of("wave", found)
        assert found.until == it.clock.now + 600.0
        said = f"collecting People are asked: 1 of {len(invited)} have answered in wave 1."
        assert words_of("answer", found).startswith(said)
        it.clock.now += 601.0
        it.settle()
        assert study_view(it.coordinator, STUDY).status.funnel.lapsed == len(invited) - 1


def test_a_study_that_waits_for_people_says_so(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(), people=1) as it:
        it.settle()
        view = study_view(it.coordinator, STUDY)
        assert view.status.state == State.WAITING
        assert f"{State.WAITING} It goes on when more people have registered." in words_of("answer", view)
        assert "Wave 1: More people must register first; then its rounds are played." in words_of("wave", view)
        life.change(it.coordinator.context, STUDY, Wanted.PAUSED, "ada")
        assert study_view(it.coordinator, STUDY).status.state == State.PAUSED


@pytest.mark.parametrize(
    ("wishes", "state", "labels"),
    [
        ((), "playing", ["Pause", "End now"]),
        ((Wanted.PAUSED,), "paused", ["Resume", "End now"]),
        ((Wanted.ENDED,), "finished", ["Archive", "Delete"]),
        ((Wanted.ENDED, Wanted.ARCHIVED), "archived", ["List it again", "Delete"]),
    ],
)
def test_the_buttons_are_what_can_be_done(
    tmp_path: Path, wishes: tuple[Wanted, ...], state: str, labels: list[str]
) -> None:
    with world(str(tmp_path / "c.db"), definition(), people=30) as it:
        it.settle()
        for wish in wishes:
            life.change(it.coordinator.context, STUDY, wish, "ada")
        view = study_view(it.coordinator, STUDY)
    assert view.status.state == state
    pattern = r'<button name="wanted" value="\w+"(?: class="quiet")?>([^<]+)</button>|<summary[^>]*>([^<]+)…</summary>'
    assert re.findall(pattern, part_of("actions", view)) == [(labels[0], ""), ("", labels[1])]  # the second is guarded


def test_the_log_is_told_newest_first_and_in_words(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), definition(), people=400) as it:
        it.settle()
        it.play_all()
        it.settle()
        it.answer_all()
        it.settle()
        life.change(it.coordinator.context, STUDY, Wanted.ENDED, "ada")
        view = study_view(it.coordinator, STUDY)
    words = [event.words for event in view.findings.log]
    assert words[0] == "An operator ended the study."
    assert words[1].startswith("Wave 2 was planned: it asks ")
    assert words[2].startswith("Wave 1 was released: ")
    assert words[-1] == "The study was created."
    assert [event.seq for event in view.findings.log] == [4, 3, 2, 1, 0]
    for event in view.findings.log:
        assert not event.whole or json.loads(event.raw) is not None
    assert [(entry.actor, entry.action) for entry in view.audit] == [("ada", "ended"), ("command line", "created")]


def test_a_view_of_what_has_not_changed_is_equal(tmp_path: Path) -> None:
    with world(str(tmp_path / "c.db"), spaced(price=Float(1.0, 3.0)), people=2000) as it:
        wave(it)
        assert study_view(it.coordinator, STUDY) == study_view(it.coordinator, STUDY)
        before = study_view(it.coordinator, STUDY)
        wave(it, people=1)
        assert study_view(it.coordinator, STUDY) != before
