"""Hand-made runs, the paper's facts, and a parser of pages, for the tests of the experiments."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import all_exhibits
from reproduction.exhibits import FULL, Exhibit, Scale
from voxpop.errors import Array
from voxpop.simulation.comparison import Cell, RunSummary, grid
from voxpop.simulation.trials import Trial

STUDIES = ("synthetic", "sphere", "camel", "michalewicz", "light")
SMALL = Scale(seeds=3, horizon=400, private_horizon=600)
# What the paper prints, and the labels of its text.
PAPER: dict[str, Any] = tomllib.loads(Path(__file__).with_name("paper.toml").read_text(encoding="utf-8"))
LABELS = frozenset(label for labels in PAPER["labels"].values() for label in labels)
NAMES = {"sphere": "Sphere", "camel": "Six-Hump Camel", "michalewicz": "Michalewicz", "light": "Light Sensor Data"}


def summary(horizon: int = 100, **changes: Any) -> RunSummary:
    """Make the summary of a run; its curve rises evenly unless another is given."""
    curve = tuple(float(value) for value in np.asarray(grid(horizon)) / horizon)
    usual = RunSummary(
        regret=1.0,
        numbers=10,
        merged=10,
        people=5,
        waves=3,
        seconds=0.5,
        kept=True,
        certificate=True,
        left=1,
        norm_bound=1.0,
        curve=curve,
    )
    return replace(usual, **changes)


def cell(values: Mapping[int, Any] | Iterable[Any], field: str = "regret") -> Cell:
    """Make a cell of runs with these values of one number, by seed."""
    by_seed: dict[int, Any] = dict(values) if isinstance(values, Mapping) else dict(enumerate(values))
    trials = tuple(Trial("sphere", seed=seed, horizon=100) for seed in by_seed)
    return Cell({seed: replace(summary(), **{field: value}) for seed, value in by_seed.items()}, trials)


@cache
def catalogue() -> list[Exhibit]:
    return all_exhibits(FULL)


def of_group(group: str) -> list[tuple[str, Exhibit]]:
    """Return the exhibits of a group, by study."""
    return [(e.name.split("/")[1], e) for e in catalogue() if e.name.startswith(f"{group}/")]


def exact_regret(arms: Iterable[int], f: Array) -> Array:
    """Compute the cumulative regret after 0, 1, 2, ... rounds, round by round."""
    lost, total = [0.0], 0.0
    for arm in arms:
        total += float(f.max()) - float(f[arm])
        lost.append(total)
    return np.array(lost)


class Page(HTMLParser):
    """The parts of a page: words outside of pictures, rows of tables, and every address."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self._pictures = 0
        self._cell = False
        self.feed(source)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v or "" for name, v in attrs if name in ("src", "href", "xlink:href", "data", "srcset")]
        self._pictures += tag == "svg"
        if not self._pictures:
            self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._pictures -= tag == "svg"
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._pictures:
            return
        self.words.append(data)
        if self._cell:
            self.rows[-1][-1] += data
