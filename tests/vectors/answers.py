"""The vectors of one trust model: what a device that was promised this sends, given its rewards and its randomness."""

from __future__ import annotations

import random
from typing import Any

from tests.vectors.releases import METRICS, SECOND, Data, arms_of, border, invitation, of_metrics, others, release
from tests.vectors.running import FOLDER, Case, run, save, script

MODELS = ("none", "central", "local", "shuffle", "aggregate")
PRIVATE = [model for model in MODELS if model != "none"]
ADDED = [model for model in PRIVATE if model != "central"]  # the models in which devices add the noise
CASES = (
    "A promise, rewards as (wave, arm, reward, rounds, block, further metrics), an invitation and the device's "
    "randomness; what is sent, and its length in bytes with the spaces at its end."
)
ABOUT = {
    "none": f"{CASES} Rewards of block 2 say so. Without privacy a device that lacks an average sends nothing.",
    "central": f"{CASES} An average that is missing is answered with the centre.",
    "local": f"{CASES} `noise` is the discrete Gaussian noise, one whole number for each coordinate.",
    "shuffle": f"{CASES} `random` is the random bytes, in the order in which they are used.",
    "aggregate": f"{CASES} `random` is the random bytes, in the order in which they are used: rounding, noise, a "
    "nonce, and the seeds of the shares. What the coordinator is sent is bytes, here in base64.",
}
Rewards = list[
    tuple[int, int, float, int]
    | tuple[int, int, float, int, int]
    | tuple[int, int, float | None, int, int, dict[str, float]]
]


def lives(arms: int, draw: random.Random) -> dict[str, Rewards]:
    """Return what people may have lived through in wave 3, by what is special about it."""
    each: Rewards = [(3, 10 + arm, draw.uniform(-0.5, 1.5), 1) for arm in range(arms)]
    return {
        "every decision": each,
        "several rounds of some": [*each, (3, 10, 0.1, 5), (3, 10, 0.9, 2)],
        "rewards of other waves and decisions besides": [*each, (2, 10, 9.0, 1), (4, 10, 9.0, 1), (3, 99, 9.0, 1)],
        "all but the first decision": each[1:],
        "nothing": [],
        "rewards far outside the ball": [(3, one[1], 1000 * (one[2] or 0.0), one[3]) for one in each],
        "rewards that no float can add up": [(3, 10 + arm, (-1) ** arm * 1.7e308, 9) for arm in range(arms)],
    }


def promises(model: str) -> Data:
    """Return the promise that the releases of a model keep."""
    return (
        {"model": model}
        if model == "none"
        else {"model": model, "epsilon": 8.0, "delta": 1e-5, **SECOND.get(model, {})}
    )


def noise_of(data: Data, draw: random.Random) -> list[int]:
    """Draw noise of about the right size for a release of the local model."""
    return [round(draw.gauss(0, data["std"])) for _ in range(arms_of(data))] if data["model"] == "local" else []


def finished(case: Case, draw: random.Random) -> Case:
    """Add to a case what the Python device does, and the random bytes that it used."""
    used = bytearray()

    def give(count: int) -> bytes:
        used.extend(draw.randbytes(count))
        return bytes(used[-count:])

    found = run(case, give)
    again, whole = script(used.hex())
    assert run(case, again) == found, case["name"]
    assert whole()
    return {**case, **({"random": used.hex()} if used else {}), **found}


def cases(model: str) -> list[Case]:
    """Make the cases of a trust model."""
    draw, made = random.Random(f"vectors of {model}"), list[Case]()

    def add(name: str, data: Data, rewards: Rewards, promise: Data | None = None, **asked: Any) -> None:
        noise = noise_of(data, draw)
        told: dict[str, Any] = {
            "promise": promise or promises(model),
            "rewards": rewards,
            "invitation": invitation(data, **asked),
        }
        made.append(finished({"name": name, **told, **({"noise": noise} if noise else {})}, draw))

    data = release(model)
    for name, rewards in lives(arms_of(data), draw).items():
        add(name, data, rewards)
    for name, data in others(model):
        add(name, data, lives(arms_of(data), draw)["every decision"])
    if model == "none":  # with privacy everybody reports on the whole wave
        data = release(model)
        each = lives(arms_of(data), draw)["several rounds of some"]
        second: Rewards = [(one[0], one[1], 2 - (one[2] or 0.0), one[3], 2) for one in each]
        add("the first of two blocks", data, [*second, *each], block=1)
        add("the second of two blocks", data, [*each, *second], block=2)
        add("a block of which a decision is missing", data, [*each, *second[1:4]], block=2)
    if model in ADDED:
        data, promise = border(model, enough=True)
        if model in SECOND:
            kept = {**promises(model), "epsilon": 1.0, "delta": 1e-6, "crowd": 20, "alone": 5.4}
            data = release(model, 1.0, 20)
            add("a crowd, and noise of one's own", data, lives(arms_of(data), draw)["every decision"], kept)
            data, promise = border(model, enough=True)
        add("just enough noise", data, lives(arms_of(data), draw)["every decision"], promise)
    data, names = of_metrics(model), [metric["name"] for metric in METRICS]
    measured: Rewards = [
        (3, 10 + arm, draw.uniform(-0.5, 1.5), rounds, 1, {name: draw.uniform(0, 1) for name in names})
        for arm, rounds in enumerate((1, 2, 3))
    ]
    later: Rewards = [(3, 11, None, 4, 1, {"retention": 0.25}), (3, 11, None, 4, 2, {"retention": 9.0})]
    add("three metrics", data, [*measured, *later], metrics=METRICS)
    others_too: Rewards = [(3, 13, 0.5, 1), *((*one[:4], 1, {"age": 7.0}) for one in measured)]
    add("further metrics that nobody asks about", release(model), others_too)
    add("a metric that is missing", data, [(*measured[0][:5], {"retention": 0.5}), *measured[1:]], metrics=METRICS)
    return made


def write() -> None:
    """Write the files of all models."""
    for model in MODELS:
        save(FOLDER / f"{model}.json", ABOUT[model], cases=cases(model))
