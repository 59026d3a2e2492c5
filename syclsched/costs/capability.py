# SPDX-License-Identifier: Apache-2.0
"""Device capability checks: the reasons why a device cannot run a task's implementation."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cache

from syclsched.costs.stated import missing_costs
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Operation, Signature
from syclsched.model.platform import Device, Platform
from syclsched.model.sequence import SequencePart, sequence_parts
from syclsched.model.task import Task

#: The SYCL aspect a dtype needs. SYCL 2020 makes every other type NumPy shares with it mandatory.
_DTYPE_ASPECTS = {"float64": "fp64", "complex128": "fp64", "float16": "fp16"}

#: The real dtype that a device computes with for a complex array.
_REAL_PARTS = {"complex64": "float32", "complex128": "float64"}


def unsupported(task: Task, implementation: Implementation, device: Device) -> str | None:
    """Return why a device cannot run an implementation of a task, or None if it can."""
    if device.distrust is not None:
        return f"not trusted ({device.distrust})"
    if implementation.kind == "cost-only" and task.signature is not None:
        return missing_costs(task.signature, device)
    if device.is_host != (implementation.kind == "host"):
        return "runs host implementations only" if device.is_host else "runs no host implementations"
    for missing in _missing(task, implementation, device):
        return missing
    if task.operation is not None and task.signature is not None:
        for part in sequence_parts(task.operation, implementation, task.signature):
            missing_for_part = unsupported(_as_task(part), part.implementation, device)
            if missing_for_part is not None:
                return f"{part.operation.name}: {missing_for_part}"
    return None


def _as_task(part: SequencePart) -> Task:
    return Task(part.operation.name, "kernel", operation=part.operation, signature=part.signature)


def _missing(task: Task, implementation: Implementation, device: Device) -> Iterator[str]:
    needs = implementation.requires
    if not device.is_host:
        if needs.backends and device.backend not in needs.backends:
            yield f"backend is {device.backend}, not {' or '.join(needs.backends)}"
        if needs.device_kinds and device.kind not in needs.device_kinds:
            yield f"kind is {device.kind}, not {' or '.join(needs.device_kinds)}"
        for aspect in needs.aspects:
            if aspect not in device.aspects:
                yield f"no aspect {aspect}"
        for library, reason in device.refusals:
            if library in needs.libraries:
                yield f"{library} refuses the device ({reason})"
    if task.signature is not None:
        yield from _missing_for_dtypes(task.operation, task.signature, implementation, device)
    of_backend = (package for backend, package in needs.backend_packages if backend == device.backend)
    for package in (*needs.packages, *of_backend):
        if not installed(package):
            yield f"Python package {package} is not installed"
    if needs.refuses is not None and task.signature is not None:
        refused = needs.refuses(task.signature)
        if refused is not None:
            yield f"implementation does not take it: {refused}"


def _missing_for_dtypes(
    operation: Operation | None, signature: Signature, implementation: Implementation, device: Device
) -> Iterator[str]:
    allowed = implementation.requires.dtypes
    for name, dtype in signature.dtypes.items():
        if allowed and dtype not in allowed:
            yield f"implementation does not take {dtype} (array {name!r}), only {', '.join(allowed)}"
        if not device.is_host:
            yield from _missing_for_dtype(dtype, f"array {name!r}", device)
    if operation is not None and implementation.is_kernel:
        # A kernel with a double among its scalars needs fp64 even if all its arrays are single precision.
        for parameter in operation.parameters:
            if not parameter.is_array and parameter.like is None:
                yield from _missing_for_dtype(parameter.dtype, f"scalar {parameter.name!r}", device)


def _missing_for_dtype(dtype: str, subject: str, device: Device) -> Iterator[str]:
    aspect = _DTYPE_ASPECTS.get(dtype)
    if aspect is not None and aspect not in device.aspects:
        yield f"no aspect {aspect} ({subject} is {dtype})"
    real = _REAL_PARTS.get(dtype, dtype)
    # Profiles and devices need not list the integers, which every SYCL device has.
    if real.startswith("float") and device.dtypes and real not in device.dtypes:
        yield f"no dtype {real} ({subject} is {dtype})"


@cache
def installed(package: str) -> bool:
    """Return whether a package can be imported, or is a distribution of libraries only; without importing it."""
    try:
        if importlib.util.find_spec(package) is not None:
            return True
    except ModuleNotFoundError:  # a parent package is missing
        return False
    from importlib import metadata  # it imports the package for e-mail

    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def platform_for_all(graph: TaskGraph, platform: Platform) -> Platform:
    """Return the platform for a policy that may use every device while it runs; see `with_single_threads`."""
    operations = {id(task.operation): task.operation for task in graph.tasks if task.operation is not None}
    has_kernels = any(each.kind != "host" for operation in operations.values() for each in operation.implementations)
    return platform.with_single_threads() if has_kernels else platform
