# SPDX-License-Identifier: Apache-2.0
"""A wake-up counter: any thread signals it, and one thread waits for it in C without the GIL."""

from __future__ import annotations

from syclsched.devices.native.submission_library import SubmissionLibrary


class Wakeup:
    """A wake-up counter in C: signalled from any thread, waited for by one."""

    def __init__(self, library: SubmissionLibrary) -> None:
        self._library = library
        handle = library.wakeup_new()
        if handle is None:
            raise OSError("no memory for a wake-up counter")
        #: Address of the C structure; valid until `close`.
        self.address: int = handle
        self._count = 0

    def signal(self) -> None:
        """Wake the waiting thread: let `wait` return."""
        self._library.wakeup_signal(self.address)

    def wait(self, longest_s: float) -> None:
        """Wait until `signal` is called, at most ``longest_s`` seconds; no wait if it was since the last."""
        self._count = self._library.wakeup_wait(self.address, self._count, int(longest_s * 1e9))

    def close(self) -> None:
        """Free the counter; no thread may signal it or wait for it any more."""
        self._library.wakeup_delete(self.address)
