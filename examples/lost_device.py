# SPDX-License-Identifier: Apache-2.0
"""A device is lost in the middle of a run, which ends with the same result: the fault is injected, the rest is real."""

import numpy as np

import syclsched
from syclsched.kernels import get
from syclsched.testing import faults

graph = syclsched.TaskGraph("chains")
ones = graph.array("ones", data=np.eye(64))
sums = [graph.array(f"y{chain}", data=np.zeros((64, 64))) for chain in range(4)]
for step in range(5):
    for chain, total in enumerate(sums):
        graph.kernel(get("gemm"), name=f"step {step} of {chain}", c=total, a=ones, b=ones, beta=1.0)  # c += a @ b

# Two halves of the CPU device, so that one can be lost.
platform = syclsched.discover(select="cpu", sub_devices=2)
plan = syclsched.plan(graph, platform, policy="round-robin")
lost = platform.compute_devices[-1].name

with faults.inject(faults.lose(lost, after=6)), syclsched.run(graph, plan=plan) as run:
    run.wait(timeout=60)
    for recovery in run.recoveries:
        print(recovery)
    print("right:", all(np.array_equal(run.result(total), 5 * np.eye(64)) for total in sums))
