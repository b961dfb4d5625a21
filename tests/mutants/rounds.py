"""Planted faults of policies that play many rounds in one call, and of baselines beside their authors' programs."""

from tests.mutants.fault import Fault

ROUNDS = "policies/test_round_by_round.py"
PLAYED = "study/test_played.py"
BASELINES = "policies/test_baselines.py"

FAULTS = [
    Fault(
        "rounds added up over blocks",
        "A wave whose blocks have unequal rounds counts with their sum, which understates its noise.",
        "model/waves.py",
        "np.floor(len(used) ** 2 / (1 / counts).sum(axis=0) + 1e-9)",
        "counts.sum(axis=0)",
        (f"{PLAYED}::test_the_noise_that_is_counted_with_is_at_least_that_of_the_rounds",),
    ),
    Fault(
        "shocks from unequal rounds",
        "Residuals of a wave whose blocks have unequal rounds show shocks.",
        "gp/belief.py",
        " or plan.counts is not None:",
        ":",
        (f"{PLAYED}::test_unequal_rounds_count_with_their_harmonic_mean_and_show_no_shocks",),
    ),
    Fault(
        "rounds that are still settling",
        "The first rounds of a turn count, although the decision before carries over into them.",
        "model/waves.py",
        "        rounds[:, : self.washout] = 0\n",
        "",
        ("simulation/test_weather.py::test_a_decision_is_felt_in_the_first_round_of_the_next",),
    ),
    Fault(
        "an order that stays on its days",
        "A decision is played on the same days of every week, where the arms of a wave are seven.",
        "model/waves.py",
        "steps = np.arange(cycle) * math.gcd(cycle, size) // cycle",
        "steps = np.zeros(cycle, dtype=int)",
        ("policies/waves/test_cycles.py::test_every_arm_is_played_on_the_same_days_in_every_block",),
    ),
    Fault(
        "a day that only some decisions had",
        "Where a round was lost, its decision is compared with others that were played on that day of the week.",
        "model/waves.py",
        "if self.cycle and self.orders is not None:",
        "if self.cycle and self.orders is None:",
        ("policies/waves/test_cycles.py::test_a_day_that_was_lost_is_left_out_for_all",),
    ),
    Fault(
        "rounds of a turn as if they were apart",
        "Rounds that follow each other count as independent shocks, which understates the noise.",
        "gp/belief.py",
        "problem.shock_noise(plan.turns)",
        "problem.shock_noise(plan.pulls)",
        ("policies/waves/test_blocks.py::test_the_rounds_of_a_turn_are_one_shock",),
    ),
    Fault(
        "an answer about a lost block",
        "If a single block is left, answers about the others are averaged with its own.",
        "model/waves.py",
        "        return self.blocks > 1 or bool(self.used)\n",
        "        return self.blocks > 1\n",
        (f"{PLAYED}::test_a_table_with_people_of_a_lost_block_is_refused_also_if_one_block_is_left",),
    ),
    Fault(
        "answers of a block off the grid",
        "An answer in a block of waves is not rounded as an answer in any other wave is.",
        "simulation/simulator.py",
        "return round(found / step) * step",
        "return found",
        (f"{ROUNDS}::test_a_block_is_what_one_wave_after_the_other_is",),
    ),
    Fault(
        "a block without the ledger",
        "A block of waves is played without asking the ledger.",
        "simulation/simulator.py",
        "        ledger.check(entry)  # the others are like it\n",
        "",
        (f"{ROUNDS}::test_a_ledger_with_a_budget_refuses_a_block_before_it_is_played",),
    ),
    Fault(
        "the belief of an old state",
        "A block of waves changes the belief of the state from which it began.",
        "policies/gp_ucb.py",
        "belief, upper, noise = deepcopy(state.belief), state.upper, noise_variance(problem)",
        "belief, upper, noise = state.belief, state.upper, noise_variance(problem)",
        (f"{ROUNDS}::test_playing_leaves_the_old_state_alone",),
    ),
    Fault(
        "a dictionary that forgets",
        "Rounds of one action enter bbkb's dictionary independently, so that a much-played action may be left out.",
        "policies/bbkb.py",
        "self.oversampling * rounds * belief.variance / noise",
        "1 - (1 - np.minimum(1, self.oversampling * belief.variance / noise)) ** rounds",
        (f"{BASELINES}::test_bbkb_keeps_an_action_with_the_published_probability",),
    ),
    Fault(
        "the paper's noise under a forecast",
        "A policy that forecasts by the exact noise runs with the paper's.",
        "privacy/models.py",
        "            if plan.forecast is not None:\n",
        "            if plan.forecast is not None and plan.wave == 0:\n",
        (
            "cli/test_private_commands.py::test_the_printed_calibration_is_refused_with_waves_which_the_paper_does_not_have",
        ),
    ),
]
