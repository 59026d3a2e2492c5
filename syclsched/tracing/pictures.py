# SPDX-License-Identifier: Apache-2.0
"""What all charts share: text from files in them, and writing them to a file."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from syclsched.errors import StorageError
from syclsched.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What a title of this size takes for a letter, in inches: bold letters of 13 points, on average.
_TITLE_POINTS, _LETTER_IN = 13, 0.128

#: Titles have at most so many lines.
_MOST_LINES = 3

#: Distinct also for colour-blind readers: Okabe and Ito (2008) and lighter relatives.
PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6BB1", "#B8A600", "#5B8F29", "#8C564B",
)  # fmt: skip
OTHER_COLOUR = "#9A9A9A"
INK = "#222222"

_DPI = 150
_HINT = "Give a path that ends in .png, .svg or .pdf"


def shown(text: str, most: int = 60) -> str:
    """Return text from a file so that matplotlib takes no part of it for mathematics."""
    clean = _printable(text)
    return _literal(clean if len(clean) <= most else clean[: most - 1] + "…")


def set_title(figure: Figure, text: str) -> None:
    """Give a chart a title, in as many lines as it needs."""
    width = max(20, int(figure.get_figwidth() / _LETTER_IN))
    lines = textwrap.wrap(_printable(text), width, max_lines=_MOST_LINES, placeholder=" …")
    figure.suptitle(
        _literal("\n".join(lines)), fontsize=_TITLE_POINTS, fontweight="bold", color=INK, x=0.012, ha="left"
    )  # fmt: skip


def save(figure: Figure, path: str | Path) -> None:
    """Write a chart to a file."""
    check_format(path)
    try:
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=_DPI, format=Path(path).suffix[1:].lower())
        write_whole(Path(path), drawn.getvalue())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        hint = "Give another path" if isinstance(error, OSError) else _HINT
        raise StorageError(f"cannot write the chart: {reason}", where=str(path), hint=hint) from error


def check_format(path: str | Path) -> None:
    """Refuse a chart whose ending names no format that can be drawn."""
    ending = Path(path).suffix[1:].lower()
    if ending in ("png", "svg", "pdf"):
        return
    from matplotlib.backend_bases import FigureCanvasBase

    if ending not in FigureCanvasBase.get_supported_filetypes():
        what = f"there are no charts of format {ending!r}" if ending else "the name has no ending that says the format"
        raise StorageError(f"cannot write the chart: {what}", where=str(path), hint=_HINT)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _literal(text: str) -> str:
    return text.replace("$", r"\$")
