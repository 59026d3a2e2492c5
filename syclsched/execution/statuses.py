# SPDX-License-Identifier: Apache-2.0
"""What device kernels report of themselves: a status number, read when it is safe to."""

from __future__ import annotations

from syclsched.errors import TaskFailedError
from syclsched.execution.buffers import BufferTable
from syclsched.execution.reading import read_numpy
from syclsched.execution.work import Work


def failed_status(work: Work, buffers: BufferTable) -> TaskFailedError | None:
    """Return the error a task's status stands for.

    Parameters
    ----------
    work : Work
        A task whose operation has a status, and which has completed.
    buffers : BufferTable
        The run's buffers.

    Returns
    -------
    TaskFailedError or None
        None if the status is 0.
    """
    if work.status is None or work.status not in buffers:
        return None
    value = int(read_numpy(buffers[work.status]).reshape(-1)[0])
    if value == 0:
        return None
    explain = work.operation.explain_status
    what = f"ended with status {value}" if explain is None else explain(value)
    arrays = ", ".join(repr(array) for parameter, array in work.task.arguments.items())
    return TaskFailedError(what, task=work.task.name, where=f"task {work.task.name!r} (arrays {arrays})")
