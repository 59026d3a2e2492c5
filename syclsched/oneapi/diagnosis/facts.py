# SPDX-License-Identifier: Apache-2.0
"""Inputs of the diagnosis as plain data, gathered from the machine, this Python and the installed packages.

Devices are probed in `syclsched.devices.trust.diagnosis`; the modules beside this one evaluate the data. Nothing here
imports dpctl or any other compiled package, so it works on a machine where those are missing or broken.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from syclsched import processor_flags
from syclsched.compiled import machine_code
from syclsched.folder_trust import why_untrusted
from syclsched.oneapi import built_libraries, emulator, environment, libraries, loading, processor, stack_generation
from syclsched.oneapi.cache_folder import APPLICATION, cache_root
from syclsched.oneapi.opencl_drivers import Driver
from syclsched.oneapi.stack_generation import StackGeneration

_BUSY_SAMPLE_S = 0.2
#: Size of the emulator's library; total size of profiles, verdicts and the programs of a few graphs.
_EMULATOR_BYTES = 104_000_000
_SMALL_FILES_BYTES = 5_000_000
_INTEL_VENDOR = "0x8086"


@dataclass(frozen=True, slots=True)
class RenderNode:
    """A GPU's device file: whether this user may open it, its group, and the vendor (PCI vendor id)."""

    path: str
    readable: bool
    group: str
    vendor: str | None


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is written to.

    `variable` changes its place; `needed_bytes` is the space it should have, `free_bytes` the space left (None if
    unknown).
    """

    path: str
    purpose: str
    variable: str
    writable: bool
    needed_bytes: int
    free_bytes: int | None
    untrusted: str | None = None  # why nothing is loaded from it, if others can write to it


@dataclass(frozen=True, slots=True)
class DeviceFact:
    """A device shown by the runtime, with its verdict; `trusted` is None if the check did not end.

    `refusals` are the libraries that refuse it, with their reasons.
    """

    name: str
    backend: str
    kind: str
    driver: str
    trusted: bool | None
    reason: str | None = None
    skipped: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    has_usm: bool = True  # unified shared memory, which plans keep their arrays in


@dataclass(frozen=True, slots=True)
class Probe:
    """The results of a subprocess that loaded the stack and checked every device.

    `error` and `hint` are set if loading failed; `died` is the signal or exit code if the process ended early, and
    `stderr` the end of its output. `onednn` says why oneDNN does not compute, "" if it does, and None if it was not
    tried. `compiles_for`, `onednn_uses` and `blas_uses` are the instruction sets, as each names them, that the OpenCL
    CPU runtime compiles for, and that oneDNN and NumPy's BLAS have chosen; None if unknown.
    """

    devices: tuple[DeviceFact, ...] = ()
    libraries: tuple[libraries.LibraryFound, ...] = ()
    emulator: str | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None
    hint: str | None = None
    died: str | None = None
    stderr: str = ""
    onednn: str | None = None
    compiles_for: str | None = None
    onednn_uses: str | None = None
    blas_uses: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All inputs of the diagnosis."""

    system: str
    machine: str
    python: tuple[int, int]
    versions: Mapping[str, str]
    needed_sycl: str | None
    sycl_library: str | None
    adapter: str | None
    tbb: tuple[str, ...]  # the different copies of oneTBB that may be loaded
    opencl_loader: str | None
    cpu_driver: str | None
    named_drivers: tuple[Driver, ...]  # OpenCL drivers that the user or vendor files name
    layer: str | None
    submission: str | None
    machine_code: str | None  # instruction set of the planner's machine code; None if it is compiled on first use
    no_machine_code: str  # the reason
    emulator_off: bool
    users_variables: Mapping[str, str]
    target_arch: str | None
    instruction_sets: tuple[str, ...]
    render_nodes: tuple[RenderNode, ...]
    busy_fraction: float | None
    load_average: float | None
    processors: int
    folders: tuple[Folder, ...]
    probe: Probe

    @property
    def generation(self) -> StackGeneration:
        """The generation that most of the installed packages belong to."""
        return stack_generation.intended(self.versions, self.python)


