# SPDX-License-Identifier: Apache-2.0
"""OpenCL C programs built together: one build, and the results and errors of separate builds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from syclsched import oneapi
from syclsched.devices.backends.opencl import OpenCL
from syclsched.devices.backends.registry import BACKENDS
from syclsched.devices.memory import usm_memory
from syclsched.devices.native.memory_range import MemoryRange
from syclsched.devices.programs import programs, task_compiler
from syclsched.devices.programs.program_cache import VARIABLE
from syclsched.errors import CapabilityError, ExecutionError
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Parameter,
    Signature,
    Work,
)

pytestmark = pytest.mark.sycl
LIMITS = DeviceLimits(max_work_group_size=64, compute_units=1, local_memory_bytes=1 << 15)
SIGNATURE = Signature({"y": (5,)}, {"y": "float32"})
ALONE = "#ifdef NONE\n#endif\n"
_numbers = iter(range(1_000_000))


@pytest.fixture(scope="module")
def queue() -> Any:
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    device = dpctl.SyclDevice("opencl:cpu:0")
    return dpctl.SyclQueue(dpctl.SyclContext(device), device, property="in_order")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, queue: Any) -> Iterator[list[str]]:
    """Record the sources that the device's compiler is given."""
    monkeypatch.setenv(VARIABLE, "0")
    given: list[str] = []
    make = OpenCL.build

    def count(self: OpenCL, code: Any, on: Any) -> Any:
        given.append(code.source)
        return make(self, code, on)

    monkeypatch.setattr(OpenCL, "build", count)
    yield given


def piece(queue: Any, factor: str, head: str = "") -> task_compiler.CompileRequest:
    """Return a unique kernel that multiplies indices, with a helper, a macro and a type that all these kernels have."""
    source = (
        f"{head}// {next(_numbers)}\n#define FACTOR {factor}\ntypedef float T;\n"
        "static T times(T x) { return x * FACTOR; }\n"
        "__kernel void k(__global T *y) { y[get_global_id(0)] = times(get_global_id(0)); }\n"
    )
    implementation = Implementation("cl", "opencl-c", lambda _: OpenCLSource(source, "k"), lambda s, _: Launch((5,)))
    operation = Operation(
        f"times {factor}", (Parameter("y", AccessMode.WRITE),), (implementation,), lambda _: Work(1, 1)
    )
    return task_compiler.CompileRequest(operation, implementation, SIGNATURE, queue, LIMITS)


def result(executable: Any, queue: Any) -> list[float]:
    buffer = usm_memory.allocate(queue, 20, "shared")
    executable.bind({"y": MemoryRange.around(buffer).usm_array((5,), "float32", queue)}).submit(queue, []).wait()
    return list(usm_memory.as_numpy(buffer, (5,), "float32").tolist())


def times(factor: float) -> list[float]:
    return list((np.arange(5, dtype="float32") * np.float32(factor)).tolist())


def test_several_sources_are_one_program_with_separate_names(queue: Any, built: list[str]) -> None:
    pieces, before = [piece(queue, f"{n}.5f") for n in range(3)], programs.program_count()
    made = task_compiler.compile_tasks(pieces)
    assert len(built) == programs.program_count() - before == 1
    assert [result(each, queue) for each in made] == [times(n + 0.5) for n in range(3)]
    # Programs are cached, also for compilation alone and with other sources.
    first = pieces[0]
    alone = task_compiler.compile_task(first.operation, first.implementation, first.signature, queue, LIMITS)
    assert alone is made[0]
    again = task_compiler.compile_tasks([first, piece(queue, "7")])
    assert again[0] is made[0]
    assert len(built) == programs.program_count() - before == 2
    assert "FACTOR 0.5f" not in built[1]


def test_code_that_takes_extents_is_built_once_for_all(queue: Any, built: list[str]) -> None:
    source = f"// {next(_numbers)}\n"
    source += "__kernel void k(__global float *y, int low, int high) { y[get_global_id(0)] = low - high; }"

    def taking(*extents: int) -> task_compiler.CompileRequest:
        code = OpenCLSource(source, "k", extents=extents)
        way = Implementation("cl", "opencl-c", lambda _: code, lambda s, _: Launch((5,)))
        made = Operation(f"{extents}", (Parameter("y", AccessMode.WRITE),), (way,), lambda _: Work(1, 1))
        return task_compiler.CompileRequest(made, way, SIGNATURE, queue, LIMITS)

    made = task_compiler.compile_tasks([taking(7, 2), taking(-1, 1 << 20)])
    assert [result(each, queue) for each in made] == [[5.0] * 5, [float(-1 - (1 << 20))] * 5]
    assert len(built) == 1


def test_sources_that_cannot_be_combined_are_built_separately(queue: Any, built: list[str]) -> None:
    made = task_compiler.compile_tasks([piece(queue, "1"), piece(queue, "2", ALONE), piece(queue, "3")])
    assert len(built) == 2
    assert [result(each, queue) for each in made] == [times(1), times(2), times(3)]


