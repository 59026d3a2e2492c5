# SPDX-License-Identifier: Apache-2.0
"""Keys of SPIR-V that numba-dpex makes of the package's own kernels, for the on-disk cache of programs.

What numba-dpex compiles follows from the implementation's ``load`` and the signature. Both are known without importing
numba-dpex, which takes longer than all else in a short run. Kernels that are defined elsewhere may depend on sources
that are not known here; every process compiles them.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

from syclsched.devices.native.sycl_types import SyclDevice
from syclsched.devices.programs.code_description import PACKAGES, described, sources_digest
from syclsched.devices.programs.program_cache import key_of
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Operation, Signature


def spirv_key(
    operation: Operation,
    implementation: Implementation,
    signature: Signature,
    limits: DeviceLimits,
    launch: Launch,
    device: SyclDevice,
) -> str | None:
    """Return the key of an implementation's kernel in SPIR-V; None if it is not a kernel of the package."""
    space = (len(launch.global_range), launch.local_range is not None)
    given = described(operation.parameters, implementation.load, signature, limits, space)
    if given is None:
        return None
    return key_of(device, "numba-dpex", sys.version, _sources(), given, str(device.has_aspect_fp64))


@lru_cache(maxsize=1)
def _sources() -> str:
    """Return a digest of the sources of the packages with described functions, and of the compilation."""
    packages = [sys.modules[name] for name in PACKAGES if name in sys.modules]
    folders = [Path(folder) for package in packages for folder in package.__path__]
    return sources_digest(*folders, Path(__file__).parent)
