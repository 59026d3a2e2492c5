# SPDX-License-Identifier: Apache-2.0
"""Runs made by one blocking call of C, from first submission to copied results (``_submit_flight.c``).

After some milliseconds of a large model's work the interpreter's data has left the processor's caches: Python code that
takes 60 us in a loop takes half a millisecond at the end of such a run. Here no Python runs between the inputs and the
results.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import weakref
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

from syclsched.devices.native.input_arrays import InputArrays
from syclsched.devices.native.submission_library import SubmissionLibrary
from syclsched.devices.submission.command_list import MAX_CALLS_IN_FLIGHT, MAX_IN_FLIGHT, CommandList, EventRange
from syclsched.devices.submission.commands import CallCommand, Command
from syclsched.devices.submission.local_queues import LocalQueues
from syclsched.devices.submission.submission_loop import SubmissionLoop
from syclsched.oneapi.fork_check import is_forked

#: Results of `NativeRun.run_blocking`: still running, completed, or ended without completing.
STILL_RUNNING, COMPLETED, NOT_COMPLETED = 0, 1, -1

#: Variable; ``0`` means that computing threads are never moved to the core of a waiting caller (``_submit_spread.c``).
SPREADING_VARIABLE = "SYCLSCHED_SPREADING"


#: The caller polls for the end of a run whose last instance took no longer than this after its submission: waiting in
#: another thread, and the wake-up, cost some 60 us.
SHORT_NS = 150_000
_UNKNOWN = (1 << 63) - 1
#: Most commands of a run that may be executed on the calling thread, and most threads that help it.
MOST_ON_CALLER = 256
MOST_HELPERS = 3


class _Result(ctypes.Structure):
    _fields_ = [("to", ctypes.c_void_p), ("source", ctypes.c_void_p), ("nbytes", ctypes.c_size_t)]


#: Ways to make a run, and trial runs of each, as in ``_submit_flight.h``.
WAYS: Final = 3
TRIALS: Final = 18


class _Job(ctypes.Structure):
    """``struct job``."""

    _fields_ = [
        ("lanes", ctypes.c_void_p),
        ("lanes_count", ctypes.c_int64),
        ("commands", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("ahead", ctypes.c_int64),
        ("events", ctypes.c_void_p),
        ("events_count", ctypes.c_int64),
        ("submit_ns", ctypes.c_void_p),
        ("made", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
        ("results", ctypes.c_void_p),
        ("results_count", ctypes.c_int64),
        ("done", ctypes.c_int64 * 2),
        ("made_count", ctypes.c_int64 * 2),
        ("handed_ns", ctypes.c_int64),
        ("caller_ns", ctypes.c_int64),
        ("listed", ctypes.c_void_p),
        ("own", ctypes.c_void_p),
        ("given", ctypes.c_void_p),
        ("given_count", ctypes.c_int64),
        ("short_ns", ctypes.c_int64),
        ("handed_at_ns", ctypes.c_int64),
        ("took_ns", ctypes.c_int64),
        ("spreads", ctypes.c_int64),
        ("submitted_ahead", ctypes.c_int64),
        ("local", ctypes.c_void_p),
        ("way", ctypes.c_int64),
        ("begun_at_ns", ctypes.c_int64),
        ("trials", ctypes.c_int64 * 3),
        ("typical_ns", ctypes.c_int64 * 3),
        ("is_brief", ctypes.c_int64),
        ("helping", ctypes.c_void_p),
        ("helpers_count", ctypes.c_int64),
        ("least_of", ctypes.c_void_p),
        ("parts", ctypes.c_void_p),
        ("is_divided", ctypes.c_int64),
        ("delayed", ctypes.c_int64),
        ("alone", ctypes.c_int64),
        ("company", ctypes.c_int64),
        ("since_trials", ctypes.c_int64),
        ("again", ctypes.c_int64),
        ("timed", ctypes.c_int64 * 3),
        ("times_ns", ctypes.c_int64 * TRIALS * WAYS),
    ]


class InPlaceCommands:
    """Variants of a list's commands that read the input arrays in place."""

    def __init__(
        self,
        commands: Sequence[Command],
        given: InputArrays,
        names: Sequence[str | None],
        omitted: Sequence[tuple[int, int, int, int, int]],
    ) -> None:
        self._commands = commands
        self.given = given
        self.names = names
        self._omitted = omitted
        #: The addresses of the commands.
        self.pointers = (ctypes.c_void_p * len(commands))(*[each.address for each in commands])

    def make_omitted_copies(self, done: int) -> None:
        """Make the omitted input copies that commands of the original list after ``done`` submissions will read."""
        for copy, reader, number, to, nbytes in self._omitted:
            if copy < done <= reader:  # otherwise the memory may belong to another array
                ctypes.memmove(to, self.given.structures[number].data, nbytes)


