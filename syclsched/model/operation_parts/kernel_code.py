# SPDX-License-Identifier: Apache-2.0
"""Code of kernels: sources, modules, index spaces of launches, and the device limits they depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.model.text.units import plural


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Limits of a device, for choosing launch ranges and for `Tailored` code.

    Parameters
    ----------
    max_work_group_size : int
        Maximum work-group size.
    compute_units : int
        Number of compute units.
    local_memory_bytes : int
        Local memory of a work-group, in bytes.
    sub_group_sizes : tuple of int, optional
        Supported sub-group sizes, ascending; empty if the device does not report them.

    Examples
    --------
    >>> import syclsched
    >>> limits = syclsched.DeviceLimits(max_work_group_size=1024, compute_units=64, local_memory_bytes=65536)
    >>> min(256, limits.max_work_group_size)
    256
    """

    max_work_group_size: int
    compute_units: int
    local_memory_bytes: int
    sub_group_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Index space of a kernel launch.

    Parameters
    ----------
    global_range : tuple of int
        Work-items per dimension (1 to 3 dimensions).
    local_range : tuple of int or None, optional
        Work-group size per dimension, dividing ``global_range``; None lets the runtime choose.

    Examples
    --------
    >>> import syclsched
    >>> launch = syclsched.Launch((1024, 512), (16, 16))  # 1024 x 512 work-items in groups of 16 x 16
    """

    global_range: tuple[int, ...]
    local_range: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class OpenCLSource:
    """OpenCL C code, as returned by ``load`` of an ``opencl-c`` implementation.

    Parameters
    ----------
    source : str
        OpenCL C program.
    kernel_name : str
        Name of the kernel in it.
    options : str, optional
        Build options.
    extents : tuple[int, ...], optional
        Numbers of 32 bits that the kernel takes as its last arguments, each an ``int``; those of single precision as
        their bits, for ``as_float``. A kernel that takes all numbers
        that depend on shapes so is compiled once for all shapes.
    open_ended : bool, optional
        Whether the time of the kernel follows from values of its arrays and has no limit of some seconds, as that of a
        loop until a condition. No run executes such a kernel on the thread that calls it, where Ctrl-C would wait.

    Raises
    ------
    syclsched.errors.ArgumentError
        An extent does not fit into 32 bits.

    Examples
    --------
    >>> import syclsched
    >>> code = syclsched.OpenCLSource(
    ...     "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }", "twice", options="-cl-mad-enable"
    ... )
    """

    source: str
    kernel_name: str
    options: str = ""
    extents: tuple[int, ...] = ()
    open_ended: bool = False

    def __post_init__(self) -> None:
        for each in self.extents:
            if not -(1 << 31) <= each < 1 << 31:
                raise ArgumentError(
                    f"{each} does not fit into an int of 32 bits",
                    where=f"extents of kernel {self.kernel_name!r}",
                    hint="Write it into the source, or pass it as a scalar of the operation",
                )

    def __repr__(self) -> str:
        options = f", options {self.options!r}" if self.options else ""
        return f"<OpenCLSource of {self.kernel_name!r}: {plural(len(self.source.splitlines()), 'line')}{options}>"


@dataclass(frozen=True, slots=True)
class SpirvModule:
    """SPIR-V code, as returned by ``load`` of a ``spirv`` implementation.

    Parameters
    ----------
    code : bytes
        SPIR-V module.
    kernel_name : str
        Name of the kernel in it.

    Examples
    --------
    >>> import syclsched
    >>> def load(signature):
    ...     with open("twice.spv", "rb") as file:
    ...         return syclsched.SpirvModule(file.read(), "twice")
    >>> way = syclsched.Implementation("own", "spirv", load, lambda signature, limits: syclsched.Launch((64,)))
    """

    code: bytes
    kernel_name: str

    def __repr__(self) -> str:
        return f"<SpirvModule of {self.kernel_name!r}: {plural(len(self.code), 'byte')}>"


@dataclass(frozen=True, slots=True)
class Tailored:
    """Device-dependent kernel code, as returned by ``load``: work-group and local memory sizes depend on the device.

    Parameters
    ----------
    of : Callable[[DeviceLimits], Any]
        Returns the code for a device with these limits, of the type that ``load`` returns otherwise. It must be
        consistent with ``Implementation.launch``.

    Examples
    --------
    >>> import syclsched
    >>> def code(limits):
    ...     size = min(256, limits.max_work_group_size)
    ...     return syclsched.OpenCLSource(
    ...         "kernel void twice(global float *x) { x[get_global_id(0)] *= 2; }", "twice", f"-D SIZE={size}"
    ...     )
    >>> tailored = syclsched.Tailored(code)
    >>> tailored.of(syclsched.DeviceLimits(128, 4, 32768)).options
    '-D SIZE=128'
    """

    of: Callable[[DeviceLimits], Any]
