# SPDX-License-Identifier: Apache-2.0
"""The dispatcher's order when instructions fail; conformance tests run all graphs with the dispatcher."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.running import ASSIGN, DTYPE, MIX, SPIN, plan_on

import syclsched
from syclsched import TaskGraph
from syclsched.errors import TaskFailedError
from syclsched.execution.memory.buffers import BufferTable
from syclsched.testing import faults

pytestmark = pytest.mark.sycl
SIZE = 100_000


def test_skipped_kernel_does_not_free_memory_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last task that reads ``x`` is skipped while its lane still executes one that updates ``x``."""
    graph = TaskGraph("skipped")
    given = graph.array("given", data=np.full(SIZE, 5, DTYPE))
    x, missing = (graph.array(name, (SIZE,), DTYPE, temporary=True) for name in ("x", "missing"))
    y, z = (graph.array(name, (SIZE,), DTYPE) for name in "yz")
    graph.kernel(ASSIGN, y=x, x=given, name="first")
    graph.kernel(SPIN, y=x, turns=20_000_000, name="long")
    graph.kernel(ASSIGN, y=missing, x=given, name="refused")
    graph.kernel(ASSIGN, y=y, x=missing, name="begun")
    graph.kernel(MIX, y=y, x=x, a=2, name="skipped")
    graph.kernel(ASSIGN, y=z, x=given, name="last")  # needs the memory of x
    plan = plan_on(graph, syclsched.discover("cpu"), "cpu")
    values: list[int] = []

    def free(table: BufferTable, buffer: Any) -> int:
        live = table.get(buffer)
        if buffer[0] == "x" and live is not None:
            values.append(int(live.numpy(writable=False)[0]))
        return before(table, buffer)

    before = BufferTable.free
    monkeypatch.setattr(BufferTable, "free", free)
    refusal = faults.fail_submission(_number_of(plan, "refused"), times=2)
    with faults.inject(refusal), pytest.raises(TaskFailedError, match="refuses"):
        syclsched.run(graph, plan=plan, recover=False).wait()
    assert values and all(value != 5 for value in values)  # the long kernel writes at its end


def _number_of(plan: syclsched.Plan, task: str) -> int:
    """Return the number of a task's submission."""
    kinds = [i for _, i in plan.instructions() if i.kind not in ("alloc", "free")]
    return 1 + [i.task for i in sorted(kinds, key=lambda i: i.id)].index(task)
