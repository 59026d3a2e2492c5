# SPDX-License-Identifier: Apache-2.0
"""HTML reports in a real browser: no errors or network requests, drawn charts, and tooltips of bars."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from support import browser
from support.synthetic import random_trace, span, two_devices

from syclsched.model.trace import Trace
from syclsched.simulation import predict, simulate
from syclsched.tracing import page as page_package
from syclsched.tracing import save_comparison, save_report
from syclsched.tracing.charts.output import PALETTE
from syclsched.tracing.charts.panels import FAILED_COLOUR

#: The script of the pages.
CHARTS = Path(page_package.__file__).with_name("charts.js")

MISSING = browser.missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.opened(tmp_path_factory.mktemp("profile")) as found:
        yield found


def requests(driver: Any) -> list[str]:
    """Return the addresses that report files request, without embedded ones and the browser's own."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    urls = [each["request"]["url"] for each in sent if each["documentURL"].startswith("file:")]
    return [url for url in urls if not url.startswith(("data:", "blob:"))]


def complaints(driver: Any) -> list[str]:
    """Return the warnings and errors of the console, except those about slow WebGL without a GPU."""
    entries = driver.get_log("browser")
    return [e["message"] for e in entries if e["level"] in ("SEVERE", "WARNING") and "WebGL" not in e["message"]]


def share_of(driver: Any, colour: str) -> float:
    """Return the share of the window that has a colour."""
    pixels = imread(io.BytesIO(driver.get_screenshot_as_png()))[..., :3]
    wanted = tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return float((abs(pixels - wanted).max(axis=-1) < 0.02).mean())


def centre_of(driver: Any, number: int) -> tuple[float, float]:
    """Return the screen position of a story's bar in the last Gantt chart that has it."""
    x, y = driver.execute_script(
        """
        const find = (view) => view.model.type === "Figure" ? [view] : (view.child_views ?? []).flatMap(find);
        const {figure, bars: {data}} = syclschedCharts.charts().findLast((each) =>
          each.bars.data.story.includes(arguments[0]));
        const view = Object.values(Bokeh.index).flatMap(find).find((each) => each.model === figure);
        const at = data.story.lastIndexOf(arguments[0]);
        const box = view.canvas_view.el.getBoundingClientRect(), frame = view.frame;
        return [box.left + frame.x_scale.compute((data.left[at] + data.right[at]) / 2),
                box.top + frame.y_scale.compute(data.row[at])];
        """,
        number,
    )
    return float(x), float(y)


def stories(page: Path) -> list[str]:
    """Return the texts of the bars of a page."""
    (packed,) = re.findall(r'id="stories">([^<]*)<', page.read_text(encoding="utf-8"))
    return list(json.loads(gzip.decompress(base64.b64decode(packed))))


def show_times(driver: Any, start: float, end: float) -> None:
    """Show a part of the time axis, and wait until it is drawn."""
    driver.execute_async_script(
        """
        const [start, end, finish] = arguments;
        const figure = [...Bokeh.documents[0]._all_models.values()].find((model) => model.type === "Figure");
        figure.x_range.setv({start, end});
        const wait = (frames) => frames === 0 ? finish() : requestAnimationFrame(() => wait(frames - 1));
        wait(4);
        """,
        start,
        end,
    )


def move_to(driver: Any, x: float, y: float, *, click: bool = False) -> None:
    """Move the mouse to a place of the window."""
    for kind in ("mouseMoved", *(("mousePressed", "mouseReleased") if click else ())):
        more = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})


def tooltip(driver: Any) -> str:
    """Return the text of the tooltip; empty if none is shown."""
    return str(driver.execute_script("return document.querySelector('.tip:not([hidden])')?.textContent ?? ''"))


