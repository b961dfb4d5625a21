"""Planted faults of the sealed certificate: what it rests on, what it costs, and what may not see it."""

from tests.mutants.fault import Fault

SEALING = "policies/waves/test_sealing.py"
SEALED, POLICY, JOURNAL = "policies/waves/sealing.py", "policies/waves/policy.py", "journal/journal.py"

FAULTS = [
    Fault(
        "planned with everything",
        "What is planned with is all that people said, sealed part included.",
        SEALED,
        "mean=problem.means[plan.arms] + planned.residual,",
        "mean=feedback.mean,",
        (f"{SEALING}::test_what_is_planned_with_is_as_noisy_as_it_says",),
    ),
    Fault(
        "the sealed part says more than it does",
        "The sealed part counts with the noise of all answers.",
        SEALED,
        "Rows(rows.points, rows.residual - w / math.sqrt(odds), rows.noise / share),",
        "Rows(rows.points, rows.residual - w / math.sqrt(odds), rows.noise),",
        (f"{SEALING}::test_the_parts_are_independent_and_together_say_what_was_said",),
    ),
    Fault(
        "releases see the seal",
        "Private answers are clipped to bounds that the sealed part proves.",
        POLICY,
        "changed(self, active=self.offered, lower=prior.lower, upper=prior.upper, certified=certified)",
        "changed(self, active=self.offered, certified=certified)",
        (f"{SEALING}::test_what_is_planned_does_not_hang_on_what_is_sealed",),
    ),
    Fault(
        "plans see the final choice",
        "A study that goes on plans with what all answers said at its end, the sealed ones included.",
        POLICY,
        "return hidden.seen(self.view.belief, self.view.best)",
        "return hidden",
        (
            "policies/waves/test_policy.py::test_all_answers_choose_among_a_few_decisions_that_were_listed_without_sealed_ones",
        ),
    ),
    Fault(
        "every choice has the whole level",
        "All answers choose among several decisions, and each has the whole level.",
        POLICY,
        "said = self.evidence.state(choice, part * level)",
        "said = self.evidence.state(choice, level)",
        (f"{SEALING}::test_each_decision_of_the_list_has_its_part_of_the_level",),
    ),
    Fault(
        "clipped answers prove under another model",
        "Answers that were clipped to the old norm bound are proved with after it is raised.",
        POLICY,
        "kept = tuple(part for part in after.parts if part.clipping is None)",
        "kept = after.parts",
        (f"{SEALING}::test_clipped_answers_prove_nothing_once_the_model_they_were_clipped_to_is_given_up",),
    ),
    Fault(
        "a finite population's best action is not random",
        "The own deviations of a finite population count for one action, and not for the best of all.",
        SEALED,
        "factor(DRAWN * level / n) *",
        "factor(DRAWN * level) *",
        (f"{SEALING}::test_a_finite_population_is_meant_itself_with_its_own_best_action",),
    ),
    Fault(
        "new decisions are certified by old waves",
        "What was sealed before decisions came or went states again, although it was used to plan with.",
        POLICY,
        "part.wave > max(state.watched, state.used)",
        "part.wave > state.watched",
        (
            "study/test_decisions.py::test_later_statements_rest_on_later_waves_alone_and_all_answers_are_used_to_decide",
        ),
    ),
    Fault(
        "choosing decisions costs nothing",
        "What is left of the chance of error is the same after decisions came or went.",
        POLICY,
        "changed(state.otherwise(), lower=lower",
        "changed(state, lower=lower",
        (
            "study/test_decisions.py::test_later_statements_rest_on_later_waves_alone_and_all_answers_are_used_to_decide",
        ),
    ),
    Fault(
        "taking back costs nothing",
        "What was spent for answers that were taken back can be spent again.",
        JOURNAL,
        "return replace(kept, state=changed(kept.state, spent=spent))",
        "return kept",
        (
            "study/test_partial.py::test_what_was_told_last_is_taken_back_and_told_again",
            "study/test_levels.py::test_who_chooses_the_moment_is_wrong_no_more_often_than_promised[takes back]",
        ),
    ),
    Fault(
        "closing early costs nothing",
        "A wave is closed when the answers so far suit, at the level of a wave that nobody chose the moment of.",
        POLICY,
        "after = after.closed_early(plan.people)",
        "pass",
        ("study/test_levels.py::test_who_chooses_the_moment_is_wrong_no_more_often_than_promised[closes early]",),
    ),
    Fault(
        "a horizon ends a study for nothing",
        "Who shortens the horizon when the sealed answers suit gets all that the end of a study may say.",
        JOURNAL,
        "return replace(amended, state=now.state.otherwise())",
        "return amended",
        ("study/test_levels.py::test_whoever_ends_a_study_by_its_horizon_gets_no_more_than_a_small_rest_can_say",),
    ),
    Fault(
        "two chances of error",
        "A study whose first waves an earlier version planned certifies with a chance of error that was spent before.",
        POLICY,
        "after = after.left(0)",
        "pass",
        (f"{SEALING}::test_waves_of_a_study_from_before_there_were_seals_are_planned_with_and_prove_nothing",),
    ),
    Fault(
        "statements replayed at a level that was spent",
        "After answers are taken back, the wave before says more than it did, at a level of its own.",
        JOURNAL,
        "said = changed(course.state, spent=done.spent)",
        "said = course.state",
        ("study/test_levels.py::test_an_answer_that_was_taken_back_stays_paid_and_the_wave_before_says_what_it_said",),
    ),
    Fault(
        "sealed answers choose the end",
        "Where sealed answers end a study, what is left of the level is spent on saying more.",
        POLICY,
        "if self.over or self.settled:",
        "if self.over:",
        ("study/test_levels.py::test_where_what_is_sealed_ends_a_study_nothing_more_is_spent[0.1]",),
    ),
    Fault(
        "old waves prove",
        "The pilot certifies although an earlier version planned a wave with all of it.",
        POLICY,
        "sealed = state.pilot and all(plan.sealed for plan, _ in state.history)",
        "sealed = state.pilot",
        (f"{SEALING}::test_waves_of_a_study_from_before_there_were_seals_are_planned_with_and_prove_nothing",),
    ),
    Fault(
        "predicted wave is a pilot",
        "A wave that aims at a certificate is predicted with the bias that shocks leave in a pilot.",
        "policies/waves/planning.py",
        "            wave=plan.wave,\n            rounds=",
        "            rounds=",
        ("policies/waves/test_certifying.py::test_more_answers_never_make_what_is_predicted_worse",),
    ),
]
