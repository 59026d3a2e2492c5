# SPDX-License-Identifier: Apache-2.0
"""`reduce_whole`: a reduction of a whole array by all compute units, in two steps.

A kernel's work-groups cannot wait for each other, so a single number is found by one group, on one unit. Here each of
some work-items reduces a part, into an array the caller provides, and a second kernel reduces those.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.tensor.making import array_bytes, elements, make, read, written
from syclsched.kernels.tensor.reduce import reduce
from syclsched.kernels.tensor.reduction_kernels import write_parts
from syclsched.kernels.tensor.source import kernels
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Step, Work
from syclsched.model.sequence import sequence_operation

#: What can be reduced in parts that are reduced in turn.
MODES = ("sum", "max", "min", "prod")


@cache
def reduce_whole(mode: str) -> Operation:
    """Return the operation that reduces all of ``x`` to ``y``, which has no axes, by way of ``parts``.

    Parameters
    ----------
    mode : str
        One of `MODES`.

    Returns
    -------
    Operation
        Parameters ``parts`` (written; one axis, as many elements as work-items shall share the work: some times the
        compute units), ``x`` (any shape), ``y`` (shape ``()``), of one dtype.

    Raises
    ------
    ArgumentError
        If there is no such mode.
    """
    if mode not in MODES:
        raise ArgumentError(f"there is no mode {mode!r}", where="reduce_whole", hint=f"There are: {', '.join(MODES)}")
    first = Step(_parts(mode), (("y", "parts"), ("x", "x")))
    second = Step(reduce(mode, (0,)), (("y", "y"), ("x", "parts")))
    names = ("opencl-c", "numba-dpex", "numpy")
    return sequence_operation((first, second), [(name, name) for name in names])


@cache
def _parts(mode: str) -> Operation:
    parameters = (written(dtypes=_DTYPES), read(like="y"))
    return make(
        f"reduce {mode} of parts",
        parameters,
        partial(_host, mode=mode),
        _check,
        work=_work,
        kernels=kernels(parameters, partial(write_parts, mode=mode), _launch),
    )


_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")


def _check(signature: Signature) -> str | None:
    y = signature.shapes["y"]
    return None if len(y) == 1 and y[0] else f"parts are one axis with at least one element, not {y}"


def _work(signature: Signature) -> Work:
    moved = array_bytes(signature, "x") + array_bytes(signature, "y")
    return Work(float(elements(signature, "x")), float(moved), signature.dtypes["y"], float(elements(signature)))


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    # A group for each: they are few, and each is in vectors by itself.
    return Launch((elements(signature),), (1,))


def _host(*, mode: str, y: Any, x: Any) -> None:
    flat, count = x.reshape(-1), y.size
    each = flat.size // count
    host: Any = reduce(mode, (1,)).implementation("numpy").load(Signature({}, {}))
    host(y=y[:-1], x=flat[: (count - 1) * each].reshape(count - 1, each))
    host(y=y[-1:], x=flat[(count - 1) * each :].reshape(1, -1))
