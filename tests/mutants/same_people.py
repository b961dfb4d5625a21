"""Planted faults of studies whose people answer in every wave."""

from tests.mutants.fault import Fault

CORE, TOLD = "policies/waves/test_same_people.py", "study/test_same_people.py"
SEALED, POLICY, BELIEF = "policies/waves/sealing.py", "policies/waves/policy.py", "gp/belief.py"

FAULTS = [
    Fault(
        "a panel is its population",
        "What is stated of a panel's population does not count how far the panel is from it.",
        SEALED,
        'if self.who != "panel" or self.population is None:',
        "if True:",
        (f"{CORE}::test_a_panel_adds_its_distance_to_the_population_once",),
    ),
    Fault(
        "nobody is ever missing",
        "Those of a panel who did not answer are taken to be like the others.",
        SEALED,
        "(part.missing if part.wave else 1 / (self.population or 1))",
        "(0.0 if part.wave else 1 / (self.population or 1))",
        (f"{CORE}::test_those_who_are_missing_are_a_bias_that_is_counted",),
    ),
    Fault(
        "the pilot's people are these",
        "The pilot of other people is taken for one of those who answer in every wave.",
        SEALED,
        "(part.missing if part.wave else 1 / (self.population or 1))",
        "(part.missing if part.wave else 0.0)",
        (f"{CORE}::test_the_pilot_of_others_is_a_bias_that_is_counted",),
    ),
    Fault(
        "people's own mean is as smooth as the population's",
        "The model check compares the mean of the very people with the norm bound of their population.",
        POLICY,
        "drawn = shown.most_differing * reach(own, ALARM) / math.sqrt(self.same) if self.same else 0.0",
        "drawn = 0.0",
        (f"{CORE}::test_the_model_check_allows_what_the_people_differ_by",),
    ),
    Fault(
        "how people differ hides shocks",
        "The scatter of people who answer about every block is subtracted from what shocks did to them.",
        BELIEF,
        "scatter = None if problem.of_people else feedback.scatter",
        "scatter = feedback.scatter",
        (f"{CORE}::test_what_people_differ_by_is_not_taken_for_shocks_nor_for_noise",),
    ),
    Fault(
        "a panel of anybody",
        "Anybody may answer in a study of people who are the same in every wave.",
        "study/answers.py",
        "people = max(told.count, len({*before, *names}))",
        "people = told.count",
        (f"{TOLD}::test_others_than_the_same_people_are_refused",),
    ),
    Fault(
        "fresh people are asked again",
        "Who has answered before may answer again in a study of fresh people.",
        "study/answers.py",
        "again = next((name for name in names if name in before), None)",
        "again = None",
        (f"{TOLD}::test_fresh_people_who_answered_before_are_refused_with_the_choice",),
    ),
    Fault(
        "half an answer counts",
        "Who left out a block is averaged with the others.",
        "study/answers.py",
        "            if person not in part:",
        "            if False:",
        (f"{TOLD}::test_a_person_who_left_a_block_out_is_named",),
    ),
    Fault(
        "a promise for one answer",
        "People who are promised privacy for one answer may be asked in every wave.",
        "io/schema.py",
        "if (who := asks_again(policy)) and privacy.model != NoPrivacy.model:",
        "if (who := asks_again(policy)) and not privacy.model:",
        (f"{TOLD}::test_who_answers_is_a_promise_that_privacy_strata_and_the_service_do_not_keep",),
    ),
]
