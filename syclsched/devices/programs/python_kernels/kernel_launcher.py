# SPDX-License-Identifier: Apache-2.0
"""Launches of Python kernels on arrays of dpnp and dpctl, on the queue of the arrays: compute follows data."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from syclsched.devices.native.fences import submit_fence
from syclsched.devices.native.host_tasks import expect_host_tasks
from syclsched.devices.native.memory_range import UsmInterface
from syclsched.devices.native.sycl_types import SyclEvent, SyclQueue
from syclsched.devices.programs.arguments import ArrayForm, flatten_scalar
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.devices.programs.programs import compile_code
from syclsched.devices.programs.python_kernels.python_compiler import compile_python
from syclsched.errors import ArgumentError
from syclsched.kernel_compiler.compiled_kernel import (
    Argument,
    ArrayArgument,
    ItemArgument,
    LocalArgument,
    Part,
    ScalarArgument,
    flatten_arguments,
)
from syclsched.kernel_compiler.kernel_api import LocalAccessor, NdRange, Range
from syclsched.kernel_compiler.python_kernel import PythonKernel

# Bounded, because a kernel keeps its program alive.
_KERNELS = BoundedCache(512)
#: Types of Python's numbers as arguments.
_NUMBERS: Final = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
_MAX_DIMENSIONS: Final = 3


@dataclass(frozen=True, slots=True)
class Launched:
    """A submitted launch: its event, and the event of the host task that keeps the arguments until then, if any."""

    event: SyclEvent
    host_event: SyclEvent | None


def launch(
    kernel: PythonKernel, space: Range | NdRange, given: Sequence[Any], depends: Sequence[SyclEvent], *, keep: bool
) -> Launched:
    """Submit a kernel on arguments of a user; ``keep`` keeps them alive until it has run, by a host task."""
    if not isinstance(kernel, PythonKernel):
        raise ArgumentError(f"{type(kernel).__name__} is no kernel", hint="Decorate the function with syclsched.kernel")
    where = f"kernel {kernel.name!r}"
    if not isinstance(space, (Range, NdRange)):
        raise ArgumentError(f"an index space is a Range or an NdRange, not {type(space).__name__}", where=where)
    extents = tuple(space.global_range if isinstance(space, NdRange) else space)
    values = [_plain(each) for each in given]
    count = kernel.function.__code__.co_argcount - 1
    if len(values) != count:
        raise ArgumentError(f"it takes {count} arguments after the item, and is given {len(values)}", where=where)
    queue = _queue_of(values, where)
    arguments: tuple[Argument, ...] = (
        ItemArgument(len(extents), grouped=isinstance(space, NdRange)),
        *(_argument(each, f"{where}, argument {number}") for number, each in enumerate(values, 1)),
    )
    order = _order_manager(queue)
    before = [*depends, *(order.submitted_events if order is not None else ())]
    if 0 in extents:
        event = submit_fence(queue, before)
    else:
        key = kernel, arguments, queue.sycl_context, queue.sycl_device
        compiled, form = _KERNELS.get(key, lambda: _compiled(kernel, arguments, queue, where))
        flat = _descriptors if form is ArrayForm.DESCRIPTOR else _flat
        local = list(reversed(space.local_range)) if isinstance(space, NdRange) else None
        event = queue.submit_async(compiled, flat(arguments, values), list(reversed(extents)), local, before)
    host_event = None
    if keep:
        expect_host_tasks()
        host_event = queue._submit_keep_args_alive(tuple(values), [event])
        if order is not None:
            order.add_event_pair(host_event, event)
    return Launched(event, host_event)


def _compiled(
    kernel: PythonKernel, arguments: tuple[Argument, ...], queue: SyclQueue, where: str
) -> tuple[Any, ArrayForm]:
    """Return a compiled kernel, and how it takes arrays."""
    if any(isinstance(each, LocalArgument) for each in arguments):
        # dpctl 0.17 cannot pass local memory, which numba-dpex's kernels take as an argument.
        if kernel.compiler == "numba-dpex":
            raise ArgumentError(
                "numba-dpex's kernels with local memory are launched by numba_dpex.call_kernel only", where=where,
                hint="Use compiler='own'",
            )  # fmt: skip
        kernel = replace(kernel, compiler="own")
    made = compile_python(kernel, arguments, queue.sycl_device, where)
    return compile_code(made.module, queue, where), made.form


def _plain(value: Any) -> Any:
    """Return the array of dpctl in an array of dpnp; another value unchanged."""
    get_array = getattr(value, "get_array", None)
    return value if get_array is None else get_array()


def _is_array(value: Any) -> bool:
    return hasattr(type(value), "usm_data")  # reading it from the array would make an object


def _queue_of(values: Sequence[Any], where: str) -> SyclQueue:
    """Return the queue that all arrays have."""
    queues = [each.sycl_queue for each in values if _is_array(each)]
    if not queues:
        raise ArgumentError(
            "it is given no array, and the arrays' queue is where it would run", where=where,
            hint="Pass an array of dpnp or dpctl, for instance one that takes the result",
        )  # fmt: skip
    first: SyclQueue = queues[0]
    if any(each is not first and each != first for each in queues):
        names = ", ".join(dict.fromkeys(each.sycl_device.name.strip() for each in queues))
        raise ArgumentError(
            f"its arrays have different queues (devices: {names}), so none of them is where it would run", where=where,
            hint="Make all arrays with the same sycl_queue or device",
        )  # fmt: skip
    return first


def _argument(value: Any, where: str) -> Argument:
    if _is_array(value):
        flags = value.flags
        return _array_argument(value.dtype, value.ndim, bool(flags.c_contiguous), bool(flags.f_contiguous))
    if isinstance(value, LocalAccessor):
        return LocalArgument(value.dtype.name, value.ndim, value.shape)
    dtype = _NUMBERS.get(type(value))
    if dtype == "int64" and not -(2**63) <= value < 2**63:
        dtype = "uint64"
    if dtype is None and isinstance(value, (np.generic, int)):
        dtype = np.asarray(value).dtype.name
    if dtype is None:
        raise ArgumentError(
            f"a {type(value).__module__}.{type(value).__qualname__} cannot be passed to a kernel", where=where,
            hint="Arguments are arrays of dpnp or dpctl, numbers and LocalAccessor",
        )  # fmt: skip
    return _scalar_argument(dtype)


@lru_cache(maxsize=256)
def _array_argument(dtype: Any, ndim: int, is_c: bool, is_f: bool) -> ArrayArgument:
    return ArrayArgument(dtype.name, ndim, "C" if is_c else "F" if is_f else "A")


@lru_cache(maxsize=32)
def _scalar_argument(dtype: str) -> ScalarArgument:
    return ScalarArgument(dtype)


def _flat(arguments: tuple[Argument, ...], values: Sequence[Any]) -> list[Any]:
    """Return the kernel arguments of a call."""
    flat: list[Any] = []
    for parameter in _parameters(arguments):
        value = values[parameter.argument]
        if parameter.part is Part.POINTER:
            flat.append(_memory(value))
        elif parameter.part is Part.EXTENT:
            flat.append(ctypes.c_int64(value.shape[parameter.axis]))
        elif parameter.part is Part.STRIDE:
            flat.append(ctypes.c_int64(value.strides[parameter.axis]))
        elif parameter.part is Part.IMAGINARY:
            continue  # the real part brought it
        else:
            argument = arguments[parameter.argument + 1]
            assert isinstance(argument, ScalarArgument)
            flat += flatten_scalar(str(parameter.argument), value, argument.dtype)
    return flat


_parameters = lru_cache(maxsize=1024)(flatten_arguments)


def _descriptors(arguments: tuple[Argument, ...], values: Sequence[Any]) -> list[Any]:
    """Return the kernel arguments of a call of a kernel that takes descriptors of arrays; see `ArrayForm`."""
    flat: list[Any] = []
    for number, (argument, value) in enumerate(zip(arguments[1:], values, strict=True)):
        if isinstance(argument, ScalarArgument):
            flat += flatten_scalar(str(number), value, argument.dtype)
            continue
        numbers = [ctypes.c_int64(each) for each in (value.size, value.itemsize, *value.shape, *value.strides)]
        flat += [*numbers[:2], _memory(value), *numbers[2:]]
    return flat


def _memory(array: Any) -> Any:
    """Return the memory of an array from its first element on."""
    whole = array.usm_data
    if array._pointer == whole._pointer:
        return whole
    return type(whole)(UsmInterface(array, array._pointer, max(1, array.size * array.itemsize), array.sycl_queue))


@lru_cache(maxsize=1)
def _order_managers() -> Any:
    """Return dpctl's record of unfinished work by queue; None before 0.18, whose operations wait for their end."""
    import dpctl.utils

    return getattr(dpctl.utils, "SequentialOrderManager", None)


def _order_manager(queue: SyclQueue) -> Any:
    managers = _order_managers()
    return None if managers is None else managers[queue]
