# SPDX-License-Identifier: Apache-2.0
"""Kernel signatures and compiled kernels: the types a kernel is compiled for, and how its arguments are passed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias

from syclsched.errors import KernelCompilationError
from syclsched.kernel_compiler.kernel_api.memory_model import AddressSpace

#: The highest number of dimensions of an index space.
MAX_DIMENSIONS: Final = 3


@dataclass(frozen=True, slots=True)
class ItemArgument:
    """The first parameter of a kernel: an ``Item``, or an ``NdItem`` if work-items form work-groups."""

    dimensions: int
    grouped: bool = False


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An array in USM memory.

    Layout ``C`` or ``F`` is contiguous: the kernel computes the strides from the extents. ``A`` is any other array: its
    strides are passed, in elements.
    """

    dtype: str
    ndim: int
    layout: Literal["C", "F", "A"] = "C"
    address_space: AddressSpace = AddressSpace.GLOBAL


@dataclass(frozen=True, slots=True)
class ScalarArgument:
    """A number passed by value."""

    dtype: str


@dataclass(frozen=True, slots=True)
class LocalArgument:
    """A ``LocalAccessor``: memory shared by a work-group, contiguous.

    With a ``shape``, the memory is part of the kernel and takes no kernel argument. Without one, its size is given at
    launch.
    """

    dtype: str
    ndim: int
    shape: tuple[int, ...] | None = None


DataArgument: TypeAlias = ArrayArgument | ScalarArgument | LocalArgument
Argument: TypeAlias = ItemArgument | DataArgument


class Part(Enum):
    """Content of a kernel argument: the part of a Python argument that it holds."""

    POINTER = "pointer"
    LOCAL_MEMORY = "local memory"
    EXTENT = "extent"
    STRIDE = "stride"
    VALUE = "value"
    REAL = "real part"
    IMAGINARY = "imaginary part"


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """One argument of a compiled kernel.

    ``argument`` is the index of the Python argument, counted from the first after the item. ``dtype`` is the type of
    the value that is passed, ``int64`` for extents and strides (in elements), of the elements for memory; the bits of a
    ``float16`` are passed as two bytes, ``bool`` as one.
    """

    argument: int
    part: Part
    dtype: str
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """Options of the compilation; two kernels with different options are different kernels.

    Parameters
    ----------
    fastmath : bool
        Whether floating-point operations may be reordered and NaNs and infinities ignored.
    float_atomics : frozenset of str
        Atomic operations on floating-point numbers that the device has, such as ``"add float32"``, ``"min float64"``;
        others are made of a loop with compare-and-exchange.
    spirv_version : str
        The highest version of SPIR-V that may be used.
    vector_bits : int, optional
        A power of two: OpenCL's functions are called on vectors of at most as many bits, and on parts of wider ones.
    """

    fastmath: bool = False
    float_atomics: frozenset[str] = frozenset()
    spirv_version: str = "1.2"
    vector_bits: int | None = None


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel as SPIR-V, with its entry point and the arguments it takes."""

    spirv: bytes = field(repr=False)
    name: str
    parameters: tuple[KernelParameter, ...]
    arguments: tuple[Argument, ...]
    options: KernelOptions


def data_arguments(arguments: tuple[Argument, ...]) -> list[DataArgument]:
    """Return the arguments after the item."""
    if not arguments or not isinstance(arguments[0], ItemArgument):
        raise KernelCompilationError("the first argument of a kernel is an Item or NdItem", hint="Pass an ItemArgument")
    if not 1 <= arguments[0].dimensions <= MAX_DIMENSIONS:
        raise KernelCompilationError(f"an index space has 1 to {MAX_DIMENSIONS} dimensions")
    given = [argument for argument in arguments[1:] if not isinstance(argument, ItemArgument)]
    if len(given) < len(arguments) - 1:
        raise KernelCompilationError("only the first argument of a kernel is an Item or NdItem")
    return given


def flatten_arguments(arguments: tuple[Argument, ...]) -> tuple[KernelParameter, ...]:
    """Return the kernel arguments of the Python arguments after the item, in order."""
    given = data_arguments(arguments)
    return tuple(parameter for number, argument in enumerate(given) for parameter in _parameters_of(number, argument))


_COMPLEX_PARTS: Final = {"complex64": "float32", "complex128": "float64"}


def _parameters_of(number: int, argument: DataArgument) -> list[KernelParameter]:
    if isinstance(argument, ScalarArgument):
        if (part := _COMPLEX_PARTS.get(argument.dtype)) is not None:
            return [KernelParameter(number, Part.REAL, part), KernelParameter(number, Part.IMAGINARY, part)]
        return [KernelParameter(number, Part.VALUE, argument.dtype)]
    extents = [KernelParameter(number, Part.EXTENT, "int64", axis) for axis in range(argument.ndim)]
    if isinstance(argument, LocalArgument):
        memory = KernelParameter(number, Part.LOCAL_MEMORY, argument.dtype)
        return [] if argument.shape is not None else [memory, *extents]
    strides = [KernelParameter(number, Part.STRIDE, "int64", axis) for axis in range(argument.ndim)]
    pointer = KernelParameter(number, Part.POINTER, argument.dtype)
    return [pointer, *extents, *(strides if argument.layout == "A" else ())]
