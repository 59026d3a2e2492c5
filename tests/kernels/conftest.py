# SPDX-License-Identifier: Apache-2.0
"""Execution of one implementation of an operation on one device: submit, wait, copy back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from support import kernel_builds
from support.gpu_shape import OTHER_DEVICE
from support.grouped import skip_where_groups_crash
from support.kernel_builds import build_programs_of_other_devices, record_program

from syclsched.devices.programs.arguments import ArrayForm, flatten_array, flatten_extents, flatten_scalar
from syclsched.devices.programs.programs import compile_code
from syclsched.devices.programs.python_kernels.kernel_arguments import operation_arguments
from syclsched.devices.programs.python_kernels.python_compiler import compile_python
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    OpenCLSource,
    Operation,
    Signature,
    SpirvModule,
    Tailored,
)
from syclsched.oneapi.dpctl_interface import usm_arrays

Arrays = dict[str, np.ndarray]
Run = Callable[..., Arrays]

pytest_runtest_setup = kernel_builds.begin


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


@pytest.fixture(scope="session", params=["cpu", OTHER_DEVICE])
def queue(request: pytest.FixtureRequest) -> Any:
    """An in-order queue of the CPU device, then of the FPGA emulator."""
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    return dpctl.SyclQueue(dpctl.get_devices(device_type=request.param)[0], property="in_order")


def _limits(queue: Any) -> DeviceLimits:
    device = queue.sycl_device
    return DeviceLimits(device.max_work_group_size, device.max_compute_units, device.local_mem_size)


@cache
def _built(code: OpenCLSource | SpirvModule, queue: Any) -> Any:
    return compile_code(code, queue, "a kernel under test")


def _run_kernel(
    queue: Any,
    operation: Operation,
    implementation: Implementation,
    signature: Signature,
    usm: dict[str, Any],
    limits: DeviceLimits,
) -> None:
    loaded = implementation.load(signature)
    if isinstance(loaded, Tailored):
        loaded = loaded.of(limits)
    assert implementation.launch is not None
    launch = implementation.launch(signature, limits)
    kinds = tuple(
        None if p.is_array else (signature.dtypes[p.like] if p.like else p.dtype) for p in operation.parameters
    )
    values = [
        usm[p.name] if kind is None else flatten_scalar(p.name, signature.scalars[p.name], kind)
        for p, kind in zip(operation.parameters, kinds, strict=True)
    ]
    code, form = loaded, ArrayForm.POINTER
    if implementation.is_python_kernel:
        made = compile_python(loaded, operation_arguments(operation, signature, launch), queue.sycl_device, "a test")
        code, form = made.module, made.form
    pairs = zip(values, kinds, strict=True)
    arguments = [each for value, kind in pairs for each in (flatten_array(value, form) if kind is None else value)]
    arguments += flatten_extents(code)
    build_programs_of_other_devices(queue)
    record_program(queue, code)
    kernel = _built(code, queue)
    # SYCL counts dimensions from the slowest, OpenCL C from the fastest.
    local = None if launch.local_range is None else list(reversed(launch.local_range))
    queue.submit_async(kernel, arguments, list(reversed(launch.global_range)), local, []).wait()


@pytest.fixture
def run(queue: Any, pytestconfig: pytest.Config) -> Run:
    """Return ``run(operation, implementation name, arrays, **scalars) -> arrays after it``; inputs are not changed.

    Those named in ``constants`` are known beforehand, and prepared if the implementation wants it. With ``limits``,
    code for devices of another kind runs here, too, as it would on a device with those limits.
    """

    def call(
        operation: Operation,
        name: str,
        arrays: Arrays,
        constants: Collection[str] = (),
        limits: DeviceLimits | None = None,
        **scalars: float,
    ) -> Arrays:
        dpt = usm_arrays()

        if operation.variant is not None:
            operation = operation.variant(scalars)
        scalars = {**{p.name: p.default for p in operation.parameters if p.default is not None}, **scalars}
        implementation = operation.implementation(name)
        signature = signature_of(operation, arrays, scalars, frozenset(constants))
        if implementation.requires.refuses is not None and implementation.requires.refuses(signature):
            pytest.skip(f"{name} refuses: {implementation.requires.refuses(signature)}")
        if implementation.requires.dtypes and not {*signature.dtypes.values()} <= {*implementation.requires.dtypes}:
            pytest.skip(f"{name} takes {', '.join(implementation.requires.dtypes)} only")
        assert operation.check is None or operation.check(signature) is None
        kinds = implementation.requires.device_kinds
        if limits is None and kinds and queue.sycl_device.device_type.name not in kinds:
            pytest.skip(f"{name} does not run on this kind of device")
        skip_where_groups_crash(queue, implementation)
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
            try:
                implementation.load(signature)(queue, {**usm, **scalars}, []).wait()
            except RuntimeError as error:
                shaped = pytestconfig.getoption("--gpu-shape") and queue.sycl_device.is_gpu
                if not (shaped and name == "onemkl" and "Native API failed" in str(error)):
                    raise
                pytest.skip("onemkl fails on the device shown as a GPU where it needs a temporary array")
        return {key: dpt.asnumpy(value) for key, value in usm.items()}

    return call