def test_a_run_is_drawn_without_a_network_or_a_complaint(driver: Any, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    save_report(random_trace(60), page)
    requests(driver)
    browser.open_page(driver, page)
    assert complaints(driver) == []
    assert requests(driver) == [page.as_uri()]
    assert share_of(driver, PALETTE[0]) > 0.02  # the longest family name, as in Gantt charts of files
    assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_a_bar_shows_the_history_of_its_task(driver: Any, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    trace = random_trace(20)
    save_report(trace, page)
    browser.open_page(driver, page)
    task = max((s for s in trace.spans if s.kind == "launch"), key=lambda s: s.duration_s).task
    number = next(n for n, text in enumerate(stories(page)) if text.startswith(f"task '{task}'"))
    x, y = centre_of(driver, number)
    move_to(driver, x, y)
    told = tooltip(driver)
    assert told == stories(page)[number]
    assert "finished at" in told
    move_to(driver, x, y, click=True)
    assert driver.execute_script("return document.getElementById('picked').textContent") == told
    move_to(driver, x, 5)
    assert tooltip(driver) == ""


def test_zooming_one_chart_zooms_all(driver: Any, tmp_path: Path) -> None:
    plan = predict(two_devices())
    page = tmp_path / "plans.html"
    save_comparison({"one": (simulate(plan), plan), "two": (simulate(plan), plan)}, page, "compared")
    browser.open_page(driver, page)
    assert complaints(driver) == []
    ranges = driver.execute_script(
        """
        const figures = [...Bokeh.documents[0]._all_models.values()].filter((model) => model.type === "Figure");
        figures[0].x_range.setv({start: 1, end: 2});
        return figures.map((each) => [each.x_range.start, each.x_range.end]);
        """
    )
    assert ranges == [[1, 2], [1, 2]]


def test_bars_narrower_than_a_pixel_are_merged_until_zoomed(driver: Any, tmp_path: Path) -> None:
    spans = tuple(span(i, "cpu:0", i * 1e-3, (i + 0.5) * 1e-3, task=f"task {i}") for i in range(9000))
    page = tmp_path / "large.html"
    save_report(Trace("large", "p", spans, 9.0, 9.0, simulated=True), page)
    browser.open_page(driver, page)
    assert complaints(driver) == []
    assert share_of(driver, PALETTE[0]) < 0.001  # half of each pixel is idle: no bar has its full colour
    number = stories(page).index(next(text for text in stories(page) if text.startswith("task 'task 4000'")))
    x, y = centre_of(driver, number)
    move_to(driver, x, y + 12)  # idle intervals are thin
    assert re.match(r"task 'task (399|400)\d'", tooltip(driver))
    show_times(driver, 4.0, 4.002)
    assert share_of(driver, PALETTE[0]) > 0.01
    x, y = centre_of(driver, number)
    move_to(driver, x, y)
    assert tooltip(driver) == stories(page)[number]


def test_a_failed_task_is_seen_among_thousands(driver: Any, tmp_path: Path) -> None:
    spans = [span(i, "cpu:0", i * 1e-3, (i + 1) * 1e-3, task=f"task {i}") for i in range(9000)]
    spans[5000] = replace(spans[5000], outcome="failed")
    page = tmp_path / "large.html"
    save_report(Trace("large", "p", tuple(spans), 9.0, 9.0, simulated=True), page)
    browser.open_page(driver, page)
    show_times(driver, 1.0, 2.0)
    without = share_of(driver, FAILED_COLOUR)
    show_times(driver, 0.0, 9.0)
    assert share_of(driver, FAILED_COLOUR) > without + 15e-6  # at least one column of pixels
    x, y = centre_of(driver, next(n for n, text in enumerate(stories(page)) if "failed" in text))
    move_to(driver, round(x), y + 12)
    assert "failed" in tooltip(driver)


def test_thinned_curves_keep_the_extremes_of_every_column(driver: Any) -> None:
    driver.get("about:blank")
    rng = np.random.default_rng(0)
    x, y = np.cumsum(rng.exponential(size=5000)), rng.integers(0, 1000, 5000)
    columns, start, end = 300, float(x[100]), float(x[4900])
    script = CHARTS.read_text(encoding="utf-8") + "\nconst [x, y, columns, start, end] = arguments;"
    script += "const found = syclschedCharts.thinned({x, y}, columns, start, end); return [[...found.x], [...found.y]];"
    thin_x, thin_y = map(np.asarray, driver.execute_script(script, x.tolist(), y.tolist(), columns, start, end))
    assert len(thin_x) < 4 * columns + 10
    assert set(zip(thin_x, thin_y, strict=True)) <= set(zip(x, y, strict=True))
    assert (np.diff(thin_x) > 0).all()
    assert thin_x[0] <= start
    assert thin_x[-1] >= end
    place, thin_place = ((each - start) * columns // (end - start) for each in (x, thin_x))
    for column in range(columns):
        inside, kept = y[place == column], thin_y[thin_place == column]
        assert len(inside) == len(kept) == 0 or (inside.min(), inside.max()) == (kept.min(), kept.max())
        assert inside[:1].tolist() == kept[:1].tolist()
        assert inside[-1:].tolist() == kept[-1:].tolist()


def test_lines_at_the_same_place_are_drawn_once(driver: Any) -> None:
    driver.get("about:blank")
    lines = {"x0": [0, 1, 1.001, 5, 9], "y0": [0, 1, 1, 1, 1], "x1": [0, 1, 1.001, 6, 9], "y1": [1, 2, 2, 0, 0]}
    script = CHARTS.read_text(encoding="utf-8")
    script += "\nreturn [...syclschedCharts.distinct(arguments[0], 100, 0.5, 8).x0];"
    assert driver.execute_script(script, lines) == [1, 5]
