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
    "dpcpp-llvm-spirv": "2024.2.0",
    "intel-cmplr-lib-rt": "2024.2.1",
    "intel-cmplr-lib-ur": "2024.2.1",
    "intel-sycl-rt": "2024.2.1",
    "intel-opencl-rt": "2024.2.1",
    "tbb": "2021.13.1",
    "mkl": "2024.2.2",
    "mkl-dpcpp": "2024.2.2",
    "onemkl-sycl-blas": "2024.2.2",
    "onemkl-sycl-lapack": "2024.2.2",
    "onemkl-sycl-dft": "2024.2.2",
    "onemkl-sycl-vm": "2024.2.2",
    "onemkl-sycl-rng": "2024.2.2",
    "onemkl-sycl-stats": "2024.2.2",
}

#: Those that need all the others: naming them is enough to install the whole generation.
TOP_LEVEL: tuple[str, ...] = (
    "numba-dpex",
    "dpctl",
    "dpnp",
    "numba",
    "dpcpp-cpp-rt",
    "dpcpp-llvm-spirv",
    "intel-opencl-rt",
    "intel-cmplr-lib-rt",
    "mkl-dpcpp",
)

#: Distributions looked into for libraries, besides those of PINS.
EXTRA_DISTRIBUTIONS: tuple[str, ...] = (
    "intel-openmp",
    "onemkl-sycl-sparse",
    "onemkl-sycl-datafitting",
    "onednn",
    "numpy",
)

#: What ONNX models need besides: the first reads them, the second is fast.
MODEL_DISTRIBUTIONS: tuple[str, ...] = ("onnx", "onednn")

#: Range pip must be given besides the pins: NumPy 2 changed the C interface the pinned packages were built for.
NUMPY_REQUIREMENT = "numpy<2"


#: First letters of a library's name to the distribution that ships it.
_SHIPPED_BY: dict[str, str] = {
    "libDPCTL": "dpctl",
    "libintlc": "intel-cmplr-lib-rt",
    "libsvml": "intel-cmplr-lib-rt",
    "libirng": "intel-cmplr-lib-rt",
    "libimf": "intel-cmplr-lib-rt",
    "libtbb": "tbb",
    "libOpenCL": "intel-opencl-rt",
    "libintelocl": "intel-opencl-rt",
    "libsycl": "intel-sycl-rt",
    "libpi_": "intel-sycl-rt",
    "libur_": "intel-cmplr-lib-ur",
    "libmkl_sycl_blas": "onemkl-sycl-blas",
    "libmkl_sycl_lapack": "onemkl-sycl-lapack",
    "libmkl_sycl_dft": "onemkl-sycl-dft",
    "libmkl_sycl_vm": "onemkl-sycl-vm",
    "libmkl_sycl_rng": "onemkl-sycl-rng",
    "libmkl_sycl_stats": "onemkl-sycl-stats",
    "libmkl_": "mkl",
}


def shipped_by(library: str) -> str | None:
    """Return the distribution that ships a library, if it is one of the stack's."""
    return next((owner for start, owner in _SHIPPED_BY.items() if library.startswith(start)), None)


def install_command(names: Iterable[str] = TOP_LEVEL) -> str:
    """Return the pip command that installs the named distributions at their pinned versions."""
    wanted = [f"{name}=={PINS[name]}" if name in PINS else name for name in names]
    return "python -m pip install " + " ".join(f'"{each}"' for each in (*wanted, NUMPY_REQUIREMENT))
