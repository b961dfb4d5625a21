"""A run in words: what to do, both figures that say how sure that is, what it cost and why asking stopped."""

from dataclasses import replace

import pytest

from voxpop.core.phases import Forecast
from voxpop.lab.runs import Run
from voxpop.report.phases import phase_table
from voxpop.report.summary import certified, confidence, expectation, number, summarise


def lines(run: Run) -> dict[str, str]:
    return {line.name: f"{line.value} | {line.note}" for line in summarise(run.course, run.scenario.f)}


def warned(run: Run, text: str) -> Run:
    """Return the run as if its first wave alone had failed the model check."""
    first, *others = (replace(phase, info=replace(phase.info, warning="")) for phase in run.phases)
    return replace(run, phases=(replace(first, info=replace(first.info, warning=text)), *others))


def test_both_figures_are_named(waves: Run) -> None:
    said = lines(waves)
    assert said["Certified"].startswith(f"nothing is better by more than {number(waves.state.certificate)} | 90 % conf")
    assert waves.state.expected_loss is not None
    assert said["Expected loss"].startswith(f"{number(waves.state.expected_loss)} per round | what the model expects")


def test_the_summary_says_why_asking_stopped(waves: Run) -> None:
    assert lines(waves)["Stopped because"].startswith(waves.ended)
    assert waves.ended == "asking more people no longer pays"


def test_a_policy_without_an_expected_loss_claims_none(phases: Run) -> None:
    assert "Expected loss" not in lines(phases)


def test_the_model_check_is_said_aloud(waves: Run) -> None:
    assert "Model check" not in lines(warned(waves, ""))
    assert lines(warned(waves, "answers vary too much; calibrate again"))["Model check"].startswith("answers vary too")


def test_the_confidence_of_dpbe_is_what_its_bounds_leave(phases: Run) -> None:
    problem = replace(phases.scenario.problem, beta=1e-4)
    assert confidence(phases.policy, problem, 10) == "97.6 % confidence"  # 2 * 12 * 10 * 1e-4
    tiny = replace(problem, beta=1e-9)
    assert confidence(phases.policy, tiny, 10) == "wrong with probability below 2.4e-07"


@pytest.mark.parametrize(
    ("certificate", "certain", "said"),
    [
        (0.0213, False, "nothing is better by more than 0.0213"),
        (float("inf"), False, "nothing yet"),
        (0.0, True, "nothing else can be best"),
    ],
)
def test_what_is_certified_is_said_plainly(certificate: float, certain: bool, said: str) -> None:
    assert certified(certificate, certain) == said


def test_a_wave_that_aims_at_the_tolerance_says_so() -> None:
    said = expectation(Forecast(0.0, 440.0, 4.0, certificate=0.05))
    assert said.startswith("expected to certify that nothing is better by more than 0.05; answers cost 440")


def test_the_pilot_is_wave_0(waves: Run) -> None:
    table = phase_table(waves.course)
    assert table.headings[0] == "wave"
    first = dict(zip(table.headings, table.rows[0], strict=True))
    assert (first["wave"], first["rounds"], first["played"]) == ("0", "pilot", "12")
    assert (first["people"], first["numbers"]) == ("40", "480")
    assert first["left"] == str(waves.phases[0].info.active_before)
    assert len(table.rows) == 1 + len(waves.phases)


def test_every_wave_shows_what_was_expected_of_it(waves: Run) -> None:
    table = phase_table(waves.course)
    for row, plan in zip(table.rows[1:], waves.plans, strict=True):
        cells = dict(zip(table.headings, row, strict=True))
        assert plan.forecast is not None
        assert cells["expected gain"] == number(plan.forecast.gain)
        assert cells["cost of answers"] == number(plan.forecast.answers)
        assert cells["cost of trying"] == number(plan.forecast.exploring)
        assert (cells["people"], cells["numbers"]) == (f"{plan.people:,}", f"{plan.numbers:,}")


def test_phases_without_a_forecast_show_their_widest_bound(phases: Run) -> None:
    table = phase_table(phases.course)
    assert (table.headings[0], table.headings[-1]) == ("phase", "widest bound")
    assert "expected gain" not in table.headings
    assert len(table.rows) == len(phases.phases)


def test_what_went_wrong_stands_below_the_table(waves: Run) -> None:
    assert phase_table(warned(waves, "").course).notes == []
    assert phase_table(warned(waves, "too much noise").course).notes == ["the model check failed after wave 1"]
