# SPDX-License-Identifier: Apache-2.0
"""Rivals of benchmarks/metg.py: each makes of a graph a function from a task's turns to the seconds of a run."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

# Read by Parla at its import: a device is one core, like a lane.
os.environ.setdefault("PARLA_CPU_ARCHITECTURE", "cores")
os.environ.setdefault("PARLA_CORES", "2")


class DependencyGrid(Protocol):
    """A graph of ``width`` columns and ``steps`` rows; of each task the places of the row before that it waits for."""

    width: int
    steps: int
    waits: list[list[list[int]]]


def compiled_task() -> Callable[..., float]:
    """Return the task as a function that releases the GIL."""
    import numba

    @numba.njit(nogil=True)
    def compute(x: float, turns: int) -> float:
        for _ in range(turns):
            x = x * 0.999999 + 1e-6
        return x

    compute(0.0, 1)
    return compute  # type: ignore[no-any-return]


def by_threads(case: DependencyGrid) -> Callable[[int], float]:
    """Return the thread pool of Python's library."""
    compute = compiled_task()

    def task(turns: int, waits: Sequence[Future[float]]) -> float:
        for each in waits:
            each.result()
        return compute(0.0, turns)

    def seconds(turns: int) -> float:
        with ThreadPoolExecutor(2) as pool:
            begun = time.perf_counter()
            last: list[Future[float]] = []
            for row in case.waits:
                last = [pool.submit(task, turns, [last[w] for w in waits]) for waits in row]
            for each in last:
                each.result()
            return time.perf_counter() - begun

    return seconds


def by_dask(case: DependencyGrid) -> Callable[[int], float]:
    """Return Dask's threaded scheduler."""
    from dask.threaded import get  # type: ignore[import-not-found]

    compute = compiled_task()

    def seconds(turns: int) -> float:
        def task(*_: float) -> float:
            return compute(0.0, turns)

        graph = {
            (step, place): (task, *[(step - 1, w) for w in waits])
            for step, row in enumerate(case.waits)
            for place, waits in enumerate(row)
        }
        begun = time.perf_counter()
        get(graph, [(case.steps - 1, place) for place in range(case.width)], num_workers=2)
        return time.perf_counter() - begun

    return seconds


def by_distributed(case: DependencyGrid, stack: ExitStack) -> Callable[[int], float]:
    """Return Dask's distributed scheduler with two worker processes of one thread, which the exit stack ends."""
    from distributed import Client, LocalCluster  # type: ignore[import-not-found]

    cluster = stack.enter_context(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))
    client = stack.enter_context(Client(cluster))
    calls = 0

    def seconds(turns: int) -> float:
        nonlocal calls
        calls += 1  # results are kept by key: each call has keys of its own
        graph = {
            (calls, step, place): (_worker_task, turns, *[(calls, step - 1, w) for w in waits])
            for step, row in enumerate(case.waits)
            for place, waits in enumerate(row)
        }
        begun = time.perf_counter()
        client.get(graph, [(calls, case.steps - 1, place) for place in range(case.width)])
        return time.perf_counter() - begun

    seconds(1)  # the workers compile the task
    return seconds


def _worker_task(turns: int, *_: float) -> float:
    """Execute a task in a worker process, which compiles it once."""
    global _compute
    if _compute is None:
        _compute = compiled_task()
    return _compute(0.0, turns)


_compute: Callable[..., float] | None = None


def by_parla(case: DependencyGrid) -> Callable[[int], float]:
    """Return Parla, with a device for each core."""
    from parla import Parla, TaskSpace, spawn  # type: ignore[import-not-found]
    from parla.cpu import cpu  # type: ignore[import-not-found]

    compute = compiled_task()

    def seconds(turns: int) -> float:
        took: list[float] = []  # Parla gives tasks copies of variables, so that none can be assigned
        with Parla():

            @spawn(placement=cpu)  # type: ignore[untyped-decorator]
            async def whole() -> None:
                tasks = TaskSpace("tasks")
                begun = time.perf_counter()
                for step, row in enumerate(case.waits):
                    for place, waits in enumerate(row):

                        @spawn(tasks[step, place], [tasks[step - 1, w] for w in waits], placement=cpu)  # type: ignore[untyped-decorator]
                        def task() -> None:
                            compute(0.0, turns)

                await tasks
                took.append(time.perf_counter() - begun)

        return took[0]

    return seconds


class StarPU:
    """The same graph in C on StarPU, as packaged by Debian; ``close`` removes the built files.

    Raises
    ------
    OSError
        If it is not installed.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._program = Path(self._folder.name) / "metg_starpu"
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "starpu-1.3"], capture_output=True, text=True)
        if flags.returncode:
            raise OSError("StarPU is not installed")
        here = Path(__file__).with_name("metg_starpu.c")
        subprocess.run(["cc", "-O2", str(here), "-o", str(self._program), *flags.stdout.split()], check=True)

    def seconds(self, case: DependencyGrid, policy: str, turns: Sequence[int], repeat: int) -> dict[int, float]:
        """Return the median seconds of a run for tasks of a number of turns."""
        waits = "\n".join(" ".join(map(str, (len(w), *w))) for row in case.waits for w in row)
        given = [str(each) for each in (case.width, case.steps, repeat, *turns)]
        own = {"STARPU_SCHED": policy, "STARPU_NCPU": "2", "STARPU_SILENT": "1", "STARPU_HOME": self._folder.name}
        done = subprocess.run(
            [str(self._program), *given], input=waits, capture_output=True, text=True, check=True, env=os.environ | own
        )
        return {int(line.split()[0]): float(line.split()[1]) for line in done.stdout.splitlines()}

    def close(self) -> None:
        """Remove the built files."""
        self._folder.cleanup()