class NativeRun:
    """A run by one C call: submits all commands, waits for their end and copies results; made by `native_run_for`.

    ``local`` are the queues that execute commands on the calling thread, and those of each thread that helps it.
    """

    def __init__(
        self,
        library: SubmissionLibrary,
        loop: SubmissionLoop,
        commands: CommandList,
        ahead: int,
        results: Sequence[tuple[int, int]],
        local: Sequence[LocalQueues] = (),
    ) -> None:
        self._library = library
        lanes = [loop.copy_lanes(each.handles) for each in local]
        helping = (ctypes.c_void_p * len(lanes[1:]))(*map(ctypes.addressof, lanes[1:]))
        self._results = (_Result * len(results))(*[_Result(None, source, nbytes) for source, nbytes in results])
        count = len(commands)
        least_of, parts = (ctypes.c_int64 * count)(), (ctypes.c_int64 * count)()
        self._made, submit_ns = loop.new_event_array(2 * count), (ctypes.c_int64 * count)()
        all_lanes, lanes_count, events, events_count = loop.tables
        self._job = _Job(
            *(all_lanes, lanes_count, commands.address, count, ahead, events, events_count),
            *(ctypes.addressof(submit_ns), ctypes.addressof(self._made), ctypes.addressof(loop.stop_flag)),
            *(ctypes.addressof(self._results), len(results)),
            listed=commands.address,
            short_ns=SHORT_NS,
            took_ns=_UNKNOWN,
            spreads=len(os.sched_getaffinity(0)) > 1 and os.environ.get(SPREADING_VARIABLE, "1") != "0",
            submitted_ahead=ahead,
            local=ctypes.addressof(lanes[0]) if lanes else None,
            helping=ctypes.addressof(helping),
            helpers_count=len(helping),
            least_of=ctypes.addressof(least_of),
            parts=ctypes.addressof(parts),
        )
        self._own: InPlaceCommands | None = None
        self._arrays: tuple[Any, ...] | None = None
        keep = loop, commands, self._job, self._results, self._made, submit_ns, lanes, helping, least_of, parts
        #: True once runs on the calling thread have proved faster, and shorter than passing on the GIL.
        self.is_brief = ctypes.c_int64.from_buffer(self._job, _Job.is_brief.offset)
        self._local = local
        handle = library.flight_new(ctypes.byref(self._job))
        #: Whether its thread exists.
        self.is_ready = handle is not None
        self._handle = ctypes.c_void_p(handle)
        if self.is_ready:
            _runs.add(self)
            self._finalizer = weakref.finalize(self, _delete, library, handle, keep)
            self._finalizer.atexit = False

    def begin(self) -> None:
        """Submit the commands that need no waiting; then call `run_blocking`, or `follow` and `take_over`."""
        self._arrays = None
        self._library.flight_begin(self._handle)

    def own(self, commands: InPlaceCommands) -> None:
        """Set the commands that `begin_in_place` submits; no run may be in progress."""
        self._own = commands
        self._job.own, self._job.given = ctypes.addressof(commands.pointers), commands.given.address
        self._job.given_count = len(commands.given)

    def begin_in_place(self, arrays: tuple[Any, ...]) -> bool:
        """Begin with input arrays read in place; return False if they have not the expected form."""
        self._arrays = arrays  # they must live until all commands have completed
        return bool(self._library.flight_begin_with(self._handle, arrays))

    def run_briefly(self, arrays: tuple[Any, ...], targets: tuple[Any, ...]) -> int:
        """Make a whole run as `begin_in_place` and `run_blocking` do, without releasing the GIL, if it `is_brief`.

        Returns `STILL_RUNNING` if it has only begun, and `NOT_COMPLETED` if nothing was done.
        """
        self._arrays = arrays
        return int(self._library.hop(self._handle, arrays, targets))

    def run_blocking(self, targets: tuple[Any, ...], seconds: float) -> int:
        """Complete the run that was begun and copy its results into arrays, without the GIL; for at most this long."""
        if self._own is not None:
            return int(self._library.fly_into(self._handle, seconds, targets))
        for result, target in zip(self._results, targets, strict=True):
            result.to = target.ctypes.data
        return int(self._library.fly(self._handle, seconds))

    def wait(self, seconds: float) -> int:
        """Go on waiting for a run for which `run_blocking` returned `STILL_RUNNING`; return the same."""
        return int(self._library.flight_await(self._handle, seconds))

    def follow(self) -> bool:
        """Keep the run's events until `take_over`; return False if it has completed already and has none."""
        return bool(self._library.flight_follow(self._handle) != COMPLETED)

    def take_over(self) -> list[EventRange]:
        """Wait for the end of a followed run; return its event ranges, for `CommandList.adopt`."""
        self._library.flight_land(self._handle)
        if self._own is not None and self._arrays is not None:
            self._own.make_omitted_copies(self.done)
        ahead, others = self._job.made_count
        return [(self._made, 0, ahead), (self._made, 2 * self._job.ahead, others)]

    @property
    def read(self) -> dict[str, Any] | None:
        """The arrays of the last `begin_in_place`, by name; None after `begin`."""
        if self._own is None or self._arrays is None:
            return None
        return {name: each for name, each in zip(self._own.names, self._arrays, strict=True) if name is not None}

    @property
    def handed_ns(self) -> tuple[int, int] | None:
        """Host times of the last run, see `syclsched.execution.runner.bound_plan.Runner`; None if it was brief."""
        return (int(self._job.caller_ns), int(self._job.handed_ns)) if self._job.handed_ns else None

    @property
    def runs_on_caller(self) -> int:
        """The number of runs on the calling thread; `TRIALS` or more once they are no longer trials."""
        return int(self._job.trials[1])

    @property
    def done(self) -> int:
        """The number of submissions made, after `take_over`."""
        return int(sum(self._job.done))

    def settle(self) -> None:
        """Wait until the run and its cleaning up have ended, unless it is followed."""
        if self.is_ready:
            self._library.flight_settle(self._handle)

    def close(self) -> None:
        """End the thread; no run may be in progress."""
        if self.is_ready:
            self.is_ready = False
            self._finalizer()
        for each in self._local:
            each.close()


