# SPDX-License-Identifier: Apache-2.0
"""A graph planned for two described GPUs: predicted makespans, and the number of kernels of each."""

from collections import Counter

from problems import described

import syclsched
from syclsched.kernels import get


def run(chains, size):
    graph = syclsched.TaskGraph("chains")
    weights = graph.array("weights", (size, size), "float32")
    for i in range(chains):
        x, y, z = (graph.array(f"{name}{i}", (size, size), "float32") for name in "xyz")
        graph.kernel(get("gemm"), c=y, a=x, b=weights)
        graph.kernel(get("gemm"), c=z, a=y, b=weights)
    makespans = []
    for hardware in ("max1550", "a770", "max1550,a770"):
        plan = syclsched.plan(graph, syclsched.describe(hardware))
        kernels = Counter(span.device for span in syclsched.simulate(plan).spans if span.kind == "launch")
        makespans.append(plan.makespan_s)
        print(f"# {hardware}: {plan.makespan_s * 1e3:.2f} ms, {dict(kernels)}")
    return makespans[2] <= min(makespans)


described.solve(run)
