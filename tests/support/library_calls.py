# SPDX-License-Identifier: Apache-2.0
"""Graphs that alternate library calls and kernels, and a mock library."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np

from support.running import ASSIGN
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, NativeCall, OpenCLSource, Operation, Parameter, Work

SHIFT = Operation(
    "shift",
    (Parameter("y", AccessMode.UPDATE, ndim=1), Parameter("n", dtype="int32")),
    (
        Implementation(
            "opencl-c",
            "opencl-c",
            lambda _: OpenCLSource(
                "__kernel void shift(__global float *y, int n) {"
                " size_t i = get_global_id(0); y[i] = fmod(2 * y[i] + (float)((i + n) % 7), 1021.0f); }",
                "shift",
            ),
            lambda s, d: Launch(s.shapes["y"]),
        ),
    ),
    lambda _: Work(1e3, 1e3, "float32"),
)


def expected(y: Any, steps: int) -> Any:
    i = np.arange(y.size)
    for n in range(steps):
        y = np.float32(1000) - y if n % 2 == 0 else np.fmod(2 * y + ((i + n) % 7).astype(np.float32), np.float32(1021))
    return y


def alternating(steps: int, size: int, operation: Any) -> TaskGraph:
    """Return alternating steps of a library and of kernels, none of which commutes with its neighbours."""
    graph = TaskGraph("alternating")
    y = graph.array("y", (size,), "float32")
    for n in range(steps):
        if n % 2 == 0:
            graph.kernel(operation, name=f"t{n}", y=y, alpha=-1.0, beta=1000.0)
        else:
            graph.kernel(SHIFT, name=f"t{n}", y=y, n=n)
    return graph


class Called:
    """A library of one function that does nothing on the device and returns a status."""

    def __init__(self, status: int, words: int = 6) -> None:
        self.seen: list[tuple[int, ...]] = []
        self.status = status

        def function(*given: int) -> int:
            self.seen.append(given)
            return self.status

        self.function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * words)(function)

    def native(self, queue: Any, arguments: Any) -> NativeCall:
        address = ctypes.cast(self.function, ctypes.c_void_p).value or 0
        return NativeCall(address, (1, 2, -3, 4, 5, 6), self, lambda status: f"it has no mood for {status}")

    def __call__(self, queue: Any, arguments: Any, depends: list[Any]) -> Any:
        raise AssertionError("Python is not to be asked")


def with_library(loaded: Any) -> Any:
    return replace(ASSIGN, implementations=(Implementation("library", "library", lambda _: loaded),))
