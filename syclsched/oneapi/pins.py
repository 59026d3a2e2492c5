# SPDX-License-Identifier: Apache-2.0
"""The one generation of SYCL packages that works together, as data, and the commands that install it.

numba-dpex 0.23.0 is linked against ``libDPCTLSyclInterface.so.0`` and ``libsycl.so.7``, so it works with exactly one
generation of its neighbours; pip alone resolves to a set that installs and cannot be imported.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Distribution name to the version that belongs together.
PINS: dict[str, str] = {
    "dpctl": "0.17.0",
    "dpnp": "0.15.0",
    "numba-dpex": "0.23.0",
    "numba": "0.59.1",
    "dpcpp-cpp-rt": "2024.2.1",
    "intel-cmplr-lib-rt": "2024.2.1",
    "intel-cmplr-lib-ur": "2024.2.1",
    "intel-sycl-rt": "2024.2.1",
    "intel-opencl-rt": "2024.2.1",
    "mkl": "2024.2.2",
    "onemkl-sycl-blas": "2024.2.2",
    "onemkl-sycl-lapack": "2024.2.2",
    "onemkl-sycl-dft": "2024.2.2",
    "onemkl-sycl-vm": "2024.2.2",
    "onemkl-sycl-rng": "2024.2.2",
    "onemkl-sycl-stats": "2024.2.2",
}

#: Distributions looked into for libraries, besides those of PINS.
EXTRA_DISTRIBUTIONS: tuple[str, ...] = (
    "tbb",
    "intel-openmp",
    "onemkl-sycl-sparse",
    "onemkl-sycl-datafitting",
    "dpcpp-llvm-spirv",
    "onednn",
    "numpy",
)

#: Range pip must be given besides the pins: NumPy 2 changed the C interface the pinned packages were built for.
NUMPY_REQUIREMENT = "numpy<2"


def install_command(names: Iterable[str] = PINS) -> str:
    """Return the pip command that installs the named distributions at their pinned versions.

    Parameters
    ----------
    names : iterable of str
        Keys of `PINS`; names without a pin are given as they are.
    """
    wanted = [f"{name}=={PINS[name]}" if name in PINS else name for name in names]
    return "python -m pip install " + " ".join(f'"{each}"' for each in (*wanted, NUMPY_REQUIREMENT))
