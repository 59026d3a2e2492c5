# SPDX-License-Identifier: Apache-2.0
"""Stream set-up: number of instances in flight, their submission order, and the proof that they fit in memory."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from functools import lru_cache, partial
from typing import Protocol

from syclsched.devices.memory.resident_array import InputValue
from syclsched.errors import ArgumentError, MemoryLimitError
from syclsched.execution.dispatch.prepared import PreparedPlan
from syclsched.execution.handle.run import Run
from syclsched.execution.replay.instance_pool import InstancePool
from syclsched.execution.replay.replay import Replay
from syclsched.execution.runner.recorder import Recorder
from syclsched.execution.runner.stream import Inputs, Stream, StreamConfig
from syclsched.execution.runner.stream_launchers import (
    DispatchedLauncher,
    InstanceLauncher,
    StagedLauncher,
    check_stream_memory,
    most_in_flight,
)
from syclsched.execution.runner.stream_prediction import Forecast, forecast
from syclsched.execution.runner.stream_rounds import interleaved_rounds, rounds_before_host_steps, sequential_rounds
from syclsched.execution.runner.task_durations import DurationRecorder, GenerationDurations
from syclsched.execution.runner.zero_copy_inputs import ZeroCopyInputs
from syclsched.planning.memory.constant_memory import reserve_memory

#: Default instances in flight without interleaving: one computes while the caller's thread prepares the next.
_DOUBLE = 2


class _StreamRunner(Protocol):
    """A bound plan whose runs a stream starts."""

    zero_copy_inputs: ZeroCopyInputs

    @property
    def recorder(self) -> Recorder:
        """Recorder of the last runs."""

    @property
    def durations(self) -> DurationRecorder | None:
        """Recorder of task durations for the history; None if they are not wanted."""

    @property
    def outdated(self) -> bool:
        """Whether the plan uses devices that have been excluded, and a plan without them may exist."""

    def renew(self) -> tuple[PreparedPlan, InstancePool | None]:
        """Replan if need be, with no instance in flight; return the plan and its instance pool."""

    def start_dispatched(self, values: dict[str, InputValue]) -> Run:
        """Start a run by the dispatcher, with checked inputs."""

    def start_replay(self, replay: Replay, values: dict[str, InputValue]) -> Run:
        """Start a replay, with checked inputs."""


def open_stream(
    runner: _StreamRunner,
    prepared: PreparedPlan,
    instances: InstancePool | None,
    inputs: Iterable[Inputs] | AsyncIterable[Inputs],
    names: tuple[str, ...],
    in_flight: int | None,
    return_exceptions: bool,
) -> Stream:
    """Return a stream of a runner, with memory for its instances."""
    if in_flight is not None and in_flight < 1:
        raise ArgumentError(f"in_flight is {in_flight}", where="stream", hint="Give at least 1")
    return Stream(
        _configuration(runner, prepared, instances, in_flight),
        inputs,
        names,
        runner.recorder,
        renew=lambda: _renewed(runner, in_flight),
        outdated=lambda: runner.outdated,
        return_exceptions=return_exceptions,
    )


def _renewed(runner: _StreamRunner, in_flight: int | None) -> StreamConfig:
    """Return the configuration of a stream after some of its devices were excluded."""
    prepared, instances = runner.renew()
    try:
        return _configuration(runner, prepared, instances, in_flight)
    except MemoryLimitError:  # fewer instances fit on the remaining devices
        return _configuration(runner, prepared, instances, None)


def _configuration(
    runner: _StreamRunner, prepared: PreparedPlan, instances: InstancePool | None, in_flight: int | None
) -> StreamConfig:
    """Return the configuration of a stream, with memory for its instances."""
    plan, program = prepared.plan, prepared.program
    nbytes = dict(plan.peak_bytes if prepared.layout is None else prepared.layout.nbytes)
    for space, taken in plan.resident_bytes.items():  # each instance has a copy of the inputs read in place
        nbytes[space] = nbytes.get(space, 0) + taken
    available = reserve_memory(plan.platform, plan.constant_bytes)
    rounds = None if instances is None or in_flight == 1 else interleaved_rounds(program)
    if in_flight is None:
        wanted = _DOUBLE if rounds is None else rounds.stages + 1
        most, _ = most_in_flight(available, nbytes)
        in_flight = max(1, wanted if most is None else min(wanted, most))
    check_stream_memory(available, nbytes, in_flight, plan.name)
    launcher: InstanceLauncher[Run]
    predict: Callable[[], Forecast | None]
    if instances is None:
        launcher = DispatchedLauncher(runner.start_dispatched)
        predict = _no_forecast
    else:
        simulated = lru_cache(maxsize=1)(partial(forecast, program, in_flight))
        instances.shrink(in_flight)
        instances.grow(in_flight)
        order = sequential_rounds(program) if rounds is None else simulated().rounds
        if instances.hosts:
            order = rounds_before_host_steps(order, instances.levels.of)
        launcher = StagedLauncher(instances, order, in_flight, runner.recorder.keep > 0, runner.start_replay)
        predict = simulated
    durations = None if runner.durations is None else GenerationDurations(runner.durations, in_flight)
    return StreamConfig(launcher, partial(runner.zero_copy_inputs.values, prepared), in_flight, predict, durations)


def _no_forecast() -> None:
    return None
