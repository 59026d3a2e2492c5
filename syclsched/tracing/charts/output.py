# SPDX-License-Identifier: Apache-2.0
"""Helpers shared by all charts: colours, safe text, titles and saving to a file."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from syclsched.atomic_write import write_atomically
from syclsched.errors import StorageError
from syclsched.model.text.units import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Font size of titles in points, and average width of a bold letter of this size in inches.
_TITLE_POINTS, _LETTER_IN = 13, 0.128

#: Maximum number of lines of a title.
_MAX_TITLE_LINES = 3

#: Colours that colour-blind readers can distinguish: Okabe and Ito (2008) and lighter variants.
PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6BB1", "#B8A600", "#5B8F29", "#8C564B",
)  # fmt: skip
OTHER_COLOUR = "#9A9A9A"
INK = "#222222"

_DPI = 150
_HINT = "Give a path that ends in .png, .svg or .pdf"


def ranked_colours(weights: Mapping[str, float]) -> dict[str, str]:
    """Return the colours of families; those of the largest weights get their own, in a stable order."""
    ranked = sorted(weights, key=lambda family: (-weights[family], family))
    return {family: PALETTE[i] if i < len(PALETTE) else OTHER_COLOUR for i, family in enumerate(ranked)}


def chart_text(text: str, most: int = 60) -> str:
    """Return text, at most ``most`` characters, escaped so that matplotlib does not parse it as mathematics."""
    return _escape_mathtext(shortened(_printable(text), most))


def set_title(figure: Figure, text: str) -> None:
    """Set the title of a chart, wrapped to its width."""
    width = max(20, int(figure.get_figwidth() / _LETTER_IN))
    lines = textwrap.wrap(_printable(text), width, max_lines=_MAX_TITLE_LINES, placeholder=" …")
    figure.suptitle(
        _escape_mathtext("\n".join(lines)), fontsize=_TITLE_POINTS, fontweight="bold", color=INK, x=0.012, ha="left"
    )  # fmt: skip


def save_chart(figure: Figure, path: str | Path) -> None:
    """Write a chart to a file."""
    check_chart_format(path)
    try:
        buffer = io.BytesIO()
        figure.savefig(buffer, dpi=_DPI, format=Path(path).suffix[1:].lower())
        write_atomically(Path(path), buffer.getvalue())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        hint = "Give another path" if isinstance(error, OSError) else _HINT
        raise StorageError(f"cannot write the chart: {reason}", where=str(path), hint=hint) from error


def check_chart_format(path: str | Path) -> None:
    """Raise if the file name extension is no chart format that matplotlib can write."""
    ending = Path(path).suffix[1:].lower()
    if ending in ("png", "svg", "pdf"):
        return
    from matplotlib.backend_bases import FigureCanvasBase

    if ending not in FigureCanvasBase.get_supported_filetypes():
        found = f"there are no charts of format {ending!r}" if ending else "the name has no ending that says the format"
        raise StorageError(f"cannot write the chart: {found}", where=str(path), hint=_HINT)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _escape_mathtext(text: str) -> str:
    return text.replace("$", r"\$")
