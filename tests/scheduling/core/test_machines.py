# SPDX-License-Identifier: Apache-2.0
"""List scheduling on many machines, which tries only some of them for each task."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from support.definitions import with_tables

import syclsched
from syclsched.cluster import NetworkPath, joined
from syclsched.costs import CostModel
from syclsched.kernels import get as kernel
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Platform
from syclsched.scheduling import build_problem, problem_from_arrays
from syclsched.scheduling.core.machines import ALL_MACHINES
from syclsched.scheduling.portfolio import run_policy

MACHINES = ALL_MACHINES + 4


def cluster(count: int = MACHINES) -> Platform:
    names = [f"m{n}" for n in range(count)]
    paths = [NetworkPath(*pair, 2e-5, 1.25e10) for pair in permutations([HOST, *names], 2)]
    return joined(dict.fromkeys(names, syclsched.describe("max1550")), paths)


def tiled(tiles: int, tile: int = 512) -> TaskGraph:
    """Return a tiled Cholesky factorisation without data."""
    graph = TaskGraph("tiled")
    a = {(i, j): graph.array(f"a{i}.{j}", (tile, tile), "float32") for i in range(tiles) for j in range(i + 1)}
    for k in range(tiles):
        graph.kernel(kernel("potrf"), a=a[k, k], status=graph.array(f"s{k}", (1,), "int32"))
        for i in range(k + 1, tiles):
            graph.kernel(kernel("trsm"), a=a[i, k], l=a[k, k])
            for j in range(k + 1, i + 1):
                graph.kernel(kernel("gemm"), c=a[i, j], a=a[i, k], b=a[j, k], alpha=-1.0, beta=1.0, trans_b=1)
    return graph


def sweeps(blocks: int, steps: int) -> TaskGraph:
    """Return repeated sums of neighbouring blocks."""
    graph = TaskGraph("sweeps")
    x = [graph.array(f"x{n}", (1 << 22,), "float32") for n in range(blocks)]
    for _ in range(steps):
        for one, other in pairwise(x):
            graph.kernel(kernel("axpy"), y=other, x=one, alpha=0.5)
    return graph


@pytest.mark.parametrize("policy", ["heft", "peft", "mcp", "cpop"])
@pytest.mark.parametrize("graph", [tiled(14), sweeps(20, 10)], ids=lambda graph: graph.name)
def test_the_machines_left_out_are_hardly_missed(policy: str, graph: TaskGraph) -> None:
    """The reference is one machine with all these devices, where every device is tried."""
    platform = cluster()
    problem = build_problem(graph, platform, CostModel(platform, None))
    everywhere = with_tables(problem, machine_start=[0, len(problem.devices)])
    assert run_policy(problem, policy).makespan_s <= 1.1 * run_policy(everywhere, policy).makespan_s


@pytest.mark.parametrize("policy", ["heft", "mcp", "peft"])
def test_longest_idle_machine_is_not_preferred(policy: str) -> None:
    """Before, four slow machines that were free earlier kept tasks from the fast ones, which were free in time, too."""
    slow, fast = 12, 4
    costs = np.full((2 * fast + 1, slow + fast), np.inf)
    costs[range(fast), range(slow, slow + fast)] = 5.0  # leaves no fast machine idle
    costs[fast] = 100.0
    costs[fast + 1 :, :slow], costs[fast + 1 :, slow:] = 4.0, 1.0
    after = np.arange(fast + 1, 2 * fast + 1)
    problem = problem_from_arrays(costs, np.full(fast, fast), after, np.zeros(fast))
    machines = np.arange(slow + fast)
    problem = with_tables(problem, machine_start=np.arange(slow + fast + 1), space_machine=machines)
    assert run_policy(problem, policy).makespan_s == 101.0


def test_independent_tasks_are_spread_over_all_machines() -> None:
    graph = TaskGraph("apart")
    for number in range(MACHINES):
        x = graph.array(f"x{number}", (1 << 20,), "float32")
        graph.kernel(kernel("fill"), name=f"fill{number}", x=x, value=1.0)
        for step in range(40):
            graph.kernel(kernel("scale"), name=f"scale{number}.{step}", x=x, alpha=2.0)
    platform = cluster()
    found = run_policy(build_problem(graph, platform, CostModel(platform, None)), "heft")
    assert len({device.partition("/")[0] for device in found.devices()}) == MACHINES


def test_auto_may_use_fewer_machines() -> None:
    plan = syclsched.plan(tiled(8, 64), cluster(ALL_MACHINES + 10))
    assert any("[8 machines]" in candidate.policy for candidate in plan.candidates)
