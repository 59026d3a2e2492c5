# SPDX-License-Identifier: Apache-2.0
"""Streams: a plan run over a sequence of inputs, with several instances in flight and results in order."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from syclsched.devices.memory.resident_array import InputValue
from syclsched.errors import ExecutionError, SyclschedError
from syclsched.execution.handle.engine import EngineRecorder
from syclsched.execution.memory.buffers import NumpyArray
from syclsched.execution.runner.recorder import Recorder, merge_recordings
from syclsched.execution.runner.stream_launchers import InstanceLauncher
from syclsched.execution.runner.stream_prediction import Forecast
from syclsched.execution.runner.task_durations import GenerationDurations
from syclsched.model.trace import Trace

if TYPE_CHECKING:
    import asyncio

Inputs = Mapping[str, Any] | None
Results = dict[str, NumpyArray]
Self = TypeVar("Self", bound="Stream")

#: Number of end times kept for the median interval.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """Throughput and waiting times of a stream so far."""

    generations: int  # results delivered, including failed ones
    failed: int
    in_flight: int  # most instances in flight at once
    #: Seconds between the ends of two successive generations, averaged over ``in_flight`` of them; the median of the
    #: latest values. None before the second end.
    interval_s: float | None
    predicted_interval_s: float | None  # by simulation; None where generations are dispatched
    #: Time of the caller's thread: waiting for the next input, waiting for the devices, and outside the stream.
    producer_s: float
    waiting_s: float
    consumer_s: float


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """Configuration of a stream: launcher, input check, instances in flight, and forecast."""

    launcher: InstanceLauncher[Any]  # starts instances
    check: Callable[[Inputs], dict[str, InputValue]]  # returns the checked values of an input
    in_flight: int
    predict: Callable[[], Forecast | None]  # returns the simulated forecast, or None
    durations: GenerationDurations | None  # which generations are measured for the history, if any


class _GenerationRun(Protocol):
    """The run of a generation, as far as a stream uses it."""

    def when_ended(self, call: Callable[[], None]) -> None:
        """Register a callback for the end of the run, on any thread."""

    def record_in(self, recorder: EngineRecorder, generation: int = 0) -> None:
        """Add the run's recording to a recorder when the run has ended."""

    def wait(self) -> None:
        """Wait for the end of the run, and raise its error if it failed."""

    def read_results(self, names: Iterable[str]) -> Results:
        """Return arrays of the run, which the caller owns."""

    def cancel(self) -> None:
        """End the run early."""

    def close(self) -> None:
        """Wait for the end of the run, and release what it holds."""


class _PendingResult:
    """A generation in flight, or the error that prevented its start."""

    def __init__(self, run: _GenerationRun | None, error: Exception | None = None, *, alone: bool = False) -> None:
        self.run = run
        self.error = error
        self.alone = alone  # whether no other generation is in flight with it


