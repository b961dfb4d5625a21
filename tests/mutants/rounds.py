"""Planted faults of policies that play many rounds in one call, and of baselines beside their authors' programs."""

from tests.mutants.fault import Fault

ROUNDS = "policies/test_round_by_round.py"
BASELINES = "policies/test_baselines.py"

FAULTS = [
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
