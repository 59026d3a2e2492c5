# SPDX-License-Identifier: Apache-2.0
"""Platform of the local machine: device discovery, first profiles, and the calibration progress bar."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from syclsched.cli.options import PlatformOptions, parse_lanes
from syclsched.cli.requests.device_profiles import measure, save
from syclsched.errors import StorageError

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.model.platform import Platform

#: Environment variable read by the OpenCL CPU runtime when it loads: its number of worker threads per kernel.
_WORKERS = "CL_CONFIG_CPU_TBB_NUM_WORKERS"


def use_one_core_lanes() -> None:
    """Restrict each queue of the CPU device to one core; only effective before the SYCL runtime is loaded."""
    os.environ.setdefault(_WORKERS, "1")


def find_platform(where: PlatformOptions, console: Console) -> Platform:
    """Discover the devices of this machine and quickly profile those without a profile."""
    from syclsched.api import with_lanes
    from syclsched.devices import discover, parse_sub_devices
    from syclsched.profiling import ProfileStore, attach

    counts = parse_lanes(where.lanes)
    if where.one_core_lanes:
        use_one_core_lanes()
    how = None if where.sub_devices is None else parse_sub_devices(where.sub_devices)
    with console.status("looking for devices ..."):  # the first discovery runs known-answer tests
        found = discover(selector=where.devices, sub_devices=how)
    platform = attach(found, ProfileStore())
    missing = [d.name for d in platform.compute_devices if d.profile is None]
    if missing:
        console.print(
            f"No profile yet of {', '.join(missing)}: measuring quickly (once; `syclsched profile` measures better)."
        )
        platform = _measure_quickly(found, console)
    return platform if counts is None else with_lanes(platform, counts)


def _measure_quickly(platform: Platform, console: Console) -> Platform:
    """Profile a platform and store the profiles; if they cannot be stored, use them once and print a note."""
    from syclsched.devices import open_devices
    from syclsched.profiling import ProfileStore, attach, with_profiles

    with open_devices(platform) as live:
        result = measure(platform, live, True, console)
    try:
        save(result, ProfileStore())
    except StorageError as error:
        console.print(f"The profile is not kept: {error}", soft_wrap=True)
        return with_profiles(platform, {p.key: p for p in result.devices}, result.pairs)
    if not result.complete:
        raise KeyboardInterrupt
    return attach(platform, ProfileStore())


@contextmanager
def calibration_bar(console: Console) -> Iterator[Any]:
    """Show a progress bar for `syclsched.profiling.calibrate` and yield its callback."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("calibrating"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=None)

        def advance(done: int, total: int, label: str) -> None:
            progress.update(bar, completed=done, total=total, description=label)

        yield advance
