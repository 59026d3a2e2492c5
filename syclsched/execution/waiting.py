# SPDX-License-Identifier: Apache-2.0
"""Waits of the caller's thread that end in time and let Ctrl-C through."""

from __future__ import annotations

import threading
import time

#: Python can miss a signal that comes just before it blocks; it notices at the end of a slice.
SLICE_S = 0.2


def wait_flag(flag: threading.Event, timeout_s: float | None) -> bool:
    """Wait for a flag.

    Parameters
    ----------
    flag : threading.Event
        What to wait for.
    timeout_s : float or None
        Seconds; None for no limit.

    Returns
    -------
    bool
        Whether it is set.
    """
    if timeout_s is None:
        while not flag.wait(SLICE_S):
            pass
        return True
    deadline = time.monotonic() + timeout_s
    while not flag.is_set() and (left := deadline - time.monotonic()) > 0:
        flag.wait(min(left, SLICE_S))
    return flag.is_set()
