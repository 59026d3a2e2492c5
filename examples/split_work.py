# SPDX-License-Identifier: Apache-2.0
"""Tasks of the right size: a large batch shared by two unequal GPUs, and a chain of tiny tasks merged into one.

Planning does both where it pays. Needs no SYCL runtime: the graphs are planned for described hardware.
"""

import syclsched
from syclsched.kernels import get


def inference(rows: int, width: int) -> syclsched.TaskGraph:
    """Return two dense layers: two tasks, however large the batch."""
    graph = syclsched.TaskGraph("inference")
    here = graph.array("x", (rows, width), "float32")
    for layer in range(2):
        w, b = graph.array(f"w{layer}", (width, width), "float32"), graph.array(f"b{layer}", (width,), "float32")
        out = graph.array("y" if layer else "hidden", (rows, width), "float32", temporary=not layer)
        graph.kernel(get("dense"), name=f"layer{layer}", y=out, x=here, w=w, b=b, activation=1 - layer)
        here = out
    return graph


def smoothing(steps: int, size: int) -> syclsched.TaskGraph:
    """Return many steps, each shorter than its submission."""
    graph = syclsched.TaskGraph("smoothing")
    x, y = graph.array("x", (size,), "float32"), graph.array("y", (size,), "float32")
    for step in range(steps):
        graph.kernel(get("scale"), name=f"damp{step}", x=y, alpha=0.5)
        graph.kernel(get("axpy"), name=f"add{step}", y=y, x=x, alpha=0.5)
    return graph


def compare(graph: syclsched.TaskGraph, platform: syclsched.Platform) -> syclsched.Plan:
    for label, rewrite in (("as it is", "none"), ("auto", "auto")):
        plan = syclsched.plan(graph, platform, rewrite=rewrite)
        used = sorted({span.device for span in syclsched.simulate(plan).spans if span.kind in ("launch", "host")})
        print(f"  {label:8}  {plan.makespan_s * 1e3:8.3f} ms on {', '.join(used)}, {len(plan.tasks)} tasks")
    print(f"  {plan.recipe}")
    return plan


def main() -> None:
    platform = syclsched.describe(["max1100", "a770"], name="two unequal GPUs")
    print("inference")
    plan = compare(inference(rows=32768, width=4096), platform)
    print("  rows of the chunks:", ", ".join(str(rows) for rows in plan.recipe.cuts[0].rows))
    print()
    print("smoothing")
    plan = compare(smoothing(steps=100, size=256), platform)
    print()
    print(plan.explain("add50"))


if __name__ == "__main__":
    main()