def test_programs_have_a_largest_number_of_parts(queue: Any, built: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_MOST_TOGETHER", 2)
    made = task_compiler.compile_tasks([piece(queue, str(n)) for n in range(5)])
    assert len(built) == 3
    assert [result(each, queue) for each in made] == [times(n) for n in range(5)]


def test_one_that_is_refused_is_named_and_the_others_compile(queue: Any, built: list[str]) -> None:
    pieces = [piece(queue, "1"), piece(queue, "nonsense"), piece(queue, "3")]
    with pytest.raises(CapabilityError, match=r"refuses the kernel's OpenCL C") as caught:
        task_compiler.compile_tasks(pieces)
    assert "operation 'times nonsense'" in str(caught.value)
    made = task_compiler.compile_tasks([pieces[0], pieces[2]])
    assert [result(each, queue) for each in made] == [times(1), times(3)]


def test_kernels_built_ahead_are_found_and_failures_are_deferred(queue: Any, built: list[str]) -> None:
    def no_source(_: Any) -> OpenCLSource:
        raise RuntimeError("no source")

    pieces = [piece(queue, "1"), piece(queue, "2"), piece(queue, "3")]
    failing = replace(pieces[1], implementation=replace(pieces[1].implementation, load=no_source))
    task_compiler.build_ahead([pieces[0], failing, pieces[2]])
    assert len(built) == 1
    for each, factor in ((pieces[0], 1), (pieces[2], 3)):
        made = task_compiler.compile_task(each.operation, each.implementation, each.signature, queue, LIMITS)
        assert result(made, queue) == times(factor)
    assert len(built) == 1
    with pytest.raises(ExecutionError, match="no source"):
        task_compiler.compile_task(failing.operation, failing.implementation, failing.signature, queue, LIMITS)


def test_steps_of_sequences_are_built_with_the_rest(queue: Any, built: list[str]) -> None:
    from syclsched.model.sequence import SequencePart

    steps = [piece(queue, "1"), piece(queue, "2")]
    parts = tuple(SequencePart(s.operation, s.implementation, s.signature, (("y", "y"),)) for s in steps)
    implementation = Implementation("both", "sequence", lambda _: parts)
    operation = Operation("both", (Parameter("y", AccessMode.WRITE),), (implementation,), lambda _: Work(1, 1))
    whole = task_compiler.CompileRequest(operation, implementation, SIGNATURE, queue, LIMITS)
    made = task_compiler.compile_tasks([whole, piece(queue, "4")])
    assert len(built) == 1
    assert [result(each, queue) for each in made] == [times(2), times(4)]


@pytest.mark.usefixtures("intel_cpu")
def test_backends_without_source_input_get_spirv(queue: Any, built: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "opencl", BACKENDS["level_zero"])
    made = task_compiler.compile_tasks([piece(queue, "1"), piece(queue, "2", ALONE), piece(queue, "3")])
    assert [result(each, queue) for each in made] == [times(1), times(2), times(3)]
    with pytest.raises(CapabilityError, match=r"nonsense.*refuses the OpenCL C.*undeclared identifier"):
        task_compiler.compile_tasks([piece(queue, "nonsense")])
    assert not built


@pytest.mark.usefixtures("intel_cpu")
@pytest.mark.parametrize("dtype", ["float64", "float16", "int64"])
def test_spirv_of_other_numbers(queue: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from syclsched.kernels.nn import softmax_over
    from syclsched.kernels.tensor.reductions.reduce import reduce

    if dtype == "float16" and not queue.sycl_device.has_aspect_fp16:
        pytest.skip("no half precision here")
    if dtype == "float16" and oneapi.load().versions["intel-opencl-rt"].startswith("2026"):
        pytest.skip("the OpenCL CPU runtime of 2026 has no vload_half for SPIR-V (its JIT finds no symbol)")
    monkeypatch.setitem(BACKENDS, "opencl", BACKENDS["level_zero"])
    operation = reduce("sum", (1,)) if dtype == "int64" else softmax_over(1)
    x = np.arange(12).reshape(3, 4).astype(dtype)
    y = np.zeros(3 if dtype == "int64" else (3, 4), dtype)
    signature = Signature({"y": y.shape, "x": x.shape}, {"y": dtype, "x": dtype})
    buffers = [usm_memory.allocate(queue, each.nbytes, "shared") for each in (y, x)]
    usm_memory.as_numpy(buffers[1], x.shape, dtype)[...] = x
    arrays = [
        MemoryRange.around(b).usm_array(each.shape, dtype, queue) for b, each in zip(buffers, (y, x), strict=True)
    ]
    made = task_compiler.compile_task(operation, operation.implementation("opencl-c"), signature, queue, LIMITS)
    made.bind({"y": arrays[0], "x": arrays[1]}).submit(queue, []).wait()
    host: Any = operation.implementation("numpy").load(signature)
    host(y=y, x=x)
    np.testing.assert_allclose(
        usm_memory.as_numpy(buffers[0], y.shape, dtype), y, rtol=1e-3 if dtype == "float16" else 1e-12
    )
