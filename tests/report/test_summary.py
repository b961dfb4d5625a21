"""A run in words: what to do, both figures that say how sure that is, what it cost and why asking stopped."""

from dataclasses import replace

import numpy as np
import pytest

from voxpop.journal.journal import Course, Definition
from voxpop.journal.question import confidence_of
from voxpop.model.kernels import SquaredExponential
from voxpop.model.problem import Evidence, Problem
from voxpop.model.waves import Forecast
from voxpop.model.words import certified, describe, number, percent
from voxpop.policies import make_policy
from voxpop.policies.waves.state import WavesState
from voxpop.report.stakes import stakes_of
from voxpop.report.summary import expectation, summarise
from voxpop.report.tables import wave_table
from voxpop.simulation.runs import Run


def lines(run: Run) -> dict[str, str]:
    return {line.name: f"{line.value} | {line.note}" for line in summarise(run.course, run.scenario.f)}


def warned(run: Run, text: str) -> Run:
    """Return the run as if its first wave alone had failed the model check."""
    first, *others = (replace(wave, info=replace(wave.info, warning="")) for wave in run.closed)
    return replace(run, log=((replace(first, info=replace(first.info, warning=text)), *others),))


def test_both_figures_are_named(waves: Run) -> None:
    said = lines(waves)
    proved = f"no other price is better by more than {number(waves.state.certificate)}, with 90 % confidence"
    assert said["Certified"].startswith(f"{proved} | 30 % of the answers was kept aside to check this;")
    assert waves.state.expected_loss is not None
    assert said["Expected loss"].startswith(f"{number(waves.state.expected_loss)} per round | what the model expects")
    answer = waves.course.answer
    assert answer.estimate is not None
    assert answer.low is not None
    assert answer.high is not None
    assert said["Expect"].startswith(f"{number(answer.estimate)} | profit per customer; likely ")
    assert f"; certified {number(answer.low)} to {number(answer.high)}; simulated truth " in said["Expect"]


def test_what_comes_first_is_what_a_manager_asks(waves: Run) -> None:
    first = [line.name for line in summarise(waves.course) if line.first]
    assert first == ["Do this", "Expect", "Expected loss", "Certified", "Asking cost", "Not asking would cost"]


def test_costs_are_measured_in_a_simulation_and_estimated_otherwise(waves: Run) -> None:
    for truth, source in ((waves.scenario.f, "by the simulated truth"), (None, "by what is known now")):
        found = stakes_of(waves.course, truth)
        assert found is not None
        assert found.pilot is not None
        assert found.pilot_choice is not None
        said = {line.name: (line.value, line.note) for line in summarise(waves.course, truth)}
        assert said["Asking cost"][0] == number(found.asking)
        value, note = said["Not asking would cost"]
        assert value == number(found.pilot)
        kept = describe(waves.scenario.problem.decisions[found.pilot_choice])
        assert note.startswith(f"with the pilot's choice, {kept}; at random {number(found.guessing)};")
        assert f"over 5,000 rounds, {source}" in note


def test_not_asking_is_compared_with_what_is_known_now(waves: Run) -> None:
    found, estimates = stakes_of(waves.course), waves.course.state.centre
    assert found is not None
    assert found.pilot_choice is not None
    assert found.ahead == 0
    assert found.pilot == pytest.approx(5_000 * (estimates[waves.best] - estimates[found.pilot_choice]))
    before = replace(waves.course, closed=(), state=waves.policy.init(waves.scenario.problem).concluded())
    at_most = stakes_of(before)
    assert at_most is not None
    assert at_most.pilot is not None
    assert at_most.pilot == pytest.approx(5_000 * (before.state.expected_loss or 0.0))  # all that asking can bring
    said = {line.name: line.value for line in summarise(before)}
    assert said["Not asking would cost"] == f"at most {number(at_most.pilot)}"


def test_answers_that_confirm_the_pilot_are_said_to(waves: Run) -> None:
    found = stakes_of(waves.course)
    assert found is not None
    confirmed = replace(waves, state=replace(waves.state, decision=found.pilot_choice))
    said = "with the pilot's choice, which the answers confirm; at random"
    assert said in lines(confirmed)["Not asking would cost"]
    assert said not in lines(waves)["Not asking would cost"]


def test_a_loss_far_below_all_differences_is_nothing(waves: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WavesState, "expected_loss", 1e-9)
    assert lines(waves)["Expected loss"].startswith("practically nothing")


