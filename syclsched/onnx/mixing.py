# SPDX-License-Identifier: Apache-2.0
"""Whether kernels do some of what a library can do on a CPU, where to change over from one to the other costs time.

There the library's work is done by threads of the SYCL runtime's, kernels by those of the OpenCL runtime. Who changes
over waits until one side has ended, and wakes the other.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.costs import CostModel
from syclsched.costs.history import HistoryKey, history_key
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation
from syclsched.model.platform import Device, Platform
from syclsched.model.task import Task
from syclsched.onnx.report import OperatorTime
from syclsched.onnx.specialised import Specialised
from syclsched.profiling.busy import BUSY_SHARE, CpuTimes, others_share, read_times

if TYPE_CHECKING:
    from syclsched.profiling.calibration import RecordingHistory

#: The implementation that is a library's.
LIBRARY: Final = "onednn"
#: What it costs to change over once, beside times of kernels on the device (docs/benchmarks.md, "Kernels between
#: oneDNN's tasks").
SWITCH_S: Final = 50e-6
#: A plan with kernels must take less than this part of the time it takes without: two equal ones differ by 1 %.
CLEARLY: Final = 0.98
#: Of each of two plans in turns: runs at least and at most, and seconds after which it is enough.
_LEAST_RUNS, _MOST_RUNS, _ENOUGH_S = 7, 25, 1.5
#: Runs of which each task's least time counts.
TRACED_RUNS: Final = 7
#: How often it is looked again what would be worth it, once more is known.
ROUNDS: Final = 3

_IN_A_RUN: Final = ", in a run"
Run = Callable[[], object]


def is_worth_mixing(platform: Platform, *, minimize: str, rewrite: str, is_limited: bool) -> bool:
    """Return whether kernels are considered at all: where one lane of one CPU does everything, in the least time.

    Parameters
    ----------
    platform : Platform
        Where.
    minimize, rewrite : str
        As for `syclsched.plan`. What is rewritten has other tasks.
    is_limited : bool
        Whether memory is; it has no room for two plans then.
    """
    devices = platform.compute_devices
    is_one = len(devices) == 1 and devices[0].kind == "cpu" and devices[0].lanes == 1
    return is_one and minimize in ("makespan", "latency") and rewrite == "none" and not is_limited


def usual_rewrite(platform: Platform, policy: str) -> str:
    """Return how sizes of a model's tasks are changed if nothing is said: only several lanes gain by it."""
    lanes = sum(device.lanes for device in platform.compute_devices)
    return "auto" if lanes > 1 and policy == "auto" else "none"


def kernels_worth(
    order: Iterable[str],
    library_s: Mapping[str, float],
    kernel_s: Mapping[str, float],
    switch_s: float = SWITCH_S,
) -> frozenset[str]:
    """Return which tasks kernels should do, so that all of them and all changes take the least time together.

    A shortest path through two states (the Viterbi algorithm), in time proportional to the number of tasks.

    Parameters
    ----------
    order : iterable of str
        Tasks of a lane as they follow each other.
    library_s, kernel_s : Mapping[str, float]
        Seconds they take, by those that can be done so. What is in neither is left out.
    switch_s : float, optional
        Seconds of a change from one to the other.

    Returns
    -------
    frozenset of str
        Of two ways that take the same, the library's.
    """
    reached = (0.0, 0.0)
    steps: list[tuple[str, tuple[int, int]]] = []
    for task in order:
        own = library_s.get(task, math.inf), kernel_s.get(task, math.inf)
        if min(own) == math.inf:
            continue
        to_library, to_kernels = reached[1] + switch_s, reached[0] + switch_s
        steps.append((task, (int(to_library < reached[0]), int(to_kernels >= reached[1]))))
        reached = min(reached[0], to_library) + own[0], min(reached[1], to_kernels) + own[1]
    side = 0 if reached[0] <= reached[1] else 1
    found: set[str] = set()
    for task, came_from in reversed(steps):
        if side == 1:
            found.add(task)
        side = came_from[side]
    return frozenset(found)


def seconds_of(
    graph: TaskGraph, device: Device, costs: CostModel, history: RecordingHistory, *, by_library: bool
) -> dict[str, float]:
    """Return what tasks take the library, or the best kernel for each: in a run, if that is known.

    Parameters
    ----------
    graph : TaskGraph
        With all implementations.
    device : Device
        Where.
    costs : CostModel
        Says what kernels take of which no run is known, measured alone or guessed.
    history : RecordingHistory
        Knows the runs.
    by_library : bool
        Which. What takes the library is only what runs have told.
    """
    found = {}
    for task in graph.tasks:
        seconds = []
        for each in task.operation.implementations if task.operation is not None else ():
            if each.kind == "host" or (each.name == LIBRARY) != by_library:
                continue
            if costs.supports(task, each, device) is None:
                known = history.lookup(_key(task, each, device))
                if known is not None:
                    seconds.append(known.value)
                elif not by_library:
                    seconds.append(costs.task_seconds(task, each, device).seconds)
        if seconds:
            found[task.name] = min(seconds)
    return found


