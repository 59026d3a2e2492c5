# SPDX-License-Identifier: Apache-2.0
"""HTML reports of large runs: time to write one, its size, and how fast a headless browser opens and zooms it.

    python benchmarks/report_page.py [--tasks 1000 10000] [--zooms 30] [--keep FOLDER]

The runs are tiled Cholesky factorisations on described devices, simulated with noise and taken for measured, so that
each page has two Gantt charts. A zoom sets the time axis to a tenth to all of the run at a random place, and ends when
the frame with all charts is drawn; a hover moves the pointer to a random place of a chart, and ends when the frame
after it is drawn. The browser is Debian's chromium with chromium-driver, without a GPU.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from common import parser

import syclsched
from syclsched import workloads
from syclsched.simulation import Noise, simulate
from syclsched.tracing import save_report

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import browser

_ZOOM = """
const [count, finish] = arguments;
const range = [...Bokeh.documents[0]._all_models.values()].find((model) => model.type === "Figure").x_range;
const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
const [low, high] = range.bounds;
(async () => {
  const times = [];
  for (let i = 0; i < count; i++) {
    const width = (high - low) * (0.1 + 0.9 * Math.random()), start = low + (high - low - width) * Math.random();
    const begin = performance.now();
    range.setv({start, end: start + width});
    await frame();
    await frame();
    times.push(performance.now() - begin);
  }
  finish(times);
})();
"""
_HOVER = """
const [count, finish] = arguments;
const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
const find = (view) => view.model.type === "Figure" ? [view] : (view.child_views ?? []).flatMap(find);
const views = Object.values(Bokeh.index).flatMap(find).slice(0, 2);
(async () => {
  const times = [];
  for (let i = 0; i < count; i++) {
    const element = views[i % views.length].canvas_view.el, box = element.getBoundingClientRect();
    const place = {clientX: box.left + box.width * (0.15 + 0.8 * Math.random()),
                   clientY: box.top + box.height * (0.2 + 0.5 * Math.random())};
    const begin = performance.now();
    element.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, pointerType: "mouse", ...place}));
    await frame();
    times.push(performance.now() - begin);
  }
  finish(times);
})();
"""


def tiles_for(tasks: int) -> int:
    """Return how many tiles a side has the factorisation with at least so many tasks."""
    side = 1
    while side * (side + 1) * (side + 2) // 6 < tasks:
        side += 1
    return side


def write_page(tasks: int, path: Path) -> tuple[int, float]:
    """Write the page of a run; return its number of tasks and the seconds of processor time it took."""
    recipe = workloads.get("cholesky")
    workload = recipe.build(recipe.options(n=64 * tiles_for(tasks), tile=64))
    plan = syclsched.plan(workload.graph, syclsched.describe("xeon-8480,max1550"), policy="heft", rewrite="none")
    trace = replace(simulate(plan, noise=Noise(sigma=0.2)), simulated=False)
    save_report(simulate(plan), path, plan)  # imports and compiles what is used
    started = time.process_time()
    save_report(trace, path, plan)
    return len(workload.graph), time.process_time() - started


def spread(times_ms: list[float]) -> str:
    """Return the median and the maximum."""
    return f"{statistics.median(times_ms):.0f} ({max(times_ms):.0f})"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--tasks", type=int, nargs="+", default=[1000, 10_000])
    options.add_argument("--zooms", type=int, default=30)
    options.add_argument("--keep", type=Path, help="folder for the pages")
    given = options.parse_args()
    if browser.missing() is not None:
        sys.exit(browser.missing())
    print("| Tasks | Write, processor time [s] | Size [MB] | Open [s] | Zoom [ms] | Hover [ms] |")
    print("|---|---|---|---|---|---|")
    with ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for tasks in given.tasks:
            page = folder / f"{tasks}.html"
            count, write_s = write_page(tasks, page)
            with tempfile.TemporaryDirectory() as profile, browser.opened(Path(profile)) as driver:
                driver.set_script_timeout(600)
                driver.get("about:blank")
                started = time.perf_counter()
                browser.open_page(driver, page, 600.0)
                open_s = time.perf_counter() - started
                zooms = driver.execute_async_script(_ZOOM, given.zooms)
                hovers = driver.execute_async_script(_HOVER, given.zooms)
            size = page.stat().st_size / 1e6
            print(f"| {count:,} | {write_s:.1f} | {size:.1f} | {open_s:.1f} | {spread(zooms)} | {spread(hovers)} |")


if __name__ == "__main__":
    main()
