# SPDX-License-Identifier: Apache-2.0
"""Fast path for repeated calls of a model with the same input shapes and dtypes.

After a run of a large model the interpreter's data has left the CPU caches, so every Python function and object touched
before the first submission costs microseconds: tens of them cost more than submitting a small model. So C code checks
all inputs in one pass, and every other precondition is a single test.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.oneapi.fork_check import check_not_forked
from syclsched.onnx.lru_cache import BoundModel
from syclsched.onnx.specialised import Array

if TYPE_CHECKING:
    from syclsched.execution import Runner
    from syclsched.execution.runner.bound_plan import Repeat

_LOGGER = logging.getLogger("syclsched")

#: Calls that take no longer, with waiting for others, justify further runners: longer runs use all cores themselves.
SHORT_S: Final = 2e-3
#: Runners at most: for each core, and of so many bytes of planned memory together. To wait for one takes a switch of
#: threads, which is longer than many runs.
RUNNERS_PER_CORE, MOST_BYTES = 8, 1 << 26
#: Longest wait for a runner that another caller makes, which usually takes some hundredths of a second.
PATIENCE_S: Final = 0.1
#: Longest wait for a runner in use. Ctrl-C just after it was taken may have lost it; if not, its lock is waited for.
LONGEST_S: Final = 10.0


class CachedCall:
    """A fast path for inputs of known shapes and dtypes; made by `cached_call_for`.

    Where calls of several threads meet and are short, each caller gets a runner; else they wait in their order.
    ``has_checks`` says whether values are to be checked in Python; C checks the indices of `INDEX_DTYPES`.
    ``decided`` has the values of inputs for which the model is planned: with others the fast path does not apply.
    """

    def __init__(
        self,
        bound: BoundModel,
        dtypes: Mapping[str, np.dtype[Any]],
        repeat: Repeat,
        another: Callable[[], Repeat | None],
        *,
        has_checks: bool,
        decided: Mapping[str, Array],
    ) -> None:
        self.bound = bound
        self._names = tuple(dtypes)
        self._count = len(dtypes)
        self._first = repeat
        self._idle = [repeat]
        self._another = another
        self._making, self._handing = threading.Lock(), threading.Lock()
        #: Callers for which there is no runner.
        self._waiting: deque[SimpleQueue[Repeat]] = deque()
        self._is_short = self._is_full = False
        self._results = None if bound.specialised.returns_fetched else bound.specialised.results
        self._forms = [(bound.specialised.shapes[name], dtype) for name, dtype in dtypes.items()]
        self._checks = bound.specialised.check_values if has_checks else None
        self._decided = [(self._names.index(name), value.tobytes()) for name, value in decided.items()]

    def run(self, given: tuple[Any, ...]) -> dict[str, Array] | None:
        """Return the model's outputs; None, without any run, if the inputs differ or the fast path does not apply."""
        if len(given) == 1 and type(given[0]) is dict:
            by_name = given[0]
            if len(by_name) != self._count:
                return None
            given = tuple(map(by_name.get, self._names))
        if self._decided and not self._is_planned_for(given):
            return None
        if self._checks is not None:
            if [(getattr(each, "shape", None), getattr(each, "dtype", None)) for each in given] != self._forms:
                return None  # other plans allow other indices, and other types may not be compared
            self._checks(dict(zip(self._names, given, strict=True)))
        waited_from_s = 0.0
        try:
            repeat = self._idle.pop()
        except IndexError:
            check_not_forked(f"model {self.bound.plan.name!r}")  # those in use are returned in the other process
            waited_from_s = time.perf_counter()
            repeat = self._further_runner() or self._next_idle()
        try:
            outputs = repeat(given)
        finally:
            self._return(repeat)
        if waited_from_s and outputs is not None and time.perf_counter() - waited_from_s < SHORT_S:
            self._is_short = True
        return outputs if outputs is None or self._results is None else self._results(outputs)

    def _is_planned_for(self, given: tuple[Any, ...]) -> bool:
        return len(given) == self._count and all(
            type(given[at]) is np.ndarray and given[at].tobytes() == value for at, value in self._decided
        )

    def _further_runner(self) -> Repeat | None:
        """Return a runner that has become idle, or another one; None if calls are not short or there are enough."""
        if not self._is_short or self._is_full:
            return None
        if not self._making.acquire(timeout=PATIENCE_S):
            return None
        try:
            with suppress(IndexError):
                return self._idle.pop()
            made = None if self._is_full else self._another()
            self._is_full = made is None
            return made
        except Exception as error:  # such as too little memory: calls will wait
            _LOGGER.info("calls wait for each other: %s: %s", type(error).__name__, error)
            self._is_full = True
            return None
        finally:
            self._making.release()

    def _next_idle(self) -> Repeat:
        """Return a runner once one is idle, to callers in their order: one that returns it must not take it again."""
        mine: SimpleQueue[Repeat] = SimpleQueue()
        try:
            self._waiting.append(mine)
            self._hand_over()  # one may have become idle in the meantime
            return mine.get(timeout=LONGEST_S)
        except BaseException as error:  # it took too long, or Ctrl-C
            with self._handing, suppress(ValueError):
                self._waiting.remove(mine)
            with suppress(Empty):
                self._return(mine.get_nowait())
            if isinstance(error, Empty):
                return self._first
            raise

    def _return(self, repeat: Repeat) -> None:
        if repeat not in self._idle:  # the first may be used by two callers after a long wait
            self._idle.append(repeat)
        if self._waiting:
            self._hand_over()

    def _hand_over(self) -> None:
        """Give idle runners to the callers that wait, the longest first."""
        with self._handing, suppress(IndexError):
            while self._waiting:
                repeat = self._idle.pop()
                self._waiting.popleft().put(repeat)


def cached_call_for(
    bound: BoundModel,
    dtypes: Mapping[str, np.dtype[Any]],
    another_runner: Callable[[BoundModel], Runner | None],
    decided: Mapping[str, Array],
) -> CachedCall | None:
    """Return a fast path for repeated calls with the values for which a model is planned; None if there is none."""
    from syclsched.devices.native.input_arrays import INDEX_DTYPES
    from syclsched.execution.replay.input_commands import InputSpec

    specialised = bound.specialised
    read = {name: array for name, array in specialised.inputs.items() if array in specialised.graph.inputs()}
    picked = {name: each for name, each in specialised.picked.items() if name in dtypes}
    whole = {name: next((each for each in ranges if each.is_range), None) for name, ranges in picked.items()}
    ranges = {
        name: (each.least, each.extent)
        for name, each in whole.items()
        if each is not None and dtypes[name] in INDEX_DTYPES
    }
    inputs = [
        InputSpec(read.get(name), dtype, specialised.shapes[name], ranges.get(name)) for name, dtype in dtypes.items()
    ]
    repeat = None if specialised.elements else bound.runner.repeat(inputs, specialised.fetched)
    planned_bytes = sum(bound.plan.peak_bytes.values())
    most = min(RUNNERS_PER_CORE * len(os.sched_getaffinity(0)), MOST_BYTES // max(planned_bytes, 1))

    def another() -> Repeat | None:
        runner = another_runner(bound) if len(bound.others) + 1 < most else None
        if runner is None:
            return None
        bound.add(runner)
        return runner.repeat(inputs, specialised.fetched)

    # Labels and parts of an input are checked in Python, and so are unusual types.
    is_covered = all(name in ranges and len(each) == 1 for name, each in picked.items())
    has_checks = specialised.checks is not None or not is_covered
    if repeat is None:
        return None
    return CachedCall(bound, dtypes, repeat, another, has_checks=has_checks, decided=decided)
