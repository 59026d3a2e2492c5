# SPDX-License-Identifier: Apache-2.0
"""The one generation of SYCL packages that works together, and the commands that install it.

numba-dpex 0.23.0 is linked against ``libDPCTLSyclInterface.so.0`` and ``libsycl.so.7``, so it works with exactly one
generation of the other packages; pip alone resolves to a set that installs but cannot be imported.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Distribution name to its version in this generation.
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

#: Distributions that depend on all the others: enough to install the whole generation.
_TOP_LEVEL: tuple[str, ...] = (
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

#: Distributions searched for libraries, besides those of PINS.
EXTRA_DISTRIBUTIONS: tuple[str, ...] = (
    "intel-openmp",
    "onemkl-sycl-sparse",
    "onemkl-sycl-datafitting",
    "onednn",
    "numpy",
)

#: Distributions for ONNX models: the first reads them, the second makes them fast.
MODEL_DISTRIBUTIONS: tuple[str, ...] = ("onnx", "onednn")

#: Version range for pip besides the pins: NumPy 2 changed the C interface that the pinned packages were built for.
NUMPY_REQUIREMENT = "numpy<2"


#: Prefix of a library's name to the distribution that ships it.
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


def install_command(names: Iterable[str] = _TOP_LEVEL) -> str:
    """Return the pip command that installs the named distributions at their pinned versions."""
    wanted = [f"{name}=={PINS[name]}" if name in PINS else name for name in names]
    return "python -m pip install " + " ".join(f'"{each}"' for each in (*wanted, NUMPY_REQUIREMENT))
