# SPDX-License-Identifier: Apache-2.0
"""Columns of accesses: equal to the tasks' accesses in any order of the tasks; and the inputs derived from them."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import graphs

from syclsched.model.access import MODES, Access, AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.access_columns import AccessColumns


def rows(columns: AccessColumns) -> list[list[Access]]:
    """Return the accesses of each task."""
    flat = [Access(columns.names[n], MODES[m]) for n, m in zip(columns.array, columns.mode, strict=True)]
    return [flat[a:b] for a, b in zip(columns.starts, columns.starts[1:], strict=False)]


@given(graphs(ranges=True), st.randoms(use_true_random=False))
def test_columns_equal_the_accesses_in_any_order(graph: TaskGraph, rng: random.Random) -> None:
    order = rng.sample(range(len(graph)), len(graph))
    touched = [list(accesses) for accesses in graph.touched()]
    assert rows(graph.accesses()) == touched
    assert rows(graph.accesses().ordered(np.array(order, np.int64))) == [touched[n] for n in order]


@given(graphs())
def test_inputs_are_read_before_any_task_has_written_them(graph: TaskGraph) -> None:
    written: set[str] = set()
    needed: dict[str, None] = {}
    for name in graph.order():
        for access in graph.find_task(name).accesses:
            if access.mode is not AccessMode.WRITE and access.array not in written:
                needed.setdefault(access.array)
        written |= {access.array for access in graph.find_task(name).accesses if access.mode is not AccessMode.READ}
    assert graph.inputs() == tuple(needed)


def test_edge_against_submission_order_changes_inputs() -> None:
    graph = TaskGraph()
    x, y = graph.array("x", (1,)), graph.array("y", (1,))
    for name, array in (("reader", x), ("other", y)):
        graph.host(lambda a: None, name=name, a=array.read())
    graph.edge("other", "reader")
    assert graph.order() == ("other", "reader")
    assert graph.inputs() == ("y", "x")
