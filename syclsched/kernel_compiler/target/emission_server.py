# SPDX-License-Identifier: Apache-2.0
"""A process that makes SPIR-V of LLVM modules, each in a child process of its own; started by `emission`.

It imports llvmlite alone. Requests and answers are numbers of eight bytes and what they count: the version of SPIR-V
and bitcode; then 1 and SPIR-V, or 0 and a reason.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, Final

_LENGTH: Final = 8
_MADE, _FAILED = b"\1", b"\0"


def read_block(file: BinaryIO) -> bytes | None:
    """Read a block; None at the end of the file."""
    length = file.read(_LENGTH)
    if len(length) < _LENGTH:
        return None
    block = file.read(int.from_bytes(length, "little"))
    return block if len(block) == int.from_bytes(length, "little") else None


def write_block(file: BinaryIO, block: bytes) -> None:
    """Write a block."""
    file.write(len(block).to_bytes(_LENGTH, "little") + block)
    file.flush()


def initialise(options: str) -> Any:
    """Prepare LLVM for SPIR-V, and return llvmlite's binding."""
    from llvmlite import binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("syclsched", options)  # read by the SPIR-V target alone
    return llvm


def _emit(llvm: Any, triple: str, bitcode: bytes) -> bytes:
    """Return the SPIR-V of an optimised module.

    Without further optimisation: LLVM's for loops makes counters of two bits, for which SPIR-V gets eight.
    """
    module = llvm.parse_bitcode(bitcode)
    module.triple = triple
    return bytes(llvm.Target.from_triple(triple).create_target_machine(opt=0).emit_object(module))


def _in_child(work: Callable[[], bytes]) -> bytes:
    """Return an answer: the result of work in a child process, or the reason why there is none."""
    with tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.dup2(errors.fileno(), 2)
                result.write(work())
                result.flush()
                status = 0
            except BaseException as error:
                os.write(2, str(error).encode())
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        file = errors if status else result
        file.seek(0)
        return (_FAILED if status else _MADE) + file.read()


def serve(options: str, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    llvm = initialise(options)
    while (triple := read_block(requests)) is not None and (bitcode := read_block(requests)) is not None:
        write_block(answers, _in_child(partial(_emit, llvm, triple.decode(), bitcode)))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides when to end
    serve(sys.argv[1], sys.stdin.buffer, sys.stdout.buffer)
