# SPDX-License-Identifier: Apache-2.0
"""Overhead of a task: a bound plan compared with handwritten loops, alternating in one process.

    python benchmarks/dispatch.py [--tasks 2000] [--runs 21] [--on one-lane two-lanes sub-devices contexts]

Kernels do nothing, with 16 work-items and 3 arrays. Chain, independent, stencil and random graphs on one in-order lane
of the CPU device, on two lanes with edges between them, on its two sub-devices, and on the CPU device and the FPGA
emulator, whose SYCL contexts share nothing. The rivals do the same: a loop in C over ``DPCTLQueue_SubmitRange`` (built
here with ``cc``), a loop in Python over ``SyclQueue.submit_async``, and ``numba_dpex.call_kernel_async``. On one lane
they use an in-order queue without event lists; on two, an out-of-order queue for each device with them (kernels of
in-order queues do not honour event lists on OpenCL devices, see ``syclsched/devices/native/fences.py``). Over two
contexts there are none: the runtime crashes where events go back and forth between contexts. Times go from the first
submission until all is done.
"""

from __future__ import annotations

import ctypes
import os
import random
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import opencl_operation, parser, plan_by_hand, seconds

from syclsched import TaskGraph, discover
from syclsched.api import with_lanes
from syclsched.devices import open_devices
from syclsched.devices.programs.python_kernels.python_compiler import numba_dpex_can_be_used
from syclsched.execution import bind
from syclsched.oneapi import stack_generation
from syclsched.oneapi.dpctl_interface import usm_arrays

ITEMS = 16
SOURCE = "__kernel void nothing(__global double *out, __global const double *a, __global const double *b) {}"
#: Number of tasks timed for slow rivals.
FEW = 200

#: Device and lane of tasks, in turn.
Places = tuple[tuple[str, int], ...]
#: Name of a place, its devices, the number of sub-devices of each, and the places of tasks.
ON: dict[str, tuple[str, str, int | None, Places]] = {
    "one-lane": ("1 lane", "cpu", None, (("cpu", 0),)),
    "two-lanes": ("2 lanes", "cpu", None, (("cpu", 0), ("cpu", 1))),
    "sub-devices": ("2 sub-devices", "cpu", 2, (("cpu.0", 0), ("cpu.1", 0))),
    "contexts": ("2 contexts", "cpu,accelerator", None, (("cpu", 0), ("accelerator", 0))),
}


def edges(shape: str, tasks: int, width: int = 16) -> list[list[int]]:
    """Return the tasks each task waits for."""
    chance = random.Random(1)
    before: list[list[int]] = []
    for task in range(tasks):
        step, place = divmod(task, width)
        if shape == "chain":
            before.append([task - 1] if task else [])
        elif shape == "independent":
            before.append([])
        elif shape == "stencil":
            near = (p for p in (place - 1, place, place + 1) if 0 <= p < width)
            before.append([(step - 1) * width + p for p in near] if step else [])
        else:
            before.append(sorted(chance.sample(range(task), min(task, 2))) if task else [])
    return before


def graph_of(before: list[list[int]]) -> Any:
    """Return a task graph: each task writes an array of its own and reads those of two tasks before it."""
    operation = opencl_operation("nothing", SOURCE, ITEMS, writes="out", reads="a b")
    graph = TaskGraph("nothing")
    first = graph.array("first", (ITEMS,), "float64")
    arrays = [graph.array(f"a{i}", (ITEMS,), "float64") for i in range(len(before))]
    for task, waits in enumerate(before):
        a, b = ([arrays[w] for w in waits[:2]] + [first, first])[:2]
        graph.kernel(operation, name=f"t{task}", out=arrays[task], a=a, b=b)
        for more in waits[2:]:
            graph.edge(f"t{more}", f"t{task}")
    return graph


def plan_of(graph: Any, platform: Any, places: Places) -> Any:
    """Return a plan that puts tasks on lanes in turn."""
    return plan_by_hand(graph, platform, lambda position, _: places[position % len(places)])


