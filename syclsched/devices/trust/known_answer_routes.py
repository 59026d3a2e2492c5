# SPDX-License-Identifier: Apache-2.0
"""Routes of the known-answer computations to a device: Python kernels, OpenCL C and dpnp.

The routes differ in compiler: numba-dpex or the package's own compiler makes SPIR-V of Python kernels (submitted
directly, as the executor does), OpenCL C is compiled from source by the driver, dpnp ships SPIR-V optimised by its
vendor's compiler.
"""

from __future__ import annotations

import base64
import ctypes
import hashlib
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numpy as np

from syclsched import oneapi
from syclsched.devices.backends.registry import backend_of
from syclsched.devices.native.sycl_types import SyclDevice, SyclQueue
from syclsched.devices.programs.arguments import ArrayForm, flatten_array
from syclsched.devices.programs.program_cache import program_cache
from syclsched.devices.programs.python_kernels.dpex_compiler import kernel_spirv
from syclsched.devices.programs.python_kernels.python_compiler import compile_python, default_compiler
from syclsched.devices.trust import known_answers as ka
from syclsched.devices.trust.known_answers import Array, Dtype
from syclsched.errors import CapabilityError
from syclsched.kernel_compiler.compiled_kernel import ArrayArgument, ItemArgument
from syclsched.kernel_compiler.python_kernel import PythonKernel
from syclsched.model.operation import OpenCLSource, SpirvModule
from syclsched.oneapi.dpctl_interface import usm_arrays

PYTHON = "Python kernels"
OPENCL_C = "OpenCL C"
DPNP = "dpnp"

#: The dtype and lengths of the sums checked through dpnp. It has another kernel for short arrays, and compiling each
#: takes a driver as long as the rest of dpnp's check for a dtype.
_DPNP_SUM, _DPNP_SUM_LENGTHS = "float32", (1000, 1023)

#: The numba-dpex kernels as SPIR-V, made by ``tools/known_answer_kernels.py``, because compiling them takes seconds.
SHIPPED = Path(__file__).with_name("known_answer_kernels.json")


@dataclass(frozen=True, slots=True)
class RouteResult:
    """The result of one computation on a device, and the correct result."""

    dtype: Dtype
    kind: str
    length: int
    result: Array
    right: Array


class RouteUnavailable(Exception):
    """A route cannot be used on this device or machine, for the reason in the message; not a wrong result."""


Route = Callable[[SyclQueue, tuple[Dtype, ...]], Iterator[RouteResult]]


# --- Python kernels -----------------------------------------------------------------------------------


def _run_python(queue: SyclQueue, dtypes: tuple[Dtype, ...]) -> Iterator[RouteResult]:
    """Run the Python kernels: compiled as those of tasks are, submitted through dpctl."""
    for dtype in dtypes:
        kernel, form = _python_kernel(queue, ka.python_function(dtype), dtype)
        for length in ka.LENGTHS:
            yield from _all_kinds(queue, kernel, dtype, length, form)


def _python_kernel(queue: SyclQueue, function: Callable[..., None], dtype: Dtype) -> tuple[Any, ArrayForm]:
    """Return a compiled kernel, and how it takes arrays."""
    from dpctl import program

    if default_compiler() == "numba-dpex":
        name, spirv = dpex_spirv(queue, function, dtype)
        form = ArrayForm.DESCRIPTOR
    else:
        array = ArrayArgument(dtype.name, 1)
        kernel = PythonKernel(cast(FunctionType, function), compiler="own")
        made = compile_python(kernel, (ItemArgument(1), array, array), queue.sycl_device, "known-answer test")
        name, spirv, form = made.module.kernel_name, made.module.code, made.form
    try:
        return backend_of(queue).build(SpirvModule(spirv, name), queue).get_sycl_kernel(name), form
    except program.SyclProgramCompilationError as error:
        raise RouteUnavailable(
            "the device's OpenCL takes no SPIR-V; OpenCL 1.2 devices need the package's OpenCL layer"
        ) from error


def dpex_spirv(queue: SyclQueue, function: Callable[..., None], dtype: Dtype) -> tuple[str, bytes]:
    """Return kernel name and SPIR-V: shipped, from the user's cache, or compiled."""
    key = dpex_key(queue.sycl_device, function, dtype)
    shipped = _shipped().get(key)
    if shipped is not None:
        return shipped
    cache = program_cache()
    stored = None if cache is None else cache.read_spirv(key)
    if stored is not None:
        return stored.kernel_name, stored.code
    name, spirv = dpex_compile(queue, function, dtype)
    if cache is not None:
        cache.write_spirv(key, SpirvModule(spirv, name))
    return name, spirv


