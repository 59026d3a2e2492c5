# SPDX-License-Identifier: Apache-2.0
"""Validity of the SPIR-V of many kernels of one process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from llvmlite import binding as llvm

from syclsched.kernel_compiler import ArrayArgument, ItemArgument, compile_kernel
from syclsched.kernel_compiler.target import emission, spirv

#: Place of the result in instructions of these SPIR-V opcodes: types, labels, constants, functions and variables.
RESULT = {**dict.fromkeys((*range(19, 40), 248), 1), **dict.fromkeys((41, 42, 43, 44, 46, 54, 55, 59), 2)}

needs_emission = pytest.mark.skipif(not spirv.is_built_in(), reason="this llvmlite makes no SPIR-V")


def results(code: bytes) -> Iterator[int]:
    """Return the numbers that instructions define."""
    words = np.frombuffer(code, "<u4")
    place = 5
    while place < len(words):
        length, opcode = int(words[place]) >> 16, int(words[place]) & 0xFFFF
        if opcode in RESULT:
            yield int(words[place + RESULT[opcode]])
        place += length


def kernel_of(loops: int) -> Callable[..., None]:
    """Return a kernel with a number of loops, and with them of basic blocks."""
    lines = ["def kernel(item, a):", "    i = item.get_id(0)", "    t = a[i]"]
    for _ in range(loops):
        lines += ["    for k in range(a.shape[0]):", "        if a[k] > t:", "            t = t + a[k]"]
    space: dict[str, Any] = {}
    exec("\n".join([*lines, "    a[i] = t"]), space)
    return space["kernel"]  # type: ignore[no-any-return]


def compiled(loops: int) -> bytes:
    """Return the SPIR-V of a kernel."""
    return compile_kernel(kernel_of(loops), (ItemArgument(1), ArrayArgument("float32", 1))).spirv


def module_of(blocks: int) -> Any:
    """Return an LLVM module with a kernel of about this many basic blocks."""
    lines = ["define spir_kernel void @kernel(i64 %n) {", "entry:", "  br label %b0"]
    for k in range(blocks):
        lines += [f"b{k}:", f"  %c{k} = icmp sgt i64 %n, {k}", f"  br i1 %c{k}, label %b{k + 1}, label %end"]
    return llvm.parse_assembly("\n".join([*lines, f"b{blocks}:", "  br label %end", "end:", "  ret void", "}"]))


@needs_emission
def test_result_ids_are_unique_after_many_modules() -> None:
    first: dict[int, bytes] = {}
    for turn in range(10):
        for blocks in (2, 9, 4, 15):
            code = spirv.emit(module_of(blocks), "1.2")
            numbers = list(results(code))
            assert len(numbers) == len(set(numbers)), (turn, blocks)
            assert code == first.setdefault(blocks, code)


@needs_emission
def test_a_process_that_was_killed_is_started_again() -> None:
    compiled(1)
    running = emission.EmissionProcess._running
    assert running is not None
    os.kill(running._process.pid, signal.SIGKILL)
    running._process.wait()
    assert compiled(1)


@needs_emission
def test_an_emission_failure_raises_an_error_with_its_reason() -> None:
    process = emission.EmissionProcess.start(spirv._OPTIONS)
    with pytest.raises(RuntimeError, match="LLVM emits no SPIR-V: "):
        process.emit(spirv.triple("1.2"), b"no bitcode")
    assert compiled(2)
