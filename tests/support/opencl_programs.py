# SPDX-License-Identifier: Apache-2.0
"""The OpenCL programs that are made in a test, and how many of them are still in use."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from syclsched import oneapi
from syclsched.devices.backends.opencl_calls import OPENCL, function_of, loaded_library
from syclsched.devices.backends.opencl_programs import OpenCLPrograms, load_programs


class Retained:
    """Programs that are kept alive, so that their references can be counted."""

    def __init__(self, functions: OpenCLPrograms) -> None:
        self._functions = functions
        self._retain = function_of(loaded_library(OPENCL), "clRetainProgram", ctypes.c_int32, ctypes.c_void_p)
        self._handles: list[int] = []

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def live(self) -> int:
        """The number of programs with other references."""
        gc.collect()
        return sum(1 for handle in self._handles if self._functions.references(handle) > 1)

    def add(self, handle: int) -> None:
        """Keep a program."""
        self._retain(handle)
        self._handles.append(handle)

    def release(self) -> None:
        """Keep the programs no more."""
        for handle in self._handles:
            self._functions._release(handle)


@contextmanager
def retained_programs() -> Iterator[Retained]:
    """Yield the programs that are made from now on."""
    oneapi.load()
    import dpctl

    assert dpctl is not None  # its libraries are loaded now
    functions = load_programs()
    assert functions is not None, "the libraries lack what programs need"
    found, is_built = Retained(functions), OpenCLPrograms._is_built

    def noted(self: OpenCLPrograms, program: int, *more: Any) -> bool:
        found.add(program)
        return is_built(self, program, *more)

    with mock.patch.object(OpenCLPrograms, "_is_built", noted):
        yield found
    found.release()
