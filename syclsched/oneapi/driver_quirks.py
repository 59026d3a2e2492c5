# SPDX-License-Identifier: Apache-2.0
"""Faults of OpenCL drivers that trying cannot find before they do harm, each with the setting that avoids it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from syclsched.oneapi.opencl_drivers import Driver

_POCL: Final = "Portable Computing Language"


@dataclass(frozen=True, slots=True)
class Quirk:
    """A fault of some versions of a driver, and a variable of its own that avoids it."""

    platform: str  # name of the driver's OpenCL platform
    version: str  # a part of the platform's version
    variable: str
    value: str
    reason: str


QUIRKS: Final[tuple[Quirk, ...]] = (
    Quirk(
        _POCL,
        "LLVM 18",
        "POCL_WORK_GROUP_METHOD",
        "cbs",
        "PoCL's compiler ends the process for some kernels ('Instruction Combining did not reach a fixpoint', "
        "https://github.com/pocl/pocl/issues/1608), which the other method to make work-groups does not meet",
    ),
)

#: Platform of a driver to the prefix of the variables that only this driver reads.
_OWN_VARIABLES: Final = {_POCL: "POCL_"}


def needed_settings(drivers: Iterable[Driver]) -> dict[str, str]:
    """Return the variables to set, where the user has not set them, before these drivers are loaded."""
    seen = [(device.platform, device.platform_version) for driver in drivers for device in driver.devices]
    return {
        quirk.variable: quirk.value
        for quirk in QUIRKS
        if any(platform == quirk.platform and quirk.version in version for platform, version in seen)
    }


def variables_of(platform: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment without those that only drivers of other platforms read."""
    others = tuple(prefix for name, prefix in _OWN_VARIABLES.items() if not platform.startswith(name))
    return {name: value for name, value in environment.items() if not name.startswith(others)}
