# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML file of charts and sections, without any access to the network."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from syclsched.atomic_write import write_atomically
from syclsched.errors import StorageError
from syclsched.tracing.page.figures import PICKED, Bars, Stories, TimeAxis
from syclsched.tracing.page.style import STYLE

if TYPE_CHECKING:
    from bokeh.plotting import figure as Figure

#: Draws the bars in the visible part of the time axis. Of bars narrower than a pixel only the longest in a pixel is
#: drawn, as wide as all of them together: charts of many thousand bars stay quick.
_DRAW = """
const draw = () => {
  window.waiting_to_draw = false;
  const {start, end} = range, columns = chart.inner_width || 1000, pixel = (end - start) / columns;
  for (const [all, shown] of bars) {
    const {left, right, top} = all.data, chosen = [], longest = new Map(), widths = new Map();
    for (let i = 0; i < left.length; i++) {
      if (right[i] < start || left[i] > end) continue;
      if (right[i] - left[i] >= pixel || left.length < columns) { chosen.push(i); continue; }
      const place = Math.max(0, Math.floor((left[i] - start) / pixel)) + Math.floor(top[i] + 1) * 65536;
      const other = longest.get(place);
      widths.set(place, (widths.get(place) ?? 0) + right[i] - left[i]);
      if (other === undefined || right[other] - left[other] < right[i] - left[i]) longest.set(place, i);
    }
    const whole = chosen.length;
    chosen.push(...longest.values());
    const data = {};
    for (const name of Object.keys(all.data)) data[name] = Array.from(chosen, (i) => all.data[name][i]);
    let k = whole;
    for (const [place, width] of widths) {
      data.left[k] = start + (place % 65536) * pixel;
      const full = width > 0.95 * pixel;  // overlaps the next: no pale seam between
      data.right[k] = data.left[k] + (full ? 1.5 * pixel : Math.max(width, pixel / 4));
      k++;
    }
    shown.selected.indices = [];
    shown.data = data;
  }
};
if (!window.waiting_to_draw) {
  window.waiting_to_draw = true;
  requestAnimationFrame(draw);
}
"""

#: Unpacks the texts, puts them in the place of their numbers, and draws.
_UNPACK = (
    """
const packed = Uint8Array.from(atob(document.getElementById("stories").textContent), c => c.charCodeAt(0));
const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
new Response(stream).text().then((text) => {
  const stories = JSON.parse(text);
  for (const [all] of bars) all.data.story = Array.from(all.data.story, (number) => stories[number]);
  document.body.dataset.stories = stories.length;
"""
    + _DRAW
    + "});"
)

_HINT = (
    "Drag over a stretch of time to zoom in, Ctrl with the wheel to zoom, double click to see all again. Point at a "
)
_HINT += "bar for its history; click it to keep the text below. All charts share the time axis."


def charts(figures: Sequence[Figure], bars: Sequence[Bars], axis: TimeAxis, stories: Stories) -> str:
    """Return the HTML of charts, one above the other, with the texts of their bars."""
    from bokeh.document import Document
    from bokeh.embed import components
    from bokeh.layouts import gridplot
    from bokeh.models import CustomJS
    from bokeh.resources import Resources

    layout = gridplot(
        [[each] for each in figures],
        sizing_mode="stretch_width",
        toolbar_location="above",
        toolbar_options={"logo": None},
        merge_tools=True,
    )
    arguments = {"bars": [[each.all, each.shown] for each in bars], "range": axis.range, "chart": figures[0]}
    document = Document()
    document.add_root(layout)
    document.js_on_event("document_ready", CustomJS(args=arguments, code=_UNPACK))
    for edge in ("start", "end"):
        axis.range.js_on_change(edge, CustomJS(args=arguments, code=_DRAW))
    script, division = components(layout)
    packed = base64.b64encode(gzip.compress(json.dumps(stories.texts).encode(), mtime=0)).decode()
    library = Resources(mode="inline", components=["bokeh", "bokeh-gl"]).render_js()
    return "\n".join(
        [
            f'<p class="note">{escape(_HINT)}</p>',
            division,
            f'<pre class="picked" id="{PICKED}">Click a bar to see its history here.</pre>',
            f'<script type="text/plain" id="stories">{packed}</script>',
            library,
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
