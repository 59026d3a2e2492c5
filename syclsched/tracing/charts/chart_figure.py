# SPDX-License-Identifier: Apache-2.0
"""The figure of all charts: matplotlib's, shown by notebooks also where pyplot is not imported."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

#: Dots per inch of charts in notebooks.
_DPI = 90


class ChartFigure(Figure):
    """A matplotlib figure that notebooks show as a picture."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_DPI)
        return buffer.getvalue()
