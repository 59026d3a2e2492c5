# SPDX-License-Identifier: Apache-2.0
"""Open a stream: how many generations, in which order they go to the lanes, and the proof that they fit in memory."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from functools import lru_cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.execution.buffers import NumpyArray
from syclsched.execution.generations import Ring, total_bytes
from syclsched.execution.run import Run
from syclsched.execution.start import Prepared, start
from syclsched.execution.stream import Inputs, Stream
from syclsched.execution.stream_flight import DispatchedFlight, Flight, StagedFlight, check_room, most_in_flight
from syclsched.execution.stream_prediction import Forecast, forecast
from syclsched.execution.stream_replay import StagedReplay
from syclsched.execution.stream_rounds import interleaved, one_by_one

#: Generations on their way by default, where the plan does not ask for more stages: one computes while the caller's
#: thread prepares another.
_DOUBLE = 2


def open_stream(
    runner: Any,
    prepared: Prepared,
    ring: Ring | None,
    live: Any,
    inputs: Iterable[Inputs] | AsyncIterable[Inputs],
    names: tuple[str, ...],
    in_flight: int | None,
    record: bool,
    return_exceptions: bool,
) -> Stream:
    """Return a stream of a runner, with memory for its generations.

    Parameters
    ----------
    runner : Runner
        Kept alive by the stream's runs.
    prepared : Prepared
        Its plan.
    ring : Ring or None
        Its generations; None if it does not replay.
    live : LiveDevices
        Its devices.
    inputs, names, in_flight, return_exceptions
        As for `Runner.stream`.
    record : bool
        Whether runs are traced.
    """
    plan, program = prepared.plan, prepared.program
    if in_flight is not None and in_flight < 1:
        raise ArgumentError(f"in_flight is {in_flight}", where="stream", hint="Give at least 1")
    nbytes = dict(plan.peak_bytes) if ring is None else total_bytes(plan)
    rounds = interleaved(program) if ring is not None and in_flight != 1 else None
    if in_flight is None:
        wanted = _DOUBLE if rounds is None else rounds.stages + 1
        most, _ = most_in_flight(plan.platform, nbytes)
        in_flight = max(1, wanted if most is None else min(wanted, most))
    check_room(plan.platform, nbytes, in_flight, plan.name)
    flight: Flight
    predict: Callable[[], float | None]
    if ring is None:
        flight = DispatchedFlight(lambda values: start(prepared, live, values, trace=record))
        predict = _unknown
    else:
        foreseen = lru_cache(maxsize=1)(partial(forecast, program, in_flight))
        ring.shrink(in_flight)
        ring.grow(in_flight)

        def make_run(replay: StagedReplay, values: dict[str, NumpyArray]) -> Run:
            return Run(replay, live, values, joined=prepared.joined, keep=runner)

        order = one_by_one(program) if rounds is None else foreseen().rounds
        flight = StagedFlight(ring, order, in_flight, record, make_run)
        predict = partial(_interval_s, foreseen)
    return Stream(flight, inputs, prepared.values, names, in_flight, predict, return_exceptions=return_exceptions)


def _interval_s(foreseen: Callable[[], Forecast]) -> float:
    return foreseen().interval_s


def _unknown() -> None:
    return None
