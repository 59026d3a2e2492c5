# SPDX-License-Identifier: Apache-2.0
"""Streams of plans with library calls: a common bound of unfinished calls over all generations."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from support.onednn_calls import linear, needs_onednn
from support.opened import live_on
from support.running import plan_on

from syclsched.devices.submission import command_list
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.execution import bind
from syclsched.model.graph import TaskGraph

pytestmark = [pytest.mark.sycl, pytest.mark.instruction_sets, needs_onednn]
STEPS, SIZE, MOST = 200, 100, 96


@pytest.mark.parametrize("in_flight", [1, 2, 3, 4])
def test_generations_share_the_limit_of_unfinished_calls(in_flight: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call on SYCL's queue takes longer the more unfinished calls precede it, from any submitter."""
    monkeypatch.setattr(command_list, "MAX_CALLS_IN_FLIGHT", MOST)
    # By generation, and by portion: its own thread's submissions without a wait.
    unfinished: dict[SubmissionLoop, dict[int, int]] = {}
    most: dict[SubmissionLoop, int] = {}
    submit_listed, wait_for, here = SubmissionLoop.submit_listed, SubmissionLoop.wait_for, threading.get_ident()

    def submitted(self: SubmissionLoop, pointers: Any, submit_ns: Any, made: Any, begin: int, count: int) -> Any:
        assert threading.get_ident() == here
        found = submit_listed(self, pointers, submit_ns, made, begin, count)
        unfinished[self] = (unfinished[self] if begin else {}) | {2 * begin: found[0]}
        most[self] = max(most.get(self, 0), sum(unfinished[self].values()))
        return found

    def waited(self: SubmissionLoop, made: Any, begin: int, count: int) -> None:
        wait_for(self, made, begin, count)
        if threading.get_ident() == here:
            unfinished[self].pop(begin)

    monkeypatch.setattr(SubmissionLoop, "submit_listed", submitted)
    monkeypatch.setattr(SubmissionLoop, "wait_for", waited)
    platform, live = live_on(None)
    graph = TaskGraph("calls")
    y = graph.array("y", (SIZE,), "float32")
    for n in range(STEPS):
        graph.kernel(linear(), name=f"t{n}", y=y, alpha=-1.0, beta=float(n % 7))
    given = [np.full(SIZE, n, np.float32) for n in range(2 * in_flight)]
    with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
        found = [results["y"] for results in runner.stream([{"y": each} for each in given], in_flight=in_flight)]
    expected = given
    for n in range(STEPS):
        expected = [np.float32(n % 7) - each for each in expected]
    assert all(np.array_equal(mine, right) for mine, right in zip(found, expected, strict=True))
    assert list(most.values()) == [MOST // in_flight] * in_flight
