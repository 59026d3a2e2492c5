# SPDX-License-Identifier: Apache-2.0
"""Results derived from a run's arrays, such as arrays cut to a length that the run computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from syclsched.errors import TaskFailedError
from syclsched.execution.memory.buffers import NumpyArray

#: Function that waits for an array of the run, and returns its value.
Read = Callable[[str], NumpyArray]


class DerivedOutputs(Protocol):
    """Results by name in place of a run's arrays; another run computes them where this one cannot."""

    def has(self, name: str) -> bool:
        """Return whether there is a result of this name."""

    def value(self, name: str, read: Read) -> Any:
        """Return a result; wait only for the arrays it is made of."""

    def settle(self, read: Read) -> None:
        """Let another run compute the results, at the end of this one, if this one cannot have them."""

    def replaces(self, error: TaskFailedError) -> bool:
        """Return whether another run has computed the results after a failure of this one."""
