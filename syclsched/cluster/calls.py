# SPDX-License-Identifier: Apache-2.0
"""Functions that the process that connects calls on workers, by name: ``module:function``.

Request and answer are messages between the two processes. Where a worker cannot be reached directly, as behind an
address translation, they go through Dask's scheduler. A function gets the worker's `syclsched.cluster.node.Node` and
runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError  # Python 3.10 has two
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from syclsched.cluster.membership import ClusterWorker
from syclsched.cluster.transport.packing import before_of, joined, packed, value_of
from syclsched.errors import ClusterError, SyclschedError, WorkerLostError
from syclsched.execution.core.thread_pool import THREADS

if TYPE_CHECKING:
    from distributed import Client, Worker

    from syclsched.cluster.transport.mailbox import HasMailbox, Mailbox
    from syclsched.cluster.transport.message_streams import Array

#: Name of the extension on each worker, under which Dask keeps its `syclsched.cluster.node.Node`.
NODE_NAME: Final = "syclsched"
#: Names, as of runs, of the messages of requests and of answers.
REQUESTS: Final = "calls"
ANSWERS: Final = "answers"

#: Prefixes of a returned value, and of a raised error.
_RETURNED: Final = b"returned"
_RAISED: Final = b"raised"


class WorkerCall:
    """A function that runs on a worker."""

    def __init__(self, worker: ClusterWorker, function: str) -> None:
        self.worker, self.function = worker, function
        self.answer: Future[memoryview] = Future()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.answer.done()

    def when_done(self, call: Callable[[WorkerCall], object]) -> None:
        """Call a function when it has ended, in a thread that must not wait."""
        self.answer.add_done_callback(lambda _: call(self))

    def fail(self, error: SyclschedError) -> None:
        """End it with an error, unless it has ended."""
        with suppress(InvalidStateError):
            self.answer.set_exception(error)

    def settle(self, answer: memoryview) -> None:
        """End it with the message that has its result or error, unless it has ended."""
        with suppress(InvalidStateError):
            self.answer.set_result(answer)

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait; return the result, or raise the function's error or that of a lost or late worker."""
        try:
            answer = self.answer.result(timeout_s)
        except FutureTimeoutError as error:
            raise ClusterError(
                f"{self.function} has not returned in {timeout_s or 0:.3g} s", worker=str(self.worker)
            ) from error
        value = value_of(answer)
        if before_of(answer) == _RETURNED:
            return value
        if isinstance(value, ClusterError) and value.worker == self.worker.address:
            value.worker, value.where = str(self.worker), f"worker {self.worker}"
        raise value

    def named(self, error: Exception) -> Exception:
        """Return an error that it has raised, with the name of its worker."""
        if isinstance(error, ClusterError):
            return error
        if isinstance(error, SyclschedError):
            error.where = f"worker {self.worker}" if error.where is None else f"{error.where} on worker {self.worker}"
            return error
        named = ClusterError(f"{type(error).__name__}: {error}", worker=str(self.worker))
        named.__cause__ = error
        return named


