# SPDX-License-Identifier: Apache-2.0
"""``syclsched top``: a live view of the runs of this user's processes that allow it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from syclsched.cli.terminal import output
from syclsched.execution.core.waiting import Flag


def top_command(
    once: Annotated[bool, typer.Option("--once", help="Print the present state once and leave.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Time between updates.")
    ] = 0.5,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print the present state once, as one line of JSON for each process.")
    ] = False,
) -> None:
    """Show the runs of your processes live: lanes, tasks, memory, predicted and measured times. Ctrl-C leaves.

    A process is shown if it allows that: [bold]syclsched run cholesky --repeat 500 --monitor[/bold], or
    [bold]syclsched.monitor()[/bold] in a Python program. Where the output is no terminal, the state is printed once.
    """
    from syclsched.cli.views.run_monitor import render_processes
    from syclsched.monitoring import read_status_files

    if json_output:
        from syclsched.model.text.json_serialisation import to_json

        for process in read_status_files().processes:
            print(to_json(process, indent=None))
        return
    console = output()
    if once or not console.is_terminal:
        console.print(render_processes(read_status_files(), time.time()))
        return
    from rich.live import Live

    with (
        _interrupted() as interrupted,
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while not interrupted.is_set():
            live.update(render_processes(read_status_files(), time.time()), refresh=True)
            interrupted.wait(interval)


@contextmanager
def _interrupted() -> Iterator[Flag]:
    """Yield a flag that Ctrl-C and a request to end set, so that neither breaks off the output of a view."""
    # `threading.Event` could deadlock: the handler runs on the thread that waits, which may hold the event's lock.
    flag = Flag()
    before = {number: signal.signal(number, lambda *_: flag.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
