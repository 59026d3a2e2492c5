# SPDX-License-Identifier: Apache-2.0
"""Draw the Gantt charts of the documentation from plans for described hardware, simulated on a virtual clock.

Usage: ``python tools/pictures.py [NAME ...]`` draws all pictures, or those named; with ``--check`` it ends with 1 if
one is missing, too large or not shown by its page, or if a page shows a chart that this file does not draw. One
version of the package draws the same pictures on every machine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import syclsched

DOCS = Path(__file__).resolve().parent.parent / "docs"
#: Largest size of a picture, in bytes.
MOST_BYTES = 60_000
#: Pictures of other scripts, and of a page in a browser.
_OTHERS = ("layers.svg", "metg.svg", "overlap.svg", "report.png", "scaling.svg", "training-loss.svg")
_DPI = 75

Runs = Mapping[str, syclsched.Trace]


class Picture(NamedTuple):
    """A chart of simulated runs, one below the other, or a figure, with the page that shows it."""

    page: str
    title: str
    runs: Callable[[], Runs | Any]


def products(chains: int = 6, length: int = 4) -> syclsched.TaskGraph:
    """Return a graph of chains of matrix products, each added to the next chain's."""
    from syclsched.kernels import get

    graph, shape = syclsched.TaskGraph("products"), (1024, 1024)
    ends = []
    for chain in range(chains):
        here = graph.array(f"x{chain}", shape, "float32")
        for step in range(length + chain % 3):
            there = graph.array(f"y{chain}.{step}", shape, "float32")
            graph.kernel(get("gemm"), name=f"product {chain}.{step}", c=there, a=here, b=here)
            here = there
        ends.append(here)
    for number, (one, other) in enumerate(pairwise(ends)):
        graph.kernel(get("axpy"), name=f"add {number}", y=other, x=one, alpha=1.0)
    return graph


def reversed_chain(layers: int = 8) -> syclsched.TaskGraph:
    """Return a graph that needs all its layers again, the last one first."""
    from syclsched.kernels import get

    graph, shape = syclsched.TaskGraph("there and back"), (1024, 1024)
    x, total = graph.array("x", shape, "float32"), graph.array("total", shape, "float32")
    made = [graph.array(f"layer{number}", shape, "float32", temporary=True) for number in range(layers)]
    for number, layer in enumerate(made):
        graph.kernel(get("copy"), name=f"make {number}", y=layer, x=made[number - 1] if number else x)
    for number, layer in reversed(list(enumerate(made))):
        graph.kernel(get("axpy"), name=f"add {number}", y=total, x=layer, alpha=1.0)
    return graph


def with_host_steps(steps: int = 4) -> syclsched.TaskGraph:
    """Return a graph of matrix products with host functions between some of them."""
    from syclsched.kernels import get

    graph, shape = syclsched.TaskGraph("host steps"), (1024, 1024)
    for number in range(steps):
        a, c = graph.array(f"a{number}", shape, "float32"), graph.array(f"c{number}", shape, "float32")
        graph.kernel(get("gemm"), name=f"first {number}", c=c, a=a, b=a)
        if number % 2:
            graph.host(lambda c: None, name=f"check {number}", flops=2e6, c=c.update())
        graph.kernel(get("gemm"), name=f"second {number}", c=c, a=a, b=a)
    return graph


def _plan(graph: syclsched.TaskGraph, platform: str, policy: str) -> syclsched.Plan:
    return syclsched.plan(graph, syclsched.describe(platform), policy=policy, reuse=False)


def policies() -> Runs:
    """Return runs of plans by two policies and on the best device alone."""
    platform = "max1100,a770"
    found = {name: _plan(products(), platform, name) for name in ("single:max1100", "min-min", "heft")}
    return {name: syclsched.simulate(plan) for name, plan in found.items()}


def disturbed() -> Runs:
    """Return runs of one plan, as planned and with a disturbance."""
    from syclsched.simulation import SlowDown

    plan = _plan(products(), "max1100,a770", "heft")
    return {
        "as planned": syclsched.simulate(plan),
        "a770 four times slower from 1 ms on": syclsched.simulate(plan, events=[SlowDown("a770", 0.001, 4.0)]),
    }


def dynamic() -> Runs:
    """Return runs of a plan and of a dynamic policy."""
    from syclsched.planner.dynamic_trials import simulate_dynamic_policy

    graph, platform = products(), "max1100,a770"
    plan, _ = simulate_dynamic_policy(graph, syclsched.describe(platform), "dmdas")
    return {
        "heft, decided before the run": syclsched.simulate(_plan(graph, platform, "heft")),
        "dmdas, decided while it runs": syclsched.simulate(plan),
    }


