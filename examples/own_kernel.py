# SPDX-License-Identifier: Apache-2.0
"""A user-defined operation with a kernel in Python, OpenCL C and a NumPy function, whose results must agree."""

from dataclasses import replace

import numpy as np

import syclsched
from syclsched import Update, kernel_api


@syclsched.operation
def rectify(item: kernel_api.Item, x: Update[np.float32], slope: np.float32) -> None:
    i = item.get_id(0)
    if x[i] < 0:
        x[i] = slope * x[i]


rectify = rectify.opencl("""
__kernel void rectify(__global float *x, float slope) {
    size_t i = get_global_id(0);
    x[i] = x[i] < 0.0f ? slope * x[i] : x[i];
}""").host(lambda x, slope: np.multiply(x, np.float32(slope), out=x, where=x < 0))

data = np.linspace(-1, 1, 1001, dtype="float32")
graph = syclsched.TaskGraph("three ways")
arrays = {}
for way in rectify.implementations:
    arrays[way.name] = graph.array(f"x by {way.name}", data=data)
    graph.kernel(replace(rectify, implementations=(way,)), x=arrays[way.name], slope=0.1)
with syclsched.run(graph) as run:
    for name, array in arrays.items():
        print(
            f"{name}: largest difference {np.abs(run.result(array) - np.where(data < 0, 0.1 * data, data)).max():.1e}"
        )
