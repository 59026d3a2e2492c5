# SPDX-License-Identifier: Apache-2.0
"""Compiled implementations: NumPy's results on every device, and clear errors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from support.compilers import COMPILERS, needs_numba_dpex
from support.gpu_shape import OTHER_DEVICE

import syclsched
from syclsched import kernel_api
from syclsched.devices.memory import usm_memory
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.programs import task_compiler
from syclsched.errors import CapabilityError, ExecutionError
from syclsched.kernel_compiler.python_kernel import PythonKernel
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Parameter,
    Signature,
    Tailored,
    Work,
)

LIMITS = DeviceLimits(max_work_group_size=64, compute_units=1, local_memory_bytes=1 << 15)

# Index arithmetic in two dimensions shows the order of the extents.
OPENCL = """
__kernel void grid(__global const float *x, __global float *y, int a) {
    size_t i = get_global_id(0), j = get_global_id(1);
    y[i * get_global_size(1) + j] = x[i * get_global_size(1) + j] * a + 100 * i + j;
}
"""


@lru_cache(maxsize=1)
def devices() -> dict[str, Any]:
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    cpu = dpctl.SyclDevice("opencl:cpu:0")
    found = {"cpu": cpu, "cpu.1": cpu.create_sub_devices(partition=1)[1]}
    accelerators = dpctl.get_devices(backend="opencl", device_type=OTHER_DEVICE)
    return found | ({OTHER_DEVICE: accelerators[0]} if accelerators else {})


@lru_cache(maxsize=8)
def queue_on(name: str) -> Any:
    if name not in devices():
        pytest.skip(f"no device {name!r} here")
    import dpctl

    device = devices()[name]
    return dpctl.SyclQueue(dpctl.SyclContext(device), device, property=["in_order", "enable_profiling"])


@pytest.fixture(params=["cpu", "cpu.1", OTHER_DEVICE])
def queue(request: pytest.FixtureRequest) -> Any:
    return queue_on(request.param)


@syclsched.kernel
def grid_kernel(item: kernel_api.Item, x, y, a):  # type: ignore[no-untyped-def]
    i = item.get_id(0)
    j = item.get_id(1)
    total = x[i, j]
    for _ in range(x.shape[1] - x.shape[1]):
        total = total + 1
    y[i, j] = total * a + 100 * i + j


def operation(
    implementation: Implementation, *, dtype: str = "int32", parameters: tuple[Parameter, ...] | None = None
) -> Operation:
    default = (Parameter("x", AccessMode.READ), Parameter("y", AccessMode.WRITE), Parameter("a", dtype=dtype))
    return Operation("grid", parameters or default, (implementation,), lambda s: Work(1, 1))


def kernel_implementation(kind: str, load: Callable[[Signature], Any], **more: Any) -> Implementation:
    options = {"launch": lambda signature, limits: Launch(signature.shapes["x"])} | more
    return Implementation(kind, kind, load, **options)  # type: ignore[arg-type]


def python_implementation(compiler: Any, kernel: PythonKernel = grid_kernel, **more: Any) -> Implementation:
    """Return the implementation by a Python kernel and a compiler."""
    chosen = replace(kernel, compiler=compiler)
    return kernel_implementation("python", lambda _: chosen, **more)


CL = kernel_implementation("opencl-c", lambda _: OpenCLSource(OPENCL, "grid"))


def run_grid(implementation: Implementation, queue: Any, shape: tuple[int, int], a: int) -> tuple[Any, Any]:
    signature = Signature({"x": shape, "y": shape}, {"x": "float32", "y": "float32"}, {"a": a})
    executable = task_compiler.compile_task(operation(implementation), implementation, signature, queue, LIMITS)
    buffers = [usm_memory.allocate(queue, 4 * shape[0] * shape[1], "shared") for _ in range(2)]
    views = [usm_memory.as_numpy(b, shape, "float32") for b in buffers]
    views[0][...] = np.random.default_rng(1).integers(0, 100, shape)
    views[1][...] = -1
    arrays = [MemoryRange.around(b).usm_array(shape, "float32", queue) for b in buffers]
    submission = executable.bind({"x": arrays[0], "y": arrays[1]})
    submission.submit(queue, []).wait()
    i, j = np.indices(shape)
    return views[1].copy(), (views[0] * a + 100 * i + j).astype("float32")


@pytest.mark.sycl
@pytest.mark.parametrize("by", [*COMPILERS, "opencl-c"])
@pytest.mark.parametrize("shape", [(5, 7), (1, 33), (0, 4)])
def test_kernels_have_the_results_of_numpy(by: str, shape: tuple[int, int], queue: Any) -> None:
    implementation = CL if by == "opencl-c" else python_implementation(by)
    got, wanted = run_grid(implementation, queue, shape, a=3)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.sycl
def test_code_can_be_tailored_to_a_devices_limits(queue: Any) -> None:
    def tailored(_: Signature) -> Tailored:
        return Tailored(lambda limits: OpenCLSource(OPENCL.replace("100 *", f"{limits.max_work_group_size} *"), "grid"))

    implementation = kernel_implementation("opencl-c", tailored)
    signature = Signature({"x": (3, 4), "y": (3, 4)}, dict.fromkeys("xy", "float32"), {"a": 0})
    buffers = [usm_memory.allocate(queue, 48, "shared") for _ in range(2)]
    x, y = (usm_memory.as_numpy(b, (3, 4), "float32") for b in buffers)
    x[...] = 0
    arrays = [MemoryRange.around(b).usm_array((3, 4), "float32", queue) for b in buffers]
    i, j = np.indices((3, 4))
    # For one operation: code compiled for other limits must not be reused.
    whole = operation(implementation)
    for size in (64, 32):
        limits = replace(LIMITS, max_work_group_size=size)
        executable = task_compiler.compile_task(whole, implementation, signature, queue, limits)
        executable.bind({"x": arrays[0], "y": arrays[1]}).submit(queue, []).wait()
        np.testing.assert_array_equal(y, size * i + j)


@pytest.mark.sycl
@pytest.mark.parametrize("compiler", COMPILERS)
def test_nd_item_is_used_when_there_is_a_local_range(compiler: str, queue: Any) -> None:
    @syclsched.kernel
    def groups(item: kernel_api.NdItem, x, y, a):  # type: ignore[no-untyped-def]
        i = item.get_global_id(0)
        y[i] = item.get_group().get_group_id(0) * 1000 + item.get_local_id(0) + a + x[i]

    implementation = python_implementation(compiler, groups, launch=lambda s, _: Launch((12,), (4,)))
    signature = Signature({"x": (12,), "y": (12,)}, {"x": "int64", "y": "int64"}, {"a": 7})
    executable = task_compiler.compile_task(operation(implementation), implementation, signature, queue, LIMITS)
    buffers = [usm_memory.allocate(queue, 96, "shared") for _ in range(2)]
    for buffer in buffers:
        usm_memory.as_numpy(buffer, (12,), "int64")[...] = 0
    arrays = [MemoryRange.around(b).usm_array((12,), "int64", queue) for b in buffers]
    executable.bind({"x": arrays[0], "y": arrays[1]}).submit(queue, []).wait()
    index = np.arange(12)
    np.testing.assert_array_equal(usm_memory.as_numpy(buffers[1], (12,), "int64"), index // 4 * 1000 + index % 4 + 7)


@pytest.mark.sycl
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "uint64", "float32", "float64", "complex64", "complex128"])
def test_scalar_is_passed_in_its_dtype(compiler: str, dtype: str) -> None:
    @syclsched.kernel
    def fill(item: kernel_api.Item, y, a):  # type: ignore[no-untyped-def]
        y[item.get_id(0)] = a

    queue = queue_on("cpu")
    implementation = python_implementation(compiler, fill, launch=lambda s, _: Launch(s.shapes["y"]))
    parameters = (Parameter("y", AccessMode.WRITE), Parameter("a", like="y"))
    fill_operation = Operation("fill", parameters, (implementation,), lambda s: Work(1, 1))
    value = -1 if dtype == "int8" else 1
    signature = Signature({"y": (3,)}, {"y": dtype}, {"a": value})
    executable = task_compiler.compile_task(fill_operation, implementation, signature, queue, LIMITS)
    buffer = usm_memory.allocate(queue, 64, "shared")
    usm_memory.as_numpy(buffer, (64,), "uint8")[...] = 0xFF
    y = MemoryRange.around(buffer).usm_array((3,), dtype, queue)
    executable.bind({"y": y}).submit(queue, []).wait()
    assert usm_memory.as_numpy(buffer, (3,), dtype).tolist() == [value] * 3


@pytest.mark.sycl
def test_library_call_gets_arrays_of_its_queue_and_scalars() -> None:
    queue = queue_on("cpu")
    seen: dict[str, Any] = {}

    def submit(on: Any, arguments: Any, depends: list[Any]) -> Any:
        seen.update(arguments)
        return on.submit_barrier(depends)

    implementation = Implementation("library", "library", lambda _: submit)
    signature = Signature({"x": (2,), "y": (2,)}, {"x": "float32", "y": "float32"}, {"a": 5})
    executable = task_compiler.compile_task(operation(implementation), implementation, signature, queue, LIMITS)
    import dpctl

    other = dpctl.SyclQueue(queue.sycl_context, queue.sycl_device, property="in_order")
    buffer = usm_memory.allocate(queue, 8, "shared")
    arrays = {name: MemoryRange.around(buffer).usm_array((2,), "float32", other) for name in "xy"}
    executable.bind(arrays).submit(other, []).wait()
    assert seen["a"] == 5
    assert seen["x"].sycl_queue == other
    assert seen["x"].usm_data._pointer == buffer._pointer


@pytest.mark.sycl
def test_library_call_without_an_event_is_refused() -> None:
    queue = queue_on("cpu")
    implementation = Implementation("library", "library", lambda _: lambda *_: None)
    signature = Signature({}, {}, {"a": 5})
    operation_ = operation(implementation, parameters=(Parameter("a"),))
    executable = task_compiler.compile_task(operation_, implementation, signature, queue, LIMITS)
    with pytest.raises(ExecutionError, match="returned NoneType"):
        executable.bind({}).submit(queue, [])


@pytest.mark.sycl
@pytest.mark.parametrize("compiler", COMPILERS)
def test_compiled_once_per_signature_and_shared_between_shapes(compiler: Any, caplog: pytest.LogCaptureFixture) -> None:
    queue = queue_on("cpu")
    implementation = python_implementation(compiler)
    op = operation(implementation)
    caplog.set_level(logging.DEBUG, "syclsched")
    first, again, other = (
        task_compiler.compile_task(
            op, implementation, Signature({"x": s, "y": s}, {"x": "float32", "y": "float32"}, {"a": 1}), queue, LIMITS
        )
        for s in [(5, 7), (5, 7), (8, 2)]
    )
    assert first is again
    assert first is not other
    compiled = [each.getMessage() for each in caplog.records if "compiling Python kernel" in each.getMessage()]
    assert len(compiled) == 1, compiled


@pytest.mark.sycl
@needs_numba_dpex
@pytest.mark.parametrize("kind", ["python", "numba-dpex"])
def test_a_kernel_may_be_numba_dpexs_own(kind: str) -> None:
    import numba_dpex

    kernel = numba_dpex.kernel(grid_kernel.function)
    implementation = Implementation("mine", kind, lambda _: kernel, lambda s, _: Launch(s.shapes["x"]))  # type: ignore[arg-type]
    got, wanted = run_grid(implementation, queue_on("cpu"), (3, 4), a=2)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.sycl
@pytest.mark.parametrize("compiler", COMPILERS)
def test_numbas_explanation_is_given(compiler: str) -> None:
    @syclsched.kernel
    def broken(item: kernel_api.Item, x, y, a):  # type: ignore[no-untyped-def]
        y[item.get_id(0)] = a.no_such_attribute

    implementation = python_implementation(compiler, broken)
    line = broken.function.__code__.co_firstlineno + 2
    signature = Signature({"x": (2,), "y": (2,)}, {"x": "float32", "y": "float32"}, {"a": 1})
    with pytest.raises(ExecutionError, match="Unknown attribute 'no_such_attribute'") as caught:
        task_compiler.compile_task(operation(implementation), implementation, signature, queue_on("cpu"), LIMITS)
    assert "operation 'grid'" in str(caught.value)
    assert "implementation 'python'" in str(caught.value)
    assert f"test_task_compiler.py, line {line}" in str(caught.value)


@pytest.mark.sycl
@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (Launch((10,), (4,)), "does not divide"),
        (Launch((128,), (128,)), "larger than the device's 64"),
        (Launch((2, 2), (2,)), "one positive extent per dimension"),
        (Launch((1, 1, 1, 1)), "1 to 3"),
    ],
)
def test_impossible_launch_is_refused(launch: Launch, message: str) -> None:
    implementation = python_implementation(None, launch=lambda s, _: launch)
    signature = Signature({"x": (2, 2), "y": (2, 2)}, {"x": "float32", "y": "float32"}, {"a": 1})
    with pytest.raises(CapabilityError, match=message):
        task_compiler.compile_task(operation(implementation), implementation, signature, queue_on("cpu"), LIMITS)


@pytest.mark.sycl
@pytest.mark.parametrize(
    ("loaded", "error", "message"),
    [
        (OpenCLSource("__kernel void grid() { nonsense; }", "grid"), CapabilityError, "refuses the kernel's OpenCL C"),
        (OpenCLSource(OPENCL, "missing"), ExecutionError, "no kernel 'missing'"),
        ("text", ExecutionError, "load\\(\\) returned str"),
    ],
)
def test_bad_program_is_refused(loaded: Any, error: type[Exception], message: str) -> None:
    implementation = kernel_implementation("opencl-c", lambda _: loaded)
    signature = Signature({"x": (2, 2), "y": (2, 2)}, {"x": "float32", "y": "float32"}, {"a": 1})
    with pytest.raises(error, match=message):
        task_compiler.compile_task(operation(implementation), implementation, signature, queue_on("cpu"), LIMITS)


@pytest.mark.sycl
def test_an_error_of_a_refused_source_has_the_log_and_the_line(queue: Any) -> None:
    source = OPENCL.replace("* a +", "* no_such_name +")
    implementation = kernel_implementation("opencl-c", lambda _: OpenCLSource(source, "grid"))
    signature = Signature({"x": (2, 2), "y": (2, 2)}, {"x": "float32", "y": "float32"}, {"a": 1})
    with pytest.raises(CapabilityError, match="undeclared identifier 'no_such_name'") as caught:
        task_compiler.compile_task(operation(implementation), implementation, signature, queue, LIMITS)
    assert "y[i * get_global_size(1) + j] = x[i * get_global_size(1) + j] * no_such_name" in str(caught.value)


@pytest.mark.sycl
def test_extents_count_as_arguments(queue: Any) -> None:
    source = "__kernel void grid(__global const float *x, __global float *y, int a, int n) { y[0] = x[0]; }"
    implementation = kernel_implementation("opencl-c", lambda _: OpenCLSource(source, "grid", extents=(7, 8)))
    signature = Signature({"x": (2, 2), "y": (2, 2)}, {"x": "float32", "y": "float32"}, {"a": 1})
    with pytest.raises(
        ExecutionError, match="takes 4 arguments, and the operation passes 5: x, y, a and the extents 7, 8"
    ):
        task_compiler.compile_task(operation(implementation), implementation, signature, queue, LIMITS)


@pytest.mark.sycl
@pytest.mark.parametrize(("given", "count"), [("int a, int b", "4 arguments"), ("", "2 arguments")])
def test_wrong_number_of_kernel_arguments_is_found(given: str, count: str, queue: Any) -> None:
    source = (
        f"__kernel void grid(__global const float *x, __global float *y{', ' * bool(given)}{given}) {{ y[0] = x[0]; }}"
    )
    implementation = kernel_implementation("opencl-c", lambda _: OpenCLSource(source, "grid"))
    signature = Signature({"x": (2, 2), "y": (2, 2)}, {"x": "float32", "y": "float32"}, {"a": 1})
    with pytest.raises(ExecutionError, match=f"'grid' takes {count}, and the operation passes 3: x, y, a"):
        task_compiler.compile_task(operation(implementation), implementation, signature, queue, LIMITS)


def test_host_implementation_is_a_function() -> None:
    implementation = Implementation("host", "host", lambda _: abs)
    executable = task_compiler.compile_task(operation(implementation), implementation, Signature({}, {}), None, None)
    assert executable.function is abs
    with pytest.raises(ExecutionError, match="cannot be submitted"):
        executable.bind({})


def test_missing_package_is_a_lack_of_capability() -> None:
    def load(_: Signature) -> Any:
        import no_such_package_anywhere  # noqa: F401

    implementation = Implementation("host", "host", load)
    with pytest.raises(CapabilityError, match="no_such_package_anywhere"):
        task_compiler.compile_task(operation(implementation), implementation, Signature({}, {}), None, None)
