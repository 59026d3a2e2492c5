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
from syclsched.tracing.page.figures import PICKED, Stories
from syclsched.tracing.page.style import STYLE

if TYPE_CHECKING:
    from bokeh.models import ColumnDataSource
    from bokeh.plotting import figure as Figure

#: Unpacks the texts, and puts them in the place of their numbers.
_UNPACK = """
const packed = Uint8Array.from(atob(document.getElementById("stories").textContent), c => c.charCodeAt(0));
const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
new Response(stream).text().then((text) => {
  const stories = JSON.parse(text);
  for (const source of sources) {
    source.data = {...source.data, story: Array.from(source.data.story, (number) => stories[number])};
  }
  document.body.dataset.stories = stories.length;
});
"""

_HINT = (
    "Drag over a stretch of time to zoom in, Ctrl with the wheel to zoom, double click to see all again. Point at a "
)
_HINT += "bar for its history; click it to keep the text below. All charts share the time axis."


def charts(figures: Sequence[Figure], sources: list[ColumnDataSource], stories: Stories) -> str:
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
    document = Document()
    document.add_root(layout)
    document.js_on_event("document_ready", CustomJS(args={"sources": sources}, code=_UNPACK))
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