def limited() -> Runs:
    """Return runs of one graph with and without a memory limit."""
    runs = {}
    for limit in (None, "20MiB", "12MiB"):
        plan = syclsched.plan(
            reversed_chain(), syclsched.describe("cpu"), policy="single:cpu", memory_limit=limit, reuse=False
        )
        peak = plan.peak_bytes["cpu"] >> 20
        runs[f"{'no limit' if limit is None else f'limit {limit}'}: peak {peak} MiB"] = syclsched.simulate(plan)
    return runs


def levels() -> Runs:
    """Return the run of a plan with host functions."""
    return {"kernels and functions of the host": syclsched.simulate(_plan(with_host_steps(), "a770", "heft"))}


def rewritten() -> Runs:
    """Return runs of a large task, whole and divided between two devices."""
    from syclsched.kernels import get

    graph = syclsched.TaskGraph("inference")
    x, w = graph.array("x", (32768, 4096), "float32"), graph.array("w", (4096, 4096), "float32")
    b, y = graph.array("b", (4096,), "float32"), graph.array("y", (32768, 4096), "float32")
    graph.kernel(get("dense"), name="layer", y=y, x=x, w=w, b=b, activation=1)
    platform = syclsched.describe("max1100,a770")
    plans = {name: syclsched.plan(graph, platform, rewrite=name, reuse=False) for name in ("none", "split")}
    return {f'rewrite="{name}"': syclsched.simulate(plan) for name, plan in plans.items()}


def cholesky_plan() -> tuple[syclsched.TaskGraph, syclsched.Plan]:
    """Return a small graph and its plan for two devices."""
    from syclsched.workloads import get

    kind = get("cholesky")
    graph = kind.build(kind.options(n=3072, tile=1024)).graph
    return graph, _plan(graph, "xeon-8480,max1550", "heft")


def drawing() -> Any:
    """Return the drawing of a graph with the devices of its tasks."""
    graph, plan = cholesky_plan()
    return graph.draw(plan=plan)


PICTURES = {
    "graph": Picture("how-to/notebooks.md", "", drawing),
    "gantt": Picture("how-to/notebooks.md", "", lambda: cholesky_plan()[1].gantt()),
    "plans": Picture("reference/plans.md", "Chains of matrix products: three plans on one scale", policies),
    "traces": Picture("how-to/traces.md", "Chains of matrix products by heft", lambda: {"trace": policies()["heft"]}),
    "simulation": Picture("explanation/simulation.md", "One plan, as planned and disturbed", disturbed),
    "dynamic": Picture("explanation/dynamic.md", "A plan and a dynamic policy", dynamic),
    "memory": Picture("explanation/memory.md", "The same graph with less and less memory", limited),
    "replay": Picture("explanation/replay.md", "Host functions between kernels", levels),
    "granularity": Picture("explanation/granularity.md", "A large task, whole and in chunks", rewritten),
}


def draw(name: str) -> None:
    """Draw one picture."""
    from syclsched.tracing.charts.gantt import make_comparison

    picture = PICTURES[name]
    found = picture.runs()
    figure = make_comparison(found, picture.title) if isinstance(found, Mapping) else found
    figure.savefig(DOCS / "pictures" / f"{name}.png", dpi=_DPI, metadata={"Software": None})


def complaints() -> list[str]:
    """Return the errors in the pictures and in the pages that show them."""
    found = []
    for name, picture in PICTURES.items():
        file = DOCS / "pictures" / f"{name}.png"
        if not file.exists():
            found.append(f"{file.name} is missing: run python tools/pictures.py {name}")
        elif file.stat().st_size > MOST_BYTES:
            found.append(f"{file.name} has {file.stat().st_size} bytes, at most {MOST_BYTES} are wanted")
        if f"](../pictures/{name}.png)" not in (DOCS / picture.page).read_text(encoding="utf-8"):
            found.append(f"docs/{picture.page} does not show {file.name}")
    drawn = {*_OTHERS, *(f"{name}.png" for name in PICTURES)}
    shown = {
        each
        for page in DOCS.rglob("*.md")
        for each in re.findall(r"\(\S*pictures/([\w.-]+)\)", page.read_text("utf-8"))
    }
    kept = {file.name for file in (DOCS / "pictures").iterdir()}
    return [*found, *(f"nothing draws docs/pictures/{name}" for name in sorted((shown | kept) - drawn))]


def main(arguments: list[str]) -> int:
    """Draw or check the pictures; return the exit code."""
    if "--check" in arguments:
        wrong = complaints()
        print("\n".join(wrong), file=sys.stderr)
        return 1 if wrong else 0
    for name in arguments or PICTURES:
        draw(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
