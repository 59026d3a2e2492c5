# SPDX-License-Identifier: Apache-2.0
"""A product of two matrices in blocks of 256 rows."""

from problems import product

import syclsched
from syclsched.kernels import get

graph = syclsched.TaskGraph("product")
a, b, c = (graph.array(name, (1024, 1024)) for name in "abc")
for row in range(0, 1024, 256):
    rows = slice(row, row + 256)
    graph.kernel(get("gemm"), c=c[rows], a=a[rows], b=b)
runner = syclsched.bind(graph)
product.solve(lambda left, right: runner({"a": left, "b": right})["c"])
