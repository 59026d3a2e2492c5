# SPDX-License-Identifier: Apache-2.0
"""Pages in a real browser: nothing fails or asks the network, charts are drawn, and bars tell their histories."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread
from support import browser
from support.synthetic import random_trace, span, two_devices

from syclsched.model.trace import Trace
from syclsched.simulation import predict, simulate
from syclsched.tracing import save_comparison, save_report
from syclsched.tracing.charts.output import PALETTE

MISSING = browser.missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.opened(tmp_path_factory.mktemp("profile")) as found:
        yield found


def requests(driver: Any) -> list[str]:
    """Return the addresses that the browser was asked for, without embedded ones."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith(("data:", "blob:"))]


def complaints(driver: Any) -> list[str]:
    """Return the warnings and errors of the console, without those that WebGL without a GPU is slow."""
    entries = driver.get_log("browser")
    return [e["message"] for e in entries if e["level"] in ("SEVERE", "WARNING") and "WebGL" not in e["message"]]


def share_of(driver: Any, colour: str) -> float:
    """Return the share of the window that has a colour."""
    pixels = imread(io.BytesIO(driver.get_screenshot_as_png()))[..., :3]
    wanted = tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return float((abs(pixels - wanted).max(axis=-1) < 0.02).mean())


def centre_of(driver: Any, task: str) -> tuple[float, float]:
    """Return where on the screen the widest bar of a task is, in the last Gantt chart."""
    x, y = driver.execute_script(
        """
        const find = (view) => view.model.type === "Figure" ? [view] : (view.child_views ?? []).flatMap(find);
        let found = null;
        for (const view of Object.values(Bokeh.index).flatMap(find)) for (const renderer of view.model.renderers) {
          const data = renderer.data_source.data;
          const at = (data.story ?? []).findIndex((text) => text.startsWith(`task '${arguments[0]}'`));
          if (at < 0) continue;
          const box = view.canvas_view.el.getBoundingClientRect(), frame = view.frame;
          found = [box.left + frame.x_scale.compute((data.left[at] + data.right[at]) / 2),
                   box.top + frame.y_scale.compute((data.top[at] + data.bottom[at]) / 2)];
        }
        return found;
        """,
        task,
    )
    return float(x), float(y)


def move_to(driver: Any, x: float, y: float, *, click: bool = False) -> None:
    """Move the mouse to a place of the window."""
    for kind in ("mouseMoved", *(("mousePressed", "mouseReleased") if click else ())):
        more = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})


def tooltip(driver: Any) -> str:
    """Return the text of the tooltip that is shown."""
    return str(
        driver.execute_script(
            """
            const inner = (node) => [node, ...[...(node.shadowRoot ?? node).querySelectorAll("*")].flatMap(
              (each) => each.shadowRoot ? inner(each) : [each])];
            return inner(document.body).filter((each) => each.classList?.contains("bk-tooltip-content")
              || each.classList?.contains("bk-Tooltip")).map(
              (each) => (each.shadowRoot ?? each).textContent).join("\\n");
            """
        )
    )


def test_a_run_is_drawn_without_a_network_or_a_complaint(driver: Any, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    save_report(random_trace(60), page)
    requests(driver)
    browser.open_page(driver, page)
    assert complaints(driver) == []
    assert requests(driver) == [page.as_uri()]
    assert share_of(driver, PALETTE[0]) > 0.02  # the longest family, as in pictures of Gantt charts
    assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_a_bar_tells_its_history(driver: Any, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    trace = random_trace(20)
    save_report(trace, page)
    browser.open_page(driver, page)
    task = max((s for s in trace.spans if s.kind == "launch"), key=lambda s: s.duration_s).task
    assert task is not None
    x, y = centre_of(driver, task)
    move_to(driver, x - 1, y)
    move_to(driver, x, y)
    told = tooltip(driver)
    assert f"task '{task}'" in told
    assert "finished at" in told
    move_to(driver, x, y, click=True)
    assert driver.execute_script("return document.getElementById('picked').textContent").startswith(f"task '{task}'")


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


def test_bars_narrower_than_a_pixel_are_drawn_once_a_pixel_until_zoomed_in(driver: Any, tmp_path: Path) -> None:
    spans = tuple(span(i, "cpu:0", i * 1e-3, (i + 1) * 1e-3, task=f"task {i}") for i in range(9000))
    page = tmp_path / "large.html"
    save_report(Trace("large", "p", spans, 9.0, 9.0, simulated=True), page)
    browser.open_page(driver, page)
    assert complaints(driver) == []
    assert share_of(driver, PALETTE[0]) > 0.01
    count = """
        const figure = [...Bokeh.documents[0]._all_models.values()].find((model) => model.type === "Figure");
        const shown = figure.renderers.map((each) => each.data_source.data.story ?? []);
        return Math.max(...shown.map((each) => each.filter((text) => text.startsWith("task ")).length));
    """
    assert 500 < driver.execute_script(count) < 1400
    zoomed = """
        const figure = [...Bokeh.documents[0]._all_models.values()].find((model) => model.type === "Figure");
        figure.x_range.setv({start: 1, end: 1.5});
        requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()));
    """
    driver.execute_async_script(zoomed)
    assert 499 <= driver.execute_script(count) <= 503
