# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML file of charts and sections, without any access to the network."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path

from syclsched.atomic_write import write_atomically
from syclsched.errors import StorageError
from syclsched.tracing.page.figures import PAINTING, Gantt, Memory, Stories, TimeAxis
from syclsched.tracing.page.html_parts import legend
from syclsched.tracing.page.style import STYLE

_HINT = (
    "Drag over a stretch of time to zoom in, Ctrl with the wheel to zoom, double click to see all again. Point at a "
)
_HINT += "bar for its history; click it to keep the text below. All charts share the time axis."


def charts(gantts: Sequence[Gantt], memory: Memory | None, axis: TimeAxis, stories: Stories) -> str:
    """Return the HTML of charts, one above the other, with the texts of their bars."""
    from bokeh.document import Document
    from bokeh.embed import components
    from bokeh.events import MouseLeave, MouseMove, Tap
    from bokeh.layouts import gridplot
    from bokeh.models import CustomJS
    from bokeh.resources import Resources

    figures = [*(each.figure for each in gantts), *([] if memory is None else [memory.figure])]
    layout = gridplot(
        [[each] for each in figures],
        sizing_mode="stretch_width",
        toolbar_location="above",
        toolbar_options={"logo": None},
        merge_tools=True,
    )
    given = {
        "range": axis.range,
        "charts": [{"figure": g.figure, "bars": g.bars, "picture": g.picture, "rows": g.rows} for g in gantts],
        "lines": [[g.path.all, g.path.shown] for g in gantts if g.path is not None],
        "curves": [] if memory is None else [[each.all, each.shown] for each in memory.curves],
        **PAINTING,
    }
    document = Document()
    document.add_root(layout)
    document.js_on_event("document_ready", CustomJS(args={"given": given}, code="syclschedCharts.open(given)"))
    update = CustomJS(code="syclschedCharts.update()")
    for edge in ("start", "end"):
        axis.range.js_on_change(edge, update)
    figures[0].js_on_change("inner_width", update)
    for place, each in enumerate(gantts):
        for event, action in (
            (MouseMove, f"point({place}, cb_obj)"),
            (Tap, f"pick({place}, cb_obj)"),
            (MouseLeave, "leave()"),
        ):
            each.figure.js_on_event(event, CustomJS(code=f"syclschedCharts.{action}"))
    script, division = components(layout)
    packed = base64.b64encode(gzip.compress(json.dumps(stories.texts).encode(), mtime=0)).decode()
    library = Resources(mode="inline", components=["bokeh"]).render_js()
    drawing = resources.files("syclsched.tracing.page").joinpath("charts.js").read_text(encoding="utf-8")
    return "\n".join(
        [
            f'<p class="note">{escape(_HINT)}</p>',
            division,
            "" if memory is None else legend(memory.legend),
            '<pre class="picked" id="picked">Click a bar to see its history here.</pre>',
            f'<script type="text/plain" id="stories">{packed}</script>',
            library,
            f"<script>\n{drawing}</script>",
            script,
        ]
    )


def write_page(path: str | Path, title: str, body: str) -> None:
    """Write a page to a file."""
    content = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width">\n<link rel="icon" href="data:,">\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
    try:
        write_atomically(Path(path), content.encode())
    except OSError as error:
        hint = "Choose a folder that is there and that you can write to"
        raise StorageError(f"cannot write the page: {error.strerror or error}", where=str(path), hint=hint) from error
