"""The study: from six to ten o'clock, when should the working day start?"""

from collections.abc import Mapping
from typing import Any

from voxpop import Problem, SquaredExponential, make_policy
from voxpop.model.decisions import Float, Space
from voxpop.privacy import make_privacy
from voxpop_flower.study import DeviceStudy

HOURS = Space({"start": Float(6.0, 10.0)}).grid(17)


def study(config: Mapping[str, Any]) -> DeviceStudy:
    """Begin the study that a run's configuration describes, or go on with it."""
    problem = Problem(HOURS, SquaredExponential(0.4), noise_std=0.2, bias_std=0.4, norm_bound=1.5, horizon=2_000)
    model = str(config["model"])
    privacy = make_privacy(model, None if model == "none" else float(config["epsilon"]))
    policy = make_policy("waves", population=int(config["nodes"]))
    return DeviceStudy.open(problem, policy, privacy, config["saved"] or None, name="commuting", reward="contentment")
