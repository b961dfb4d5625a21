"""Small runs whose results are kept in golden.json, so that a refactoring cannot change them unnoticed.

After a change that is meant to change results, record them anew with `python -m tests.golden`, and look at the
difference before it is committed.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np

from voxpop import Float, Problem, Space, SquaredExponential, Study
from voxpop.policies import POLICIES
from voxpop.simulation.trials import Trial

FILE = Path(__file__).with_name("golden.json")
SMALL: dict[str, Any] = {"size": 30, "horizon": 500, "seed": 1}
TOLERANCE = 1e-6  # processors differ by 2e-7, in numbers of the order of 1
COARSE = {"study/pricing": 1e-4}  # its constants are fitted, and the fit stops where processors differ by 5e-6
# With an epsilon that such a small study can afford.
MODELS = {"central": 5.0, "local": 30.0, "shuffle": 5.0, "aggregate": 5.0}

Result = dict[str, Any]


def simulated(**settings: Any) -> Result:
    """Run a simulation; return what it did in each wave, and what it knew at the end."""
    run = Trial(**SMALL, **settings).run()
    told = run.as_dict()
    return {
        "best": told["best"]["index"],
        "regret": told["regret"],
        "numbers": told["numbers"],
        "switches": told["switches"],
        "epsilon": told["ledger"]["epsilon"],
        "lower": run.state.lower.tolist(),
        "upper": run.state.upper.tolist(),
        "waves": [
            {
                "arms": wave["arms"],
                "pulls": wave["pulls"],
                "people": wave["people"],
                "rewards": step.feedback.mean.tolist(),
                "active": wave["active_after"],
                "width": wave["max_width"],
                "noise": wave["release"].get("noise_std"),
            }
            for wave, step in zip(told["waves"], run.closed, strict=True)
        ],
    }


def asked(policy: str) -> Result:
    """Conduct a study of prices with people whose tastes differ; return what it asked and found."""
    decisions = Space(price=Float(1.0, 9.0)).grid(41)
    problem = Problem(decisions, SquaredExponential(0.2), noise_std=0.3, bias_std=0.5, norm_bound=3.0, horizon=600)
    study, rng, questions = Study(problem, policy), np.random.default_rng(1), []
    while (question := study.ask()) is not None:
        arms = [decisions.find(decision) for decision in question.decisions]
        prices = np.array([decision["price"] for decision in question.decisions])
        tastes = rng.normal(4.2, 0.5, size=(question.people, 1))
        study.tell(question.wave, 2 - (prices - tastes) ** 2 / 8)
        questions.append({"arms": arms, "pulls": list(question.rounds), "people": question.people})
    best = study.best
    return {
        "best": best.index,
        "low": best.low,
        "high": best.high,
        "regret": best.regret,
        "active": len(study.state.active),
        "questions": questions,
    }


RUNS: dict[str, Callable[[], Result]] = {
    **{f"policy/{name}": partial(simulated, study="synthetic", policy=name) for name in POLICIES if name != "botorch"},
    **{
        f"study/{name}": partial(simulated, study=name, policy="dpbe")
        for name in ("sphere", "camel", "sphere-minimum", "camel-minimum", "michalewicz", "pricing")
    },
    **{
        f"privacy/{model}/{calibration}": partial(
            simulated, study="synthetic", policy="dpbe", privacy=model, epsilon=epsilon, calibration=calibration
        )
        for model, epsilon in MODELS.items()
        for calibration in ("exact", "paper")
        if (model, calibration) != ("aggregate", "paper")  # the paper has no such model
    },
    **{f"ask-tell/{name}": partial(asked, name) for name in ("dpbe", "dpbe-paper")},
}


def differences(kept: Any, now: Any, tolerance: float = TOLERANCE, place: str = "") -> Iterator[str]:
    """List where two results differ: integers at all, floats by more than the absolute and relative tolerance."""
    if isinstance(kept, dict) and isinstance(now, dict) and kept.keys() == now.keys():
        for name in kept:
            yield from differences(kept[name], now[name], tolerance, f"{place}/{name}")
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for number, (left, right) in enumerate(zip(kept, now, strict=True)):
            yield from differences(left, right, tolerance, f"{place}/{number}")
    elif isinstance(kept, float) and isinstance(now, float):
        if not isclose(kept, now, rel_tol=tolerance, abs_tol=tolerance):
            yield f"{place}: {kept!r} was recorded, now it is {now!r}"
    elif type(kept) is not type(now) or kept != now:
        yield f"{place}: {kept!r} was recorded, now it is {now!r}"


def _short(value: Any) -> Any:
    """Round floats to ten digits, which is all that is compared."""
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_short(part) for part in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def main() -> None:
    """Record every run, one to a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(_short(run()), separators=(',', ':'))}" for name, run in RUNS.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