class Rivals:
    """Handwritten loops over one kernel and a piece of memory for each task."""

    def __init__(self, live: Any, before: list[list[int]], places: Places) -> None:
        import dpctl
        from dpctl.program import create_program_from_source

        from syclsched.devices.memory import usm_memory

        alone = len(places) == 1
        made = {device: live.queue(device) for device, _ in places}
        for name, queue in made.items():
            made[name] = dpctl.SyclQueue(queue.sycl_context, queue.sycl_device, property=["in_order"] if alone else [])
        self.queues = list(made.values())
        self.queue = self.queues[0]
        #: The queue of each task.
        self.of = [list(made).index(places[task % len(places)][0]) for task in range(len(before))]
        self.before = [[] for _ in before] if alone else before
        self.kernel = create_program_from_source(self.queue, SOURCE).get_sycl_kernel("nothing")
        self.memory = [usm_memory.allocate(self.queue, 8 * ITEMS, "shared") for _ in range(len(before) + 1)]
        self.arrays = [[task, *([*waits[:2], -1, -1][:2])] for task, waits in enumerate(before)]
        self._compiled_loop()
        if numba_dpex_can_be_used():
            self._numba_kernel()

    def _compiled_loop(self) -> None:
        here = Path(__file__).with_name("dispatch_loop.c")
        self._folder = tempfile.TemporaryDirectory()
        built = Path(self._folder.name) / "loop.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(here), "-o", str(built)], check=True)
        self._loop = ctypes.CDLL(str(built)).run_by_hand
        interface = ctypes.CDLL(stack_generation.installed().dpctl_interface, mode=os.RTLD_NOLOAD)
        names = ("DPCTLQueue_SubmitRange", "DPCTLEvent_Wait", "DPCTLEvent_Delete")
        functions = [ctypes.cast(getattr(interface, name), ctypes.c_void_p) for name in names]
        count = len(self.before)
        starts = np.cumsum([0, *[len(waits) for waits in self.before]]).astype(np.int64)
        listed = np.array([w for waits in self.before for w in waits] or [0], np.int64)
        self._kept = (
            (ctypes.c_void_p * len(self.queues))(*[queue.addressof_ref() for queue in self.queues]),
            np.array(self.of, np.int64),
            np.array(self.arrays, np.int64) % len(self.memory),
            (ctypes.c_void_p * len(self.memory))(*[each._pointer for each in self.memory]),
            starts,
            listed,
            (ctypes.c_void_p * count)(),
        )
        queues, lane, arrays, pointers, _, _, events = self._kept
        pointer = ctypes.c_void_p
        self._arguments = (
            *functions,
            pointer(self.kernel.addressof_ref()),
            queues,
            *(pointer(each.ctypes.data) for each in (lane, arrays)),
            pointers,
            *(pointer(each.ctypes.data) for each in (starts, listed)),
            ctypes.c_int64(count),
            ctypes.c_size_t(ITEMS),
            events,
        )

    def _numba_kernel(self) -> None:
        dpt = usm_arrays()
        import numba_dpex as dpex

        @dpex.kernel
        def nothing(item, out, a, b):  # type: ignore[no-untyped-def]
            pass

        self.numba_kernel = nothing
        self.numba_arrays = [dpt.empty(ITEMS, dtype="f8", sycl_queue=self.queue) for _ in range(3)]

    def in_c(self) -> None:
        """Submit and wait in C."""
        self._loop(*self._arguments)

    def in_python(self) -> None:
        """Submit with dpctl, and wait."""
        events: list[Any] = []
        submit, kernel, memory, size = [q.submit_async for q in self.queues], self.kernel, self.memory, [ITEMS]
        for waits, (out, a, b), of in zip(self.before, self.arrays, self.of, strict=True):
            depends = [events[w] for w in waits]
            events.append(submit[of](kernel, [memory[out], memory[a], memory[b]], size, None, depends))
        for queue in self.queues:
            queue.wait()

    def in_numba_dpex(self) -> None:
        """Submit some with numba-dpex, and wait."""
        import numba_dpex as dpex

        kept = [
            dpex.call_kernel_async(self.numba_kernel, dpex.Range(ITEMS), (), *self.numba_arrays) for _ in range(FEW)
        ]
        for _, event in kept:
            event.wait()


def compare(shape: str, name: str, places: Places, platform: Any, live: Any, tasks: int, runs: int) -> None:
    """Measure one graph, and print a line."""
    before = edges(shape, tasks)
    graph = graph_of(before)
    inputs = {"first": np.zeros(ITEMS)}
    with bind(plan_of(graph, platform, places), graph, live, trace=False) as runner:
        assert runner.replayed, runner.why_not_replayed
        actions: list[tuple[Callable[[], object], int]] = [(lambda: runner.run(inputs).wait(), tasks)]
        if len({platform.device(device).space for device, _ in places}) == 1:
            rivals = Rivals(live, before, places)
            actions += [(rivals.in_c, tasks), (rivals.in_python, tasks)]
            if len(rivals.queues) == 1 and numba_dpex_can_be_used():  # it takes no sub-devices
                actions.append((rivals.in_numba_dpex, FEW))
        for action, _ in actions:
            action()
        times = [[seconds(action) / count * 1e6 for action, count in actions] for _ in range(runs)]
    columns = list(zip(*times, strict=True))
    middle = [statistics.median(column) for column in columns]
    cells = " ".join(f"{m:7.2f} ({min(c):6.2f})" for m, c in zip(middle, columns, strict=True))
    ratios = ""
    if len(middle) > 1:
        ratios = f"  {middle[0] / middle[1]:4.2f}  {middle[0] / middle[2]:9.2f}"
    if len(middle) > 3:
        ratios += f"  1/{middle[3] / middle[0]:.1f}"
    print(f"{shape + ', ' + name:28s} {cells}{ratios}", flush=True)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, tasks=2000, runs=21)
    options.add_argument("--on", nargs="+", choices=list(ON), default=list(ON))
    given = options.parse_args()

    print("microseconds a task, median (least); ratios of medians")
    titles = "".join(f" {name:>16s}" for name in ("bound plan", "C", "Python", "numba-dpex"))
    print(f"{'graph':28s}{titles}  to C  to Python  to numba-dpex")
    for on in given.on:
        name, select, sub_devices, places = ON[on]
        platform = with_lanes(discover(select, sub_devices=sub_devices), 2)
        with open_devices(platform) as live:
            for shape in ("chain", "independent", "stencil", "random"):
                compare(shape, name, places, platform, live, given.tasks, given.runs)


if __name__ == "__main__":
    main()
