# SPDX-License-Identifier: Apache-2.0
"""Execution of an implementation on a device with the library's own compiler, for any dtype, rank and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from support.grouped import skip_where_groups_crash
from support.kernel_builds import build_programs_of_other_devices, record_program
from syclsched.model.operation import DeviceLimits, Operation, Signature
from syclsched.oneapi.dpctl_interface import usm_arrays

Arrays = dict[str, np.ndarray]
Try = Callable[..., Arrays]


def signature_of(arrays: Mapping[str, np.ndarray]) -> Signature:
    """Describe a call."""
    return Signature(
        {name: each.shape for name, each in arrays.items()}, {name: each.dtype.name for name, each in arrays.items()}
    )


def on_host(operation: Operation, **arrays: np.ndarray) -> Arrays:
    """Run the host's implementation on copies and return them."""
    signature = signature_of(arrays)
    assert operation.check is not None
    assert operation.check(signature) is None
    assert operation.work(signature).bytes >= 0
    made = {name: each.copy() for name, each in arrays.items()}
    operation.implementation("numpy").load(signature)(**made)
    return made


def run_on(queue: Any, operation: Operation, name: str, arrays: Arrays, limits: DeviceLimits | None = None) -> Arrays:
    """Return the arrays after an implementation on a device, compiled for the given limits if there are any."""
    dpt = usm_arrays()

    from syclsched.devices.programs.task_compiler import compile_task

    implementation, signature = operation.implementation(name), signature_of(arrays)
    assert operation.check is not None
    assert operation.check(signature) is None
    skip_where_groups_crash(queue, implementation)
    device = queue.sycl_device
    limits = limits or DeviceLimits(device.max_work_group_size, device.max_compute_units, device.local_mem_size)
    build_programs_of_other_devices(queue)
    executable = compile_task(operation, implementation, signature, queue, limits)
    for step, _ in getattr(executable, "steps", [(executable, ())]):
        record_program(queue, getattr(step, "code", None))
    # Guard elements after every array, which must not be written.
    usm, guards = {}, {}
    for key, value in arrays.items():
        guards[key] = dpt.full(value.size + 64, 77, dtype=value.dtype, sycl_queue=queue, usm_type="shared")
        usm[key] = dpt.reshape(guards[key][: value.size], value.shape)
        usm[key][...] = dpt.asarray(value, sycl_queue=queue)
    queue.wait()
    executable.bind(usm).submit(queue, []).wait()
    for key, value in arrays.items():
        assert (dpt.asnumpy(guards[key])[value.size :] == np.array(77).astype(value.dtype)).all(), key
    return {key: dpt.asnumpy(value).reshape(arrays[key].shape) for key, value in usm.items()}
