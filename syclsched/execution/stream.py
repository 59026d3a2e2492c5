# SPDX-License-Identifier: Apache-2.0
"""A plan run over a stream of inputs, with several generations on their way at once; results come in order."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from syclsched.errors import ExecutionError, SyclschedError
from syclsched.execution.buffers import NumpyArray
from syclsched.execution.recorder import Recorder, together
from syclsched.execution.run import Run
from syclsched.execution.stream_flight import Flight
from syclsched.execution.stream_prediction import Forecast
from syclsched.model.trace import Trace

Inputs = Mapping[str, Any] | None
Results = dict[str, NumpyArray]
Self = TypeVar("Self", bound="Stream")

#: So many generations' ends are remembered for the interval between them.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class StreamStatistics:
    """How a stream has gone so far."""

    #: Handed out, and those of them that failed.
    generations: int
    failed: int
    in_flight: int  # on their way at once, at most
    #: From one generation's end to the next, over as many as are on their way at once, the median of the last ones;
    #: None before the second. Some that end together and a pause count as what they are on average.
    interval_s: float | None
    predicted_interval_s: float | None  # by simulation; None where generations are dispatched
    #: Where the caller's thread was: it waited for the next input, for the devices, or had the results.
    producer_s: float
    waiting_s: float
    consumer_s: float


@dataclass(frozen=True, slots=True)
class Way:
    """How a stream's generations go."""

    flight: Flight  # starts generations
    check: Callable[[Inputs], dict[str, NumpyArray]]  # returns the checked values of an input
    in_flight: int  # generations on their way at once
    predict: Callable[[], Forecast | None]  # returns what simulation says of it, or None


class _Pending:
    """A generation on its way, or why it is not."""

    def __init__(self, run: Run | None, error: Exception | None = None) -> None:
        self.run = run
        self.error = error


