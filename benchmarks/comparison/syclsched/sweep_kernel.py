# SPDX-License-Identifier: Apache-2.0
"""The amplitude of an oscillator for many dampings: one kernel for all of them."""

import math

import numpy as np
from problems import STEPS, sweep

import syclsched
from syclsched import Read, Write


@syclsched.operation
def amplitude(item, most: Write[np.float64], damping: Read[np.float64], steps: int):
    i = item.get_id(0)
    x, v, largest = 0.0, 0.0, 0.0
    for step in range(steps):
        v += 1e-3 * (math.sin(1e-3 * step) - x - damping[i] * v)
        x += 1e-3 * v
        if step > steps // 2:
            largest = max(largest, abs(x))
    most[i] = largest


graph = syclsched.TaskGraph("sweep")
damping, most = graph.array("damping", (256,)), graph.array("most", (256,))
graph.kernel(amplitude, most=most, damping=damping, steps=STEPS)
runner = syclsched.bind(graph)
sweep.solve(lambda values: runner({"damping": values})["most"])
