"""What every picture shares: its look, and how it becomes a file."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from voxpop.core.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, MUTED, BLUE, SKY, ORANGE, GREEN = "#1f2933", "#9aa5b1", "#0b5fa5", "#b9d7f0", "#d9480f", "#2b8a3e"
MIDDLE = "#7fb2dd"  # between BLUE and SKY
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


def svg(made: Figure) -> str:
    """Render a figure as an SVG element, which is the same for the same run."""
    text = io.StringIO()
    with styled():
        made.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def png(made: Figure) -> bytes:
    """Render a figure as a PNG file, which is the same for the same run."""
    data = io.BytesIO()
    made.savefig(data, format="png", dpi=120, metadata={"Software": None})
    return data.getvalue()


def sheet(width: float, height: float) -> Figure:
    """Make an empty figure; matplotlib is imported only now."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("pictures need matplotlib; install it with: pip install 'voxpop[report]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def styled() -> AbstractContextManager[None]:
    """Return a context in which pictures have voxpop's look."""
    from matplotlib import rc_context

    return rc_context(STYLE)  # type: ignore[arg-type]
