# SPDX-License-Identifier: Apache-2.0
"""Tasks of the right size: a large batch shared by two unequal GPUs, and a chain of tiny tasks made one.

Needs no SYCL runtime: both graphs are planned for hardware that is not here, and simulated.
"""

import syclsched
from syclsched.costs import CostModel
from syclsched.kernels import get
from syclsched.planner import plan_graph
from syclsched.rewrites import Rewrite, rewrite


def inference(rows: int, width: int) -> syclsched.TaskGraph:
    """Two dense layers: two tasks, however large the batch."""
    graph = syclsched.TaskGraph("inference")
    here = graph.array("x", (rows, width), "float32")
    for layer in range(2):
        w, b = graph.array(f"w{layer}", (width, width), "float32"), graph.array(f"b{layer}", (width,), "float32")
        out = graph.array("y" if layer else "hidden", (rows, width), "float32", temporary=not layer)
        graph.kernel(get("dense"), name=f"layer{layer}", y=out, x=here, w=w, b=b, activation=1 - layer)
        here = out
    return graph


def smoothing(steps: int, size: int) -> syclsched.TaskGraph:
    """Many steps, each shorter than it takes to submit it."""
    graph = syclsched.TaskGraph("smoothing")
    x, y = graph.array("x", (size,), "float32"), graph.array("y", (size,), "float32")
    for step in range(steps):
        graph.kernel(get("scale"), name=f"damp{step}", x=y, alpha=0.5)
        graph.kernel(get("axpy"), name=f"add{step}", y=y, x=x, alpha=0.5)
    return graph


def compare(graph: syclsched.TaskGraph, platform: syclsched.Platform) -> Rewrite:
    found = rewrite(graph, platform, CostModel(platform))
    print(f"{graph.name}: {found.counters.tasks_before} tasks, rewritten {found.counters.tasks_after}")
    for label, each in (("as it is", graph), ("rewritten", found.graph)):
        plan = plan_graph(each, platform)
        used = sorted({span.device for span in syclsched.simulate(plan).spans if span.kind in ("launch", "host")})
        print(f"  {label:9}  {plan.makespan_s * 1e3:8.3f} ms on {', '.join(used)}")
    return found


def main() -> None:
    platform = syclsched.describe(["max1100", "a770"], name="two unequal GPUs")
    found = compare(inference(rows=32768, width=4096), platform)
    print("  rows of the chunks:", ", ".join(str(rows) for rows in found.recipe.cuts[0].rows))
    print("  y is now:", ", ".join(found.arrays["y"][:2]), "...")
    print()
    found = compare(smoothing(steps=100, size=256), platform)
    print("  add50 is now a part of", *found.tasks["add50"])


if __name__ == "__main__":
    main()
