# SPDX-License-Identifier: Apache-2.0
"""Runs one implementation of one operation on one device, the plain way: submit, wait, read back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import pytest

from syclsched.devices.programs.dpex_compiler import prepare_compiler
from syclsched.model.operation import DeviceLimits, Implementation, Operation, Signature, Tailored

Arrays = dict[str, np.ndarray]
Run = Callable[..., Arrays]

_C_SCALARS = {
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
}
#: SYCL kernels built so far: the runtime's compiler takes most of the time of these tests.
_BUILT: dict[Any, Any] = {}


def signature_of(
    operation: Operation,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, float],
    constants: frozenset[str] = frozenset(),
) -> Signature:
    """Describe a call."""
    return Signature(
        {p.name: arrays[p.name].shape for p in operation.arrays},
        {p.name: str(arrays[p.name].dtype) for p in operation.arrays},
        dict(scalars),
        constants,
    )


@pytest.fixture(scope="session", params=["cpu", "accelerator"])
def queue(request: pytest.FixtureRequest) -> Any:
    """An in-order queue of the CPU device, then of the FPGA emulator."""
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    found = dpctl.get_devices(device_type=request.param)
    if not found:
        pytest.skip(f"no {request.param} device here")
    return dpctl.SyclQueue(found[0], property="in_order")


def _limits(queue: Any) -> DeviceLimits:
    device = queue.sycl_device
    return DeviceLimits(device.max_work_group_size, device.max_compute_units, device.local_mem_size)


def _compile_numba(queue: Any, kernel: Any, arguments: list[Any], scalars: list[str | None], ranged: bool) -> Any:
    import dpctl.program
    import numba
    from numba_dpex.core.types.kernel_api.index_space_ids import ItemType, NdItemType

    prepare_compiler()
    item = ItemType(1) if not ranged else NdItemType(1)
    kinds = [
        numba.typeof(argument) if name is None else numba.from_dtype(np.dtype(name))
        for argument, name in zip(arguments, scalars, strict=True)
    ]
    signature = numba.types.void(item, *kinds)
    key = (queue, kernel, signature)
    if key not in _BUILT:
        kernel.compile(signature)
        module = kernel.overloads[tuple(signature.args)].kernel_device_ir_module
        program = dpctl.program.create_program_from_spirv(queue, module.kernel_bitcode)
        _BUILT[key] = program.get_sycl_kernel(module.kernel_name)
    return _BUILT[key]


def _flatten(array: Any) -> list[Any]:
    numbers = [array.size, array.itemsize]
    extents = [*array.shape, *array.strides]
    return [
        *(ctypes.c_int64(value) for value in numbers),
        array.usm_data,
        *(ctypes.c_int64(value) for value in extents),
    ]


def _run_kernel(
    queue: Any,
    operation: Operation,
    implementation: Implementation,
    signature: Signature,
    usm: dict[str, Any],
    limits: DeviceLimits,
) -> None:
    import dpctl.program

    loaded = implementation.load(signature)
    if isinstance(loaded, Tailored):
        loaded = loaded.of(limits)
    assert implementation.launch is not None
    launch = implementation.launch(signature, limits)
    values, kinds = [], []
    for p in operation.parameters:
        kind = None if p.is_array else (signature.dtypes[p.like] if p.like else p.dtype)
        values.append(usm[p.name] if kind is None else _C_SCALARS[kind](signature.scalars[p.name]))
        kinds.append(kind)
    if implementation.kind == "numba-dpex":
        kernel = _compile_numba(queue, loaded, values, kinds, launch.local_range is not None)
        pairs = zip(values, kinds, strict=True)
        arguments = [each for value, kind in pairs for each in (_flatten(value) if kind is None else [value])]
    else:
        key = (queue, loaded)
        if key not in _BUILT:
            program = dpctl.program.create_program_from_source(queue, loaded.source, loaded.options)
            _BUILT[key] = program.get_sycl_kernel(loaded.kernel_name)
        kernel = _BUILT[key]
        arguments = [value.usm_data if kind is None else value for value, kind in zip(values, kinds, strict=True)]
    # SYCL counts dimensions from the slowest, OpenCL C from the fastest.
    local = None if launch.local_range is None else list(reversed(launch.local_range))
    queue.submit_async(kernel, arguments, list(reversed(launch.global_range)), local, []).wait()


@pytest.fixture
def run(queue: Any) -> Run:
    """Return ``run(operation, implementation name, arrays, **scalars) -> arrays after it``; inputs stay as they are.

    Those named in ``constants`` are known beforehand, and prepared if the implementation wants it. Given ``limits``,
    what is made for devices of another kind is run here all the same, as it would be on a device with those limits.
    """

    def call(
        operation: Operation,
        name: str,
        arrays: Arrays,
        constants: Collection[str] = (),
        limits: DeviceLimits | None = None,
        **scalars: float,
    ) -> Arrays:
        import dpctl.tensor as dpt

        implementation = operation.implementation(name)
        signature = signature_of(operation, arrays, scalars, frozenset(constants))
        assert operation.check is None or operation.check(signature) is None
        kinds = implementation.requires.device_kinds
        if limits is None and kinds and queue.sycl_device.device_type.name not in kinds:
            pytest.skip(f"{name} does not run on this kind of device")
        if implementation.kind == "host":
            results = {key: value.copy() for key, value in arrays.items()}
            implementation.load(signature)(**results, **scalars)
            return results
        if implementation.prepare is not None and constants:
            known = {key: arrays[key] for key in constants}
            arrays = {**arrays, **implementation.prepare(signature, queue, known)}
        usm = {key: dpt.asarray(value, copy=True, sycl_queue=queue, usm_type="shared") for key, value in arrays.items()}
        queue.wait()
        if implementation.is_kernel:
            _run_kernel(queue, operation, implementation, signature, usm, limits or _limits(queue))
        else:
            implementation.load(signature)(queue, {**usm, **scalars}, []).wait()
        return {key: dpt.asnumpy(value) for key, value in usm.items()}

    return call
