# SPDX-License-Identifier: Apache-2.0
"""Notices for long waits: large graphs, and installations without machine code, which compile the scheduler first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

#: Seconds before the notice. Planning of small graphs with compiled code takes less.
AFTER_S = 5.0

PLANNING_NOTICE = (
    "Still planning. Large graphs take long; and where the build made no machine code (see `syclsched doctor`), the "
    "first plan compiles the scheduler, which takes a minute or two and is cached."
)

#: Notice for runs under dynamic policies.
RUNNING_NOTICE = (
    "Still running. Large graphs take long; and where the build made no machine code (see `syclsched doctor`), and "
    "for policies of other packages, the first run compiles the scheduler, which takes up to half a minute and is "
    "cached."
)


@contextmanager
def notice_if_slow(console: Console, after_s: float | None = None, *, text: str = PLANNING_NOTICE) -> Iterator[None]:
    """Print a notice once if the block takes longer than ``after_s`` seconds, by default `AFTER_S`."""
    timer = threading.Timer(AFTER_S if after_s is None else after_s, lambda: console.print(text, style="dim"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
