# SPDX-License-Identifier: Apache-2.0
"""Tasks on parts of an array: those on disjoint rows do not wait for each other.

Needs no SYCL runtime: the graph is planned for described hardware.
"""

import syclsched
from syclsched.kernels import get


def sweep(rows: int, parts: int) -> syclsched.TaskGraph:
    """Scale an array part by part, then add the rows around every boundary to another."""
    graph = syclsched.TaskGraph("sweep")
    x, y = graph.array("x", (rows,), "float32"), graph.array("y", (rows,), "float32")
    step = rows // parts
    for part in range(parts):
        graph.kernel(get("scale"), name=f"scale{part}", x=x[part * step : (part + 1) * step], alpha=0.5)
    for part in range(1, parts):
        around = slice(part * step - step // 4, part * step + step // 4)
        graph.kernel(get("axpy"), name=f"add{part}", y=y[around], x=x[around], alpha=1.0)
    return graph


def main() -> None:
    graph = sweep(rows=1 << 24, parts=4)
    for dependency in graph.dependencies():
        print(f"{dependency.after} waits for {dependency.before}: {dependency.array} ({dependency.kind})")
    plan = syclsched.plan(graph, syclsched.describe(["max1550", "max1550"]), policy="heft")
    syclsched.verify(plan, graph)
    print()
    print(plan.explain("add2"))


if __name__ == "__main__":
    main()
