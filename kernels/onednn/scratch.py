# SPDX-License-Identifier: Apache-2.0
"""The memory primitives work in: one piece a queue, as large as the largest of its primitives asks for.

What runs on one in-order queue runs one after another and can share it; two queues never do, so lanes do not disturb
each other. On a queue that is not in order, everything gets a piece of its own.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from syclsched.devices.memory import allocate

#: Sizes are rounded up to this, so that a queue does not begin a new piece for every larger primitive.
_GRAIN: Final = 1 << 16


class Arena:
    """Working memory of one queue."""

    def __init__(self, queue: Any, *, shared: bool) -> None:
        self._queue = queue
        self._shared = shared
        self._lock = threading.Lock()
        self._piece: Any = None

    @property
    def held_bytes(self) -> int:
        """Bytes of the piece in use."""
        return 0 if self._piece is None else int(self._piece.nbytes)

    def piece(self, size: int) -> Any:
        """Return USM device memory of at least ``size`` bytes, or None for no bytes.

        Whoever asked holds it: a larger one that takes its place later leaves it alone.
        """
        if size == 0:
            return None
        with self._lock:
            if not self._shared:
                return allocate(self._queue, size, "device")
            if self.held_bytes < size:
                rounded = -(-size // _GRAIN) * _GRAIN
                self._piece = allocate(self._queue, rounded, "device")
            return self._piece