def dpex_key(device: SyclDevice, function: Callable[..., None], dtype: Dtype) -> str:
    """Return a key that changes with all inputs of a kernel's SPIR-V."""
    versions = oneapi.load().versions
    for name in ("numba-dpex", "numba"):
        if name not in versions:
            raise RouteUnavailable(f"{name} is not installed")
    parts = [
        inspect.getsource(function),
        dtype.name,
        f"float64 {bool(device.has_aspect_fp64)}",
        *(f"{name} {versions.get(name)}" for name in ("numba-dpex", "numba", "dpctl", "dpcpp-llvm-spirv")),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def _shipped() -> dict[str, tuple[str, bytes]]:
    """Return name and SPIR-V of the kernels shipped with the package, by key; none if the file is invalid."""
    try:
        kernels = json.loads(SHIPPED.read_text(encoding="utf-8"))["kernels"]
        return {key: (each["name"], base64.b64decode(each["spirv"], validate=True)) for key, each in kernels.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def dpex_compile(queue: SyclQueue, function: Callable[..., None], dtype: Dtype) -> tuple[str, bytes]:
    """Return kernel name and SPIR-V, made by the same compiler as tasks."""
    try:
        import numba_dpex
    except ImportError as error:
        raise RouteUnavailable(f"numba-dpex cannot be imported ({error})") from error
    array = ArrayArgument(dtype.name, 1)
    module = kernel_spirv(numba_dpex.kernel(function), (ItemArgument(1), array, array), queue.sycl_device)
    return module.kernel_name, module.code


# --- OpenCL C -----------------------------------------------------------------------------------------


def _run_opencl(queue: SyclQueue, dtypes: tuple[Dtype, ...]) -> Iterator[RouteResult]:
    """Run the OpenCL C kernels as one program: compiled by the driver, or first to SPIR-V for Level Zero."""
    try:
        compiled = backend_of(queue).build(OpenCLSource(ka.opencl_source(dtypes), ""), queue)
    except CapabilityError as error:
        raise RouteUnavailable(f"the device's backend takes no OpenCL C: {error.what}") from error
    for dtype in dtypes:
        kernel = compiled.get_sycl_kernel(ka.opencl_kernel(dtype))
        for length in ka.LENGTHS:
            yield from _all_kinds(queue, kernel, dtype, length, ArrayForm.POINTER, (ctypes.c_longlong(length),))
    kernel, dtype = compiled.get_sycl_kernel(ka.OPENCL_GROUPS), ka.OPENCL_GROUPS_DTYPE
    for length in ka.LENGTHS:
        given = ka.inputs(ka.REDUCTION, dtype, length)
        right = ka.opencl_group_totals(given)
        result = _submit(
            queue, kernel, np.zeros_like(right), given, ArrayForm.POINTER, ka.OPENCL_REDUCTION_ITEMS,
            ka.OPENCL_GROUP_ITEMS, extra=(ctypes.c_longlong(length),),
        )  # fmt: skip
        yield RouteResult(dtype, ka.REDUCTION, length, result, right)


def _all_kinds(
    queue: SyclQueue,
    kernel: Any,
    dtype: Dtype,
    length: int,
    form: ArrayForm,
    extra: tuple[Any, ...] = (),
) -> Iterator[RouteResult]:
    """Run a kernel that writes the results of all kinds one after another."""
    given = np.concatenate([ka.inputs(kind, dtype, length) for kind in (ka.FORMULA, ka.REDUCTION)])
    right = [ka.expected(kind, dtype, length) for kind in ka.KINDS]
    out = np.zeros(sum(each.size for each in right), dtype=dtype.name)
    result = _submit(queue, kernel, out, given, form, length, extra=extra)
    parts = np.split(result, np.cumsum([each.size for each in right])[:-1])
    for kind, part, answer in zip(ka.KINDS, parts, right, strict=True):
        yield RouteResult(dtype, kind, length, part, answer)


def _submit(
    queue: SyclQueue,
    kernel: Any,
    out: Array,
    given: Array,
    form: ArrayForm,
    items: int,
    group_items: int | None = None,
    extra: tuple[Any, ...] = (),
) -> Array:
    """Copy the inputs, run one kernel, and return its output."""
    tensor = usm_arrays()
    device_out, device_in = tensor.asarray(out, sycl_queue=queue), tensor.asarray(given, sycl_queue=queue)
    arguments = [*flatten_array(device_out, form), *flatten_array(device_in, form), *extra]
    local = [group_items] if group_items is not None else None
    queue.submit_async(kernel, arguments, [items], local).wait()
    result: Array = tensor.asnumpy(device_out)
    return result


# --- dpnp ---------------------------------------------------------------------------------------------


def _run_dpnp(queue: SyclQueue, dtypes: tuple[Dtype, ...]) -> Iterator[RouteResult]:
    """Run dpnp's arange, sum, addition and sine."""
    try:
        import dpnp
    except ImportError as error:
        raise RouteUnavailable(f"dpnp cannot be imported ({error})") from error
    for dtype in dtypes:
        for length in ka.LENGTHS:
            numbers = np.arange(length).astype(dtype.name)
            ramp = dpnp.arange(length, dtype=dtype.name, sycl_queue=queue)
            yield RouteResult(dtype, ka.RAMP, length, ramp.asnumpy(), numbers)
            if dtype.name == _DPNP_SUM and length in _DPNP_SUM_LENGTHS:
                total = dpnp.sum(ramp).asnumpy().reshape(1)
                yield RouteResult(dtype, ka.REDUCTION, length, total, numbers.sum(dtype=np.int64).reshape(1))
            if dtype.is_float:
                computed = dpnp.sin(ramp + ramp).asnumpy()
                yield RouteResult(dtype, ka.FORMULA, length, computed, np.sin(2.0 * numbers.astype(np.float64)))


#: In the order of the checks: OpenCL C first, whose kernels stay within bounds even if a runtime makes work-groups
#: other than requested.
ROUTES: dict[str, Route] = {OPENCL_C: _run_opencl, PYTHON: _run_python, DPNP: _run_dpnp}
