# SPDX-License-Identifier: Apache-2.0
"""Mistakes that the validator finds, each in an otherwise correct timetable."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.definitions import with_tables
from support.strategies import touching

from syclsched.costs import CostModel
from syclsched.errors import PlanError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import HOST, Contention, Device, Link, MemorySpace, Platform
from syclsched.scheduling import (
    Copies,
    Problem,
    Timetable,
    build_problem,
    makespan_s,
    problem_from_arrays,
    problem_from_matrices,
    validate,
    violations,
)

INF = math.inf

#: t0 (2 s) -> t1 (4 s), whose data takes 5 s; t2 (1 s) runs on p0 only.
PROBLEM = problem_from_matrices([[2.0, 3.0], [4.0, 4.0], [1.0, INF]], {(0, 1): 5.0})
#: t0 and t2 on p0, t1 on p1.
RIGHT = Timetable(np.array([0, 1, 0]), np.array([0.0, 7.0, 2.0]), np.array([2.0, 11.0, 3.0]))


def changed(task: int, **changes: float) -> Timetable:
    columns: dict[str, Any] = {}
    for name, value in changes.items():
        columns[name] = getattr(RIGHT, name).copy()
        columns[name][task] = value
    return replace(RIGHT, **columns)


def test_a_right_timetable_passes() -> None:
    assert violations(PROBLEM, RIGHT) == ()
    validate(PROBLEM, RIGHT)
    assert makespan_s(PROBLEM, RIGHT) == 11.0


@pytest.mark.parametrize(
    ("timetable", "text"),
    [
        (changed(1, start_s=6.0, finish_s=10.0), r"task 't1' starts on 'p1' before array 't0->t1' is there$"),
        (changed(1, processor=0, start_s=1.0, finish_s=5.0), "task 't1' starts before 't0' has finished"),
        (changed(2, start_s=1.0, finish_s=2.0), "tasks 't0' and 't2' overlap on lane 0 of 'p0'"),
        (changed(2, processor=1, start_s=0.0, finish_s=1.0), "task 't2' cannot run on 'p1'$"),
        (changed(2, finish_s=2.5), "task 't2' is given 0.5 s on 'p0', it takes 1 s$"),
        (changed(2, start_s=math.nan), "task 't2' runs from nan"),
        (changed(2, finish_s=1.5), "task 't2' runs from 2.0 to 1.5$"),
        (changed(2, start_s=-1.0, finish_s=0.0), "task 't2' runs from -1.0 to 0.0$"),
        (changed(2, finish_s=INF), "task 't2' runs from 2.0 to inf$"),
        (changed(2, processor=9), "task 't2' is on processor 9, which does not exist$"),
        (changed(2, processor=-1), "task 't2' is on processor -1, which does not exist$"),
        (replace(RIGHT, processor=RIGHT.processor[:2]), r"there are processors of shape \(2,\) for 3 tasks$"),
        (replace(RIGHT, finish_s=RIGHT.finish_s[:, None]), r"there are finishes of shape \(3, 1\) for 3 tasks$"),
        (replace(RIGHT, processor=RIGHT.start_s), "processors are float64, not indices$"),
    ],
)
def test_each_mistake_is_found(timetable: Timetable, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        validate(PROBLEM, timetable)


def test_a_release_is_waited_for() -> None:
    problem = problem_from_arrays([[1.0]], [], [], [], release_s=[2.0])
    assert violations(problem, Timetable(np.array([0]), np.array([2.0]), np.array([3.0]))) == ()
    early = Timetable(np.array([0]), np.array([1.0]), np.array([2.0]))
    assert violations(problem, early) == ("task 't0' starts at 1 s, it is released at 2 s",)


def test_an_instant_inside_a_task_overlaps_it_but_may_touch_it() -> None:
    problem = problem_from_matrices([[2.0], [0.0]], {})
    together = np.array([0, 0])
    inside = Timetable(together, np.array([0.0, 1.0]), np.array([2.0, 1.0]))
    after = Timetable(together, np.array([0.0, 2.0]), np.array([2.0, 2.0]))
    at_the_start = Timetable(together, np.array([0.0, 0.0]), np.array([2.0, 0.0]))
    assert len(violations(problem, inside)) == 1
    assert violations(problem, after) == ()
    assert violations(problem, at_the_start) == ()


def test_lanes_may_run_at_once_and_a_long_task_covers_many() -> None:
    together = np.array([0, 1])
    both = Timetable(together, np.zeros(2), np.ones(2))
    assert violations(problem_from_arrays([[1.0]] * 2, [], [], [], lanes=[2]), both) == ()
    problem = problem_from_matrices([[9.0], [1.0], [1.0]], {})
    covered = Timetable(np.zeros(3, dtype=np.int64), np.array([0.0, 9.0, 5.0]), np.array([9.0, 10.0, 6.0]))
    assert violations(problem, covered) == ("tasks 't0' and 't2' overlap on lane 0 of 'p0'",)


def test_a_message_stays_short() -> None:
    problem = problem_from_matrices([[1.0]] * 9, {})
    with pytest.raises(PlanError, match=r"timetable by 'x'.*\(and 6 more\)"):
        validate(problem, Timetable(np.full(9, 7), np.zeros(9), np.ones(9)), policy="x")


def test_no_tasks_are_done_at_once() -> None:
    nothing = Timetable(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))
    assert violations(problem_from_matrices([], {}), nothing) == ()
    assert makespan_s(problem_from_matrices([], {}), nothing) == 0.0


# --- memory spaces --------------------------------------------------------------------------------

#: A CPU and a GPU with memories of their own, and a host that reaches the CPU's. A byte takes 1 s between host and CPU
#: and 2 s between host and GPU, so 3 s between CPU and GPU, through the host.
GPU, CPU, HOST_DEVICE = 0, 1, 2


def spaces(*, contention: Contention = "none", **wishes: dict[str, str]) -> Problem:
    """Return a problem: t0 makes x (4 bytes), t1 updates it, t2 and t3 read it; only copies take time."""
    devices = (
        Device("gpu", "g", "gpu", "opencl", "", "gpu", ("gpu",)),
        Device("cpu", "c", "cpu", "opencl", "", "cpu", ("cpu",)),
        Device(HOST, HOST, HOST, HOST, "", HOST, (HOST, "cpu")),
    )
    links = [Link(a, b, 0.0, 1 / s) for x, s in (("cpu", 1.0), ("gpu", 2.0)) for a, b in ((HOST, x), (x, HOST))]
    memories = (MemorySpace("gpu", 0), MemorySpace("cpu", 0, True), MemorySpace(HOST, 0, True))
    platform = Platform("p", devices, memories, tuple(links), contention=contention)
    graph = TaskGraph()
    x = graph.array("x", (1,), "float32")
    for name, mode in (("t0", "write"), ("t1", "update"), ("t2", "read"), ("t3", "read")):
        graph.kernel(touching((AccessMode(mode),)), name=name, p0=x)
    problem = build_problem(graph, platform, CostModel(platform), **wishes)  # type: ignore[arg-type]
    free = np.zeros((len(problem), len(problem.devices)))
    return problem.with_task_seconds(free)


def instants(processors: list[int], times: list[float], copies: Copies | None = None) -> Timetable:
    return Timetable(np.array(processors), np.array(times), np.array(times), copies)


@pytest.mark.parametrize(
    ("processors", "times"),
    [
        # Made on the CPU; the host updates it there, where it reaches it; the GPU gets it 12 s later, the CPU at once.
        ([CPU, HOST_DEVICE, GPU, CPU], [0.0, 0.0, 12.0, 0.0]),
        # Made on the GPU; the host reads it first in its own memory, so the new value is there.
        ([GPU, HOST_DEVICE, HOST_DEVICE, CPU], [0.0, 8.0, 8.0, 12.0]),
        # Made on the host, updated on the GPU, back on host and CPU.
        ([HOST_DEVICE, GPU, HOST_DEVICE, CPU], [0.0, 8.0, 16.0, 20.0]),
    ],
)
def test_items_are_followed_through_spaces_to_the_second(processors: list[int], times: list[float]) -> None:
    problem = spaces()
    assert violations(problem, instants(processors, times)) == ()
    for task in range(1, 4):
        early = [t - (1e-3 if i == task else 0.0) for i, t in enumerate(times)]
        if early[task] >= 0.0 and times[task] > max(times[:task] if task < 2 else times[:2]):
            what = f"task 't{task}' starts on '{problem.devices[processors[task]]}' before array 'x' is there"
            assert violations(problem, instants(processors, early)) == (what,)


def test_reads_without_a_route_are_violations() -> None:
    cut = problem_from_arrays([[1.0, 1.0]] * 2, [0], [1], [1.0], latency_s=[[0.0, INF], [INF, 0.0]])
    found = violations(cut, Timetable(np.array([0, 1]), np.array([0.0, 50.0]), np.array([1.0, 51.0])))
    assert found == ("task 't1' needs output of task 't0' on 'p1', where it never is: there is no way",)


def test_empty_items_need_no_route() -> None:
    cut = problem_from_arrays([[1.0, 1.0]] * 2, [0], [1], [0.0], latency_s=[[0.0, INF], [INF, 0.0]])
    assert violations(cut, Timetable(np.array([0, 1]), np.array([0.0, 1.0]), np.array([1.0, 2.0]))) == ()


def test_copies_of_wanted_results_count_in_the_makespan() -> None:
    timetable = instants([CPU, CPU, CPU, CPU], [0.0, 1.0, 1.0, 2.0])
    assert makespan_s(spaces(), timetable) == 2.0
    assert makespan_s(spaces(wanted={"x": "cpu"}), timetable) == 2.0
    assert makespan_s(spaces(wanted={"x": "gpu"}), timetable) == 13.0
    missing = spaces(wanted={"x": "gpu"})
    latency_s = missing.tables.latency_s.copy()
    latency_s[missing.spaces.index("cpu"), missing.spaces.index("gpu")] = INF
    missing = with_tables(missing, latency_s=latency_s)
    assert violations(missing, timetable) == ("array 'x' is wanted in 'gpu', where it never is",)
    assert makespan_s(missing, timetable) == INF


# --- copies on channels ---------------------------------------------------------------------------


def copies(*rows: tuple[int, int, int, float, float]) -> Copies:
    columns = list(zip(*rows, strict=True)) or [()] * 5
    indices = [np.array(c, dtype=np.int64) for c in columns[:3]]
    return Copies(*indices, *[np.array(c, dtype=np.float64) for c in columns[3:]])


#: t0 on p0 sends to t1 on p1 (5 s) and t2 on p2 (3 s); one at a time.
FORK = problem_from_matrices([[1.0] * 3] * 3, {(0, 1): 5.0, (0, 2): 3.0}, contention="one-port")
SENT = copies((0, 0, 1, 1.0, 6.0), (1, 0, 2, 6.0, 9.0))
FORKED = Timetable(np.array([0, 1, 2]), np.array([0.0, 6.0, 9.0]), np.array([1.0, 7.0, 10.0]), SENT)


def test_copies_one_after_another_pass() -> None:
    assert violations(FORK, FORKED) == ()
    assert makespan_s(FORK, FORKED) == 10.0


def test_another_port_may_be_used_meanwhile() -> None:
    # p0 sends to p1 while p2 sends to p0.
    problem = problem_from_matrices([[1.0] * 3] * 4, {(0, 1): 5.0, (2, 3): 5.0}, contention="one-port")
    sent = copies((0, 0, 1, 1.0, 6.0), (1, 2, 0, 1.0, 6.0))
    starts = np.array([0.0, 6.0, 0.0, 6.0])
    assert violations(problem, Timetable(np.array([0, 1, 2, 0]), starts, starts + 1.0, sent)) == ()


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (None, "copies are not listed, though they can get in each other's way"),
        (copies(SENT_0 := (0, 0, 1, 1.0, 6.0)), "task 't2' needs array 't0->t2' on 'p2', where it never is: no copy"),
        (copies(SENT_0, (1, 0, 2, 5.0, 8.0)), r"copy of array 't0->t1' from 'p0' to 'p1' and .* overlap on a channel"),
        (copies((0, 0, 1, 0.5, 5.5), (1, 0, 2, 6.0, 9.0)), "starts at 0.5 s, before it is made at 1 s"),
        (copies(SENT_0, (1, 0, 2, 6.0, 8.0)), "copy of array 't0->t2' from 'p0' to 'p2' is given 2 s, it takes 3 s"),
        (copies(SENT_0, (1, 0, 2, 6.5, 9.5)), "task 't2' starts on 'p2' before array 't0->t2' is there"),
        (copies(SENT_0, (1, 0, 2, 6.0, 9.0), (0, 0, 1, 9.0, 14.0)), "from 'p0' to 'p1' is listed twice"),
        (copies(SENT_0, (1, 1, 2, 6.0, 9.0)), "from 'p1' to 'p2': it was made in 'p0'"),
        (copies(SENT_0, (1, 0, 2, 6.0, 9.0), (0, 0, 0, 9.0, 9.0)), "from 'p0' to 'p0': it is there already"),
        (copies(SENT_0, (7, 0, 2, 6.0, 9.0)), "copy 1, of item 7 from space 0 to 2: no such item or space"),
        (copies(SENT_0, (1, 0, 3, 6.0, 9.0)), "copy 1, of item 1 from space 0 to 3: no such item or space"),
        (copies(SENT_0, (1, 0, 2, 6.0, math.nan)), "copy 1 runs from 6.0 to nan"),
        (copies(SENT_0, (1, 0, 2, -3.0, 0.0)), "copy 1 runs from -3.0 to 0.0"),
        (SENT._replace(item=np.array([0])), "columns of copies have shapes"),
    ],
)
def test_each_mistake_of_the_copies_is_found(sent: Copies | None, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        validate(FORK, replace(FORKED, copies=sent))


def test_listed_copies_without_contention_are_violations() -> None:
    free = problem_from_matrices([[1.0] * 3] * 3, {(0, 1): 5.0, (0, 2): 3.0})
    assert violations(free, FORKED) == (
        "copies are listed, though nothing is in their way and they start as soon as they can",
    )
    assert violations(free, replace(FORKED, copies=copies())) == ()
    assert violations(free, replace(FORKED, copies=None)) == ()


def test_copies_serve_later_readers_and_updates_stay() -> None:
    problem = spaces(contention="one-port")
    gpu, cpu, host = (problem.spaces.index(s) for s in ("gpu", "cpu", HOST))
    item = problem.tables.make_item.tolist()
    # Made on the GPU, copied to the CPU's memory, updated there by the host (which reaches it), read by the CPU there
    # and on the GPU after a copy back.
    there, back = (item[0], gpu, cpu, 0.0, 12.0), (item[1], cpu, gpu, 12.0, 24.0)
    sound = instants([GPU, HOST_DEVICE, CPU, GPU], [0.0, 12.0, 12.0, 24.0], copies(there, back))
    assert violations(problem, sound) == ()
    assert violations(problem, replace(sound, copies=copies(there))) == (
        "task 't3' needs array 'x' on 'gpu', where it never is: no copy of it is listed",
    )
    # Copied to the host's own memory instead, the new value is there, and the CPU does not have it.
    other = copies((item[0], gpu, host, 0.0, 8.0), (item[1], host, gpu, 12.0, 20.0))
    assert violations(problem, replace(sound, copies=other)) == (
        "task 't2' needs array 'x' on 'cpu', where it never is: no copy of it is listed",
    )


def test_wanted_results_need_their_copies() -> None:
    problem = spaces(contention="one-port", wanted={"x": "gpu"})
    item = int(problem.tables.want_item[0])
    gpu, cpu = problem.spaces.index("gpu"), problem.spaces.index("cpu")
    without = instants([CPU] * 4, [0.0] * 4, copies())
    assert violations(problem, without) == ("array 'x' is wanted in 'gpu', where it never is",)
    with_it = replace(without, copies=copies((item, cpu, gpu, 1.0, 13.0)))
    assert violations(problem, with_it) == ()
    assert makespan_s(problem, with_it) == 13.0
