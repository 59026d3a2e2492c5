# SPDX-License-Identifier: Apache-2.0
"""Waits behind a library's host tasks on one thread, while another thread submits with the GIL held."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Run in a process of its own: a deadlock here holds the GIL, so that nothing in the process could end the test.
SCRIPT = """
import sys, threading
from syclsched import oneapi
oneapi.load()
import dpctl
from syclsched.oneapi.dpctl_interface import usm_arrays
from syclsched.devices.native import host_tasks
from syclsched.devices.programs.executables import LibrarySubmission
from syclsched.devices.native.fences import submit_fence
from syclsched.devices.native.submission_library import load_library
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.kernels.linalg import onemkl

queue = dpctl.SyclQueue("opencl:cpu", property=["in_order", "enable_profiling"])
dpt = usm_arrays()
arrays = {name: dpt.ones((64, 64), dtype="float64", sycl_queue=queue) for name in "cab"}
queue.wait()
arrays |= {"alpha": -1.0, "beta": 1.0, "trans_a": 0, "trans_b": 1}
product = LibrarySubmission(onemkl.gemm, arrays, "here")
library = load_library()
loop = SubmissionLoop(library, {0: queue}, 1) if sys.argv[1] == "in C" else None
last, over = None, threading.Event()


def wait(event):
    if loop is None:
        host_tasks.wait_for(event)
    else:
        loop.adopt(0, 0, event)
        loop.wait_for_slots([0])


def waiter():
    while not over.is_set():
        if last is not None:
            wait(last)


thread = threading.Thread(target=waiter)
thread.start()
for count in range(1500):
    product.submit(queue, [])
    last = submit_fence(queue, [])
    if count % 50 == 0:
        host_tasks.wait_for_queue(queue)
over.set()
thread.join()
host_tasks.wait_for_queue(queue)
print("ended")
"""


@pytest.mark.sycl
@pytest.mark.parametrize("where", ["in Python", "in C"])
def test_waiting_and_submitting_at_once_does_not_hang(where: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, where], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0 and "ended" in done.stdout, done.stderr[-2000:]
