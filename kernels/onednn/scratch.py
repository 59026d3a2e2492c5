# SPDX-License-Identifier: Apache-2.0
"""oneDNN scratchpads: one buffer per queue, as large as its most demanding primitive needs.

Commands on an in-order queue run one after another and can share a scratchpad. Queues never share one, so lanes stay
independent. On an out-of-order queue every primitive gets its own buffer.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from syclsched.devices.memory.usm_memory import allocate
from syclsched.devices.native.sycl_types import SyclQueue

#: Sizes are rounded up to a multiple of this, so that buffers are not replaced for every slightly larger primitive.
_GRAIN: Final = 1 << 16


class Arena:
    """Scratchpad memory of one queue."""

    def __init__(self, queue: SyclQueue, *, shared: bool) -> None:
        self._queue = queue
        self._shared = shared
        self._lock = threading.Lock()
        self._piece: Any = None

    @property
    def held_bytes(self) -> int:
        """Bytes of the current buffer."""
        return 0 if self._piece is None else int(self._piece.nbytes)

    def piece(self, size: int) -> Any:
        """Return USM device memory of at least ``size`` bytes, or None for 0 bytes.

        The caller holds a reference: a larger buffer that replaces it later does not free it.
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
