# SPDX-License-Identifier: Apache-2.0
"""The amplitude of an oscillator for many dampings: a host function for each."""

import numba
import numpy as np
from problems import STEPS, sweep

import syclsched


@numba.njit(nogil=True)
def amplitude(damping):
    x, v, most = 0.0, 0.0, 0.0
    for step in range(STEPS):
        v += 1e-3 * (np.sin(1e-3 * step) - x - damping * v)
        x += 1e-3 * v
        if step > STEPS // 2:
            most = max(most, abs(x))
    return most


graph = syclsched.TaskGraph("sweep")
dampings = graph.array("dampings", (256, 1))
graph.map(lambda damping: amplitude(damping[0, 0]), [dampings[i : i + 1] for i in range(256)], name="amplitude")
runner = syclsched.bind(graph)


def run(values):
    return [each.item() for each in runner({"dampings": values[:, None]}).values()]


sweep.solve(run)
