"""The numbers of the paper, as its tables print them, and how running times are compared with them.

Source: "(Private) Kernelized Bandits with Distributed Biased Feedback", SIGMETRICS '23
(Proc. ACM Meas. Anal. Comput. Syst.).
"""

import numpy as np

from voxpop.simulation.comparison import Cell

# tab:runtime and tab:communication_time_baseline: numbers sent, seconds
COST = {
    "synthetic": {"DPBE": (5.87e3, 0.12), "DPBE-Fixed": (5.87e3, 0.19), "DPBE-NoBatching": (1.81e4, 0.61)},
    "sphere": {"DPBE": (1.49e3, 0.07), "DPBE-Fixed": (1.49e3, 0.12), "DPBE-NoBatching": (6.16e3, 0.69)},
    "camel": {"DPBE": (1.26e3, 0.03), "DPBE-Fixed": (1.26e3, 0.12), "DPBE-NoBatching": (1.45e4, 0.17)},
    "michalewicz": {"DPBE": (2.06e3, 0.06), "DPBE-Fixed": (2.06e3, 0.14), "DPBE-NoBatching": (2.73e4, 0.49)},
    "light": {"DPBE": (5.17e3, 0.22), "DPBE-Fixed": (5.17e3, 0.28), "DPBE-NoBatching": (2.73e4, 5.20)},
}

# tab:wallclock and tab:wallclock_functions: seconds of DPBE by alpha, of GP-UCB and of BPE
ALPHAS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SECONDS = {
    "synthetic": ((0.24, 0.19, 0.14, 0.12, 0.13, 0.17), 5.32, 27.49),
    "sphere": ((0.08, 0.07, 0.07, 0.07, 0.09, 0.13), 4.68, 37.87),
    "camel": ((0.04, 0.03, 0.04, 0.03, 0.04, 0.04), 4.79, 10.43),
    "michalewicz": ((0.04, 0.04, 0.05, 0.06, 0.07, 0.11), 4.95, 4.48),
    "light": ((0.04, 0.06, 0.07, 0.03, 0.06, 0.05), 3.22, 82.08),
}

COST_AT_LARGEST_ALPHA = 1.19e4  # of DPBE at alpha = 0.9 on the synthetic function, in the text
EPSILONS = (5.0, 10.0, 15.0, 20.0, 25.0, 30.0)
TRADEOFF_ALPHAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def seconds_of(cell: Cell) -> float:
    """Return the median running time, which other work on the machine disturbs least."""
    return float(np.median(cell["seconds"]))


def judge_seconds(printed: float, ours: float, of_printed: float, of_ours: float) -> str:
    """Judge a running time to within a factor of two: as it is, or as a multiple of DPBE's on the same machine."""

    def close(one: float, other: float) -> bool:
        return min(one, other) > 0 and max(one, other) <= 2 * min(one, other)

    if close(printed, ours):
        return "agrees"
    return "agrees: as a multiple of DPBE's" if close(printed / of_printed, ours / of_ours) else "does not"
