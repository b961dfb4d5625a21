"""The paper's figures and tables, one module each, found by listing this package."""

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules

from reproduction.exhibits import Exhibit, Scale
from voxpop.errors import require_choice


def all_exhibits(scale: Scale) -> list[Exhibit]:
    """List every exhibit that can be made."""
    found = []
    for name in sorted({module.name for module in iter_modules(__path__)} - {"__main__"}):
        make = getattr(import_module(f"{__name__}.{name}"), "exhibits", None)
        if callable(make):
            found.extend(make(scale))
    return found


def choose(names: Iterable[str], scale: Scale) -> list[Exhibit]:
    """Find exhibits by name: `ablation`, `ablation/light`, or a label of the paper such as `fig:tradeoff`."""
    if not (names := list(names)):
        return all_exhibits(scale)
    groups = _groups(scale)
    chosen: dict[str, Exhibit] = {}
    for name in names:
        chosen |= {exhibit.name: exhibit for exhibit in groups[require_choice("figure", name, groups)]}
    return list(chosen.values())


def _groups(scale: Scale) -> dict[str, list[Exhibit]]:
    """Group the exhibits by every name under which they can be asked for."""
    groups: dict[str, list[Exhibit]] = {}
    for exhibit in all_exhibits(scale):
        for name in {exhibit.name, exhibit.name.split("/")[0], *exhibit.labels}:
            groups.setdefault(name, []).append(exhibit)
    return groups
