# SPDX-License-Identifier: Apache-2.0
"""Workers that are killed at any moment of a run of 200 tasks: the results are those of one machine."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
from support.cluster_plans import fixed

import syclsched
from syclsched.cluster import connect
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph

pytestmark = pytest.mark.sycl

distributed = pytest.importorskip("distributed", reason="the package distributed is not installed")

MOMENTS, TASKS = 20, 200


def slowly_halve(y: Any) -> None:
    time.sleep(2e-3)
    y *= 0.5


def braid() -> TaskGraph:
    """A graph of kernels and host functions on eight arrays, each task after one or two others."""
    drawn = random.Random(0)
    graph = TaskGraph("braid")
    arrays = [graph.array(f"x{n}", (5000,), data=np.arange(5000.0) + n) for n in range(8)]
    for number in range(TASKS):
        x, y = drawn.sample(arrays, 2)
        if number % 4:
            graph.kernel(get("axpy"), name=f"axpy{number}", y=y, x=x, alpha=0.25)
        else:
            graph.host(slowly_halve, name=f"halve{number}", y=y.update())
    return graph


def alternately(name: str) -> str:
    """Every second task on each machine."""
    number = int("".join(filter(str.isdigit, name)))
    return f"node{number // 4 % 2}/host" if name.startswith("halve") else f"node{number % 2}/cpu"


@pytest.fixture(scope="module")
def wanted() -> dict[str, Any]:
    graph = braid()
    with syclsched.bind(graph, syclsched.discover("cpu"), policy="single:cpu", calibrate=False) as alone:
        return alone()


@pytest.mark.one_case_in(27)
@pytest.mark.parametrize("moment", range(2 * MOMENTS))
def test_a_worker_that_is_killed_at_any_moment_changes_no_bit(wanted: dict[str, Any], moment: int) -> None:
    graph = braid()
    with (
        connect(workers=2) as cluster,
        cluster.bind(graph, plan=fixed(cluster, graph, alternately), policy="heft") as runner,
    ):
        victim = cluster.describe()[f"node{moment % 2}"].process
        begun_s = time.monotonic()
        found = runner()
        took_s = time.monotonic() - begun_s
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value)
        timer = threading.Timer(took_s * (moment // 2 + 0.5) / MOMENTS, os.kill, (victim, signal.SIGKILL))
        timer.start()
        found = runner()
        timer.join()
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value)
