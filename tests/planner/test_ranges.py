# SPDX-License-Identifier: Apache-2.0
"""Graphs with row ranges, planned by several policies."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import symbolic
from support.examples import examples
from support.strategies import graphs, platforms

from syclsched.costs import CostModel
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.planner import plan_graph
from syclsched.planning import verify
from syclsched.scheduling.construction.build import build_problem


@pytest.mark.parametrize("policy", ["heft", "cpop", "round-robin", "random", "single:d0", "auto"])
@settings(max_examples=examples(12))
@given(graph=graphs(ranges=True), platform=platforms(), rng=st.randoms(use_true_random=False))
def test_every_policy_has_the_results_of_the_sequential_program(
    policy: str, graph: TaskGraph, platform: Platform, rng: random.Random
) -> None:
    plan = plan_graph(graph, platform, policy=policy, steps=50)
    verify(plan, graph)
    symbolic.check(plan, graph, rng, times=1)
    assert 0.0 <= plan.lower_bound_s <= plan.makespan_s * (1 + 1e-9)


@given(graphs(ranges=True), platforms())
def test_policies_see_the_bytes_and_the_dependencies_of_rows(graph: TaskGraph, platform: Platform) -> None:
    problem = build_problem(graph, platform, CostModel(platform))
    arcs = {
        (problem.names[before], problem.names[after])
        for after in range(len(problem.names))
        for before in problem.tables.pred_task[problem.tables.pred_start[after] : problem.tables.pred_start[after + 1]]
    }
    assert arcs == {(d.before, d.after) for d in graph.dependencies()}
    item_bytes = problem.tables.item_bytes
    for item, array in enumerate(problem.item_array.tolist()):
        name = problem.arrays[array]
        segment = next((s for cut in graph.segments().values() for s in cut if s.name == name), None)
        if segment is None:
            assert item_bytes[item] == graph.arrays[name].nbytes
        else:
            assert item_bytes[item] == graph.arrays[segment.whole][slice(*segment.rows)].nbytes


def test_the_example_prints_the_dependencies() -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "parts_of_arrays.py"
    ended = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "add2 waits for scale1: x[7340032:8388608] (RAW)" in ended.stdout
    assert "scale1 waits" not in ended.stdout
    assert "read x[7340032:9437184] in max1550" in ended.stdout
