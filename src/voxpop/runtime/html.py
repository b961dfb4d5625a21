"""HTML for notebooks, which show a value as a table."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(rows: Iterable[Sequence[str]], headings: Sequence[str] = (), caption: str = "") -> str:
    """Write rows of text as an HTML table; the first cell of a row names it.

    >>> html_table([("price", "4.7 < 5")])
    '<table><tr><th>price</th><td>4.7 &lt; 5</td></tr></table>'
    """
    lines = [f"<caption>{escape(caption)}</caption>"] if caption else []
    if headings:
        lines.append(f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in headings)}</tr>")
    for first, *rest in rows:
        lines.append(f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>")
    return f"<table>{''.join(lines)}</table>"
