# SPDX-License-Identifier: Apache-2.0
"""Choice of CPU tasks that run as kernels instead of library calls, given the cost of each switch between them.

On a CPU the library computes on threads of the SYCL runtime, and kernels on threads of the OpenCL runtime. A switch
waits for one side to complete and wakes the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.costs import CostModel
from syclsched.costs.history import HistoryKey, history_key, in_run_key
from syclsched.kernels.nn.convolution import winograd_opencl
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation
from syclsched.model.platform import Device, Platform
from syclsched.model.profile import Quantity
from syclsched.model.task import Task
from syclsched.onnx.report import OperatorTime
from syclsched.onnx.specialised import Specialised
from syclsched.onnx.tuning.plan_comparison import CLEARLY, is_disturbed
from syclsched.profiling.busy import read_times

if TYPE_CHECKING:
    from syclsched.planner import PlanRequest
    from syclsched.profiling.calibration import RecordingHistory

#: Name of the library implementation.
LIBRARY: Final = "onednn"
#: Cost of one switch, beside kernel times on the device (docs/benchmarks.md, "Kernels between oneDNN's tasks").
SWITCH_S: Final = 50e-6
#: Time of a library call within a run beyond its work: threads of the SYCL runtime take it over. From the least
#: operations of a network, whose kernels take 1 to 17 µs and library calls 13 to 15 µs more.
CALL_S: Final = 13e-6
#: Operations for each byte read or written below which memory bounds a task on a CPU.
LEAST_FLOPS_A_BYTE: Final = 4.0
#: Share of the time by which mixed plans must be predicted to be faster than plans of kernels alone.
WORTH_MIXING: Final = 0.03
#: The same of a model whose tasks take no longer by the library: each change between its threads and those of kernels
#: wakes some, which takes a larger share of a brief run. A classifier of 76 tasks that was predicted to be 0.15 faster
#: with 10 of them by the library took 1.2 times as long as with none.
BRIEF_WORTH_MIXING: Final = 0.2
BRIEF_S: Final = 5e-3
#: Predicted share of the time that kernels must save to be tried: half of the share they must save when measured.
WORTH_TRYING: Final = (1.0 - CLEARLY) / 2.0
#: A model whose tasks take no longer by the library is also tried with kernels alone: the calling thread may execute a
#: few small kernels (``_submit_trials.c``), a call of the library takes longer than their work, and no change between
#: the two kinds is left.
SHORT_S: Final = 2e-3
#: A model whose tasks take longer is not short: to try kernels takes longer than they save in hundreds of calls.
MIDDLE_S: Final = 10e-3
#: A model whose tasks take longer is not run to compare plans: the sum of its tasks' times decides.
LONG_S: Final = 0.25
#: Share of the time saved, by the sum of the tasks' times, from which on that decides for models that are not short.
#: Where it was 0.10 to 0.22, 0.09 to 0.24 was measured (docs/benchmarks.md, "Kernels between oneDNN's tasks").
#: Predictions for one model differ by 0.05 from one `profile` to the next, and runs to decide take more than they save.
CLEAR_SHARE: Final = 0.03
#: Traced runs, of which the least time of each task counts: at most; and at least, after so many seconds.
TRACED_RUNS, LEAST_TRACED_RUNS, TRACED_S = 7, 1, 0.1
#: Turns in which a plan by the library and one by kernels are traced, to compare all kernels.
COMPARED_ROUNDS: Final = 5
#: Tries of a plan's runs in a turn: hosts of virtual machines take processors away for moments.
COMPARED_TRIES: Final = 4
#: Share of the time by the library from which on tasks of a kind of kernels are run to measure such kernels.
_SAMPLED_SHARE: Final = 0.1
#: Rounds of choosing tasks and measuring them.
ROUNDS: Final = 3


def is_worth_mixing(platform: Platform, request: PlanRequest) -> bool:
    """Return whether kernels may replace library calls: only on one lane of one CPU, when latency is minimised."""
    devices = platform.compute_devices
    is_one = len(devices) == 1 and devices[0].kind == "cpu" and devices[0].lanes == 1
    is_latency = request.minimize in ("makespan", "latency")
    return is_one and is_latency and request.rewrite == "none"


def default_rewrite(platform: Platform, policy: str) -> str:
    """Return the default rewrite of task sizes: only platforms with several lanes gain by it."""
    lanes = sum(device.lanes for device in platform.compute_devices)
    return "auto" if lanes > 1 and policy == "auto" else "none"


def select_kernels(
    order: Iterable[str],
    library_s: Mapping[str, float],
    kernel_s: Mapping[str, float],
    switch_s: float = SWITCH_S,
) -> frozenset[str]:
    """Return the tasks to run as kernels so that all tasks and all switches take the least total time.

    A shortest path through two states (the Viterbi algorithm), in time proportional to the number of tasks.
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
    for task, origin_side in reversed(steps):
        if side == 1:
            found.add(task)
        side = origin_side[side]
    return frozenset(found)


