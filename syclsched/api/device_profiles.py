# SPDX-License-Identifier: Apache-2.0
"""Measurement and storage of device profiles, with the costs of the execution engine. Internal."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from typing import TYPE_CHECKING

from syclsched.errors import SyclschedError

if TYPE_CHECKING:
    from syclsched.devices import OpenDevices
    from syclsched.model.platform import Platform
    from syclsched.profiling.session import SessionResult
    from syclsched.profiling.storage.profile_store import ProfileStore

#: Called with a subject, the numbers of measurements done and of all, and the name of the next one.
Tell = Callable[[str, int, int, str], None]
#: The last measurement on every device.
ENGINE = "execution engine"


def measure_profiles(
    platform: Platform,
    live: OpenDevices,
    *,
    quick: bool,
    progress: Tell | None = None,
    interrupted: Callable[[], bool] | None = None,
    wanted: Container[frozenset[str]] | None = None,
) -> SessionResult:
    """Measure the devices of a platform; an interruption ends it early and keeps finished measurements.

    With ``wanted``, only these devices and pairs of devices, given by their names.
    """
    from syclsched.profiling.measure.session_budget import DEFAULT, QUICK
    from syclsched.profiling.session import measurement_environment, profile_platform
    from syclsched.profiling.statistics import Sampler

    result = profile_platform(
        platform,
        live,
        QUICK if quick else DEFAULT,
        sampler=Sampler() if interrupted is None else Sampler(interrupted=interrupted),
        progress=progress,
        where=measurement_environment(),
        wanted=wanted,
    )
    return result if not result.complete else _with_engine_costs(result, platform, live, interrupted, progress)


def _with_engine_costs(
    result: SessionResult,
    platform: Platform,
    live: OpenDevices,
    interrupted: Callable[[], bool] | None,
    progress: Tell | None,
) -> SessionResult:
    """Measure the costs of the execution engine on each device; a failure adds a note and keeps the profile."""
    from syclsched.execution.runner.overheads import with_engine_costs

    names = {d.key: d.name for d in platform.compute_devices}
    devices, notes = [], list(result.notes)
    tell = progress or (lambda *_: None)
    for number, profile in enumerate(result.devices):
        tell(ENGINE, number, len(result.devices), f"runs on {names[profile.key]}")
        if interrupted is None or not interrupted():
            try:
                profile = with_engine_costs(profile, names[profile.key], platform, live)
            except SyclschedError as error:
                notes.append(f"{names[profile.key]}: the costs of the execution engine could not be measured: {error}")
        devices.append(profile)
    tell(ENGINE, len(devices), len(devices), "")
    return replace(result, devices=tuple(devices), notes=tuple(notes))


def save_profiles(result: SessionResult, store: ProfileStore, *, forget: bool = True) -> list[str]:
    """Store measured profiles; return a report as lines.

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
