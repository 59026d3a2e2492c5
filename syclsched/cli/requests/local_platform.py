# SPDX-License-Identifier: Apache-2.0
"""Platform of the local machine: device discovery, first profiles, and the calibration progress bar."""

from __future__ import annotations

import datetime
import os
from collections.abc import Container
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from syclsched.cli.options import PlatformOptions, parse_lanes
from syclsched.cli.requests.device_profiles import measure
from syclsched.errors import StorageError
from syclsched.progress import Progress, terminal_bar

if TYPE_CHECKING:
    from rich.console import Console

    from syclsched.model.platform import Platform

#: Environment variable read by the OpenCL CPU runtime when it loads: its number of worker threads per kernel.
_WORKERS = "CL_CONFIG_CPU_TBB_NUM_WORKERS"


#: Part of the names of emulated devices.
_EMULATOR = "accelerator"

#: Seconds for which the machine is watched before a busy profile is measured again.
_WATCH_S = 0.25


def use_one_core_lanes() -> None:
    """Restrict each queue of the CPU device to one core; only effective before the SYCL runtime is loaded."""
    os.environ.setdefault(_WORKERS, "1")


def find_platform(where: PlatformOptions, console: Console, policies: str = "") -> Platform:
    """Discover the devices of this machine and quickly profile those without a profile.

    Emulators are left out unless an option or a policy names an accelerator.
    """
    from syclsched.api import with_lanes
    from syclsched.devices import discover, parse_sub_devices, without_emulators
    from syclsched.profiling import ProfileStore, attach
    from syclsched.profiling.busy import is_quiet, watch
    from syclsched.profiling.storage.freshness import is_worth_repeating

    counts = parse_lanes(where.lanes)
    if where.one_core_lanes:
        use_one_core_lanes()
    how = None if where.sub_devices is None else parse_sub_devices(where.sub_devices)
    with console.status("looking for devices ..."):  # the first discovery runs known-answer tests
        found = discover(selector=where.devices, sub_devices=how)
        named = " ".join(filter(None, (where.lanes, where.memory_limit, policies)))
        if where.devices is None and _EMULATOR not in named:
            found = without_emulators(found)
    platform = attach(found, ProfileStore())
    devices = platform.compute_devices
    missing = [d.name for d in devices if d.profile is None]
    now = datetime.datetime.now(datetime.timezone.utc)
    busy = [d.name for d in devices if d.profile is not None and is_worth_repeating(d.profile.provenance, now)]
    if missing:
        console.print(
            f"No profile yet of {', '.join(missing)}: measuring quickly (once; `syclsched profile` measures better)."
        )
        platform = _measure_quickly(found, console, None)
    elif busy and is_quiet(watch(_WATCH_S)):
        console.print(
            f"The profile of {', '.join(busy)} was measured on a busy machine: measuring quickly again, once "
            "(`syclsched profile --refresh` measures better)."
        )
        platform = _measure_quickly(found, console, {frozenset((name,)) for name in busy})
    return platform if counts is None else with_lanes(platform, counts)


def _measure_quickly(platform: Platform, console: Console, wanted: Container[frozenset[str]] | None) -> Platform:
    """Profile a platform and store the profiles; if they cannot be stored, use them once and print a note."""
    from syclsched.api.device_profiles import save_profiles
    from syclsched.devices import open_devices
    from syclsched.profiling import ProfileStore, attach, with_profiles

    with open_devices(platform) as live:
        result = measure(platform, live, True, console, wanted)
    try:
        save_profiles(result, ProfileStore(), forget=wanted is None)
    except StorageError as error:
        console.print(f"The profile is not kept: {error}", soft_wrap=True)
        stored = {d.key: d.profile for d in attach(platform, ProfileStore()).devices if d.profile is not None}
        return with_profiles(platform, stored | {p.key: p for p in result.devices}, result.pairs)
    if not result.complete:
        raise KeyboardInterrupt
    return attach(platform, ProfileStore())


def calibration_bar(console: Console) -> AbstractContextManager[Progress]:
    """Show a progress bar for `syclsched.profiling.calibrate` and yield its callback."""
    return terminal_bar("calibrating", console)