def saved_share(
    order: Iterable[str],
    library_s: Mapping[str, float],
    kernel_s: Mapping[str, float],
    kernels: Collection[str],
    switch_s: float = SWITCH_S,
) -> float:
    """Return the share of the time saved by kernels for some tasks, against the library for all it can do."""
    by_library = with_kernels = 0.0
    sides: list[tuple[bool, bool]] = []
    for task in order:
        if task not in library_s and task not in kernel_s:
            continue
        sides.append((task not in library_s, task not in library_s or (task in kernels and task in kernel_s)))
        for index, side in enumerate(sides[-1]):
            seconds = (kernel_s if side else library_s)[task]
            if len(sides) > 1 and sides[-2][index] != side:
                seconds += switch_s
            if index:
                with_kernels += seconds
            else:
                by_library += seconds
    return 1.0 - with_kernels / by_library if by_library else 0.0


def whole_s(library_s: Mapping[str, float], kernel_s: Mapping[str, float]) -> float:
    """Return the seconds of all tasks, by the library where it does a task."""
    return sum({**kernel_s, **library_s}.values())


def task_times(
    graph: TaskGraph, device: Device, costs: CostModel, history: RecordingHistory, *, by_library: bool
) -> dict[str, float]:
    """Return the seconds of each task by the library, or by its best kernel; measured within a run if known.

    Those of a kernel that has not run are estimated by its work, and by the library's time, as the stated efficiencies
    compare, or as kernels of that kind have compared that ran, in this model or else in others. The less counts, so
    that no error of the device's rates keeps a kernel from being tried.
    """
    corrections = {} if by_library else _corrections(graph, device, costs, history)
    found = {}
    for task in graph.tasks:
        seconds = _seconds_by(task, device, costs, history, corrections, by_library=by_library)
        if seconds:
            found[task.name] = min(seconds.values())
    return found


def _seconds_by(
    task: Task,
    device: Device,
    costs: CostModel,
    history: RecordingHistory,
    corrections: Mapping[tuple[str, str], float],
    *,
    by_library: bool,
) -> dict[str, float]:
    """Return the seconds of a task by the library, or by each of its kernels; see `task_times`."""
    found = {}
    for each in task.operation.implementations if task.operation is not None else ():
        if each.kind == "host" or (each.name == LIBRARY) != by_library:
            continue
        if costs.supports(task, each, device) is None:
            known = history.lookup(_key(task, each, device))
            if known is not None:
                found[each.name] = known.value + costs.launch_gap_s(each, device)
            elif not by_library:
                correction = corrections.get(_kind(task, each), 1.0)
                gap_s = costs.launch_gap_s(each, device)
                compared = [correction * s + gap_s for s in _compared_with_library(task, each, device, history)]
                found[each.name] = min([costs.task_seconds(task, each, device).seconds, *compared])
    return found


def predicted_kernels(
    graph: TaskGraph, device: Device, costs: CostModel, history: RecordingHistory
) -> frozenset[str] | None:
    """Return tasks to run as kernels by predictions alone; None if these are not clear.

    They are clear if kernels save `CLEAR_SHARE`: those of kinds that have run, in this model or in others. Nearly the
    same by kernels alone is preferred. They are also clear if kernels save too little to be tried, of nearly all kinds:
    then there are none. They are not if the model is short, or its tasks were timed in runs. Where the library could do
    tasks of less than `WORTH_MIXING` of the time of all others, predictions always decide.
    """
    library_s, kernel_s, stated_s = _predicted_times(graph, device, costs, history)
    order, total_s, library = graph.order(), sum(library_s.values()), library_s.keys()
    others_s = whole_s(library_s, kernel_s) - total_s
    if 0.0 < total_s <= WORTH_MIXING * others_s:
        return select_kernels(order, library_s, stated_s) & library
    if whole_s(library_s, kernel_s) <= SHORT_S or is_known(graph, library, device, history):
        return None
    chosen = select_kernels(order, library_s, kernel_s) & library
    saved = saved_share(order, library_s, kernel_s, chosen)
    saved_alone = saved_share(order, library_s, stated_s, library)
    has_all = sum(library_s[name] for name in library - kernel_s.keys()) <= WORTH_MIXING * total_s
    is_brief = total_s <= BRIEF_S
    if saved >= CLEAR_SHARE:
        is_near = saved - saved_alone < (BRIEF_WORTH_MIXING if is_brief else WORTH_MIXING)
        is_near = is_near and (has_all or is_brief) and library <= stated_s.keys()
        return frozenset(library if is_near else chosen)
    is_slower = total_s >= MIDDLE_S or saved_alone <= -CLEAR_SHARE
    return frozenset() if has_all and is_slower else None