def helpers_wanted() -> int:
    """Return how many threads may help a calling thread (``_submit_helpers.c``)."""
    return min(MOST_HELPERS, len(os.sched_getaffinity(0)) - 1)


def native_run_for(
    library: SubmissionLibrary, loop: SubmissionLoop, commands: CommandList, results: Sequence[tuple[int, int]]
) -> NativeRun | None:
    """Return a native run of a command list; None if a lane is not on the host or there are too many commands."""
    parts = commands.parts
    lanes = {part.lane for part in parts}
    if not 0 < len(parts) <= MAX_IN_FLIGHT or not all(map(loop.is_on_host, lanes)):
        return None
    # The first copies depend on nothing, and the calls or the kernels behind them only on predecessors on their lane;
    # a kernel behind calls, or a copy behind kernels, may wait for these.
    copies = sum(1 for _ in takewhile(lambda part: part.is_copy, parts))
    has_calls = any(isinstance(part, CallCommand) for part in parts)
    others = takewhile(lambda part: not part.is_copy and isinstance(part, CallCommand) == has_calls, parts[copies:])
    ahead = copies + min(sum(1 for _ in others), MAX_CALLS_IN_FLIGHT)
    # The calling thread is tried for plans of few kernels that surely end; library calls submit to queues of their own.
    is_small = len(parts) <= MOST_ON_CALLER and not has_calls and not any(part.is_open_ended for part in parts)
    threads = 1 + (helpers_wanted() if any(part.is_divisible for part in parts) else 0)
    opened = [loop.local_queues(lanes) for _ in range(threads if is_small else 0)]
    local = [each for each in opened if each is not None]
    made = NativeRun(library, loop, commands, ahead if len(lanes) == 1 else 0, results, local)
    if not made.is_ready:
        made.close()
    return made if made.is_ready else None


_runs: Final[weakref.WeakSet[NativeRun]] = weakref.WeakSet()


def _delete(library: SubmissionLibrary, handle: int, keep: Any) -> None:
    if not is_forked():  # the thread does not exist in a forked process
        library.flight_delete(handle)


@atexit.register
def _settle_all() -> None:
    for each in list(_runs):
        if not is_forked():
            each.settle()
