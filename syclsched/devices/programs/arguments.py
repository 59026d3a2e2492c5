# SPDX-License-Identifier: Apache-2.0
"""Kernel arguments: arrays and scalars flattened to the argument list of a SYCL queue."""

from __future__ import annotations

import ctypes
import math
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.native.sycl_types import SyclQueue
from syclsched.errors import ArgumentError
from syclsched.model.operation import OpenCLSource, Parameter, Scalar, Signature

_CTYPES: dict[str, Any] = {
    "bool": ctypes.c_uint8,
    "int8": ctypes.c_uint8,  # dpctl accepts no signed bytes; the bits are the same
    "uint8": ctypes.c_uint8,
    "int16": ctypes.c_int16,
    "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32,
    "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}
_COMPLEX_PARTS = {"complex64": ctypes.c_float, "complex128": ctypes.c_double}


def scalar_dtype(parameter: Parameter, signature: Signature) -> str:
    """Return the NumPy dtype name that a scalar parameter is passed as."""
    return signature.dtypes[parameter.like] if parameter.like is not None else np.dtype(parameter.dtype).name


def flatten_scalar(name: str, value: Scalar, dtype: str) -> list[Any]:
    """Return a scalar as kernel arguments: one, or real and imaginary part."""
    if dtype in _COMPLEX_PARTS:
        part = _COMPLEX_PARTS[dtype]
        number = complex(value)
        return [part(number.real), part(number.imag)]
    if dtype == "float16":  # ctypes and dpctl have no half type: pass its bits as uint16
        return [ctypes.c_uint16(int(np.float16(value).view(np.uint16)))]
    if dtype not in _CTYPES:
        raise ArgumentError(
            f"a scalar of dtype {dtype} cannot be passed to a kernel by value",
            where=f"argument {name!r}",
            hint="Pass it as an array of one element",
        )
    if dtype.startswith("float"):
        return [_CTYPES[dtype](float(value))]
    if value != int(value):
        raise ArgumentError(f"{value!r} is not a whole number, dtype {dtype} is wanted", where=f"argument {name!r}")
    if dtype != "bool" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise ArgumentError(f"{value!r} does not fit dtype {dtype}", where=f"argument {name!r}")
    return [_CTYPES[dtype](bool(value) if dtype == "bool" else int(value))]  # ctypes wraps negative bytes


def flatten_extents(code: Any) -> list[Any]:
    """Return the extents of OpenCL C as a kernel's last arguments; other code has none."""
    return [ctypes.c_int32(each) for each in code.extents] if isinstance(code, OpenCLSource) else []


class ArrayForm(Enum):
    """The kernel arguments that a kernel takes for a C-contiguous array."""

    #: Its pointer: OpenCL C and ready SPIR-V.
    POINTER = "pointer"
    #: Its pointer and extents: kernels of the package's own compiler.
    EXTENTS = "pointer and extents"
    #: Number of elements, bytes of an element, pointer, extents, strides in elements: numba-dpex 0.23. The order is
    #: that of its ``USMArrayDeviceModel``.
    DESCRIPTOR = "descriptor"


@lru_cache(maxsize=4096)
def _array_metadata(shape: tuple[int, ...], itemsize_bytes: int, form: ArrayForm) -> tuple[list[Any], list[Any]]:
    """Return the arguments before and after the pointer of a C-contiguous array."""
    if form is not ArrayForm.DESCRIPTOR:
        return [], [ctypes.c_int64(n) for n in shape] if form is ArrayForm.EXTENTS else []
    strides: list[int] = []
    count = 1
    for extent in reversed(shape):
        strides.insert(0, count)
        count *= extent
    before = [ctypes.c_int64(count), ctypes.c_int64(itemsize_bytes)]
    return before, [ctypes.c_int64(n) for n in (*shape, *strides)]


def flatten_array(array: Any, form: ArrayForm) -> list[Any]:
    """Return a C-contiguous array as kernel arguments."""
    if form is ArrayForm.POINTER:
        return [pointer(array)]
    before, after = _array_metadata(tuple(array.shape), int(array.itemsize), form)
    return [*before, pointer(array), *after]


class BoundArray:
    """An array with its kernel arguments, computed once for many launches."""

    __slots__ = ("_array", "_dtype", "_flat", "_memory", "_queue", "_shape")

    def __init__(self, memory: MemoryRange, shape: tuple[int, ...], dtype: str, queue: SyclQueue) -> None:
        self._memory, self._shape, self._dtype, self._queue = memory, shape, dtype, queue
        self._array: Any = None
        self._flat: dict[ArrayForm, list[Any]] = {ArrayForm.POINTER: [memory]}

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return np.dtype(self._dtype)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self._shape) * self.dtype.itemsize

    @property
    def memory(self) -> Any:
        """The array's memory as dpctl memory object."""
        return self._memory.memory

    @property
    def _pointer(self) -> int:
        """Address of the first element; ``usm_ndarray`` has the same attribute."""
        return self._memory._pointer

    def flat(self, form: ArrayForm) -> list[Any]:
        """Return the array as kernel arguments; see `flatten_array`."""
        found = self._flat.get(form)
        if found is None:
            before, after = _array_metadata(self._shape, np.dtype(self._dtype).itemsize, form)
            found = self._flat[form] = [*before, self._memory, *after]
        return found

    @property
    def array(self) -> Any:
        """The array as ``usm_ndarray``, for libraries."""
        if self._array is None:
            self._array = self._memory.usm_array(self._shape, self._dtype, self._queue)
        return self._array


def pointer(array: Any) -> Any:
    """Return the USM memory object of an array, whose pointer is that of the first element."""
    return array.usm_data
