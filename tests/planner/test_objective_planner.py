# SPDX-License-Identifier: Apache-2.0
"""Plans for a short interval that streams can sustain."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from support.samples import device, platform

from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.planner import plan_graph
from syclsched.planning.initiation_interval import stream_interval_s


def test_chain_of_unequal_tasks_is_cut_once() -> None:
    graph = TaskGraph("network")
    sizes = [1, 7, 2, 9, 4, 3, 8, 1, 6, 5, 2, 7, 3, 9, 1, 4, 8, 2, 6, 5]
    here = graph.array("x", (256, 64), "float32")
    for i, size in enumerate(sizes):
        w = graph.array(f"w{i}", (here.shape[1], 64 * size), "float32")
        b = graph.array(f"b{i}", (64 * size,), "float32")
        out = graph.array(f"h{i}", (256, 64 * size), "float32", temporary=i < len(sizes) - 1)
        graph.kernel(get("dense"), name=f"d{i}", y=out, x=here, w=w, b=b, activation=1)
        here = out
    graph.data.update({name: np.zeros(a.shape, a.dtype) for name, a in graph.arrays.items() if name[0] in "wb"})
    plan = plan_graph(graph, platform(device("cpu", lanes=2)), minimize="throughput", rewrite="none")
    lane_of = {i.task: lane.name for lane in plan.lanes for i in lane.instructions if i.task}
    lanes = [lane_of[f"d{i}"] for i in range(len(sizes))]
    changes = sum(a != b for a, b in pairwise(lanes))
    assert changes == len(set(lanes)) - 1 > 0
    assert plan.interval_s <= stream_interval_s(plan) <= 1.1 * plan.interval_s
    assert plan.interval_s < 0.6 * plan.makespan_s
