# SPDX-License-Identifier: Apache-2.0
"""Implementations of operations whose kernels are generated with a `KernelWriter`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from syclsched.kernels.common import NUMBA_DTYPES, OPENCL_C, PYTHON_KERNEL
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.kernels.tensor.writing.numba_writer import numba_writer
from syclsched.kernels.tensor.writing.opencl_writer import opencl_writer
from syclsched.model.operation import DeviceLimits, Implementation, Launch, Parameter, Requirements, Signature

#: Generates the body of one kernel.
KernelBody = Callable[[KernelWriter], None]
LaunchFunction = Callable[[Signature, DeviceLimits], Launch]


def generated_implementations(
    parameters: tuple[Parameter, ...],
    body: Callable[[KernelWriter], None],
    launch: LaunchFunction,
    *,
    efficiency: float = 0.5,
    revision: str = "1",
    numba_dtypes: tuple[str, ...] = NUMBA_DTYPES,
    takes_extents: Callable[[Signature], bool] | None = None,
) -> tuple[Implementation, ...]:
    """Return the implementations of a kernel in OpenCL C and in Python.

    ``takes_extents`` returns for which signatures the one in OpenCL C takes extents as arguments; see `opencl_writer`.
    """
    return (
        Implementation(
            "opencl-c",
            "opencl-c",
            partial(_load_opencl, parameters=parameters, body=body, takes_extents=takes_extents),
            launch,
            OPENCL_C,
            efficiency=efficiency,
            revision=revision,
            same_code_as="python",
        ),
        Implementation(
            "python",
            "python",
            partial(_load_python, parameters=parameters, body=body),
            launch,
            Requirements(packages=PYTHON_KERNEL.packages, dtypes=numba_dtypes),
            efficiency=efficiency,
            revision=revision,
            same_code_as="opencl-c",
        ),
    )


def _load_opencl(
    signature: Signature,
    *,
    parameters: tuple[Parameter, ...],
    body: KernelBody,
    takes_extents: Callable[[Signature], bool] | None,
) -> Any:
    takes = takes_extents is not None and takes_extents(signature)
    return _written(opencl_writer(signature, parameters, takes_extents=takes), body)


def _load_python(signature: Signature, *, parameters: tuple[Parameter, ...], body: KernelBody) -> Any:
    return _written(numba_writer(signature, parameters), body)


def _written(w: KernelWriter, body: KernelBody) -> Any:
    body(w)
    return w.finish()
