# SPDX-License-Identifier: Apache-2.0
"""What wakes a thread that waits in C, without the GIL, for something of many that may happen."""

from __future__ import annotations

from syclsched.devices.submission_library import Library


class Bell:
    """Rung from any thread, heard by one."""

    def __init__(self, library: Library) -> None:
        self._library = library
        found = library.bell_new()
        if found is None:
            raise OSError("no memory for a bell")
        #: Where it is; until `close`.
        self.address: int = found
        self._rings = 0

    def ring(self) -> None:
        """Let `wait` return."""
        self._library.bell_ring(self.address)

    def wait(self, longest_s: float) -> None:
        """Wait until it has been rung since `wait` was called last, or for a while."""
        self._rings = self._library.bell_wait(self.address, self._rings, int(longest_s * 1e9))

    def close(self) -> None:
        """Give it back; nobody rings it or waits for it any more."""
        self._library.bell_delete(self.address)
