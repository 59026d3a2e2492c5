# SPDX-License-Identifier: Apache-2.0
"""Ends of processes: interpreter exit, Ctrl-C, fork, and concurrent processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from syclsched.devices import discover

pytestmark = pytest.mark.sycl

START = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import numpy as np
from support.running import SPIN, plan_on
from syclsched.devices import discover, open_devices
from syclsched.execution import execute
from syclsched.model.graph import TaskGraph

graph = TaskGraph("long")
y = graph.array("y", data=np.ones(1, "int64"))
for i in range(TASKS):
    graph.kernel(SPIN, name=f"spin{i}", y=y, turns=1_000_000)
platform = discover()
run = execute(plan_on(graph, platform, "cpu"), graph, open_devices(platform))
run._resources.engine.wait_submitted(5, 60)
"""

LEAVE = """
print("leaving", run.done())
"""

INTERRUPT = """
def press_when_waiting():
    while not run._resources.engine.counts.host_waits:
        pass
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=press_when_waiting).start()
try:
    run.wait()
except KeyboardInterrupt:
    cancelled = sum(s.outcome == "cancelled" for s in run.trace().spans)
    print("held", len(run._resources.engine.buffers), "done", run.done(), "cancelled", cancelled > 0, flush=True)
    raise
"""

AT_EXIT = """
import atexit, sys

def use():
    import numpy as np
    import syclsched

    with syclsched.compile(sys.argv[1], devices="cpu") as compiled:
        print(compiled(np.zeros((1, 1, 8, 8), np.float32))["probabilities"].shape, flush=True)

atexit.register(use)
"""

UNSEEN = """
run.close()
from support.opened import REFUSED
graph = TaskGraph("unseen")
graph.kernel(REFUSED, name="bad", x=graph.array("x", data=np.arange(100)), y=graph.array("y", data=np.arange(100)), a=1)
failed = execute(plan_on(graph, platform, "cpu"), graph, open_devices(platform))
failed.join()
print("leaving", flush=True)
"""

