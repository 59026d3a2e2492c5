# SPDX-License-Identifier: Apache-2.0
"""The backends by name, each defined in a file of this folder."""

from __future__ import annotations

from typing import Final

from syclsched.devices.backends.level_zero import LevelZero
from syclsched.devices.backends.opencl import OpenCL
from syclsched.devices.backends.sycl import Backend
from syclsched.devices.native.sycl_types import SyclDevice, SyclQueue
from syclsched.model.platform import backend_facts

#: By SYCL's name of the backend.
BACKENDS: Final[dict[str, Backend]] = {
    each.facts.name: each for each in (OpenCL(backend_facts("opencl")), LevelZero(backend_facts("level_zero")))
}
#: By names of backend and SYCL platform, for a driver that is not as the others of its backend: PoCL's would be
#: ``("opencl", "Portable Computing Language")``.
DRIVERS: Final[dict[tuple[str, str], Backend]] = {}


def backend_of(queue: SyclQueue) -> Backend:
    """Return the backend of a queue; not to be called for each submission."""
    return backend_of_device(queue.sycl_device)


def backend_of_device(device: SyclDevice) -> Backend:
    """Return the backend of a device, the general SYCL path if it has no file."""
    name = device.backend.name
    if DRIVERS and (found := DRIVERS.get((name, device.sycl_platform.name.strip()))) is not None:
        return found
    return BACKENDS.get(name) or Backend(backend_facts(name))
