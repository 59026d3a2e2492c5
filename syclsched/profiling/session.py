# SPDX-License-Identifier: Apache-2.0
"""Profiling session over all devices and device pairs; finished measurements survive an interruption."""

from __future__ import annotations

import datetime
import platform as operating_system
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from syclsched.errors import SyclschedError
from syclsched.model.platform import Device, Platform
from syclsched.model.profile import DeviceProfile, LinkFit, PairProfile, Provenance, Quantity
from syclsched.profiling import busy
from syclsched.profiling.measure import launch, overlap, transfers
from syclsched.profiling.measure.bench import Bench, QueueProvider
from syclsched.profiling.measure.measurement_steps import ProfileDraft, device_steps, finish
from syclsched.profiling.measure.session_budget import SessionBudget
from syclsched.profiling.statistics import InterruptedMeasurement, Sampler

#: Called with (device or pair, steps done, total steps, next step).
Progress = Callable[[str, int, int, str], None]


@dataclass(frozen=True, slots=True)
class MeasurementEnvironment:
    """Host and software of a measurement, for its provenance."""

    host: str = ""  # processor and operating system
    #: See `Provenance`.
    versions: Mapping[str, str] = field(default_factory=dict)
    boot_environment: Mapping[str, str] = field(default_factory=dict)
    generation: str = ""


@dataclass(frozen=True, slots=True)
class SessionResult:
    """Result of a profiling session."""

    devices: tuple[DeviceProfile, ...]  # devices with enough measurements for a profile
    pairs: tuple[PairProfile, ...]  # in both directions
    complete: bool  # false if the session was interrupted
    notes: tuple[str, ...]  # remarks: a busy machine, failed measurements, omitted devices


def measurement_environment() -> MeasurementEnvironment:
    """Return the surroundings on this machine; loads the runtime."""
    from syclsched import oneapi
    from syclsched.devices.discovery.identity import processor_model

    runtime = oneapi.load()
    # Major and minor version only: the rest of the release often names a private build.
    version = ".".join(operating_system.release().split(".")[:2])
    system = f"{operating_system.system()} {version}"
    where = f"{processor_model()}, {system}"
    return MeasurementEnvironment(where, runtime.versions, runtime.boot_environment, runtime.generation)


def profile_platform(
    platform: Platform,
    devices: QueueProvider,
    budget: SessionBudget,
    *,
    sampler: Sampler | None = None,
    progress: Progress | None = None,
    where: MeasurementEnvironment | None = None,
    wanted: Container[frozenset[str]] | None = None,
) -> SessionResult:
    """Measure every device and every pair of devices of a platform, or only the wanted ones, given by their names."""
    sampler = sampler or Sampler()
    sampler = replace(sampler, relative=budget.relative, deadline_s=sampler.clock() + budget.total_s)
    return _Session(budget, sampler, progress, where or MeasurementEnvironment()).run(platform, devices, wanted)