HANG = """
from syclsched.execution.handle import resources
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


FORK = """
import signal
import syclsched
def tried(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "nothing"
run2 = run
live = open_devices(platform)
from syclsched.execution import bind
short = TaskGraph("short")
short.kernel(SPIN, name="spin", y=short.array("z", data=np.ones(1, "int64")), turns=1)
runner = bind(plan_on(short, platform, "cpu"), short, live)
held, leave = threading.Event(), threading.Event()
def hold():  # as a thread does that is in the middle of a call
    with runner._lock:
        held.set()
        leave.wait(60)
threading.Thread(target=hold, daemon=True).start()
held.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(60)
    calls = [lambda: discover(), lambda: live.queue("cpu"), lambda: run.wait(1), run.close, lambda: run.result("y"),
             lambda: execute(plan_on(short, platform, "cpu"), short, live), lambda: runner({}), runner.run,
             runner.close]
    print(*[tried(call) for call in calls], flush=True)
    live.close()
    sys.exit(5)
_, status = os.waitpid(child, 0)
leave.set()
print(os.waitstatus_to_exitcode(status), run.done(), flush=True)
run.close()
from multiprocessing import get_context
with get_context("spawn").Pool(1) as pool:
    print(pool.apply(abs, (-7,)), flush=True)
"""

#: Interrupts at random times in one process: every run ends, and the next one is right.
INTERRUPTS = """
import random
from support.running import DTYPE, MIX
from syclsched.execution import bind
run.close()
live = open_devices(platform)
graph = TaskGraph("interrupted")
x = graph.array("x", data=np.arange(64, dtype=DTYPE))
ys = [graph.array(f"y{i}", data=np.zeros(64, DTYPE)) for i in range(4)]
for i in range(400):
    graph.kernel(MIX, name=f"t{i}", x=x, y=ys[i % 4], a=i)
plan = plan_on(graph, platform, "cpu")
with execute(plan, graph, live) as first:
    expected = [first.result(y.name) for y in ys]
interrupted = 0
runner = bind(plan, graph, live)
for seed in range(int(sys.argv[2])):
    delay = random.Random(seed).uniform(0.0, 0.04)
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        try:
            with (runner.run() if seed % 2 else execute(plan, graph, live)) as run:
                run.wait()
        finally:
            timer.join()
    except KeyboardInterrupt:
        interrupted += 1
try:
    pass
finally:
    found = runner({})
    assert all((found[y.name] == value).all() for y, value in zip(ys, expected)), "wrong"
    with execute(plan, graph, live) as run:
        assert all((run.result(y.name) == value).all() for y, value in zip(ys, expected)), "wrong"
print("interrupted", interrupted > 0, flush=True)
runner.close()
live.close()
"""

#: Uses all caches that processes share.
CACHES = """
import numpy as np
sys.path.insert(0, sys.argv[1])
from support.opened import live_on
from support.running import MIX, plan_by
from syclsched.execution import bind
from syclsched.model.graph import TaskGraph

platform, live = live_on(None)
graph = TaskGraph("shared")
x, y = graph.array("x", data=np.arange(64)), graph.array("y", data=np.zeros(64, "int64"))
for i in range(4):
    graph.kernel(MIX, name=f"t{i}", x=x, y=y, a=i)
for by in ("python", "opencl-c"):
    made = plan_by(graph, platform, lambda name: ("cpu", 0, by))
    with bind(made, graph, live) as runner:
        print(int(runner({})["y"].sum()), end=" ")
print(sorted(d.name for d in platform.devices), flush=True)
"""


def run_program(program: str, *arguments: str, tasks: int = 2000) -> subprocess.CompletedProcess[str]:
    """Run a program in a process with a run in flight of so many tasks of a millisecond each."""
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", f"TASKS = {tasks}\n{START}{program}", tests, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_interpreter_exit_during_a_run() -> None:
    process = run_program(LEAVE)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == ["leaving", "False"]
    assert "Traceback" not in process.stderr


def test_a_first_use_while_the_interpreter_exits() -> None:
    model = str(Path(__file__).parents[2] / "examples" / "data" / "digits.onnx")
    process = subprocess.run(
        [sys.executable, "-c", AT_EXIT, model], capture_output=True, text=True, timeout=300, check=False
    )
    assert process.stdout == "(1, 10)\n" and not process.stderr


def test_an_unseen_failure_is_reported_at_exit() -> None:
    process = run_program(UNSEEN, tasks=10)
    assert process.stdout == "leaving\n" and process.returncode == 0, process.stderr
    assert process.stderr.count("the run failed, and nothing has waited for it: task 'bad'") == 1, process.stderr


def test_ctrl_c_while_waiting() -> None:
    process = run_program(INTERRUPT)
    assert process.stdout.split() == ["held", "0", "done", "True", "cancelled", "True"], process.stderr
    assert "KeyboardInterrupt" in process.stderr and process.returncode != 0


@pytest.fixture
def leaves_at_exit() -> None:
    """Skip a test on PoCL, whose exit handler waits for kernels, and in a forked process without end."""
    from support.grouped import is_pocl
    from support.opened import live_on

    if is_pocl(live_on(None)[1].queue("cpu").sycl_device):
        pytest.skip("PoCL waits for its threads when a process exits")


@pytest.mark.usefixtures("leaves_at_exit")
def test_an_endless_kernel_does_not_block_the_exit() -> None:
    process = run_program(HANG)
    assert process.stdout.split() == ["DeadlineError", "forever", "closed"], process.stderr
    assert process.returncode == 3
    assert "1 run(s) hang, and are left behind: lane cpu:0 is at task 'forever'" in process.stderr


@pytest.mark.usefixtures("leaves_at_exit")
def test_forked_process_is_refused_devices() -> None:
    process = run_program(FORK, tasks=4000)  # still in flight after all calls
    assert process.stdout.splitlines() == [" ".join(["ForkedError"] * 8 + ["nothing"]), "5 False", "7"], process.stderr


def test_interrupts_at_random_times() -> None:
    process = run_program(INTERRUPTS, "30")
    assert process.returncode == 0, process.stderr
    assert process.stdout == "interrupted True\n", process.stderr


def test_two_processes_that_start_with_empty_caches_share_them(tmp_path: Path) -> None:
    folders = {name: str(tmp_path / name) for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    environment = {**os.environ, **folders}
    command = [sys.executable, "-c", "import sys\n" + CACHES, str(Path(__file__).parents[1])]
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    found = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], found
    assert len({out for out, _ in found}) == 1, found
    first, second, devices = found[0][0].split(maxsplit=2)
    assert first == second and devices == f"{sorted(d.name for d in discover().devices)}\n"
