# SPDX-License-Identifier: Apache-2.0
"""Outputs of a model's run that was started and not waited for: made of the graph's arrays when they are asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from syclsched.errors import ExecutionError, TaskFailedError
from syclsched.onnx.call_inputs import CallValues
from syclsched.onnx.specialised import ExtentExceededError, Specialised

if TYPE_CHECKING:
    from syclsched.execution.handle.derived_outputs import Read


class CallAgain(Protocol):
    """Function that calls the model for the same inputs, beyond the extents of the plan that a run had."""

    def __call__(self, *, beyond: ExtentExceededError | None) -> dict[str, Any] | None:
        """Return the outputs; None if the run, which failed if nothing was ``beyond``, did for another reason."""


class StartedOutputs:
    """The outputs, of these names, of one run of a specialised model for values of inputs."""

    def __init__(self, names: Iterable[str], specialised: Specialised, values: CallValues, again: CallAgain) -> None:
        self._names, self._specialised, self._values, self._again = frozenset(names), specialised, values, again
        #: All outputs, once another call or the host has made them.
        self._whole: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def has(self, name: str) -> bool:
        """Return whether there is an output of this name."""
        return name in self._names

    def value(self, name: str, read: Read) -> Any:
        """Return an output; wait only for the arrays it is made of."""
        if self._whole is None:
            try:
                made = self._made(name, read)
            except ExtentExceededError as beyond:
                made = self._repeated(beyond)
            except TaskFailedError as error:
                if not self.replaces(error):
                    raise
                made = self._whole or {}
        else:
            made = self._whole
        value = made[name]
        return value.copy() if made is self._whole and isinstance(value, np.ndarray) else value

    def settle(self, read: Read) -> None:
        """Call the model again, at the end of the run, if values exceed the extents of its plan."""
        if self._specialised.guards and self._whole is None:
            part = self._specialised.only("")
            try:
                part.results({array: read(array) for array in part.fetched})
            except ExtentExceededError as beyond:
                self._repeated(beyond)

    def replaces(self, error: TaskFailedError) -> bool:
        """Call the model again if a run may have failed as values exceed the extents of its plan."""
        with self._lock:
            if self._whole is None and self._specialised.guards:
                self._whole = self._again(beyond=None)
            return self._whole is not None

    def _made(self, name: str, read: Read) -> dict[str, Any]:
        if not self._values.has_host:
            part = self._specialised.only(name)
            return part.results({array: read(array) for array in part.fetched})
        found = {array: read(array) for array in self._specialised.fetched}
        self._whole = self._values.results(self._specialised.results(found))
        return self._whole

    def _repeated(self, beyond: ExtentExceededError) -> dict[str, Any]:
        with self._lock:
            if self._whole is None:
                self._whole = self._again(beyond=beyond)
            if self._whole is None:
                raise ExecutionError("its results could not be computed again", where="start()")
            return self._whole
