# SPDX-License-Identifier: Apache-2.0
"""Release of libraries' caches for queues, such as scratchpads, when devices are closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_callbacks: Final[list[Callable[[], None]]] = []


def on_release(callback: Callable[[], None]) -> Callable[[], None]:
    """Call a function whenever devices are closed; registered once by a module, for as long as the process lives."""
    _callbacks.append(callback)
    return callback


def tell_released() -> None:
    """Say that devices are closed: some queues will not be used again."""
    for callback in _callbacks:
        callback()
