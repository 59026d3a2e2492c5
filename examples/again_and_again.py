# SPDX-License-Identifier: Apache-2.0
"""A graph run repeatedly on new data: bound once, then replayed from C."""

import numpy as np

import syclsched
from syclsched.kernels import get

graph = syclsched.TaskGraph("layers")
x = graph.array("x", (64, 64))
weights = [graph.array(f"w{i}", data=np.eye(64) * (i + 1)) for i in range(3)]
sums = [graph.array(f"y{i}", (64, 64)) for i in range(3)]
for i, (weight, total) in enumerate(zip(weights, sums, strict=True)):
    graph.kernel(get("gemm"), name=f"layer {i}", c=total, a=x if i == 0 else sums[i - 1], b=weight)

platform = syclsched.discover().select(["cpu"])
plan = syclsched.plan(graph, platform, policy="single:cpu")
with syclsched.bind(graph, plan=plan) as runner:
    print(runner)
    for seed in range(3):
        data = np.random.default_rng(seed).normal(size=(64, 64))
        found = runner({"x": data}, ["y2"])["y2"]
        print(f"run {seed}: right: {np.allclose(found, 6 * data)}")
