# SPDX-License-Identifier: Apache-2.0
"""A graph of two products."""

from __future__ import annotations

import numpy as np

import syclsched
from syclsched.kernels.nn import matmul
from syclsched.model.graph import TaskGraph


def product_graph() -> TaskGraph:
    """Return a graph in which a matrix is multiplied by constant weights twice."""
    graph = TaskGraph()
    a, b, c = (graph.array(name, (32, 32), "float32") for name in "abc")
    weights = syclsched.constant(np.eye(32, dtype=np.float32))
    graph.kernel(matmul(), name="first", y=b, a=a, b=weights)
    graph.kernel(matmul(), name="second", y=c, a=b, b=weights)
    return graph