class _Session:
    def __init__(
        self, budget: SessionBudget, sampler: Sampler, progress: Progress | None, where: MeasurementEnvironment
    ) -> None:
        self.budget = budget
        self.sampler = sampler
        self.progress = progress
        self.where = where
        self.notes: list[str] = []

    def run(
        self, platform: Platform, devices: QueueProvider, wanted: Container[frozenset[str]] | None
    ) -> SessionResult:
        before = busy.watch(self.budget.watch_s)
        is_busy = before is not None and before > busy.BUSY_SHARE
        if is_busy:
            self.notes.append(f"before the measurement, other processes took {before:.0%} of the machine")
        profiles: list[DeviceProfile] = []
        pairs: list[PairProfile] = []
        complete = True
        try:
            for device in platform.compute_devices:
                if wanted is not None and frozenset((device.name,)) not in wanted:
                    continue
                shared = platform.space(device.space).host_accessible
                profile = self._device(device, devices, busy_before=is_busy, host_accessible=shared)
                if profile is None:
                    self.notes.append(f"{device.name}: too little was measured for a profile")
                else:
                    profiles.append(profile)
                if profile is None or not profile.provenance.complete:
                    self.sampler.check()
            for first, second in combinations(platform.compute_devices, 2):
                if wanted is not None and frozenset((first.name, second.name)) not in wanted:
                    continue
                pairs.extend(self._pair(first, second, devices))
                self.sampler.check()
        except InterruptedMeasurement:
            complete = False
            self.notes.append("interrupted: what had been measured is kept")
        return SessionResult(tuple(profiles), tuple(pairs), complete, tuple(self.notes))

    # --- one device -------------------------------------------------------------------------------

    def _device(
        self, device: Device, devices: QueueProvider, *, busy_before: bool, host_accessible: bool
    ) -> DeviceProfile | None:
        draft = ProfileDraft()
        start, times = self.sampler.clock(), busy.read_times()
        steps = list(device_steps(device, self.budget))
        complete = True
        with Bench(devices, device, self.sampler) as bench:
            for index, (label, step) in enumerate(steps):
                self._tell(device.name, index, len(steps), label)
                try:
                    self.sampler.check()
                    step(bench, draft)
                except InterruptedMeasurement:
                    complete = False
                    break
                except SyclschedError as error:
                    draft.notes.append(f"{label}: {error}")
                    self.notes.append(f"{device.name}: {label}: {error}")
                bench.release()
        if complete:
            self._tell(device.name, len(steps), len(steps), "")
        if self.sampler.clock() > self.sampler.deadline_s:
            draft.notes.append("time ran out: numbers with a single sample are less certain")
            self.notes.append(f"{device.name}: {draft.notes[-1]}")
        share = busy.others_share(times, busy.read_times())
        is_busy = busy_before or (share is not None and share > busy.BUSY_SHARE)
        if share is not None and share > busy.BUSY_SHARE:
            draft.notes.append(f"other processes took {share:.0%} of the machine meanwhile")
            self.notes.append(f"{device.name}: {draft.notes[-1]}")
        provenance = self._provenance(start, is_busy=is_busy, complete=complete, notes=tuple(draft.notes))
        return finish(device, draft, provenance, host_accessible=host_accessible)

    def _tell(self, subject: str, done: int, total: int, label: str) -> None:
        if self.progress is not None:
            self.progress(subject, done, total, label)

    def _provenance(self, start: float, *, is_busy: bool, complete: bool, notes: tuple[str, ...]) -> Provenance:
        return Provenance(
            date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            duration_s=max(self.sampler.clock() - start, 0.0),
            host=self.where.host,
            versions=dict(self.where.versions),
            boot_environment=dict(self.where.boot_environment),
            busy=is_busy,
            complete=complete,
            notes=(f"budget: {self.budget.name}", *notes),
            generation=self.where.generation,
        )

    # --- pairs ------------------------------------------------------------------------------------

    def _pair(self, first: Device, second: Device, devices: QueueProvider) -> tuple[PairProfile, ...]:
        subject = f"{first.name} + {second.name}"
        start, times = self.sampler.clock(), busy.read_times()
        interference: Quantity | None = None
        hops: dict[bool, Quantity] = {}
        links: dict[bool, LinkFit] = {}
        notes: list[str] = []
        complete = True
        separate = first.space != second.space
        total = 4 if separate else 2
        with Bench(devices, first, self.sampler) as one, Bench(devices, second, self.sampler) as two:
            try:
                self._tell(subject, 0, total, "interference")
                interference = overlap.measure_interference(one, two, self.budget)
                self._tell(subject, 1, total, "events")
                for forward, ends in ((True, (one, two)), (False, (two, one))):
                    hops[forward] = launch.measure_hop(*ends, self.budget)
                for forward, ends in ((True, (one, two)), (False, (two, one))) if separate else ():
                    self._tell(subject, 2 if forward else 3, total, "copies")
                    links[forward] = transfers.measure_link(*ends, self.budget)
            except InterruptedMeasurement:
                complete = False
            except SyclschedError as error:
                notes.append(str(error))
                self.notes.append(f"{subject}: {error}")
        if complete:
            self._tell(subject, total, total, "")
        if interference is None and not hops and not links:
            return ()
        share = busy.others_share(times, busy.read_times())
        is_busy = share is not None and share > busy.BUSY_SHARE
        provenance = self._provenance(start, is_busy=is_busy, complete=complete, notes=tuple(notes))
        return (
            PairProfile(first.key, second.key, provenance, hops.get(True), links.get(True), interference),
            PairProfile(second.key, first.key, provenance, hops.get(False), links.get(False), interference),
        )
