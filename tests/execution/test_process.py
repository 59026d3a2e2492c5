# SPDX-License-Identifier: Apache-2.0
"""What a process leaves behind: nothing at its end, nothing at Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sycl

START = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import numpy as np
from running import SPIN, plan_on
from syclsched.devices import discover, open_devices
from syclsched.execution import execute
from syclsched.model.graph import TaskGraph

graph = TaskGraph("long")
y = graph.array("y", data=np.ones(1, "int64"))
for i in range(2000):
    graph.kernel(SPIN, name=f"spin{i}", y=y, turns=1_000_000)
platform = discover()
run = execute(plan_on(graph, platform, "cpu"), graph, open_devices(platform))
run._dispatcher.wait_submitted(5, 60)
"""

LEAVE = """
print("leaving", run.done())
"""

INTERRUPT = """
def press_when_waiting():
    while not run._dispatcher.counts.host_waits:
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=press_when_waiting).start()
try:
    run.wait()
except KeyboardInterrupt:
    cancelled = sum(s.outcome == "cancelled" for s in run.trace().spans)
    print("held", len(run._dispatcher.buffers), "done", run.done(), "cancelled", cancelled > 0, flush=True)
    raise
"""


HANG = """
from syclsched.execution import resources
run.close()
resources.GRACE_S = 0.5
graph = TaskGraph("hang")
y, z = graph.array("y", data=np.ones(1, "int64")), graph.array("z", (1,), "int64")
graph.kernel(SPIN, name="forever", y=y, turns=2**62, deadline_s=0.1)
live = open_devices(platform)
run = execute(plan_on(graph, platform, "cpu"), graph, live)
try:
    run.wait(200)
except Exception as error:
    print(type(error).__name__, error.task, flush=True)
run.close()
live.close()
print("closed", flush=True)
sys.exit(3)
"""


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    tests = str(Path(__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", START + program, tests], capture_output=True, text=True, timeout=300, check=False
    )


def test_interpreter_exit_with_a_run_on_its_way() -> None:
    process = run_program(LEAVE)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == ["leaving", "False"]
    assert "Traceback" not in process.stderr


def test_ctrl_c_while_waiting() -> None:
    process = run_program(INTERRUPT)
    assert process.stdout.split() == ["held", "0", "done", "True", "cancelled", "True"], process.stderr
    assert "KeyboardInterrupt" in process.stderr and process.returncode != 0


def test_a_kernel_that_never_ends_holds_up_nothing_not_even_the_exit() -> None:
    process = run_program(HANG)
    assert process.stdout.split() == ["DeadlineError", "forever", "closed"], process.stderr
    assert process.returncode == 3
    assert "1 run(s) hang, and are left behind: lane cpu:0 is at task 'forever'" in process.stderr