def is_known(graph: TaskGraph, tasks: Iterable[str], device: Device, history: RecordingHistory) -> bool:
    """Return whether of each of some tasks one implementation's time in a run is known."""
    return all(
        any(history.lookup(_key(task, each, device)) is not None for each in task.operation.implementations)
        for task in map(graph.task, tasks)
        if task.operation is not None
    )


def learn(
    graph: TaskGraph,
    tasks: Collection[str],
    device: Device,
    history: RecordingHistory,
    traced: Callable[[], Sequence[OperatorTime]],
) -> bool:
    """Remember what tasks take in a run. Alone they take less or more: weights are in caches, or a thread is asleep.

    Parameters
    ----------
    graph : TaskGraph
        What is run.
    tasks : collection of str
        Which of its tasks.
    device : Device
        Where.
    history : RecordingHistory
        Remembers it.
    traced : callable
        Runs the graph some times, and returns what its tasks took each time. The least counts: where two threads share
        a core for a while, a task takes twice as long.

    Returns
    -------
    bool
        False, and nothing is remembered, if others use the machine, by which kernels and the library lose unequally
        much.
    """
    before = read_times()
    times = traced()
    if _is_disturbed(before):
        return False
    least: dict[HistoryKey, float] = {}
    for each in times:
        operation = graph.task(each.task).operation if each.task in tasks else None
        for by in operation.implementations if operation is not None else ():
            if by.name == each.implementation:
                key = _key(graph.task(each.task), by, device)
                least[key] = min(each.seconds, least.get(key, each.seconds))
    for key, seconds in least.items():
        history.record(key, [seconds])
    return True


def in_turns(runs: Sequence[Run]) -> list[list[float]]:
    """Return the seconds that runs of several plans take, in turns, once each has run once."""
    for run in runs:
        run()
    found: list[list[float]] = [[] for _ in runs]
    begun = time.perf_counter()
    while len(found[-1]) < _MOST_RUNS:
        if len(found[-1]) >= _LEAST_RUNS and time.perf_counter() - begun > _ENOUGH_S:
            break
        for run, seconds in zip(runs, found, strict=True):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
    return found


def contest(graph: TaskGraph) -> str:
    """Return what tells a graph with kernels for some tasks from others with other kernels, or with older ones.

    Parameters
    ----------
    graph : TaskGraph
        Each of its tasks with the implementations that may do it.
    """
    offered = [
        (task.name, [(each.name, each.revision) for each in task.operation.implementations])
        for task in graph.tasks
        if task.operation is not None
    ]
    return hashlib.sha256(repr((graph.fingerprint(), offered)).encode()).hexdigest()[:32]


def is_known_faster(device: Device, history: RecordingHistory, mixed: str) -> bool | None:
    """Return whether a plan with kernels was clearly faster than the one without; None if that is not known.

    Parameters
    ----------
    device : Device
        Where.
    history : RecordingHistory
        Remembers it.
    mixed : str
        `contest` of the graph with kernels.
    """
    without, with_kernels = (history.lookup(key) for key in _keys_of_both(device, mixed))
    return None if without is None or with_kernels is None else with_kernels.value < CLEARLY * without.value


def is_found_faster(
    device: Device, history: RecordingHistory, mixed: str, measure: Callable[[], Sequence[Sequence[float]]]
) -> bool:
    """Measure and remember what `is_known_faster` tells; False, and forgotten, if others use the machine meanwhile.

    Parameters
    ----------
    device, history, mixed
        As there.
    measure : callable
        Returns the seconds of runs without and with kernels.
    """
    before = read_times()
    found = measure()
    if _is_disturbed(before):
        return False
    for key, seconds in zip(_keys_of_both(device, mixed), found, strict=True):
        history.record(key, sorted(seconds)[: len(seconds) // 2 + 1])  # the others were disturbed, if any was
    return is_known_faster(device, history, mixed) is True


def sample(specialised: Specialised, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs that a model can be timed with: zeros, where no values are given."""
    arrays = specialised.graph.arrays
    zeros = {name: np.zeros(arrays[made].shape, arrays[made].dtype) for name, made in specialised.inputs.items()}
    return {**zeros, **values}


def _is_disturbed(before: CpuTimes | None) -> bool:
    share = others_share(before, read_times())
    return share is not None and share > BUSY_SHARE


def _keys_of_both(device: Device, mixed: str) -> list[HistoryKey]:
    return [HistoryKey(device.key, "model", by, mixed, "") for by in ("library", "library and kernels")]


def _key(task: Task, by: Implementation, device: Device) -> HistoryKey:
    """Return the key of a task in a run."""
    assert task.operation is not None
    assert task.signature is not None
    return replace(history_key(device.key, task.operation, by, task.signature), implementation=by.name + _IN_A_RUN)
