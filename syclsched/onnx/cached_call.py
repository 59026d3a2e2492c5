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
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from syclsched.onnx.lru_cache import BoundModel
from syclsched.onnx.specialised import Array

if TYPE_CHECKING:
    from syclsched.execution import Runner
    from syclsched.execution.runner.bound_plan import Repeat

_LOGGER = logging.getLogger("syclsched")

#: Calls that take no longer, with waiting for others, justify further runners: longer runs use all cores themselves.
SHORT_S: Final = 2e-3
#: Runners at most: for each core, and of so many bytes of planned memory together. Callers that wait for a runner
#: starve: the thread that returns it has the interpreter's lock, and takes it again for its next call.
RUNNERS_PER_CORE, MOST_BYTES = 8, 1 << 26

#: Longest wait for a runner that another caller makes, which usually takes some hundredths of a second.
PATIENCE_S: Final = 0.1


class CachedCall:
    """A fast path for inputs of known shapes and dtypes; made by `cached_call_for`.

    Where calls of several threads meet and are short, each core gets runners of its own. ``has_checks`` says whether
    values are to be checked in Python; C checks the indices of `INDEX_DTYPES`.
    """

    def __init__(
        self,
        bound: BoundModel,
        dtypes: Mapping[str, np.dtype[Any]],
        repeat: Repeat,
        another: Callable[[], Repeat | None],
        *,
        has_checks: bool,
    ) -> None:
        self.bound = bound
        self._names = tuple(dtypes)
        self._count = len(dtypes)
        self._first = repeat
        self._idle = [repeat]
        self._another = another
        self._making = threading.Lock()
        self._is_short = self._is_full = False
        self._results = None if bound.specialised.returns_fetched else bound.specialised.results
        self._forms = [(bound.specialised.shapes[name], dtype) for name, dtype in dtypes.items()]
        self._checks = bound.specialised.check_values if has_checks else None

    def run(self, given: tuple[Any, ...]) -> dict[str, Array] | None:
        """Return the model's outputs; None, without any run, if the inputs differ or the fast path does not apply."""
        if len(given) == 1 and type(given[0]) is dict:
            by_name = given[0]
            if len(by_name) != self._count:
                return None
            given = tuple(map(by_name.get, self._names))
        if self._checks is not None:
            if [(getattr(each, "shape", None), getattr(each, "dtype", None)) for each in given] != self._forms:
                return None  # other plans allow other indices, and other types may not be compared
            self._checks(dict(zip(self._names, given, strict=True)))
        try:
            repeat: Repeat | None = self._idle.pop()
        except IndexError:
            repeat = self._further_runner()
        if repeat is None:
            outputs = self._run_behind_others(given)
        else:
            try:
                outputs = repeat(given)
            finally:
                self._idle.append(repeat)
        return outputs if outputs is None or self._results is None else self._results(outputs)

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

    def _run_behind_others(self, given: tuple[Any, ...]) -> dict[str, Array] | None:
        """Return the outputs of a call by the first runner, once it is idle; note whether calls are short."""
        begun_s = time.perf_counter()
        outputs = self._first(given)
        if outputs is not None and time.perf_counter() - begun_s < SHORT_S:
            self._is_short = True
        return outputs


def cached_call_for(
    bound: BoundModel,
    dtypes: Mapping[str, np.dtype[Any]],
    another_runner: Callable[[BoundModel], Runner | None],
) -> CachedCall | None:
    """Return a fast path for repeated calls; None if there is none."""
    from syclsched.devices.native.input_arrays import INDEX_DTYPES
    from syclsched.execution.replay.input_commands import InputSpec

    specialised = bound.specialised
    read = {name: array for name, array in specialised.inputs.items() if array in specialised.graph.inputs()}
    picked = {name: (each.least, each.extent) for name, each in specialised.picked.items()}
    ranges = {name: picked[name] for name, dtype in dtypes.items() if name in picked and dtype in INDEX_DTYPES}
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

    has_checks = specialised.checks is not None or not picked.keys() & dtypes.keys() <= ranges.keys()
    return None if repeat is None else CachedCall(bound, dtypes, repeat, another, has_checks=has_checks)
