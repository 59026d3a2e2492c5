# SPDX-License-Identifier: Apache-2.0
"""Measurement of device profiles with progress bars, and their storage."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from syclsched.errors import SyclschedError

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.devices import OpenDevices
    from syclsched.model.platform import Platform
    from syclsched.profiling.session import SessionResult
    from syclsched.profiling.storage.profile_store import ProfileStore

#: What is measured last, on every device.
_ENGINE = "execution engine"


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
    from syclsched.profiling.measure.session_budget import DEFAULT, QUICK
    from syclsched.profiling.session import measurement_environment, profile_platform
    from syclsched.profiling.statistics import Sampler

    with interrupt_flag() as interrupted, _progress_bars(platform, console) as progress:
        result = profile_platform(
            platform,
            live,
            QUICK if quick else DEFAULT,
            sampler=Sampler(interrupted=interrupted),
            progress=progress,
            where=measurement_environment(),
            wanted=wanted,
        )
        return result if not result.complete else _with_engine_costs(result, platform, live, interrupted, progress)


def _with_engine_costs(
    result: SessionResult,
    platform: Platform,
    live: OpenDevices,
    interrupted: Callable[[], bool],
    progress: Callable[[str, int, int, str], None],
) -> SessionResult:
    """Measure the costs of the execution engine on each device; a failure adds a note and keeps the profile."""
    from syclsched.execution.runner.overheads import with_engine_costs

    names = {d.key: d.name for d in platform.compute_devices}
    devices, notes = [], list(result.notes)
    for number, profile in enumerate(result.devices):
        progress(_ENGINE, number, len(result.devices), f"runs on {names[profile.key]}")
        if not interrupted():
            try:
                profile = with_engine_costs(profile, names[profile.key], platform, live)
            except SyclschedError as error:
                notes.append(f"{names[profile.key]}: the costs of the execution engine could not be measured: {error}")
        devices.append(profile)
    progress(_ENGINE, len(devices), len(devices), "")
    return replace(result, devices=tuple(devices), notes=tuple(notes))


@contextmanager
def interrupt_flag() -> Iterator[Callable[[], bool]]:
    """Yield a predicate that tells whether Ctrl-C was pressed; a second Ctrl-C interrupts immediately."""
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

    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[step]}"),
    )
    names = [d.name for d in platform.compute_devices]
    subjects = [*names, *(f"{a} + {b}" for i, a in enumerate(names) for b in names[i + 1 :]), _ENGINE]
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


def save(result: SessionResult, store: ProfileStore, *, forget: bool = True) -> list[str]:
    """Store measured profiles; return what was done, as lines.

    An interrupted measurement does not replace a complete profile, nor one of a busy machine one of a quiet machine.
    With ``forget``, a complete profile of a quiet machine discards the device's stored task times: they were measured
    under other conditions and are measured again when needed.
    """
    from syclsched.profiling.storage.freshness import device_provenance, may_replace, pair_provenance
    from syclsched.profiling.storage.history_store import HistoryStore

    said, new = [], []
    for profile in result.devices:
        made, stored = profile.provenance, device_provenance(store, profile.key)
        if may_replace(made, stored):
            said.append(f"saved {store.save(profile)}")
            new += [profile.key] if made.complete and not made.busy else []
            if made.busy:
                said.append(
                    f"{profile.identity.name}: the machine was busy, so its number of lanes is not used; "
                    "`syclsched profile --refresh` measures it again"
                )
        else:
            kind = "complete profile" if not made.complete else "profile of the quiet machine"
            said.append(f"kept the {kind} of {profile.identity.name} that was there before")
    if forget and new:
        with HistoryStore() as history:
            for key in new:
                history.forget(key)
    for pair in result.pairs:
        if may_replace(pair.provenance, pair_provenance(store, pair.first, pair.second)):
            store.save_pair(pair)
    return said
