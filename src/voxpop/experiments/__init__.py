"""The paper's figures and tables, one module each, found by listing this package."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

from voxpop.errors import InputError, require_choice
from voxpop.experiments.exhibits import Exhibit, Scale


def all_exhibits(scale: Scale) -> list[Exhibit]:
    """Every exhibit that can be made."""
    found = []
    for module in iter_modules(__path__):
        make = getattr(import_module(f"{__name__}.{module.name}"), "exhibits", None)
        if callable(make):
            found.extend(make(scale))
    return found


def choose(names: Iterable[str], scale: Scale) -> list[Exhibit]:
    """The exhibits of these names: `ablation`, `ablation/light`, or a label of the paper such as `fig:tradeoff`."""
    every = all_exhibits(scale)
    if not (names := list(names)):
        return every
    groups: dict[str, list[Exhibit]] = {}
    for exhibit in every:
        for name in (exhibit.name, exhibit.name.split("/")[0], *exhibit.labels):
            found = groups.setdefault(name, [])
            if exhibit not in found:
                found.append(exhibit)
    chosen: list[Exhibit] = []
    for name in names:
        if name.endswith("/light") and scale.data is None:
            raise InputError(f"{name!r} needs the light-sensor data; name its folder with --data FOLDER")
        for exhibit in groups[require_choice("figure", name, groups)]:
            if exhibit not in chosen:
                chosen.append(exhibit)
    return chosen