class Stream(Iterator["Results | Exception"]):
    """Results of a runner for one input after another; made by `Runner.stream`.

    Iterate over it with ``for`` or ``async for``. An input is asked for only when fewer than ``in_flight`` generations
    are on their way: by the time input ``i`` is asked for, the caller has come back from the results of
    ``i - in_flight``.

    Parameters
    ----------
    way : Way
        How its generations go.
    inputs : iterable or async iterable of mappings
        As `Runner.run` takes them, one for each generation.
    names : tuple of str
        Arrays to hand out.
    recorder : Recorder
        Keeps what the last generations noted.
    renew : callable
        Returns another way, once it is outdated.
    outdated : callable
        Whether the way uses devices that are not to be used any more.
    return_exceptions : bool
        Hand out errors in the place of results instead of raising them.
    """

    def __init__(
        self,
        way: Way,
        inputs: Iterable[Inputs] | AsyncIterable[Inputs],
        names: tuple[str, ...],
        recorder: Recorder,
        *,
        renew: Callable[[], Way],
        outdated: Callable[[], bool],
        return_exceptions: bool = False,
    ) -> None:
        self._go(way)
        self._renew, self._outdated = renew, outdated
        self._inputs: Iterator[Inputs] | AsyncIterator[Inputs]
        self._inputs = aiter(inputs) if isinstance(inputs, AsyncIterable) else iter(inputs)
        self._names = names
        self._recorder = recorder
        recorder.clear()
        self._return_exceptions = return_exceptions
        self._pending: deque[_Pending] = deque()
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
            What this generation failed of; asked again, the stream goes on with the one after it. What the producer of
            the inputs raised comes in its place, after all before it.
        ExecutionError
            If the stream was closed, or its inputs come asynchronously.
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
                self._flight.push(pending.run)
                self._flight.wait(pending.run)
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
        """Return the results of the next generation, without a thread that waits for it.

        Inputs may come synchronously or asynchronously; a result that is there is not held up by an input that is not.
        """
        self._enter()
        try:
            while self._has_room and await self._ask_async():
                pass
            pending = self._next_pending()
            if pending is None:
                raise StopAsyncIteration
            if pending.run is not None:
                self._flight.push(pending.run)
                begun_s = time.perf_counter()
                await self._flight.wait_async(pending.run)
                self._waiting_s += time.perf_counter() - begun_s
            return self._deliver()
        finally:
            self._left_s = time.perf_counter()

    # --- what it says -----------------------------------------------------------------------------

    @property
    def statistics(self) -> StreamStatistics:
        """How it has gone so far."""
        foreseen = self._predict()
        return StreamStatistics(
            self._delivered,
            self._failed,
            self.in_flight,
            median_interval_s(self._ends_s, self.in_flight),
            None if foreseen is None else foreseen.interval_s,
            self._producer_s,
            self._waiting_s,
            self._consumer_s,
        )

    def trace(self) -> Trace:
        """Return what happened in the last generations that have ended, on one clock.

        Returns
        -------
        Trace
            Of 16 generations at most, or as many as ``trace`` said when the plan was bound; `Span.generation` counts
            from the first of the stream. Beside the measured times stand those of simulation in steady state.

        Raises
        ------
        ExecutionError
            If none has ended, the runner has run something else since, or was bound with ``trace=False``.
        """
        recordings = self._recorder.recordings
        if not recordings:
            raise ExecutionError(
                "no generation that has ended was recorded",
                where="stream",
                hint="Read results first, and bind the plan with trace=True",
            )
        foreseen = self._predict()
        return together(recordings, None if foreseen is None else foreseen.times)

    @property
    def closed(self) -> bool:
        """Whether it is through, or was closed."""
        return self._closed

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._pending)} of {self.in_flight} generations on their way"
        return f"<Stream: {self._delivered} results, {state}>"

    # --- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancel what is on its way, wait until the devices have let go of it, and ask for no more inputs."""
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
        """Do so in a coroutine."""
        runs = [pending.run for pending in self._pending if pending.run is not None]
        for run in runs:
            run.cancel()
        for run in runs:
            await self._flight.wait_async(run)
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

    def _go(self, way: Way) -> None:
        self._flight, self._check, self._predict = way.flight, way.check, way.predict
        self.in_flight = way.in_flight

    @property
    def _has_room(self) -> bool:
        if self._exhausted or len(self._pending) >= self.in_flight:
            return False
        return not (self._pending and self._outdated())  # those on their way end first: their memory goes

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
        """Ask for an input and start its generation; return False if a result is there before."""
        if isinstance(self._inputs, Iterator):
            self._begin(self._ask(self._inputs))
            return True
        begun_s = time.perf_counter()
        if self._asked is None:
            self._asked = asyncio.ensure_future(_first(self._inputs))
            await asyncio.sleep(0)
        if not self._asked.done():
            self._flight.push_all()
            oldest = self._pending[0].run if self._pending else None
            waits: list[asyncio.Future[Any]] = [self._asked]
            if self._pending and oldest is None:
                return False
            if oldest is not None:
                waits.append(asyncio.ensure_future(self._flight.wait_async(oldest)))
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
        """Start a generation, or note why there is none."""
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
                self._go(self._renew())
            run = self._flight.begin(self._check(inputs))
        except Exception as error:
            self._pending.append(_Pending(None, _numbered(error, number)))
            return
        self._pending.append(_Pending(run))
        ends = self._ends_s
        run.when_ended(lambda: ends.append(time.perf_counter()))
        run.record_in(self._recorder, number)

    def _next_pending(self) -> _Pending | None:
        """Return the generation that is due; None after the last, or raise what the producer did."""
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
        """Return the results of the oldest generation, whose run has ended, or raise what it failed of."""
        pending = self._pending.popleft()
        number, self._delivered = self._delivered, self._delivered + 1
        error = pending.error
        if pending.run is not None:
            try:
                pending.run.wait()
                return {name: pending.run.result(name) for name in self._names}
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
    """Return how often a generation ends, by the clock at the ends of the last ones; see `StreamStatistics`."""
    several = min(in_flight, len(ends_s) - 1)
    if several < 1:
        return None
    ends = list(ends_s)
    return statistics.median((b - a) / several for a, b in zip(ends, ends[several:], strict=False))


def _raising(error: Exception) -> Callable[[], Inputs]:
    def give() -> Inputs:
        raise error

    return give


def _numbered(error: Exception, number: int) -> Exception:
    """Return an error that says which generation it is of."""
    if isinstance(error, SyclschedError):
        error.where = f"generation {number}" if error.where is None else f"generation {number}, {error.where}"
    return error
