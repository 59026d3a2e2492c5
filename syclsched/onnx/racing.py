# SPDX-License-Identifier: Apache-2.0
"""Two plans of a model, by a library alone and with kernels for some of its tasks, run to see which is faster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from syclsched.costs import CostModel
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.onnx.mixing import (
    LIBRARY,
    ROUNDS,
    TRACED_RUNS,
    contest,
    in_turns,
    is_found_faster,
    is_known,
    is_known_faster,
    kernels_worth,
    learn,
    sample,
    seconds_of,
)
from syclsched.onnx.offering import on_devices
from syclsched.onnx.report import OperatorTime, measured_times

if TYPE_CHECKING:
    from syclsched.execution import Runner
    from syclsched.onnx.kept import Bound
    from syclsched.profiling import HistoryStore


@dataclass(frozen=True, slots=True)
class Track:
    """Where plans of a model are made and run.

    Parameters
    ----------
    platform : Platform
        With one compute device.
    history : HistoryStore
        Remembers what runs told, and who won.
    make : callable
        Returns what is planned and bound of a graph.
    again : callable
        Returns another runner of a plan, which keeps times of so many runs, or of some exactly.
    """

    platform: Platform
    history: HistoryStore
    make: Callable[[TaskGraph], Bound]
    again: Callable[[Bound, int | Literal["exact"]], Runner]


def faster_of_both(bound: Bound, graph: TaskGraph, values: Mapping[str, Any], track: Track) -> Bound:
    """Return what is bound, or the same with kernels for some of the library's tasks, if that is faster.

    Whatever else was bound is closed, and all of it if this is interrupted or fails.

    Parameters
    ----------
    bound : Bound
        By the library alone.
    graph : TaskGraph
        The model's, with all implementations.
    values : Mapping[str, numpy.ndarray]
        Of inputs that shapes follow from, or of all.
    track : Track
        Where plans are made and run.
    """
    made, best = [bound], None

    def make(tried: TaskGraph) -> Bound:
        made.append(track.make(tried))
        return made[-1]

    try:
        best = _raced(bound, graph, values, replace(track, make=make))
    finally:
        for each in made:
            if each is not best:
                each.runner.close()
    return best


def _raced(bound: Bound, graph: TaskGraph, values: Mapping[str, Any], track: Track) -> Bound:
    """Return the faster of both; what has lost a round is closed, so that there are never more than two."""
    (device,) = track.platform.compute_devices
    history = track.history
    inputs = bound.specialised.given(sample(bound.specialised, values))
    order = [each.task for _, each in bound.plan.instructions() if each.kind == "launch" and each.task is not None]
    library = [each.task for each in bound.plan.schedule.assignments if each.implementation == LIBRARY]

    def run(runner: Runner) -> None:
        runner(inputs, bound.specialised.fetched)

    def traced(tried: Bound) -> Sequence[OperatorTime]:
        with track.again(tried, "exact") as runner:
            for _ in range(TRACED_RUNS + 1):
                run(runner)
            runs = [measured_times([each], tried.plan, {}) for each in runner.traces()[-TRACED_RUNS:]]
            return [each for run in runs for each in run]

    def both(mixed: Bound) -> Sequence[Sequence[float]]:
        with track.again(bound, 0) as without, track.again(mixed, 0) as with_kernels:
            return in_turns([partial(run, each) for each in (without, with_kernels)])

    def learnt(tried: Bound, tasks: Collection[str]) -> bool:
        done = is_known(tried.specialised.graph, tasks, device, history)
        return done or learn(tried.specialised.graph, tasks, device, history, lambda: traced(tried))

    def worth() -> frozenset[str]:
        known = partial(seconds_of, graph, device, CostModel(track.platform, history), history)
        return kernels_worth(order, known(by_library=True), known(by_library=False)).intersection(library)

    if not learnt(bound, library):
        return bound
    for left in reversed(range(ROUNDS)):
        kernels = worth()
        tried = on_devices(graph, track.platform, kernels)
        between = contest(tried)
        known = is_known_faster(device, history, between)
        if not kernels or known is False:
            break
        mixed = track.make(tried)
        told = learnt(mixed, kernels)
        if told and left and worth() != kernels:
            mixed.runner.close()
            continue
        if told and (known or is_found_faster(device, history, between, partial(both, mixed))):
            return mixed
        break
    return bound