def _predicted_times(
    graph: TaskGraph, device: Device, costs: CostModel, history: RecordingHistory
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return the seconds of tasks by the library, by kernels of kinds that have run, and by kernels of all kinds."""
    # A task that also is in another model says less of the kind than all tasks there.
    corrections = _own_corrections(graph, device, costs, history) | _stored_corrections(graph, device, history)
    library_s, kernel_s, stated_s = dict[str, float](), dict[str, float](), dict[str, float]()
    for task in graph.tasks:
        offered = {
            each.name: each
            for each in (task.operation.implementations if task.operation is not None else ())
            if each.kind != "host" and costs.supports(task, each, device) is None
        }
        library = offered.pop(LIBRARY, None)
        stated = [costs.task_seconds(task, each, device).seconds for each in offered.values()]
        compared: list[float] = []
        if library is not None:
            known = history.lookup(_key(task, library, device))
            work_s = costs.task_seconds(task, library, device).seconds if known is None else _work_s(known)
            library_s[task.name] = work_s + CALL_S
            compared = [
                correction * work_s * library.efficiency / each.efficiency + costs.launch_gap_s(each, device)
                for each in offered.values()
                if (correction := corrections.get(_kind(task, each))) is not None
            ]
        if compared or (stated and library is None):
            kernel_s[task.name] = min(compared or stated)
        if compared or stated:
            stated_s[task.name] = min(compared or stated)
    return library_s, kernel_s, stated_s


def _work_s(known: Quantity) -> float:
    """Return the time of the work of a library call within a run."""
    return max(known.value - CALL_S, 0.1 * CALL_S)


def samples(graph: TaskGraph, device: Device, costs: CostModel, history: RecordingHistory) -> frozenset[str]:
    """Return tasks whose kernels' times represent all of their kind: the longest of each kind of which none has run.

    Kinds that the library does in a small share of the time are left out. To try three of each takes up to a second,
    and finds no faster plans.
    """
    corrections = _corrections(graph, device, costs, history)
    known = _own_corrections(graph, device, costs, history).keys()
    library_s: dict[tuple[str, str], float] = {}
    longest: dict[tuple[str, str], tuple[float, str]] = {}
    for task in graph.tasks:
        own = _seconds_by(task, device, costs, history, corrections, by_library=True)
        kernels = _seconds_by(task, device, costs, history, corrections, by_library=False)
        if not own or not kernels or task.operation is None:
            continue
        ways = {name: task.operation.implementation(name) for name in kernels}
        best = ways[min(kernels, key=lambda name: kernels[name])]
        kind, seconds = _kind(task, best), min(own.values())
        # A plan may have taken another kernel than was expected: then it is not tried in every process.
        has_run = any(history.lookup(_key(task, each, device)) is not None for each in ways.values())
        if kind not in known and not has_run:
            library_s[kind] = library_s.get(kind, 0.0) + seconds
            longest[kind] = max(longest.get(kind, (0.0, "")), (seconds, task.name))
    least_s = _SAMPLED_SHARE * sum(task_times(graph, device, costs, history, by_library=True).values())
    return frozenset(name for kind, (_, name) in longest.items() if library_s[kind] >= least_s)


def _compared_with_library(task: Task, by: Implementation, device: Device, history: RecordingHistory) -> list[float]:
    """Return the seconds by an implementation as estimated from the library's time within a run, if that is known."""
    offered = task.operation.implementations if task.operation is not None else ()
    known = [(each, history.lookup(_key(task, each, device))) for each in offered if each.name == LIBRARY]
    return [_work_s(time) * each.efficiency / by.efficiency for each, time in known if time is not None]


def _kernels(graph: TaskGraph) -> Iterator[tuple[Task, Implementation]]:
    """Yield the tasks with each of their kernels."""
    for task in graph.tasks:
        for each in task.operation.implementations if task.operation is not None else ():
            if each.name != LIBRARY and each.kind != "host":
                yield task, each


def _corrections(
    graph: TaskGraph, device: Device, costs: CostModel, history: RecordingHistory
) -> dict[tuple[str, str], float]:
    """Return by kind how kernels compare with the library, over how their stated efficiencies do.

    They are those of this graph, or, of kinds of which none has run in it, those of other models.
    """
    return _stored_corrections(graph, device, history) | _own_corrections(graph, device, costs, history)


def _stored_corrections(graph: TaskGraph, device: Device, history: RecordingHistory) -> dict[tuple[str, str], float]:
    """Return by kind how kernels compared with the library in other models."""
    stored = {kind: history.lookup(key) for kind, key in _correction_keys(graph, device).items()}
    return {kind: known.value for kind, known in stored.items() if known is not None}


def _own_corrections(
    graph: TaskGraph, device: Device, costs: CostModel, history: RecordingHistory
) -> dict[tuple[str, str], float]:
    """Return those of the kernels that have run in this graph: medians."""
    found: dict[tuple[str, str], dict[HistoryKey, float]] = {}
    for task, each in _kernels(graph):
        if costs.supports(task, each, device) is not None:
            continue
        key = _key(task, each, device)
        known, stated = history.lookup(key), _compared_with_library(task, each, device, history)
        if known is not None and stated:
            ratio = known.value / min(stated)
            found.setdefault(_kind(task, each), {})[key] = ratio
    return {kind: median(each.values()) for kind, each in found.items()}


def record_corrections(graph: TaskGraph, device: Device, costs: CostModel, history: RecordingHistory) -> None:
    """Store for other models how kernels that have run in this graph compare with the library."""
    keys = _correction_keys(graph, device)
    for kind, correction in _own_corrections(graph, device, costs, history).items():
        history.record(keys[kind], [correction], source="selection")


def _correction_keys(graph: TaskGraph, device: Device) -> dict[tuple[str, str], HistoryKey]:
    """Return by kind the key of the kernels' seconds for work that they are stated to do in one second."""
    revisions = {_kind(task, each): each.revision for task, each in _kernels(graph)}
    text = "work of one second, as stated"
    return {kind: HistoryKey(device.timing_key, *kind, revision, text) for kind, revision in revisions.items()}


def _kind(task: Task, by: Implementation) -> tuple[str, str]:
    """Return the operation, without most parameters, and the implementation of a task.

    How kernels compare with the library depends on whether memory bounds it, and on a convolution's filter: on its
    extents, its strides, and whether it sees all channels. Minimal filtering has more weights, and is worse if they are
    more than the pixels.
    """
    assert task.operation is not None and task.signature is not None
    work = task.operation.work(task.signature)
    name, *given = task.operation.name.split(" ")
    filter_ = task.signature.shapes.get("w", ())[2:]
    if filter_:
        strides = [each for each in given if re.fullmatch(r"s\d+(x\d+)*", each)]
        groups = ["in groups" if task.signature.shapes["w"][1] > 1 else "by channel"]
        is_grouped = any(re.fullmatch(r"g\d+", each) for each in given)
        name = " ".join([name, "x".join(map(str, filter_)), *strides, *(groups if is_grouped else ())])
        weights, *pixels = (math.prod(task.signature.shapes[array]) for array in ("w", "x", "y"))
        if by.name == winograd_opencl.NAME and weights > sum(pixels):
            name = f"{name} of few pixels"
    return f"{name}, bound by memory" if work.flops < LEAST_FLOPS_A_BYTE * work.bytes else name, by.name


def is_known(graph: TaskGraph, tasks: Iterable[str], device: Device, history: RecordingHistory) -> bool:
    """Return whether each of these tasks has an implementation whose time within a run is known."""
    return all(
        any(history.lookup(_key(task, each, device)) is not None for each in task.operation.implementations)
        for task in map(graph.find_task, tasks)
        if task.operation is not None
    )


def measure_undisturbed(traced: Callable[[], Sequence[OperatorTime]]) -> Sequence[OperatorTime] | None:
    """Return the times of tasks in runs, or None if other processes used the machine."""
    before = read_times()
    times = traced()
    return None if is_disturbed(before) else times


def record_times(
    graph: TaskGraph,
    tasks: Collection[str],
    device: Device,
    history: RecordingHistory,
    times: Iterable[OperatorTime],
) -> None:
    """Store the least times of tasks within runs; alone they differ: weights are cached, or threads are asleep."""
    tasks = frozenset(tasks)
    quickest: dict[tuple[str, str], float] = {}
    for each in times:
        if each.task in tasks:
            done = each.task, each.implementation
            quickest[done] = min(each.seconds, quickest.get(done, each.seconds))
    least: dict[HistoryKey, float] = {}
    for (name, implementation), seconds in quickest.items():
        task = graph.find_task(name)
        for by in task.operation.implementations if task.operation is not None else ():
            if by.name == implementation:
                key = _key(task, by, device)
                least[key] = min(seconds, least.get(key, seconds))
    for key, seconds in least.items():
        history.record(key, [seconds], source="run")


def sample_inputs(specialised: Specialised, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs to time a model with: the given values, else zeros."""
    arrays = specialised.graph.arrays
    zeros = {name: np.zeros(arrays[made].shape, arrays[made].dtype) for name, made in specialised.inputs.items()}
    return {**zeros, **values}


def _key(task: Task, by: Implementation, device: Device) -> HistoryKey:
    """Return the history key of a task timed within a run."""
    assert task.operation is not None
    assert task.signature is not None
    return in_run_key(history_key(device.timing_key, task.operation, by, task.signature))
