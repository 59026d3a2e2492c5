# SPDX-License-Identifier: Apache-2.0
"""HTML reports of large runs: time to write one, its size, and how fast a headless browser opens and navigates it.

    python benchmarks/report_page.py [--tasks 1000 10000] [--steps 40] [--keep FOLDER] [--against FOLDER]

The runs are tiled Cholesky factorisations on described devices, simulated with noise and treated as measured, so that
each page has two Gantt charts and the memory in use. A zoom sets the time axis to a tenth to all of the run at a random
place; a wheel step is an event of the mouse wheel in the first chart; a pan moves a quarter of the run on by a
twentieth. Each ends when the second frame after it is done, which shows all charts, so it takes two frames (33 ms) at
least. A hover moves the pointer over a random place of a chart, and ends with the next frame. With --against, pages
that an earlier version kept in a folder are measured in turn with the new ones. The browser is Debian's chromium with
chromium-driver, without a GPU.
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

_MEASURE = """
const [action, count, finish] = arguments;
const frame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
const find = (view) => view.model.type === "Figure" ? [view] : (view.child_views ?? []).flatMap(find);
const [view] = Object.values(Bokeh.index).flatMap(find), range = view.model.x_range, [low, high] = range.bounds;
const element = view.canvas_view.events_el, box = element.getBoundingClientRect();
const show = (start, width) => range.setv({start, end: start + width});
const places = () => ({clientX: box.left + box.width * (0.2 + 0.75 * Math.random()),
                       clientY: box.top + box.height * (0.3 + 0.3 * Math.random())});
const event = {bubbles: true, cancelable: true};
const actions = {
  zoom: () => {
    const width = (high - low) * (0.1 + 0.85 * Math.random());
    show(low + (high - low - width) * Math.random(), width);
  },
  wheel: (i) => element.dispatchEvent(
    new WheelEvent("wheel", {...event, ...places(), deltaY: i % 10 < 5 ? -120 : 120, ctrlKey: true})
  ),
  pan: (i) => show(low + (high - low) * 0.75 * (((i + 1) % 20) / 20), (high - low) / 4),
  hover: () => element.dispatchEvent(new PointerEvent("pointermove", {...event, ...places(), pointerType: "mouse"})),
};
(async () => {
  const times = [];
  show(low, high - low);
  await frame();
  await frame();
  for (let i = 0; i < count; i++) {
    const before = `${range.start} ${range.end}`, begin = performance.now();
    actions[action](i);
    if (action !== "hover") {
      if (`${range.start} ${range.end}` === before && i % 10 < 5) throw new Error(`no effect of ${action}`);
      await frame();
    }
    await frame();
    times.push(performance.now() - begin);
  }
  finish(times);
})().catch((error) => finish(String(error)));
"""

#: The measurements of every page, and their number of parts, so that pages take turns.
ACTIONS, PARTS = ("zoom", "wheel", "pan", "hover"), 4


def tiles_for(tasks: int) -> int:
    """Return the number of tiles per side of the smallest factorisation with at least this many tasks."""
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


def measure(pages: dict[str, Path], steps: int) -> dict[str, dict[str, list[float]]]:
    """Return the times of opening each page [s] and of every action on it [ms], by the page's name; they take turns."""
    found: dict[str, dict[str, list[float]]] = {name: {action: [] for action in ("open", *ACTIONS)} for name in pages}
    with ExitStack() as stack:
        drivers = {}
        for name, page in pages.items():
            profile = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            driver = drivers[name] = stack.enter_context(browser.opened(profile))
            driver.set_script_timeout(600)
            driver.get("about:blank")
            started = time.perf_counter()
            browser.open_page(driver, page, 600.0)
            found[name]["open"].append(time.perf_counter() - started)
        for action in ACTIONS * PARTS:
            for name, driver in drivers.items():
                times = driver.execute_async_script(_MEASURE, action, -(-steps // PARTS))
                if isinstance(times, str):
                    sys.exit(f"{pages[name]}: {times}")
                found[name][action] += times
    return found


def spread(times_ms: list[float]) -> str:
    """Return the median and the maximum."""
    return f"{statistics.median(times_ms):.0f} ({max(times_ms):.0f})"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--tasks", type=int, nargs="+", default=[1000, 10_000])
    options.add_argument("--steps", type=int, default=40, help="repetitions of every action")
    options.add_argument("--keep", type=Path, help="folder for the pages")
    options.add_argument("--against", type=Path, help="folder of pages kept by an earlier version")
    given = options.parse_args()
    if browser.missing() is not None:
        sys.exit(browser.missing())
    print(
        "| Tasks | Page | Write, processor time [s] | Size [MB] | Open [s] | Zoom [ms] | Wheel [ms] | Pan [ms] | ",
        end="",
    )
    print("Hover [ms] |\n|---|---|---|---|---|---|---|---|---|")
    with ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for tasks in given.tasks:
            pages = {} if given.against is None else {"before": given.against / f"{tasks}.html"}
            pages["now"] = folder / f"{tasks}.html"
            count, write_s = write_page(tasks, pages["now"])
            found = measure(pages, given.steps)
            for name, times in found.items():
                write = f"{write_s:.1f}" if name == "now" else ""
                shown = " | ".join(spread(times[action]) for action in ACTIONS)
                size = pages[name].stat().st_size / 1e6
                print(f"| {count:,} | {name} | {write} | {size:.1f} | {times['open'][0]:.1f} | {shown} |", flush=True)
            if len(found) > 1:
                middle = {n: [statistics.median(times[a]) for a in ("open", *ACTIONS)] for n, times in found.items()}
                ratios = [f"{now / before:.2f}" for before, now in zip(*middle.values(), strict=True)]
                print(f"| {count:,} | now / before | | | {' | '.join(ratios)} |", flush=True)


if __name__ == "__main__":
    main()
