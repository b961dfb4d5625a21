"""Planted faults of what is done with answers before noise is added, and of what they are charged."""

from tests.mutants.fault import Fault

RELEASE = "privacy/test_release.py"
BALL = "privacy/test_ball.py"
LEDGER = "privacy/test_ledger.py"
REFUSALS = "privacy/test_refusals.py"
DRIVER = "drivers/test_study_private.py"
PHASE = "drivers/test_phase.py"
PILOT = "formats/test_released_pilot.py"
WEIGHTED = "privacy/test_weighted.py"

FAULTS = [
    Fault(
        "clipping at 1.2 R",
        "Answers up to 1.2 times the radius pass.",
        "privacy/ball.py",
        "self.radius / np.maximum(norms, self.radius)",
        "1.2 * self.radius / np.maximum(norms, self.radius)",
        (f"{BALL}::test_clipped_answers_are_in_the_ball_whatever_they_were",),
    ),
    Fault(
        "clipping per coordinate",
        "Each coordinate is cut off at the radius, which bounds a cube and not a ball.",
        "privacy/ball.py",
        "return np.asarray(z * np.minimum(1.0, self.radius / np.maximum(norms, self.radius)))",
        "return np.clip(z, -self.radius, self.radius)",
        (f"{BALL}::test_clipped_answers_are_in_the_ball_whatever_they_were",),
    ),
    Fault(
        "clipping after averaging",
        "The average is clipped instead of each person's answers.",
        "privacy/central.py",
        "Tally.of_steps(self.grid(reports), self.step)",
        "Tally.of_steps(np.tile(self.grid(np.mean(reports, axis=0, keepdims=True)), (len(reports), 1)), self.step)",
        (f"{RELEASE}::test_neither_order_nor_grouping_changes_the_release",),
    ),
    Fault(
        "no clipping",
        "Answers outside the ball are added up as they are.",
        "privacy/clipped.py",
        "return self.ball.clip(self.ball.whiten(y))",
        "return self.ball.whiten(y)",
        ("privacy/test_audit.py::test_honest_releases_pass_and_the_attack_is_near_the_claim",),
    ),
    Fault(
        "weights above one",
        "A person of a stratum that few answer from moves the sum by more than the noise was made for.",
        "core/strata.py",
        "return np.minimum(1.0, self.weights * self.equivalent)",
        "return self.weights * len(self.weights)",
        (f"{WEIGHTED}::test_nobody_moves_the_sum_by_more_than_the_noise_was_made_for",),
    ),
    Fault(
        "weights without clipping",
        "Answers of people who were sampled unevenly are added up as they are.",
        "privacy/central.py",
        "sample.factors[:, None] * self.clipped(reports)",
        "sample.factors[:, None] * self.ball.whiten(reports)",
        (f"{WEIGHTED}::test_nobody_moves_the_sum_by_more_than_the_noise_was_made_for",),
    ),
    Fault(
        "weighted people not charged",
        "The ledger does not look at people who were sampled unevenly.",
        "drivers/weighting.py",
        "    ledger.check(entry)\n",
        "",
        (f"{WEIGHTED}::test_a_private_study_charges_everyone_and_refuses_who_took_part",),
    ),
    Fault(
        "NaN refused",
        "An answer that is not a number stops the release, and everyone notices.",
        "privacy/ball.py",
        "deviation = np.where(np.isnan(y), 0.0, np.clip(y - self.centre, -HUGE, HUGE))",
        'if np.isnan(y).any():\n                raise InputError("an answer is not a number")\n'
        "            deviation = np.clip(y - self.centre, -HUGE, HUGE)",
        (f"{REFUSALS}::test_an_answer_that_is_not_a_number_counts_as_the_centre",),
    ),
    Fault(
        "tally of floats",
        "Answers are added up as floats, so that the sum depends on their order.",
        "core/phases.py",
        "return cls(len(grid), tuple(grid.astype(np.int64).sum(axis=0).tolist()), step)",
        "return cls(len(grid), tuple(int(x) for x in grid.astype(np.float32).sum(axis=0).tolist()), step)",
        ("core/test_phases.py::test_a_tally_does_not_depend_on_order_or_grouping",),
    ),
    Fault(
        "ledger not checked",
        "A phase is released without asking the ledger.",
        "drivers/phase.py",
        "    ledger.check(entry)\n",
        "",
        (f"{PHASE}::test_a_release_beyond_the_budget_is_refused_before_noise_is_drawn",),
    ),
    Fault(
        "noise before the ledger",
        "The noise of a release is drawn before the ledger has allowed it.",
        "drivers/phase.py",
        "    ledger.check(entry)\n    return release.analyze(release.require_whole(tally), source), entry",
        "    feedback = release.analyze(release.require_whole(tally), source)\n"
        "    ledger.check(entry)\n    return feedback, entry",
        (f"{PHASE}::test_a_release_beyond_the_budget_is_refused_before_noise_is_drawn",),
    ),
    Fault(
        "names not recorded",
        "The ledger's entry does not say who answered.",
        "drivers/phase.py",
        "phase=phase.plan.phase, names=names)",
        "phase=phase.plan.phase)",
        (f"{DRIVER}::test_nobody_takes_part_twice_also_after_loading",),
    ),
    Fault(
        "planned people charged",
        "The ledger is charged for the people who were asked and not for those who answered.",
        "drivers/phase.py",
        'plan.people if plan.reports == "one" else tally.count',
        "plan.people",
        (f"{PHASE}::test_the_people_who_answered_are_charged",),
    ),
    Fault(
        "largest epsilon instead of the sum",
        "Several releases about one person cost as much as the largest of them.",
        "privacy/composition.py",
        "    if all(entry.multiplier is not None for entry in entries):\n",
        "    if all(entry.delta <= delta for entry in entries):\n"
        "        return max(entry.epsilon for entry in entries)\n"
        "    if all(entry.multiplier is not None for entry in entries):\n",
        (f"{LEDGER}::test_k_gaussian_releases_are_one_with_noise_smaller_by_sqrt_k",),
    ),
    Fault(
        "ledger without names",
        "The ledger forgets who took part in a release.",
        "privacy/ledger.py",
        "self._about.setdefault(person, []).append(about)",
        "pass",
        (f"{LEDGER}::test_everyone_takes_part_once_unless_a_study_allows_more",),
    ),
    Fault(
        "budget at the release's delta",
        "A release is weighed at its own delta and not at the budget's.",
        "privacy/ledger.py",
        "compose((*past, entry), self.budget.delta)",
        "compose((*past, entry), max(self.budget.delta, entry.delta))",
        (f"{LEDGER}::test_a_release_at_a_larger_delta_than_the_budget_s_is_weighed_at_the_budget_s",),
    ),
    Fault(
        "participations not counted",
        "The ledger does not limit how often a person takes part.",
        "privacy/ledger.py",
        "if len(past) >= self.budget.participations:",
        "if False:",
        (f"{LEDGER}::test_everyone_takes_part_once_unless_a_study_allows_more",),
    ),
    Fault(
        "study with a seed",
        "An ask/tell study draws its noise from a generator with a fixed seed.",
        "drivers/releasing.py",
        "ledger, Secure(), told.names)",
        'ledger, __import__("voxpop").privacy.Simulated(np.random.default_rng(0)), told.names)',
        (f"{DRIVER}::test_the_noise_is_from_the_operating_system_and_kept",),
    ),
    Fault(
        "binomial releases not added",
        "Of several shuffled releases about one person only the last is counted.",
        "privacy/composition.py",
        "_epsilon(np.sum([_loss(entry) for entry in entries], axis=0), delta)",
        "_epsilon(_loss(entries[-1]), delta)",
        ("privacy/test_composition.py",),
    ),
    Fault(
        "pilot with a seed",
        "The noise of a protected pilot comes from a generator with a fixed seed unless it is given a source.",
        "calibration/fit.py",
        "protection.release(pilot, source or Secure())",
        'protection.release(pilot, source or __import__("voxpop").privacy.Simulated(np.random.default_rng(0)))',
        ("calibration/test_protected.py::test_the_noise_comes_from_the_operating_system",),
    ),
    Fault(
        "pilot of the command with a seed",
        "`voxpop calibrate` draws the noise of a protected pilot from a generator with a fixed seed.",
        "cli/calibrate.py",
        "(records, protection, Secure())",
        '(records, protection, __import__("voxpop").privacy.Simulated(__import__("numpy").random.default_rng(0)))',
        ("cli/test_calibrate_protected.py::test_the_noise_is_from_the_operating_system",),
    ),
    Fault(
        "pilot's noise drawn again",
        "Calibrating again releases the same answers with new noise.",
        "formats/released_pilot.py",
        "if not self.exists():",
        "if True:",
        (f"{PILOT}::test_a_second_release_is_the_first",),
    ),
    Fault(
        "pilot's sums used before they are kept",
        "What is released of a pilot is handed out without a file that would survive a loss of power.",
        "formats/released_pilot.py",
        "write_durably(self.path, wire.pack(KIND, content))",
        "self.path.write_text(wire.pack(KIND, content))",
        (f"{PILOT}::test_the_file_is_durable_before_anything_is_returned",),
    ),
    Fault(
        "pilot changed after its release",
        "Sums of other answers than the pilot's are taken for its own.",
        "formats/released_pilot.py",
        "if digest != _digest(pilot):",
        "if False:",
        (f"{PILOT}::test_one_changed_answer_is_refused",),
    ),
    Fault(
        "pilot with a rounded middle",
        "Answers of a narrow range far from 0 are scaled to more than 1.",
        "calibration/protected.py",
        "np.clip((clipped - self.middle) / self.half, -1.0, 1.0)",
        "np.asarray((clipped - self.middle) / self.half)",
        ("calibration/test_protected.py::test_a_narrow_range_far_from_zero_moves_the_sums_no_more_than_another",),
    ),
]
