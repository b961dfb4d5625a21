"""The vectors of what a device refuses: promises that cannot be kept, and proposals that keep less than the promise."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.vectors.answers import ADDED, PRIVATE, promises
from tests.vectors.releases import (
    ELSEWHERE,
    METRICS,
    OTHERS,
    SECOND,
    Data,
    border,
    changed,
    invitation,
    of_metrics,
    release,
)
from tests.vectors.running import FOLDER, Case, run, save

ABOUT = (
    "A promise and an invitation that a device refuses, before anything is sent or counted; `words` is part of the "
    "sentence in which it does. Where there is no invitation, the promise itself is refused."
)
MALFORMED = "this is not a release"
ENCODED = [model for model in PRIVATE if model in OTHERS]
IDENTITY = [[float(i == j) for j in range(4)] for i in range(4)]

BALLS: list[Data] = [
    {"radius": -5.0},
    {"radius": 0.0},
    {"radius": 1e-320},
    {"radius": True},
    {"radius": "1"},
    {"centre": [0.5]},
    {"centre": []},
    {"centre": "what"},
    {"centre": [0.5, None, 0.5, 0.5]},
    {"root": [[1.0, 0.0], [0.0, 1.0]]},
    {"root": [[-value for value in row] for row in IDENTITY]},
    {"root": [[0.0] * 4] * 4},
    {"root": [[1.0] * 4] * 4},
    {"root.3": [0.0, 1.0]},
    {"tail": [[1.0], []]},
    {"tail": [[]]},
    {"tail": 3},
]
COSTS: list[Data] = [
    {"cost": None},
    {"cost": {}},
    {"cost": []},
    {"cost.more": 1},
    {"cost.names": None},
    {"cost.binomial": {"trials": 1}},
]
COMMON: list[Data] = [
    {"model": ["local"]},
    {"model": "lokal"},
    {"model": "local2"},
    {"model": None},
    {"ball": None},
    {"ball": []},
    {"beta": -1.0},
    {"beta": 2.0},
    {"beta": None},
    *COSTS,
    *({f"ball.{name}": value for name, value in change.items()} for change in BALLS),
]
NOISE: list[Data] = [
    *({"std": value} for value in (0.0, -1.0, True, "9", None)),
    *({"step": value} for value in (0, -1e-6, None, "1")),
]
ENCODINGS: list[Data] = [
    *({"encoding.people": value} for value in (0, -10_000, 10**16, True, None, 1.5)),
    *({"encoding.trials": value} for value in (0, -1, 0.5, "3")),
    *({"encoding.levels": value} for value in (0, -3, "3")),
    *({"encoding.chance": value} for value in (0, 1, 2.0, -0.5, None, "0.5")),
    {"encoding.more": 1},
    {"encoding": None},
    {"encoding": []},
]
# The fields of a release of each model that make it weaker than the promise.
WEAK: dict[str, list[Data]] = {
    "local": [{"std": 2.0**45}, {"std": 1e300}, {"step": 1e300}, {"step": 1e-300}],
    "shuffle": [
        {"encoding.trials": 3 * 10**7},
        {"encoding.people": 10**10, "encoding.trials": 2},
        {"encoding.levels": 2 * 10**6},
        {"encoding.levels": 500},
        {"encoding.people": 4},
        {"encoding.chance": 1e-4},
    ],
    "aggregate": [
        {"encoding.chance": 0.4375},
        {"encoding.chance": 1e-7},
        {"encoding.people": 10**9, "encoding.levels": 10**6},
        {"encoding.trials": 3 * 10**7},
        {"encoding.levels": 500},
        {"encoding.people": 4},
    ],
}
# Addresses of a coordinator and of a second server that are one, however they are written.
ONE_SERVER = [
    ("https://coordinator.example", "https://coordinator.example"),
    ("https://coordinator.example/", "https://coordinator.example:8443"),
    ("https://coordinator.example", "https://COORDINATOR.example./v2"),
    ("https://coordinator.example..", "https://coordinator.example"),
    ("https://coordinator.example", "https://%63oordinator.example"),
    ("https://b\u00fccher.example", "https://xn--bcher-kva.example"),
    ("http://192.0.2.1", "https://192.0.2.1:444"),
    ("https://192.0.2.1", "https://3221225985"),
    ("https://192.0.2.1", "https://0xc0.0.0x201"),
    ("https://192.0.2.1", "https://[::ffff:192.0.2.1]"),
    ("https://[2001:db8::1]", "https://[2001:DB8:0:0:0:0:0:1]:9"),
    ("http://localhost:8000", "http://127.0.0.1:8000"),
    ("http://127.1:8000", "http://[::1]:8000"),
    ("http://127.0.0.1:8000", "http://0.0.0.0:8000"),
    ("http://localhost:8000", "http://[::]:8000"),
    ("http://localhost:8000", "http://helper.localhost:8000"),
    ("https://192.0.2.1", "https://[::192.0.2.1]"),
    ("https://192.0.2.1", "https://[::ffff:0:192.0.2.1]"),
    ("https://192.0.2.1", "https://[64:ff9b::192.0.2.1]"),
]
HOSTILE: list[tuple[str, Data, str]] = [
    ("a wave that is none", {"wave": None}, "describes its wave as"),
    ("a wave without a number", {"wave": {"wave": "1"}}, "the wave of an invitation must be a whole number"),
    ("a wave beyond all waves", {"wave": {"wave": 10**30}}, "the wave of an invitation must be a whole number"),
    ("a block that is none", {"wave.block": "2"}, "the block of an invitation must be a whole number"),
    ("a block before the first", {"wave.block": 0}, "the block of an invitation must be a whole number"),
    ("a block without a number", {"wave.block": None}, "the block of an invitation must be a whole number"),
    ("no release", {"wave.release": None}, MALFORMED),
    ("a release that is a list", {"wave.release": []}, MALFORMED),
    ("no token", {"token": None}, "the coordinator's token cannot be sent in a header; nothing is sent"),
    ("a token that ends the header", {"token": "a\r\nb"}, "cannot be sent in a header"),
    ("a token outside ASCII", {"token": "é"}, "cannot be sent in a header"),
    ("decisions that are none", {"wave.arms": "abcd"}, "the coordinator asks about the decisions"),
    ("decisions without numbers", {"wave.arms": [None, 1, 2, 3]}, "the coordinator asks about the decisions"),
    (
        "fewer decisions than coordinates",
        {"wave.arms": [10, 11]},
        "a report has 4 numbers, got 2 decisions; nothing is sent",
    ),
    (
        "more metrics than the release was made for",
        {"wave.metrics": METRICS},
        "a report has 4 numbers, got 4 decisions and 3 metrics; nothing is sent",
    ),
    *(
        (f"metrics that are none: {odd}", {"wave.metrics": odd}, "the coordinator asks about the metrics")
        for odd in (
            None,
            "retention",
            {"name": "retention", "direction": "maximize"},
            ["retention"],
            [{"name": "retention"}],
            [{"name": "", "direction": "maximize"}],
            [{"name": 7, "direction": "maximize"}],
            [{"name": "retention", "direction": "more"}],
        )
    ),
    ("no address", {"upload": None}, "the coordinator asks to send the report to"),
    ("an address that is none", {"upload": "http://[1"}, "the coordinator asks to send the report to"),
    ("mail", {"upload": "mailto:me"}, "the coordinator asks to send the report over mailto; nothing is sent"),
    ("a file", {"upload": "file:///v2/x"}, "the coordinator asks to send the report over file; nothing is sent"),
    ("in the clear", {"upload": "http://coordinator.example/x"}, "to send the report over http; nothing is sent"),
]


def _of_promises() -> Iterator[tuple[str, Data]]:
    for value in (0, -1.0, 1001, True, "5", None):
        yield "epsilon", {"model": "local", "epsilon": value}
    for value in (0, 1, -0.1, True):
        yield "delta", {"model": "local", "epsilon": 5.0, "delta": value}
    for value in (0, -1, 1.5, True):
        yield "participations", {"model": "local", "epsilon": 5.0, "participations": value}
    for value in (0, -0.5, 1.5, True):
        yield "honest", {"model": "shuffle", "epsilon": 5.0, "honest": value, **SECOND["shuffle"]}
    for model in ENCODED:
        yield "delta must be at most 0.01", {"model": model, "epsilon": 5.0, "delta": 0.1, **SECOND[model]}
    for model, named in SECOND.items():
        (role,) = named
        yield f"the {model} model needs to know its {role}", {"model": model, "epsilon": 5.0}
        for address in (7, "", "nowhere", "mailto:me@other.example", "https://", "https://me@other.example"):
            yield f"{role} must be an address", {"model": model, "epsilon": 5.0, role: address}
    for name in ("crowd", "alone"):
        for value in (0, -1, "5", True):
            yield name, {"model": "shuffle", "epsilon": 5.0, name: value, **SECOND["shuffle"]}
        for model in ("central", "local"):
            yield "hides nobody among others; leave crowd and alone out", {"model": model, "epsilon": 5.0, name: 20}
    yield "unknown privacy model", {"model": "lokal", "epsilon": 5.0}
    for model, role in (("local", "shuffler"), ("shuffle", "helper"), ("aggregate", "shuffler")):
        address = "https://other.example"
        yield f"the {model} model has no {role}", {"model": model, "epsilon": 5.0, role: address}


def _of_releases() -> Iterator[tuple[str, Data, Data, str | None]]:
    """Return names, promises, invitations and, unless it is the whole sentence, the words of the refusal."""
    for model in PRIVATE:
        told = invitation(release(model))
        own = ENCODINGS if model in ENCODED else NOISE[1:] if model == "central" else NOISE
        for change in [*COMMON, *own]:
            place = {f"wave.release.{name}": value for name, value in change.items()}
            yield f"{model}: {change}", promises(model), changed(told, place), MALFORMED
        for other in PRIVATE:
            if other != model:
                yield f"{other} was promised", promises(other), told, None
    for model in ADDED:
        told, promise = invitation(release(model)), promises(model)
        steep = changed(told, {"wave.release.ball.root": _steep(1e-11)})
        yield f"{model}: a steep root", promise, steep, None
        yield f"{model}: no clipping", promise, changed(told, {"wave.release.ball.radius": None}), None
        for epsilon in (4.0, 4.999, 0.1):
            yield f"{model}: a smaller epsilon", {**promise, "epsilon": epsilon, "delta": 1e-6}, told, None
        yield f"{model}: a smaller delta", {**promise, "epsilon": 5.0, "delta": 1e-9}, told, None
        data, narrow = border(model, enough=False)
        yield f"{model}: almost enough noise", narrow, invitation(data), None
        for change in WEAK[model]:
            place = {f"wave.release.{name}": value for name, value in change.items()}
            yield f"{model}: {change}", promise, changed(told, place), None


def _of_others() -> Iterator[tuple[str, Data, Data, str | None]]:
    told, promise = invitation(release("local")), promises("local")
    for name, change, words in HOSTILE:
        yield name, promise, changed(told, change), words
    for model in ("none", *PRIVATE):
        longer = invitation(of_metrics(model), metrics=METRICS)
        for name, metrics in (("fewer", METRICS[:1]), ("no", []), ("more", [*METRICS, METRICS[0]])):
            words = f"a report has 9 numbers, got 3 decisions{f' and {1 + len(metrics)} metrics' if metrics else ''}; "
            asked = changed(longer, {"wave.metrics": metrics})
            yield f"{model}: {name} metrics than the report has", promises(model), asked, f"{words}nothing is sent"
    yield "another server", promise, changed(told, {"upload": ELSEWHERE}), "to send the report to another server"
    for model in ENCODED:
        told, promise, place = invitation(release(model)), promises(model), OTHERS[model]
        role = {"upload": "shuffler", "helper": "helper"}[place]
        for address in ("/v2/x", "https://coordinator.example:443/v2/x"):
            words = f"the {role} https://other.example was promised, but the coordinator names"
            yield f"{model}: the coordinator itself", promise, changed(told, {place: address}), words
        for address in (
            "https://other.example.evil/x",
            "https://other.example:444/x",
            "https://coordinator2.example/x",
        ):
            named = {**promise, role: "https://other.example/"}
            words = f"the {role} https://other.example/ was promised, but the coordinator names"
            yield f"{model}: another {role}", named, changed(told, {place: address}), words
        signed = changed(told, {place: "https://me@other.example/x"})
        yield f"{model}: an address with a name", promise, signed, "the coordinator asks to send the report to"
        if place != "upload":
            yield f"{model}: no {role}", promise, changed(told, {place: None}), "to send the report to"
            elsewhere = changed(told, {"upload": ELSEWHERE})
            yield f"{model}: both shares to the {role}", promise, elsewhere, "to send the report to another server"
        told, kept = invitation(release(model, 1.0, 20)), {**promise, "crowd": 20, "alone": 6.0, "delta": 1e-6}
        for name, value in (("crowd", 21), ("alone", 5.0), ("alone", 0.5)):
            yield f"{model}: {name} {value}", {**kept, name: value}, told, None
        told = invitation(release(model))
        half = {**promise, "epsilon": 5.0, "delta": 1e-6, "honest": 0.5}
        yield f"{model}: half of them honest", half, told, "less noise than epsilon 5 takes; nothing is sent"


def _steep(last: float) -> list[list[float]]:
    return [[*row[:3], last if number == 3 else 0.0] for number, row in enumerate(IDENTITY)]


def cases() -> list[Case]:
    """Make all cases, each of which the Python device refuses in these words."""
    made: list[Case] = []
    for model, (role,) in SECOND.items():
        for url, other in ONE_SERVER:
            promise = {**promises(model), role: other}
            words = f"the coordinator {url} and the {role} {other} are one server"
            made.append({"name": f"{model}: {url} is {other}", "url": url, "promise": promise, "words": words})
    for words, promise in _of_promises():
        made.append({"name": f"a promise: {promise}", "promise": promise, "words": words})
    asked: list[tuple[str, Data, Data, str | None]] = [*_of_releases(), *_of_others()]
    for name, promise, told, said in asked:
        made.append({"name": name, "promise": promise, "invitation": told, "words": said})
    for case in made:
        sentence = run({"invitation": {}, **case}, random.Random(0).randbytes).get("refused")
        assert sentence is not None, case["name"]
        case["words"] = case["words"] or sentence
        assert case["words"] in sentence, (case["name"], case["words"], sentence)
    return made


def write() -> None:
    """Write the file."""
    save(FOLDER / "refusals.json", ABOUT, cases=cases())
