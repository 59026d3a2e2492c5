# SPDX-License-Identifier: Apache-2.0
"""Environment variables of the SYCL stack: those it needs and the user has not set.

Child processes inherit the variables, and must not take them for the user's choice: one more variable records which
were set and the user's values before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from syclsched.oneapi.processor import TARGET_ARCH_VARIABLE

ICD_VARIABLE = "OCL_ICD_FILENAMES"
VENDORS_VARIABLE = "OCL_ICD_VENDORS"
LAYERS_VARIABLE = "OPENCL_LAYERS"
HOST_TASK_THREADS_VARIABLE = "SYCL_QUEUE_THREAD_POOL_SIZE"
RECORD_VARIABLE = "SYCLSCHED_BOOT_ENVIRONMENT"
#: Variables that change the visible devices, the code generated for them, or how they run it.
_BOOT_PREFIXES = ("CL_CONFIG_", "POCL_", "IGC_", "NUMBA_DPEX_", "SYCL_PROGRAM_")
_BOOT_NAMES = frozenset(
    (
        "ONEAPI_DEVICE_SELECTOR",
        "SYCL_DEVICE_FILTER",
        "SYCL_DEVICE_ALLOWLIST",
        "NUMBA_OPT",
        "ZE_AFFINITY_MASK",
        "ZE_FLAT_DEVICE_HIERARCHY",
    )
)
#: Name of a platform to the prefix of the variables that no other driver reads: they must not change other devices'
#: keys, under which profiles and programs are kept.
_OWN_PREFIXES = {"Portable Computing Language": "POCL_"}
#: Of these only the files' base names count: the same library in another folder generates the same code.
_BOOT_FILE_NAMES = frozenset((ICD_VARIABLE, VENDORS_VARIABLE, LAYERS_VARIABLE))


@dataclass(frozen=True, slots=True)
class RequestedSettings:
    """The settings requested by the stack that was found; None where nothing is to be set.

    `harmless_drivers` are those of the drivers named by the user and by vendor files that may be loaded, if some may
    not. The loader then gets a list of them, and `no_vendor_files` as its folder of vendor files.
    """

    icd_files: tuple[str, ...] = ()
    layer: str | None = None
    target_arch: str | None = None
    harmless_drivers: tuple[str, ...] | None = None
    no_vendor_files: str = ""


def user_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment as the user made it, without variables that a parent process set here."""
    own = {name: value for name, value in environ.items() if name != RECORD_VARIABLE}
    for name, (ours, original) in _record(environ).items():
        if environ.get(name) == ours:
            if original is None:
                own.pop(name)
            else:
                own[name] = original
    return own


def _record(environ: Mapping[str, str]) -> dict[str, tuple[str, str | None]]:
    """Return the variables set by a parent process: name to (value set, the user's value before)."""
    try:
        entries = json.loads(environ.get(RECORD_VARIABLE, "{}"))
        return {str(name): (str(ours), original) for name, (ours, original) in entries.items()}
    except (ValueError, TypeError, AttributeError):
        return {}  # not written by this module, so it has set nothing


def decide(own: Mapping[str, str], requested: RequestedSettings) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables to set, and notes on those left as the user has set them."""
    values: dict[str, str] = {}
    notes: list[str] = []
    if ICD_VARIABLE in own:
        notes.append(f"{ICD_VARIABLE} is the user's own ({own[ICD_VARIABLE]}): no OpenCL driver was added to it")
    elif requested.icd_files:
        values[ICD_VARIABLE] = ":".join(requested.icd_files)
    if requested.harmless_drivers is not None:
        first = () if ICD_VARIABLE in own else requested.icd_files
        values[ICD_VARIABLE] = ":".join((*first, *requested.harmless_drivers))
        values[VENDORS_VARIABLE] = requested.no_vendor_files
    if requested.layer is not None:
        values[LAYERS_VARIABLE] = appended(own.get(LAYERS_VARIABLE), requested.layer)
    if HOST_TASK_THREADS_VARIABLE in own:
        notes.append(f"{HOST_TASK_THREADS_VARIABLE} is the user's own ({own[HOST_TASK_THREADS_VARIABLE]})")
    else:
        # SYCL 2026 starts several: each of oneDNN's primitives then runs on another thread than the one before, wakes
        # other workers of oneTBB, and takes up to twice as long. SYCL 2024 starts one.
        values[HOST_TASK_THREADS_VARIABLE] = "1"
    if TARGET_ARCH_VARIABLE in own:
        notes.append(f"{TARGET_ARCH_VARIABLE} is the user's own ({own[TARGET_ARCH_VARIABLE]})")
    elif requested.target_arch is not None:
        values[TARGET_ARCH_VARIABLE] = requested.target_arch
    return values, tuple(notes)


def appended(current: str | None, layer: str) -> str:
    """Return the value of ``OPENCL_LAYERS`` with the layer after the user's own (the loader splits at colons)."""
    layers = [each for each in (current or "").split(":") if each]
    return ":".join([*layers, layer] if layer not in layers else layers)


def apply(environ: MutableMapping[str, str], values: Mapping[str, str]) -> None:
    """Set the variables, and record the values they replace."""
    own = user_environment(environ)
    for name in _record(environ):
        if name in own:
            environ[name] = own[name]
        else:
            environ.pop(name, None)
    environ.update(values)
    environ[RECORD_VARIABLE] = json.dumps({name: [value, own.get(name)] for name, value in values.items()})


def repair(environ: MutableMapping[str, str], values: Mapping[str, str]) -> None:
    """Set the variables' values again.

    The OpenCL loader truncates lists of files at the first colon, in place, in the environment that child processes
    inherit.
    """
    environ.update(values)


def boot_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the current variables that change generated code or the devices' behaviour."""
    boot: dict[str, str] = {}
    for name, value in sorted(environ.items()):
        if name in _BOOT_FILE_NAMES:
            boot[name] = ":".join(os.path.basename(each) for each in value.split(":"))
        elif name in _BOOT_NAMES or name.startswith(_BOOT_PREFIXES):
            boot[name] = value
    return boot


def variables_for(platform: str, boot: Mapping[str, str]) -> dict[str, str]:
    """Return the boot environment without the variables that only the drivers of other SYCL platforms read."""
    others = tuple(prefix for name, prefix in _OWN_PREFIXES.items() if not platform.startswith(name))
    return {name: value for name, value in boot.items() if not name.startswith(others)}
