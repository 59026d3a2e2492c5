# SPDX-License-Identifier: Apache-2.0
"""The two generations of SYCL packages that work together: pins, libraries, supported Pythons, and install commands.

All differences between the generations that can be written as data are here; those of Python interfaces are in
`dpctl_interface`. No other module asks for a generation's name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class StackGeneration:
    """Packages of one generation, pinned to the versions that work together, and the names that depend on it."""

    name: str
    #: Distribution name to its version.
    pins: Mapping[str, str]
    #: Distributions that depend on all the others: enough to install the whole generation.
    top_level: tuple[str, ...]
    #: Distributions without which no device can be used.
    required: tuple[str, ...]
    #: First and excluded last NumPy release that the pinned packages work with.
    numpy_start: tuple[int, int]
    numpy_end: tuple[int, int]
    #: First and last CPython version with packages of the generation.
    pythons: tuple[tuple[int, int], tuple[int, int]]
    sycl_library: str
    #: The library through which the SYCL runtime loads OpenCL devices.
    adapters: tuple[str, ...]
    #: Domains of oneMKL with a library each that dpnp calls.
    mkl_domains: tuple[str, ...]
    #: dpctl's C interface, as its own modules load it.
    dpctl_interface: str
    #: Module of ``usm_ndarray`` and its functions.
    array_module: str
    #: Its advantages for a user.
    advantages: str
    #: The command that installs the package with it, in a new environment and a checkout.
    change_command: str

    def supports_python(self, version: tuple[int, int]) -> bool:
        """Return whether a CPython version has packages of the generation."""
        return self.pythons[0] <= version <= self.pythons[1]

    @property
    def numpy_requirement(self) -> str:
        """The range of NumPy releases, as pip writes it."""
        return "numpy>={}.{},<{}".format(*self.numpy_start, self.numpy_end[0])

    def mismatched_packages(self, versions: Mapping[str, str]) -> tuple[str, ...]:
        """Return the installed distributions of the stack that are of another release than this generation's.

        oneTBB is compatible over many releases and counts as one of any generation.
        """
        found = [
            name
            for each in GENERATIONS
            for name in each.pins
            if name in versions and name != "tbb" and _release(versions[name]) != _release(self.pins.get(name))
        ]
        numpy = _release(versions.get("numpy"))
        if numpy is not None and numpy >= self.numpy_end:
            found.append("numpy")
        return tuple(dict.fromkeys(found))

    def describe_mixed(self, versions: Mapping[str, str]) -> tuple[str, str]:
        """Return a description of a mixed installation, and the command that makes it one of this generation."""
        mismatched = self.mismatched_packages(versions)
        rest = [name for name in self.required if name in versions and name not in mismatched][:_MOST_NAMED]
        what = " beside ".join(
            ", ".join(f"{name} {versions[name]}" for name in names) for names in (mismatched, rest) if names
        )
        foreign = [name for name in mismatched if name not in self.pins and name != "numpy"]
        known = [name for name in mismatched if name in self.pins]
        commands = [f"python -m pip uninstall -y {' '.join(foreign)}"] if foreign else []
        if known:
            commands.append(self.install_command(known))
        elif "numpy" in mismatched:
            commands.append(f'python -m pip install "{self.numpy_requirement}"')
        return f"packages that do not belong together: {what}", " && ".join(commands)

    def install_command(self, names: Iterable[str] = ()) -> str:
        """Return the pip command that installs distributions, by default all, at their pinned versions."""
        wanted = [f"{name}=={self.pins[name]}" if name in self.pins else name for name in names or self.top_level]
        return "python -m pip install " + " ".join(f'"{each}"' for each in (*wanted, self.numpy_requirement))


NUMBA_DPEX = StackGeneration(
    name="numba-dpex",
    pins={
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
        "onednn": "2024.2.1",
    },
    top_level=(
        "numba-dpex",
        "dpctl",
        "dpnp",
        "numba",
        "dpcpp-cpp-rt",
        "dpcpp-llvm-spirv",
        "intel-opencl-rt",
        "intel-cmplr-lib-rt",
        "mkl-dpcpp",
    ),
    required=("dpctl", "dpnp", "numba-dpex", "numba", "intel-sycl-rt", "intel-opencl-rt", "intel-cmplr-lib-rt"),
    numpy_start=(1, 24),
    numpy_end=(2, 0),
    pythons=((3, 10), (3, 11)),
    sycl_library="libsycl.so.7",
    adapters=("libpi_opencl.so",),
    mkl_domains=("blas", "lapack", "dft", "vm", "rng", "stats"),
    dpctl_interface="libDPCTLSyclInterface.so.0",
    array_module="dpctl.tensor",
    advantages="the FPGA emulator as a further device, and kernels compiled by numba-dpex",
    change_command="python -m pip install -C generation=numba-dpex -e .",
)

CURRENT = StackGeneration(
    name="current",
    pins={
        "dpctl": "0.22.1",
        "dpnp": "0.20.0",
        "numba": "0.68.1",
        "dpcpp-cpp-rt": "2026.1.2",
        "intel-cmplr-lib-rt": "2026.1.2",
        "intel-cmplr-lib-ur": "2026.1.2",
        "intel-sycl-rt": "2026.1.2",
        "intel-opencl-rt": "2026.1.2",
        "mkl": "2026.1.0",
        "onemkl-sycl-blas": "2026.1.0",
        "onemkl-sycl-lapack": "2026.1.0",
        "onemkl-sycl-dft": "2026.1.0",
        "onemkl-sycl-vm": "2026.1.0",
        "onemkl-sycl-rng": "2026.1.0",
        "onednn": "2026.0.2",
    },
    top_level=(
        "dpctl",
        "dpnp",
        "numba",
        "dpcpp-cpp-rt",
        "intel-cmplr-lib-rt",
        "intel-cmplr-lib-ur",
        "intel-sycl-rt",
        "intel-opencl-rt",
        "mkl",
        "onemkl-sycl-blas",
        "onemkl-sycl-lapack",
        "onemkl-sycl-dft",
        "onemkl-sycl-vm",
        "onemkl-sycl-rng",
    ),
    required=("dpctl", "dpnp", "numba", "intel-sycl-rt", "intel-opencl-rt", "intel-cmplr-lib-rt", "intel-cmplr-lib-ur"),
    numpy_start=(1, 26),
    numpy_end=(3, 0),
    pythons=((3, 10), (3, 14)),
    sycl_library="libsycl.so.9",
    adapters=("libur_loader.so.0", "libur_adapter_opencl.so.0"),
    mkl_domains=("blas", "lapack", "dft", "vm", "rng"),
    dpctl_interface="libDPCTLSyclInterface.so",
    array_module="dpnp.tensor",
    advantages="NumPy 2, Pythons up to 3.14, and this year's drivers of CPU and GPU",
    change_command="python -m pip install -C generation=current -e .",
)

GENERATIONS = (NUMBA_DPEX, CURRENT)

#: Distributions searched for libraries, besides the pinned ones.
EXTRA_DISTRIBUTIONS: tuple[str, ...] = ("intel-openmp", "onemkl-sycl-sparse", "onemkl-sycl-datafitting", "tbb", "numpy")

#: Distributions for ONNX models: the first reads them, the second makes them fast.
MODEL_DISTRIBUTIONS: tuple[str, ...] = ("onnx", "onednn")

#: Most packages of a generation that a message about a mixed installation names.
_MOST_NAMED = 3

#: All distributions of the stack, of either generation.
DISTRIBUTIONS: tuple[str, ...] = tuple(
    dict.fromkeys((*(name for each in GENERATIONS for name in each.pins), *EXTRA_DISTRIBUTIONS, *MODEL_DISTRIBUTIONS))
)

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


def generation_of(versions: Mapping[str, str], python: tuple[int, int]) -> StackGeneration:
    """Return the generation that the installed dpctl belongs to; without one, the default of the Python version."""
    release = _release(versions.get("dpctl"))
    if release is not None:
        return CURRENT if release >= _OLDEST_CURRENT_DPCTL else NUMBA_DPEX
    return default_for(python)


def default_for(python: tuple[int, int]) -> StackGeneration:
    """Return the generation that an installation on a Python version has if the user does not choose."""
    return NUMBA_DPEX if python <= NUMBA_DPEX.pythons[1] else CURRENT


def intended(versions: Mapping[str, str], python: tuple[int, int]) -> StackGeneration:
    """Return the generation that most of the installed distributions belong to; if equally many do, the default's."""
    default = default_for(python)
    others = [each for each in GENERATIONS if each is not default and each.supports_python(python)]
    return max(
        (default, *others),
        key=lambda each: len(each.pins.keys() & versions.keys()) - len(each.mismatched_packages(versions)),
    )


@lru_cache(maxsize=1)
def installed() -> StackGeneration:
    """Return this installation's generation."""
    from importlib import metadata

    try:
        versions = {"dpctl": metadata.version("dpctl")}
    except metadata.PackageNotFoundError:
        versions = {}
    return generation_of(versions, sys.version_info[:2])


def shipped_by(library: str) -> str | None:
    """Return the distribution that ships a library, if it is one of the stack's."""
    return next((owner for start, owner in _SHIPPED_BY.items() if library.startswith(start)), None)


def _release(version: str | None) -> tuple[int, ...] | None:
    """Return the first two parts of a version as numbers; None if they are none."""
    parts = (version or "").split(".")[:2]
    return tuple(int(each) for each in parts) if len(parts) == 2 and all(each.isdigit() for each in parts) else None


#: The first dpctl whose C interface has no version in its name; 0.17 is the last that numba-dpex is linked against.
_OLDEST_CURRENT_DPCTL = (0, 18)
