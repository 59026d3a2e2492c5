# SPDX-License-Identifier: Apache-2.0
"""Sample states of processes for tests of monitoring."""

from __future__ import annotations

from dataclasses import replace

from syclsched.monitoring import GraphStatus, LaneStatus, MemoryStatus, ProcessStatus, RunStatus
from syclsched.monitoring.status import EndedRun

WRITTEN_S = 1_700_000_000.0


def status(**changes: object) -> ProcessStatus:
    """Return the state of a process with two runs in flight, one of them of compiled code."""
    lanes = (
        LaneStatus("cpu:0", "cpu", "compute", 30, 60, 0.75, "task 'gemm(3,1)'", None),
        LaneStatus("cpu:copy", "cpu", "copy", 0, 0, 0.05, "a copy of 'a'", "task 'potrf(0)' on cpu:0"),
        LaneStatus("host:0", "host", "host", 7, None, None, None, None),
    )
    run = RunStatus(0.0082, is_preparing=False, tasks_done=37, tasks=120)
    ended = (
        EndedRun(WRITTEN_S - 2, 0.0125, "done"),
        EndedRun(WRITTEN_S - 1, 0.0127, "done"),
        EndedRun(WRITTEN_S - 1, 0.001, "failed"),
    )
    graph = GraphStatus("cholesky", "auto: heft", 0.0121, (run,), 1, 341, 1, 0, 1, ended, lanes)
    model = GraphStatus(
        "model", "dynamic:dmdas", None, (RunStatus(1.5, is_preparing=False, tasks_done=0, tasks=9, is_call=True),),
        1, 0, 0, 0, 0, (), (),
    )  # fmt: skip
    memory = (MemoryStatus("cpu", 12 << 20, 16 << 20, 14 << 20, 64 << 20), MemoryStatus("host", 1024, 2048, 1024, 0))
    made = ProcessStatus(4711, "python job.py --size 3", WRITTEN_S - 60, WRITTEN_S, (graph, model), memory)
    return replace(made, **changes)  # type: ignore[arg-type]
