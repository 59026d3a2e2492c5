# SPDX-License-Identifier: Apache-2.0
"""Channels-first pooling by windows that cover a whole channel of floating-point numbers: reductions of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from syclsched.kernels.common import Activation
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import Line, launch_lines, product, write_lines
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Parameter, Signature

#: Names and modes of the arrays.
_ARRAYS = (Parameter("y", AccessMode.WRITE), Parameter("x", AccessMode.READ, like="y"))


def launch(signature: Signature, limits: DeviceLimits) -> Launch:
    """Return the index space."""
    return launch_lines(size(signature.shapes["y"]), size(signature.shapes["x"][2:]), limits)


def load(signature: Signature, writer: Callable[..., KernelWriter], *, mode: str, activation: Activation) -> Any:
    """Return the kernel of a signature in a writer's language."""
    w = writer(signature, _ARRAYS)
    t, known = compute_dtype(signature.dtypes["y"]), size(signature.shapes["x"][2:])
    images, channels, *extents = w.extents("x")
    length = product(w, extents)

    def larger(found: str, x: str) -> str:
        return w.select(w.any_of(f"({x} > {found})", f"({x} != {x})"), x, found)

    def total(found: str, x: str) -> str:
        return f"({found} + {x})"

    def channel(number: str) -> None:
        line, first = Line.of(w, t, length, known), w.index(f"{number} * {length}")
        start, combine = (-math.inf, larger) if mode == "max" else (0.0, total)
        found = line.reduce(start, lambda k: w.read("x", f"{first} + {k}"), combine)
        if mode == "average":
            count = w.value("int32", w.cast("int32", length, "int64"))
            found = w.value(t, f"{found} / {w.cast(t, count, 'int32')}")
        w.write("y", number, act.emit(w, activation, t, found))

    write_lines(w, w.index(f"{images} * {channels}"), known, channel)
    return w.finish()
