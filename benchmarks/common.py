# SPDX-License-Identifier: Apache-2.0
"""Parts that benchmark scripts share: options, alternating timing, statistics, tables, and operations in OpenCL C."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, Parameter, Work
from syclsched.model.plan import Plan
from syclsched.model.schedule import Assignment, Schedule
from syclsched.planning import build_plan

Call = Callable[[], object]


def parser(doc: str | None, **defaults: Any) -> argparse.ArgumentParser:
    """Return a parser with an option for each default: a number, text, a list of these, or False for a switch."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        option = f"--{name.replace('_', '-')}"
        if default is False:
            made.add_argument(option, action="store_true")
        elif isinstance(default, list):
            made.add_argument(option, type=type(default[0]), nargs="*", default=default)
        else:
            made.add_argument(option, type=type(default), default=default)
    return made


def one_core_queues() -> None:
    """Limit every queue of the CPU device to one core, by one worker thread; call it before the runtime is loaded."""
    os.environ.setdefault("CL_CONFIG_CPU_TBB_NUM_WORKERS", "1")


def seconds(call: Call, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the time that a call takes."""
    begun = clock()
    call()
    return clock() - begun


def repeated(call: Call, runs: int, clock: Callable[[], float] = time.process_time) -> list[float]:
    """Return the times of a call, after one that is not counted."""
    call()
    return [seconds(call, clock) for _ in range(runs)]


def alternating(
    calls: Mapping[str, Call], runs: int, warm_ups: int = 1, pause_s: float = 0.0, block: int = 1
) -> dict[str, list[float]]:
    """Return the times of several calls, made in turns and in both orders, after some that are not counted.

    In each turn a call is made ``block`` times in a row.
    """
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(-warm_ups, runs):
        for name in calls if turn % 2 == 0 else [*calls][::-1]:
            time.sleep(pause_s)
            taken_s = [seconds(calls[name]) for _ in range(block)]
            if turn >= 0:
                found[name] += taken_s
    return found


def format_quartiles(values: Sequence[float], digits: int = 3, width: int = 0) -> str:
    """Format a median with the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:{width}.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def format_range(values: Sequence[float], digits: int = 2, width: int = 8) -> str:
    """Format a median with the least and the largest value."""
    if not values:
        return "-"
    return f"{statistics.median(values):{width}.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def resident_bytes(field: str = "VmRSS") -> int:
    """Return this process's resident memory: current (``VmRSS``; without files, ``RssAnon``), or peak (``VmHWM``)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str]) -> None:
    """Print a table; the columns in ``left`` are aligned left."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False)
    console.width = max(170, console.width)
    console.print(table)


def opencl_operation(
    name: str, source: str, items: int = 1, *, writes: str = "", reads: str = "", updates: str = "", scalars: str = ""
) -> Operation:
    """Return an operation with one kernel, whose parameters are named in the kernel's order by the words of a text.

    The order is that of the arguments here: arrays written, read and updated, then scalars.
    """
    parameters = (
        *(Parameter(each, AccessMode.WRITE) for each in writes.split()),
        *(Parameter(each, AccessMode.READ) for each in reads.split()),
        *(Parameter(each, AccessMode.UPDATE) for each in updates.split()),
        *map(Parameter, scalars.split()),
    )
    kernel = Implementation(
        "opencl-c", "opencl-c", lambda _: OpenCLSource(source, name), launch=lambda *_: Launch((items,))
    )
    return Operation(name, parameters, (kernel,), lambda _: Work(flops=0.0, bytes=0.0))


def plan_by_hand(
    graph: Any, platform: Any, place: Callable[[int, str], tuple[str, int]], task_s: float | Mapping[str, float] = 1e-6
) -> Plan:
    """Return a plan with tasks in order, on the device and lane that ``place`` returns for a position and name."""
    order = graph.order()
    assigned = [
        Assignment(name, *place(k, name), graph.find_task(name).operation.implementations[0].name, float(k), k + 1.0)
        for k, name in enumerate(order)
    ]
    durations_s = task_s if isinstance(task_s, Mapping) else dict.fromkeys(order, task_s)
    return build_plan(graph, platform, Schedule("by hand", tuple(assigned)), durations_s)