def test_before_any_answer_it_is_said_what_the_decision_rests_on(courses: dict[str, Course]) -> None:
    nothing, pilot = (summarise(courses[name]) for name in ("nothing", "only the pilot"))
    assert nothing[0].name == "Do this for now"
    assert nothing[0].note.startswith("nobody has answered yet, and there was no pilot")
    assert [line.name for line in nothing] == ["Do this for now", "Asked", "Open"]
    assert pilot[0].note == "nobody has answered yet; this rests on the pilot of 30 people alone"
    assert "Asking cost" not in [line.name for line in pilot]
    assert summarise(courses["open"])[0].note == ""


def test_the_summary_says_why_asking_stopped(waves: Run) -> None:
    assert lines(waves)["Stopped because"].startswith(waves.ended)
    assert waves.ended == "asking more people no longer pays"


def test_a_policy_without_an_expected_loss_claims_none(paper: Run) -> None:
    assert {"Expected loss", "Model check"} & lines(paper).keys() == set()


def test_the_model_check_is_said_aloud(waves: Run) -> None:
    assert lines(warned(waves, ""))["Model check"].startswith("the answers fit the model")
    assert lines(warned(waves, "answers vary too much; calibrate again"))["Model check"].startswith("answers vary too")


def test_the_confidence_of_dpbe_is_what_its_bounds_leave(paper: Run) -> None:
    problem = replace(paper.scenario.problem, beta=1e-4)
    assert confidence_of(paper.policy, problem, 10) == pytest.approx(1 - 2 * 12 * 10 * 1e-4)
    assert percent(confidence_of(paper.policy, problem, 10) or 0.0) == "97.6 %"
    assert percent(confidence_of(paper.policy, replace(problem, beta=1e-9), 10) or 0.0) == "99.99 %"  # never 100


@pytest.mark.parametrize(
    ("certificate", "certain", "said"),
    [
        (0.0213, False, "nothing is better by more than 0.0213"),
        (float("inf"), False, "not certified yet"),
        (None, False, "not certified yet"),
        (0.0, True, "nothing else can be best"),
    ],
)
def test_what_is_certified_is_said_plainly(certificate: float | None, certain: bool, said: str) -> None:
    assert certified(certificate, certain) == said


def test_a_wave_that_aims_at_the_tolerance_says_so() -> None:
    said = expectation(Forecast(0.0, 440.0, 4.0, certificate=0.05))
    assert said.startswith("expected to certify that nothing is better by more than 0.05; answers cost 440")


def test_the_pilot_is_wave_0(waves: Run) -> None:
    table = wave_table(waves.course)
    assert table.headings[0] == "wave"
    first = dict(zip(table.headings, table.rows[0], strict=True))
    assert (first["wave"], first["rounds"], first["played"]) == ("0", "pilot", "12")
    assert (first["people"], first["numbers"]) == ("40", "480")
    assert first["left"] == str(waves.closed[0].info.active_before)
    assert len(table.rows) == 1 + len(waves.closed)


def test_every_wave_shows_what_was_expected_of_it(waves: Run) -> None:
    table = wave_table(waves.course)
    for row, plan in zip(table.rows[1:], waves.plans, strict=True):
        cells = dict(zip(table.headings, row, strict=True))
        assert plan.forecast is not None
        assert cells["expected gain"] == number(plan.forecast.gain)
        assert cells["cost of answers"] == number(plan.forecast.answers)
        assert cells["cost of trying"] == number(plan.forecast.exploring)
        assert (cells["people"], cells["numbers"]) == (f"{plan.people:,}", f"{plan.numbers:,}")


def test_waves_without_a_forecast_show_their_widest_bound(paper: Run) -> None:
    table = wave_table(paper.course)
    assert (table.headings[0], table.headings[-1]) == ("wave", "widest bound")
    assert "expected gain" not in table.headings
    assert len(table.rows) == len(paper.closed)


def test_what_went_wrong_stands_below_the_table(waves: Run) -> None:
    assert wave_table(warned(waves, "").course).notes == []
    assert wave_table(warned(waves, "too much noise").course).notes == ["the model check failed after wave 1"]


def test_thousands_of_decisions_have_separators() -> None:
    problem = Problem(np.linspace(0, 1, 2000), SquaredExponential(0.3), 0.1, 0.2, norm_bound=1.0, horizon=50)
    pilot = Evidence(problem.decisions.points[:1047], np.ones(1047), 1200, np.zeros(1047))
    course = Course.begin(Definition(replace(problem, pilot=(pilot,)), make_policy("dpbe")))
    (row,) = wave_table(course).rows
    assert row[1:4] == ("pilot", "1,047", "1,200")
