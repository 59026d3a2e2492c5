# SPDX-License-Identifier: Apache-2.0
"""What to tell a user who waits: the first plans and dynamic runs of an installation compile what they need."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

#: Warm planning of the graphs people begin with is over by then.
AFTER_S = 5.0

TEXT = (
    "Still planning. The first time after an installation the scheduler is compiled to machine code, which takes a "
    "minute or two and is kept; large graphs take their time, too."
)

#: Of runs under dynamic policies: what decides while tasks run is compiled by the first of them.
RUNNING = (
    "Still running. The first time after an installation what decides while tasks run is compiled to machine code, "
    "which takes up to half a minute and is kept; large graphs take their time, too."
)


@contextmanager
def patience(console: Console, after_s: float = AFTER_S, *, text: str = TEXT) -> Iterator[None]:
    """Say why it takes so long, if it does; once."""
    timer = threading.Timer(after_s, lambda: console.print(text, style="dim"))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
