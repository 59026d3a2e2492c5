# SPDX-License-Identifier: Apache-2.0
"""Threads of BLAS libraries: limited while runs and measurements call them, and restored afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import syclsched
from syclsched import kernels
from syclsched.library_threads import LIBRARY_THREADS, LibraryThreads
from syclsched.model.platform import HOST, Platform


def threads() -> int:
    """Return the threads that NumPy's BLAS uses for its next call, or the maximum over several libraries."""
    return max(each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas")


@pytest.fixture(autouse=True)
def four() -> Iterator[None]:
    """Set four threads, independently of the machine and the test command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 4)
        with threadpoolctl.threadpool_limits(4, user_api="blas"):
            yield


def test_the_smallest_limit_holds_and_the_last_end_restores() -> None:
    limits = LibraryThreads()
    with limits.at_most(3):
        assert threads() == 3
        limits.begin(1)
        limits.begin(2)
        assert threads() == 1
        limits.end(1)
        assert threads() == 2
        limits.end(2)
        assert threads() == 3
    assert threads() == 4


def test_a_limit_does_not_raise_a_lower_user_limit() -> None:
    limits = LibraryThreads()
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        with limits.at_most(2):
            assert threads() == 1
        assert threads() == 1
    with limits.at_most(2):
        assert threads() == 2
    with limits.at_most(8):
        assert threads() == 4
    assert threads() == 4


def test_any_thread_begins_and_ends_limits() -> None:
    limits, seen = LibraryThreads(), list[int]()
    limits.begin(2)
    for step in (lambda: limits.begin(1), lambda: limits.end(2)):
        thread = threading.Thread(target=lambda call=step: (call(), seen.append(threads())))  # type: ignore[misc]
        thread.start()
        thread.join()
    assert seen == [1, 1]
    limits.end(1)
    assert threads() == 4


def test_a_forked_child_has_no_limits() -> None:
    limits = LibraryThreads()
    limits.begin(1)
    limits.forget()
    assert threads() == 4


def on_lanes(platform: Platform, lanes: int) -> Platform:
    changed = {"lanes": lanes, "compute_units": 4, "most_lanes": 0}
    devices = tuple(replace(d, **changed) if d.is_host else d for d in platform.devices)
    return replace(platform, devices=devices)


#: Threads that called host functions.
callers: set[int] = set()


def graph_of(seen: dict[str, int], count: int = 3, *, pure: bool = False) -> syclsched.TaskGraph:
    graph = syclsched.TaskGraph("threads")

    def note(*, y: Any, number: int) -> None:
        callers.add(threading.get_ident())
        seen[f"t{number}"] = threads()
        y[...] = number

    for n in range(count):
        graph.host(note, name=f"t{n}", pure=pure, y=graph.array(f"y{n}", (4,), "float64").write(), number=n)
    return graph


@pytest.mark.sycl
@pytest.mark.parametrize(("lanes", "expected"), [(1, 4), (2, 2), (3, 1), (9, 1)])
def test_host_functions_get_their_lanes_share_of_the_cores(lanes: int, expected: int) -> None:
    platform = on_lanes(syclsched.discover("cpu"), lanes)
    seen: dict[str, int] = {}
    graph = graph_of(seen)
    with syclsched.run(graph, platform, policy="heft", calibrate=False) as run:
        assert np.all(run.result("y2") == 2)
    assert set(seen.values()) == {expected}
    assert threads() == 4
    seen.clear()
    with syclsched.bind(graph, platform, policy=f"single:{HOST}", calibrate=False) as runner:
        runner()
        runner()
    assert set(seen.values()) == {expected}
    assert threads() == 4
    seen.clear()
    with syclsched.run(graph, platform, dynamic="dmdas", calibrate=False) as run:
        run.wait()
    assert set(seen.values()) == {expected}
    assert threads() == 4
    assert not LIBRARY_THREADS._limits


@pytest.mark.sycl
@pytest.mark.parametrize("dynamic", [None, "dmdas"])
def test_host_functions_have_one_thread_beside_cpu_kernels(dynamic: str | None) -> None:
    seen: dict[str, int] = {}
    graph = graph_of(seen)
    graph.kernel(kernels.get("scale"), x=graph.array("x", data=np.ones(8)), alpha=2.0)
    platform = on_lanes(syclsched.discover("cpu"), 1)
    how: dict[str, Any] = {"policy": "single:cpu"} if dynamic is None else {"dynamic": dynamic}
    with syclsched.run(graph, platform, calibrate=False, **how) as run:
        assert np.all(run.result("x") == 2.0)
    assert set(seen.values()) == {1}
    assert threads() == 4


@pytest.mark.sycl
def test_host_functions_are_timed_with_their_threads(tmp_path: Path) -> None:
    seen: dict[str, int] = {}
    callers.clear()
    platform = on_lanes(syclsched.discover("cpu"), 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 4)
        patch.setenv("XDG_DATA_HOME", str(tmp_path))  # where no time was known before
        syclsched.calibrate(graph_of(seen, 1, pure=True), platform)
    assert set(seen.values()) == {2}
    assert len(callers) == 2
    one, two = (on_lanes(platform, n).host for n in (1, 2))
    assert one.timing_key == one.key
    assert two.timing_key == f"{two.key}, 2 threads"


LATE = """
import os
os.cpu_count = lambda: 4
import numpy, threadpoolctl
from syclsched.library_threads import LIBRARY_THREADS
def threads():
    return [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
LIBRARY_THREADS.begin(1)
before = threads()
import scipy.linalg
late = threads()
LIBRARY_THREADS.look_again()
assert len(late) >= len(before) and set(threads()) == {1}, (before, late, threads())
LIBRARY_THREADS.end(1)
assert all(now >= then for now, then in zip(threads(), late))
"""


def test_a_limit_holds_for_libraries_that_are_loaded_later() -> None:
    """SciPy has a BLAS library of its own, which is loaded with the first implementation that calls it."""
    subprocess.run([sys.executable, "-c", LATE], check=True)


COMPILED = """
import contextlib, os
os.cpu_count = lambda: 4
import numpy as np, threadpoolctl
import syclsched
from syclsched.devices.programs.task_compiler import compile_task
from syclsched.kernels import get
from syclsched.library_threads import LIBRARY_THREADS
graph = syclsched.TaskGraph("late")
task = graph.kernel(get("syrk"), c=graph.array("c", data=np.eye(8)), a=graph.array("a", data=np.eye(8)))
import scipy
with contextlib.suppress(ImportError):
    import scipy._cyutility  # so that the implementation imports no module that is seen
before = len(threadpoolctl.threadpool_info())
LIBRARY_THREADS.begin(1)
compile_task(task.operation, task.operation.implementation("scipy"), task.signature, None, None)
assert len(threadpoolctl.threadpool_info()) > before
found = {each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"}
assert found == {1}, found
"""


def test_library_loaded_by_implementation_has_lane_threads() -> None:
    subprocess.run([sys.executable, "-c", COMPILED], check=True)
