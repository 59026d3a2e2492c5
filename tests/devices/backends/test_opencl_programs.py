# SPDX-License-Identifier: Apache-2.0
"""OpenCL programs that the driver releases with their last kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
from support.opencl_programs import Retained, retained_programs

from syclsched.devices.backends.opencl_programs import OpenCLPrograms, load_programs
from syclsched.devices.backends.registry import backend_of
from syclsched.devices.memory import usm_memory
from syclsched.devices.programs import programs
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.devices.programs.program_cache import VARIABLE
from syclsched.model.operation import OpenCLSource

pytestmark = pytest.mark.sycl


@pytest.fixture
def retained() -> Iterator[Retained]:
    with retained_programs() as found:
        yield found


def code(number: int) -> OpenCLSource:
    """Return a program that no other test builds, with two kernels."""
    text = "__kernel void {}(__global int *y, int x) {{ y[get_global_id(0)] = x + {}; }}\n"
    return OpenCLSource("".join(text.format(name, 7000 + number) for name in ("first", "second")), "first")


def result(kernel: Any, queue: Any, x: int) -> int:
    memory = usm_memory.allocate(queue, 4, "shared")
    queue.submit_async(kernel, [memory, ctypes.c_int(x)], [1]).wait()
    return int(usm_memory.as_numpy(memory, (1,), "int32")[0])


def test_a_program_is_released_with_its_last_kernel(queues: list[Any], retained: Retained) -> None:
    program = backend_of(queues[0]).build(code(0), queues[0])
    first, second = (program.get_sycl_kernel(name) for name in ("first", "second"))
    assert not program.has_sycl_kernel("third")
    del program
    assert [result(each, queues[0], 1) for each in (first, second)] == [7001, 7001]
    assert retained.live == 1
    del first
    assert retained.live == 1
    del second
    assert retained.live == 0
    assert len(retained) == 2  # the one that was compiled, and the one made of its binary


def test_a_program_of_a_binary_is_released_too(queues: list[Any], retained: Retained) -> None:
    backend = backend_of(queues[0])
    kernel = backend.build(code(1), queues[0]).get_sycl_kernel("first")
    binary = backend.binary(kernel, queues[0])
    assert binary is not None
    loaded = backend.load_binary(binary, queues[0])
    assert loaded is not None
    again = loaded.get_sycl_kernel("second")
    assert result(again, queues[0], 2) == 7003
    del kernel, loaded, again
    assert retained.live == 0


def test_a_program_that_is_refused_is_released(queues: list[Any], retained: Retained) -> None:
    from dpctl.program import SyclProgramCompilationError

    with pytest.raises(SyclProgramCompilationError):
        backend_of(queues[0]).build(OpenCLSource("__kernel void k(nonsense) {}", "k"), queues[0])
    assert backend_of(queues[0]).load_binary(b"nonsense", queues[0]) is None
    assert retained.live == 0


def test_programs_in_the_cache_are_bounded_and_those_in_use_stay(
    queues: list[Any], retained: Retained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    kept: BoundedCache = BoundedCache(3, lambda built: built.program_id)
    monkeypatch.setattr(programs, "_PROGRAMS", kept)
    in_use = programs.compile_code(code(2), queues[0], "here")
    for number in range(3, 13):
        programs.compile_code(code(number), queues[0], "here")
    assert retained.live == 4
    assert result(in_use, queues[0], 0) == 7002
    made = programs.program_count()
    for number in (10, 11, 12):
        programs.compile_code(code(number), queues[0], "here")
    assert programs.program_count() == made


def test_without_the_librarys_functions_programs_are_dpctls(queues: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    load_programs.cache_clear()

    def refuse(_: Any) -> None:
        raise AttributeError

    monkeypatch.setattr(OpenCLPrograms, "__init__", refuse)
    try:
        assert load_programs() is None
        kernel = backend_of(queues[0]).build(code(13), queues[0]).get_sycl_kernel("first")
        assert result(kernel, queues[0], 3) == 7016
        assert backend_of(queues[0]).binary(kernel, queues[0]) is None
    finally:
        load_programs.cache_clear()
