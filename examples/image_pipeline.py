# SPDX-License-Identifier: Apache-2.0
"""Images through two user-defined kernels, blur and edges, and host functions whose results are passed on."""

import numpy as np

import syclsched
from syclsched import Read


@syclsched.operation
def blur(item, smooth, image: Read[np.float32]):
    y, x = item.get_id(0), item.get_id(1)
    total = np.float32(0)
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            total += image[min(max(y + dy, 0), image.shape[0] - 1), min(max(x + dx, 0), image.shape[1] - 1)]
    smooth[y, x] = total / np.float32(9)


@syclsched.operation
def edges(item, gradient, image: Read[np.float32]):
    y, x = item.get_id(0), item.get_id(1)
    below, right = min(y + 1, image.shape[0] - 1), min(x + 1, image.shape[1] - 1)
    gradient[y, x] = abs(image[below, x] - image[y, x]) + abs(image[y, right] - image[y, x])


graph = syclsched.TaskGraph("edges of images")
counts = []
for number in range(4):
    image = graph.array(f"image{number}", data=np.random.default_rng(number).random((300, 400), "float32"))
    smooth, gradient = (graph.array(f"{name}{number}", image.shape, image.dtype) for name in ("smooth", "gradient"))
    graph.kernel(blur, smooth=smooth, image=image)
    graph.kernel(edges, gradient=gradient, image=smooth)
    counts.append(graph.submit(lambda pixels: np.count_nonzero(pixels > 0.1), gradient, name=f"count{number}"))
best = graph.submit(np.argmax, graph.submit(np.stack, counts, shape=4), dtype="int64", name="best")
with syclsched.run(graph) as run:
    print(f"most edges: image {run.result(best)}, {run.result(counts[int(run.result(best))]):.0f} pixels")
