# SPDX-License-Identifier: Apache-2.0
"""Measurement of device profiles with progress bars."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from syclsched.errors import SyclschedError

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.devices import OpenDevices
    from syclsched.model.platform import Device, Platform
    from syclsched.profiling.session import SessionResult


def measure(
    platform: Platform,
    live: OpenDevices,
    quick: bool,
    console: Console,
    wanted: Container[frozenset[str]] | None = None,
) -> SessionResult:
    """Measure the devices of a platform with progress bars; Ctrl-C ends it early and keeps finished measurements.

    With ``wanted``, only these devices and pairs of devices, given by their names.
    """
    from syclsched.api.device_profiles import measure_profiles  # with graphs and plans, which no help needs

    with interrupt_flag() as interrupted, _progress_bars(platform, console) as progress:
        return measure_profiles(platform, live, quick=quick, progress=progress, interrupted=interrupted, wanted=wanted)


def compare_kernels(devices: Iterable[Device], console: Console) -> list[str]:
    """Compare kernels with the library on each CPU device; return a report as lines."""
    from syclsched.api import discover
    from syclsched.onnx import kernel_comparison

    said = []
    for device in devices:
        if device.kind != "cpu" or not kernel_comparison.can_compare(alone := discover(device.name)):
            continue
        console.print(f"comparing kernels with oneDNN on {device.name}", style="dim", markup=False)
        try:
            is_quiet = kernel_comparison.compare_kernels(alone)
        except SyclschedError as error:
            said.append(f"{device.name}: kernels were not compared with oneDNN: {error}")
        else:
            why_not = "" if is_quiet else ", since the machine was busy: models compare them at their first calls"
            said.append(f"{device.name}: kernels were {'' if is_quiet else 'not '}compared with oneDNN{why_not}")
    return said


@contextmanager
def interrupt_flag() -> Iterator[Callable[[], bool]]:
    """Yield a predicate for whether Ctrl-C was pressed; a second Ctrl-C interrupts immediately."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def note(number: int, frame: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress_bars(platform: Platform, console: Console) -> Iterator[Callable[[str, int, int, str], None]]:
    """Show a progress bar per device and pair, and one for the total with the time left; else a line for each."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from syclsched.api.device_profiles import ENGINE

    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[step]}"),
    )
    names = [d.name for d in platform.compute_devices]
    subjects = [*names, *(f"{a} + {b}" for i, a in enumerate(names) for b in names[i + 1 :]), ENGINE]
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        overall = progress.add_task("all", total=len(subjects), step="")
        tasks = {subject: progress.add_task(subject, total=None, start=False, step="") for subject in subjects}
        shares = dict.fromkeys(subjects, 0.0)

        def show(subject: str, done: int, total: int, label: str) -> None:
            if done == 0:
                progress.start_task(tasks[subject])
                if not console.is_terminal:
                    console.print(
                        f"measuring {subject} ({subjects.index(subject) + 1} of {len(subjects)})", style="dim"
                    )
            progress.update(tasks[subject], completed=done, total=total, step=label)
            shares[subject] = done / max(1, total)
            progress.update(overall, completed=sum(shares.values()))

        yield show
