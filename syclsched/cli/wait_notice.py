# SPDX-License-Identifier: Apache-2.0
"""Steps of long calls in a status line, and notices for long waits, as where the scheduler is compiled first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from syclsched.progress import Progress

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


def status_progress(status: Status, what: str) -> Progress:
    """Return a callable that shows each step of a call behind ``what`` in a status line."""
    from rich.markup import escape

    def tell(done: int, total: int, step: str, /) -> None:
        number = f" ({done + 1} of {total})" if done < total > 1 else ""
        status.update(f"{what}: {escape(step)}{number} ..." if step else f"{what}{number} ...")

    return tell


@contextmanager
def status_line(console: Console, what: str) -> Iterator[Progress]:
    """Show a status line while a block runs; yield the callable that shows the steps in it."""
    from rich.markup import escape

    with console.status(f"{escape(what)} ...") as status:
        yield status_progress(status, escape(what))


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