class Calls:
    """The calls of one process that are in progress.

    ``link`` connects a worker to the mailbox and returns whether the worker can be reached.
    """

    def __init__(self, client: Client, mailbox: Mailbox, link: Callable[[ClusterWorker], bool]) -> None:
        self._client, self._mailbox, self._link = client, mailbox, link
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._calls: dict[int, WorkerCall] = {}
        self._broken: SyclschedError | None = None
        mailbox.listen(ANSWERS, self._answered)

    def start(
        self, worker: ClusterWorker, function: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> WorkerCall:
        """Begin to call a function."""
        call = WorkerCall(worker, function)
        request = packed(function.encode(), (arguments, named))
        with self._lock:
            if self._broken is not None:
                raise self._broken
            number = next(self._numbers)
            self._calls[number] = call
        call.when_done(lambda _: self._calls.pop(number, None))
        if not self._link(worker):
            self._through_scheduler(call, joined(request))
            return call
        try:
            self._mailbox.send_pieces(REQUESTS, number, worker.address, request)
        except SyclschedError as error:
            call.fail(_named(error, worker))
        return call

    def _answered(self, source: str, number: int, data: Array) -> None:
        call = self._calls.get(number)
        if call is not None and call.worker.address == source:
            call.settle(data.data)

    def _through_scheduler(self, call: WorkerCall, request: bytes) -> None:
        worker = call.worker

        async def run() -> None:
            try:
                answers = await self._client.run(called, request, workers=[worker.address], on_error="return")
                answer = answers[worker.address]
            except Exception as error:
                call.fail(ClusterError(f"Dask's scheduler does not answer: {error}", worker=str(worker)))
                return
            if isinstance(answer, OSError):
                call.fail(WorkerLostError(f"the worker is lost: {answer}", worker=str(worker)))
            elif isinstance(answer, BaseException):
                call.fail(ClusterError(f"{call.function} cannot be called: {answer}", worker=str(worker)))
            else:
                call.settle(memoryview(bytearray(answer)))  # whose arrays can be written

        running = asyncio.run_coroutine_threadsafe(run(), self._client.loop.asyncio_loop)
        call.when_done(lambda _: running.cancel())  # without effect unless the call ended by a loss

    def lose(self, worker: ClusterWorker, cause: str) -> None:
        """End the calls on a worker that is lost."""
        for call in list(self._calls.values()):
            if call.worker.address == worker.address:
                call.fail(WorkerLostError(f"the worker is lost: {cause}", worker=str(worker)))

    def close(self, error: SyclschedError) -> None:
        """End all calls, and refuse further ones, with an error."""
        with self._lock:
            self._broken = error
        for call in list(self._calls.values()):
            call.fail(ClusterError(error.what, worker=str(call.worker), hint=error.hint))


def _named(error: SyclschedError, worker: ClusterWorker) -> SyclschedError:
    if isinstance(error, ClusterError) and error.worker == worker.address:
        error.worker, error.where = str(worker), f"worker {worker}"
    return error


# --- on the workers -------------------------------------------------------------------------------


def serve(node: HasMailbox) -> None:
    """Begin to answer requests that come as messages."""

    def requested(source: str, number: int, data: Array) -> None:
        def answer() -> None:
            with suppress(SyclschedError):  # the caller is gone
                node.mailbox.send_pieces(ANSWERS, number, source, _performed(node, data.data))

        THREADS.start(answer, "syclsched call")

    node.mailbox.listen(REQUESTS, requested)


async def called(request: bytes, *, dask_worker: Worker) -> bytes:
    """Call a function; run by Dask's worker for requests that come through the scheduler."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bytes] = loop.create_future()

    def settle(answer: bytes) -> None:
        if not done.done():
            done.set_result(answer)

    def answer() -> None:
        node = dask_worker.plugins.get(NODE_NAME)
        if node is None:
            gone = ClusterError("the worker is not part of this cluster any more", worker=dask_worker.address)
            result = packed(_RAISED, gone)
        else:
            result = _performed(node, memoryview(bytearray(request)))
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, joined(result))

    THREADS.start(answer, "syclsched call")
    return await done


def _performed(node: HasMailbox, request: memoryview) -> list[memoryview]:
    """Call a function, and return the message with its result or error."""
    try:
        module, _, name = str(before_of(request), "utf-8").partition(":")
        positional, named = value_of(request)
        return packed(_RETURNED, getattr(importlib.import_module(module), name)(node, *positional, **named))
    except BaseException as error:
        return _packed_error(error, node.address)


def _packed_error(error: BaseException, address: str) -> list[memoryview]:
    try:
        pieces = packed(_RAISED, error)
        value_of(memoryview(joined(pieces)))
    except Exception:
        pieces = packed(_RAISED, ClusterError(f"{type(error).__name__}: {error}", worker=address))
    return pieces
