# SPDX-License-Identifier: Apache-2.0
"""Planning for described hardware: the predicted faster of two machines for a graph. Needs no SYCL runtime."""

import syclsched
from syclsched.kernels import get


def products(count: int, size: int) -> syclsched.TaskGraph:
    """Return independent chains of two matrix products each."""
    graph = syclsched.TaskGraph(f"{count} chains")
    weights = graph.array("weights", (size, size), "float32")
    for i in range(count):
        first = graph.array(f"input{i}", (size, size), "float32")
        middle = graph.array(f"middle{i}", (size, size), "float32", temporary=True)
        last = graph.array(f"output{i}", (size, size), "float32")
        graph.kernel(get("gemm"), c=middle, a=first, b=weights)
        graph.kernel(get("gemm"), c=last, a=middle, b=weights)
    return graph


def main() -> None:
    graph = products(count=8, size=2048)
    for profiles in (["a770"], ["max1100"], ["max1100", "a770"]):
        plan = syclsched.plan(graph, syclsched.describe(profiles, name="+".join(profiles)))
        trace = syclsched.simulate(plan)
        used = sorted({span.device for span in trace.spans if span.kind == "launch"})
        print(f"{'+'.join(profiles):14} {plan.makespan_s * 1e3:7.2f} ms by {plan.policy}, kernels on {', '.join(used)}")
    print()
    print(plan.explain(graph.tasks[-1].name))


if __name__ == "__main__":
    main()
