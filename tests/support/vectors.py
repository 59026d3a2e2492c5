# SPDX-License-Identifier: Apache-2.0
"""Operations of one statement on vectors of arrays, for tests of the building blocks of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from syclsched.kernels.tensor.writing.numba_writer import python_kernel
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

WIDTH = 16


def on_vectors(
    changed: Sequence[str], read: Sequence[str], opencl: tuple[str, str], python: Sequence[str]
) -> Operation:
    """Return an operation on float32 arrays, all of one length that is divisible by the vector width.

    Parameters
    ----------
    changed, read : sequence of str
        Names of its arrays, in order.
    opencl : (str, str)
        Code before the kernel in OpenCL C, and statements, in which ``i`` is the number of the vector.
    python : sequence of str
        Statements of a Python kernel, in which ``i`` is the index of its first number; none to leave that out.
    """
    names = (*changed, *read)
    head, body = opencl

    def source(_: Signature) -> OpenCLSource:
        arguments = ", ".join(f"__global float* {name}" for name in names)
        return OpenCLSource(f"{head}__kernel void tried({arguments}) {{ long i = get_global_id(0); {body} }}", "tried")

    def kernel(signature: Signature) -> Any:
        lines = (f"def tried(item, {', '.join(names)}):", f"i = item.get_global_id(0) * {WIDTH}", *python)
        return python_kernel("\n    ".join(lines) + "\n", "tried", real=signature.dtypes[names[0]])

    def launch(signature: Signature, _: DeviceLimits) -> Launch:
        return Launch((signature.shapes[names[0]][0] // WIDTH,), (1,))

    return Operation(
        name="tried",
        parameters=tuple(
            Parameter(
                name, AccessMode.UPDATE if name in changed else AccessMode.READ, like=names[0] if number else None
            )
            for number, name in enumerate(names)
        ),
        implementations=(
            Implementation("opencl-c", "opencl-c", source, launch),
            *([Implementation("python", "python", kernel, launch)] if python else []),
        ),
        work=lambda _: Work(1.0, 1.0, "float32", 1.0),
    )