class Stream(Iterator["Results | Exception"]):
    """Results of a runner for a sequence of inputs; made by `Runner.stream`.

    Iterate over it with ``for`` or ``async for``. Each input is run by one instance of the plan, called a generation
    in traces and messages. The stream requests an input only when fewer than ``in_flight`` generations are in flight:
    when it requests input ``i``, the caller has already processed the results of ``i - in_flight``.

    Parameters
    ----------
    config : StreamConfig
        Configuration of the stream.
    inputs : iterable or async iterable of mappings
        One mapping per generation, as `Runner.run` takes it.
    names : tuple of str
        Arrays to return.
    recorder : Recorder
        Records the latest generations.
    renew : callable
        Returns a new configuration when the current one is outdated.
    outdated : callable
        Returns whether the configuration uses excluded devices.
    return_exceptions : bool
        Return errors in the place of results instead of raising them.
    """

    def __init__(
        self,
        config: StreamConfig,
        inputs: Iterable[Inputs] | AsyncIterable[Inputs],
        names: tuple[str, ...],
        recorder: Recorder,
        *,
        renew: Callable[[], StreamConfig],
        outdated: Callable[[], bool],
        return_exceptions: bool = False,
    ) -> None:
        self._configure(config)
        self._renew, self._outdated = renew, outdated
        self._inputs: Iterator[Inputs] | AsyncIterator[Inputs]
        self._inputs = aiter(inputs) if isinstance(inputs, AsyncIterable) else iter(inputs)
        self._names = names
        self._recorder = recorder
        recorder.clear()
        self._return_exceptions = return_exceptions
        self._pending: deque[_PendingResult] = deque()
        self._asked: asyncio.Future[Inputs] | None = None
        self._exhausted = self._at_end = self._closed = False
        self._producer_error: Exception | None = None
        self._begun = self._delivered = self._failed = 0
        self._ends_s: deque[float] = deque(maxlen=_REMEMBERED)
        self._producer_s = self._waiting_s = self._consumer_s = 0.0
        self._left_s: float | None = None

    # --- iterating --------------------------------------------------------------------------------

    def __iter__(self: Self) -> Self:
        return self

    def __next__(self) -> Results | Exception:
        """Return the results of the next generation.

        Raises
        ------
        StopIteration
            After the last.
        TaskFailedError, ArgumentError, ...
            If this generation failed; the next call continues with the next generation. An error of the inputs'
            iterator is raised in its place, after all earlier results.
        ExecutionError
            If the stream was closed, or its inputs are an async iterable.
        """
        if not isinstance(self._inputs, Iterator):
            raise ExecutionError("its inputs come asynchronously", where="stream", hint="Use `async for`")
        self._enter()
        try:
            while self._has_room:
                self._begin(self._ask(self._inputs))
            pending = self._next_pending()
            if pending is None:
                raise StopIteration
            begun_s = time.perf_counter()
            if pending.run is not None:
                self._launcher.submit_rest(pending.run)
                self._launcher.wait(pending.run)
            self._waiting_s += time.perf_counter() - begun_s
            return self._deliver()
        except Exception:
            raise
        except BaseException:
            self.close()
            raise
        finally:
            self._left_s = time.perf_counter()

    def __aiter__(self: Self) -> Self:
        return self

    async def __anext__(self) -> Results | Exception:
        """Return the results of the next generation, without a waiting thread.

        Inputs may be an iterable or an async iterable; a missing input does not delay an available result.
        """
        self._enter()
        try:
            while self._has_room and await self._ask_async():
                pass
            pending = self._next_pending()
            if pending is None:
                raise StopAsyncIteration
            if pending.run is not None:
                self._launcher.submit_rest(pending.run)
                begun_s = time.perf_counter()
                await self._launcher.wait_async(pending.run)
                self._waiting_s += time.perf_counter() - begun_s
            return self._deliver()
        finally:
            self._left_s = time.perf_counter()

    # --- reports ----------------------------------------------------------------------------------

    @property
    def statistics(self) -> StreamStatistics:
        """Throughput and waiting times so far."""
        forecast = self._predict()
        return StreamStatistics(
            self._delivered,
            self._failed,
            self.in_flight,
            median_interval_s(self._ends_s, self.in_flight),
            None if forecast is None else forecast.interval_s,
            self._producer_s,
            self._waiting_s,
            self._consumer_s,
        )

    def trace(self) -> Trace:
        """Return one trace of the latest completed generations, on one clock.

        Returns
        -------
        Trace
            Of up to 16 generations, or the number given as ``trace`` when the plan was bound. `Span.generation` counts
            from the start of the stream. Predicted times are those of the simulated steady state.

        Raises
        ------
        ExecutionError
            If no generation has ended, the runner has started another run since, or was bound with ``trace=False``.
        """
        recordings = self._recorder.recordings
        if not recordings:
            raise ExecutionError(
                "no generation that has ended was recorded",
                where="stream",
                hint="Read results first, and bind the plan with trace=True",
            )
        forecast = self._predict()
        return merge_recordings(recordings, None if forecast is None else forecast.times)

    @property
    def closed(self) -> bool:
        """Whether the stream is exhausted or closed."""
        return self._closed

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._pending)} of {self.in_flight} generations on their way"
        return f"<Stream: {self._delivered} results, {state}>"

    # --- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel the generations in flight, wait for their end, and request no more inputs."""
        if self._closed:
            return
        self._closed = self._exhausted = True
        if self._asked is not None and not self._asked.done():
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                self._asked.cancel()
        runs = [pending.run for pending in self._pending if pending.run is not None]
        self._pending.clear()
        for run in runs:
            run.cancel()
        for run in runs:
            run.close()

    async def aclose(self) -> None:
        """Close the stream in a coroutine; see `close`."""
        runs = [pending.run for pending in self._pending if pending.run is not None]
        for run in runs:
            run.cancel()
        for run in runs:
            await self._launcher.wait_async(run)
        self.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- inside -----------------------------------------------------------------------------------

    def _configure(self, config: StreamConfig) -> None:
        self._launcher, self._check, self._predict = config.launcher, config.check, config.predict
        self.in_flight, self._durations = config.in_flight, config.durations

    @property
    def _has_room(self) -> bool:
        if self._exhausted or len(self._pending) >= self.in_flight:
            return False
        if not self._pending:
            return True
        # Instances in flight end first: their memory is released, or the last or the next one is to run alone.
        lone = self._pending[-1].alone or (self._durations is not None and self._durations.wants_alone)
        return not (lone or self._outdated())

    def _enter(self) -> None:
        if self._left_s is not None:
            self._consumer_s += time.perf_counter() - self._left_s
            self._left_s = None

    def _ask(self, inputs: Iterator[Inputs]) -> Callable[[], Inputs]:
        begun_s = time.perf_counter()
        try:
            given = next(inputs)
        except Exception as error:
            return _raising(error)
        finally:
            self._producer_s += time.perf_counter() - begun_s
        return lambda: given

    async def _ask_async(self) -> bool:
        """Request an input and start its generation; return False if a result is available first."""
        if isinstance(self._inputs, Iterator):
            self._begin(self._ask(self._inputs))
            return True
        import asyncio  # imports fifty modules, which only coroutines need

        begun_s = time.perf_counter()
        if self._asked is None:
            self._asked = asyncio.ensure_future(_first(self._inputs))
            await asyncio.sleep(0)
        if not self._asked.done():
            self._launcher.submit_all()
            oldest = self._pending[0].run if self._pending else None
            waits: list[asyncio.Future[Any]] = [self._asked]
            if self._pending and oldest is None:
                return False
            if oldest is not None:
                waits.append(asyncio.ensure_future(self._launcher.wait_async(oldest)))
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for other in waits[1:]:
                    other.cancel()
            self._producer_s += time.perf_counter() - begun_s
            if not self._asked.done():
                return False
        asked, self._asked = self._asked, None
        self._begin(asked.result)
        return True

    def _begin(self, given: Callable[[], Inputs]) -> None:
        """Start a generation, or record the error that prevents it."""
        try:
            inputs = given()
        except (StopIteration, StopAsyncIteration):
            self._exhausted = True
            return
        except Exception as error:
            self._exhausted, self._producer_error = True, error
            return
        number, self._begun = self._begun, self._begun + 1
        try:
            if not self._pending and self._outdated():
                self._configure(self._renew())
            values = self._check(inputs)
            alone = not self._pending and self._durations is not None and self._durations.wants_alone
            run = self._launcher.begin(values)
        except Exception as error:
            self._pending.append(_PendingResult(None, _numbered(error, number)))
            return
        self._pending.append(_PendingResult(run, alone=alone))
        if self._durations is not None:
            run.record_in(self._durations.of_next(alone=alone))
        ends = self._ends_s
        run.when_ended(lambda: ends.append(time.perf_counter()))
        run.record_in(self._recorder, number)

    def _next_pending(self) -> _PendingResult | None:
        """Return the oldest generation; None after the last one. Raise the error of the inputs' iterator, if any."""
        if self._pending:
            return self._pending[0]
        if self._closed and not self._at_end:
            raise ExecutionError("the stream is closed", where="stream")
        self._closed = self._at_end = True
        error, self._producer_error = self._producer_error, None
        if error is not None:
            raise error
        return None

    def _deliver(self) -> Results | Exception:
        """Return the results of the oldest generation, whose run has ended, or raise its error."""
        pending = self._pending.popleft()
        number, self._delivered = self._delivered, self._delivered + 1
        error = pending.error
        if pending.run is not None:
            try:
                pending.run.wait()
                return pending.run.read_results(self._names)
            except Exception as failed:
                error = _numbered(failed, number)
            finally:
                pending.run.close()
        assert error is not None
        self._failed += 1
        if self._return_exceptions:
            return error
        raise error


async def _first(inputs: AsyncIterator[Inputs]) -> Inputs:
    return await anext(inputs)


def median_interval_s(ends_s: Sequence[float], in_flight: int) -> float | None:
    """Return the median seconds between the ends of successive generations; see `StreamStatistics`."""
    distance = min(in_flight, len(ends_s) - 1)
    if distance < 1:
        return None
    ends = list(ends_s)
    return statistics.median((b - a) / distance for a, b in zip(ends, ends[distance:], strict=False))


def _raising(error: Exception) -> Callable[[], Inputs]:
    def give() -> Inputs:
        raise error

    return give


def _numbered(error: Exception, number: int) -> Exception:
    """Prepend the generation's number to an error's location, and return the error."""
    if isinstance(error, SyclschedError):
        error.where = f"generation {number}" if error.where is None else f"generation {number}, {error.where}"
    return error
