# SPDX-License-Identifier: Apache-2.0
"""SPIR-V made of LLVM modules by llvmlite in another process, each module in a new child of it.

LLVM's SPIR-V target keeps the numbers of basic blocks in a global table, by addresses that later modules use again: the
second module of a process may have one number for a block and for a type (https://github.com/llvm/llvm-project/issues/160613).
Drivers refuse such code or run something else. A child process that emits one module starts with an empty table, and
what LLVM reports by ending the process becomes an error.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from typing import Any, ClassVar

from syclsched.kernel_compiler.target import emission_server
from syclsched.kernel_compiler.target.emission_server import read_block, write_block


class EmissionProcess:
    """The process that emits, started when it is first needed; safe to use from any thread."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _running: ClassVar[EmissionProcess | None] = None

    def __init__(self, options: str) -> None:
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, emission_server.__file__, options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
            start_new_session=True,
        )
        atexit.register(self._end)

    def _end(self) -> None:
        if self._owner == os.getpid():
            self._process.communicate()  # the end of its input ends it

    @classmethod
    def start(cls, options: str) -> EmissionProcess:
        """Return the running process; start one if there is none, without waiting for it."""
        with cls._lock:
            found = cls._running
            if found is None or found._owner != os.getpid() or found._process.poll() is not None:
                found = cls._running = cls(options)
            return found

    def emit(self, triple: str, bitcode: bytes) -> bytes:
        """Return a module as SPIR-V; raise RuntimeError with LLVM's reason if there is none."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with self._lock:
            try:
                write_block(stdin, triple.encode())  # type: ignore[arg-type]
                write_block(stdin, bitcode)  # type: ignore[arg-type]
                answer = read_block(stdout)  # type: ignore[arg-type]
            except OSError:
                answer = None
        if not answer:
            raise RuntimeError("the process that emits SPIR-V has ended")
        if answer[:1] == b"\0":
            raise RuntimeError(f"LLVM emits no SPIR-V: {answer[1:].decode(errors='replace').strip()[-2000:]}")
        return answer[1:]


def emit(module: Any, triple: str, options: str) -> bytes:
    """Return an LLVM module as SPIR-V."""
    return EmissionProcess.start(options).emit(triple, module.as_bitcode())
