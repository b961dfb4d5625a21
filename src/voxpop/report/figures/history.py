"""The history of a metric: its rounds, their cycle, how alike neighbours are, and the shocks that this shows."""

import numpy as np

from voxpop.calibration.shocks import WINDOW, ShockEstimate
from voxpop.model.words import number
from voxpop.report.drawing import BLUE, MUTED, ORANGE, SKY, Figure, sheet, styled
from voxpop.report.figures.common import WIDTH, legend_below

LAGS = 14  # rounds


def history_figure(found: ShockEstimate) -> Figure:
    """Draw the series with one shock around the mean of every ten rounds, and how alike rounds some lags apart are.

    >>> history_figure(ShockEstimate(0.1, 20.0, series=np.arange(30) % 3 / 10)).get_suptitle()
    'Shocks of about 0.1 in a round'
    """
    made, series, rounds = sheet(WIDTH, 4.2), found.series, np.arange(len(found.series))
    with styled():
        above, below = made.subplots(2, 1, height_ratios=[2, 1])
        for start in range(0, len(series), WINDOW):
            window = series[start : start + WINDOW]
            if not np.isnan(window).all():
                ends = np.nanmean(window) + np.array([[-1], [1]]) * found.shock_std
                label = "" if start else "one shock around ten rounds' mean"
                above.fill_between([start - 0.5, start + len(window) - 0.5], *ends, color=SKY, linewidth=0, label=label)
        above.plot(rounds, series, ".-", color=BLUE, linewidth=0.8, markersize=4, label="history")
        if found.weekly:
            above.plot(rounds, np.nanmean(series) + found.cycle, color=ORANGE, linewidth=0.8, label="weekly cycle")
        above.set_xlabel("round")
        rest = series - np.nanmean(series)
        alike = [np.nanmean(rest[lag:] * rest[:-lag]) / np.nanmean(rest**2) for lag in range(1, LAGS)]
        below.bar(range(1, LAGS), alike, color=MUTED, width=0.6)
        below.set(xlabel="rounds apart", ylabel="correlation", ylim=(-1, 1))
        made.suptitle(f"Shocks of about {number(found.shock_std)} in a round", x=0.01, ha="left", weight="bold")
        legend_below(made, made.axes)
    return made