def gather(probe: Probe, environ: Mapping[str, str] = os.environ) -> Facts:
    """Gather the facts about the machine, this Python and the installed packages."""
    own = environment.user_environment(environ)
    places = libraries.sources(own)
    flags = processor_flags.read_flags()
    needed = libraries.needed_sycl_library(libraries.dpctl_folder())
    groups = libraries.groups(stack_generation.installed(), needed)
    sycl_group = next(each for each in groups if _is_sycl(each))
    built, level = machine_code.loaded()
    adapter, sycl_library = (libraries.find_library(name, places) for name in sycl_group.patterns[-2:])
    return Facts(
        system=platform.system(),
        machine=platform.machine(),
        python=sys.version_info[:2],
        versions=loading.installed_versions(),
        needed_sycl=needed,
        sycl_library=sycl_library,
        adapter=adapter,
        tbb=libraries.copies("libtbb.so.12", places),
        opencl_loader=libraries.find_library("libOpenCL.so.1", places) or libraries.known_to_linker("OpenCL"),
        cpu_driver=libraries.find_library(libraries.CPU_ICD_LIBRARY, places),
        named_drivers=loading.ask_drivers(own, places, groups, refresh=True),
        layer=built_libraries.find_layer(),
        submission=built_libraries.find_submission_loop(),
        machine_code=level if built is not None else None,
        no_machine_code=level if built is None else "",
        emulator_off=emulator.switched_off(own),
        users_variables=environment.boot_environment(own),
        target_arch=processor.target_arch(flags),
        instruction_sets=processor.instruction_sets(flags),
        render_nodes=render_nodes(),
        busy_fraction=busy_fraction(),
        load_average=load_average(),
        processors=len(os.sched_getaffinity(0)),
        folders=_folders(emulator_there=probe.emulator is not None),
        probe=probe,
    )


def _is_sycl(group: libraries.LibraryGroup) -> bool:
    return group.name == libraries.SYCL_GROUP


def render_nodes(folder: Path = Path("/dev/dri"), sysfs: Path = Path("/sys/class/drm")) -> tuple[RenderNode, ...]:
    """Return the GPUs' device files and whether this user may open them."""
    nodes = []
    for path in sorted(folder.glob("renderD*")):
        try:
            group = path.group()
        except (KeyError, OSError):
            group = "unknown"  # containers often have the file's group number without its name
        try:
            vendor = (sysfs / path.name / "device" / "vendor").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            vendor = None
        nodes.append(RenderNode(str(path), os.access(path, os.R_OK | os.W_OK), group, vendor))
    return tuple(nodes)


def is_intel(node: RenderNode) -> bool:
    """Return whether a GPU is made by Intel, as far as the system reports."""
    return node.vendor == _INTEL_VENDOR


def busy_fraction(stat: Path = Path("/proc/stat"), sample_s: float = _BUSY_SAMPLE_S) -> float | None:
    """Return the fraction of all processors' time that is not idle, over a short sample; None if unknown."""
    try:
        before = _processor_times(stat)
        time.sleep(sample_s)
        after = _processor_times(stat)
    except (OSError, ValueError, IndexError):
        return None
    total = after[0] - before[0]
    return 1.0 - (after[1] - before[1]) / total if total > 0 else None


def _processor_times(stat: Path) -> tuple[int, int]:
    """Return total and idle time (waiting for I/O included) in clock ticks, from the first line."""
    ticks = [int(each) for each in stat.read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def load_average() -> float | None:
    """Return the mean number of runnable tasks over the last minute; None if unknown."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def folder_fact(path: Path, purpose: str, variable: str, needed_bytes: int, *, holds_code: bool = False) -> Folder:
    """Return whether a folder, or its nearest existing parent, can be written to, its free space, and its trust."""
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    writable = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK) and not _mounted_read_only(existing)
    try:
        status = os.statvfs(existing)
        free: int | None = status.f_bavail * status.f_frsize
    except OSError:
        free = None
    untrusted = why_untrusted(path) if holds_code else None
    return Folder(str(path), purpose, variable, writable, needed_bytes, free, untrusted)


def _mounted_read_only(path: Path) -> bool:
    """Return whether a folder's mount is read-only: root passes every permission check."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _folders(emulator_there: bool) -> tuple[Folder, ...]:
    """Return the cache and data folders; an emulator that exists already needs no more space."""
    import platformdirs

    data = Path(platformdirs.user_data_dir(APPLICATION, appauthor=False))
    needed_bytes = _SMALL_FILES_BYTES if emulator_there else _SMALL_FILES_BYTES + _EMULATOR_BYTES
    return (
        folder_fact(
            cache_root(),
            "cache (FPGA emulator, compiled programs, verdicts)",
            "XDG_CACHE_HOME",
            needed_bytes,
            holds_code=True,
        ),
        folder_fact(data, "data (device profiles)", "XDG_DATA_HOME", _SMALL_FILES_BYTES),
    )
