"""What every picture shares: its look, and how it becomes a file or a part of a page."""

from __future__ import annotations

import io
import re
from contextlib import AbstractContextManager
from html import escape
from typing import TYPE_CHECKING, Any

from voxpop.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
    from matplotlib.figure import SubFigure as SubFigure
else:  # for annotations in all modules that draw: matplotlib is imported when something is drawn
    Axes = Figure = SubFigure = Any

# The colours of a page, by the name of its CSS variable: by day, and in the dark. Blue and orange stay apart for people
# who cannot tell red from green.
COLOURS = {
    "ink": ("#1f2933", "#e6ebf0"),
    "quiet": ("#616e7c", "#a7b3c0"),
    "muted": ("#9aa5b1", "#75818e"),
    "paper": ("#ffffff", "#1b222b"),
    "blue": ("#0b5fa5", "#74b9f5"),
    "middle": ("#7fb2dd", "#3f7fb8"),  # between blue and sky
    "sky": ("#b9d7f0", "#2b5580"),
    "veil": ("#e6f0f9", "#20303f"),
    "orange": ("#d9480f", "#ff9a62"),
    "peach": ("#f8c9ae", "#6b4530"),
    "line": ("#e4e7eb", "#323c48"),
    "ground": ("#f5f7fa", "#11161c"),
    "alert": ("#fff4e6", "#3a2a1c"),
}
LIGHT, DARK = ({name: pair[place] for name, pair in COLOURS.items()} for place in (0, 1))
INK, QUIET, MUTED, PAPER, BLUE, MIDDLE, SKY, VEIL, ORANGE, PEACH, *_ = LIGHT.values()
GREEN = "#2b8a3e"
STYLE = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.hashsalt": "voxpop",
}
FONT = re.compile(r"'DejaVu Sans'[^;\"]*sans-serif")


def svg(made: Figure, transparent: bool = False, **settings: Any) -> str:
    """Render a figure as an SVG element, which is the same for the same run."""
    text = io.StringIO()
    with styled(**settings):
        made.savefig(text, format="svg", metadata={"Date": None}, transparent=transparent)
    return text.getvalue()[text.getvalue().index("<svg") :]


def png(made: Figure) -> bytes:
    """Render a figure as a PNG file, which is the same for the same run."""
    data = io.BytesIO()
    made.savefig(data, format="png", dpi=120, metadata={"Software": None})
    return data.getvalue()


def inline(made: Figure, name: str, title: str, description: str) -> str:
    """Render a figure as a part of a page: it has the page's colours and font, by day and in the dark.

    Title and description are read to people who do not see the picture. Text stays text, so that it can be searched and
    takes the page's font; all colours of `LIGHT` become variables of the page.
    """
    text = FONT.sub("system-ui, sans-serif", svg(made, transparent=True, **{"svg.fonttype": "none"}))
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # the same in every picture, and nothing refers to them
    for variable, colour in LIGHT.items():
        text = text.replace(colour, f"var(--{variable})")
    inside = text[text.index(">") + 1 :]
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {box[0]} role="img" '
        f'aria-labelledby="{name}-title {name}-description"><title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-description">{escape(description)}</desc>{inside}'
    )


def sheet(width: float, height: float) -> Figure:
    """Make an empty figure; matplotlib is imported only now."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("pictures need matplotlib; install it with: pip install 'voxpop[report]'") from None

    class Picture(Figure):
        """A figure that notebooks show by themselves, whether or not they were told to."""

        def _repr_png_(self) -> bytes:
            return png(self)

    return Picture(figsize=(width, height), layout="constrained")


def styled(**settings: Any) -> AbstractContextManager[None]:
    """Return a context in which pictures have voxpop's look."""
    from matplotlib import rc_context

    look: Any = {**STYLE, **settings}
    return rc_context(look)
