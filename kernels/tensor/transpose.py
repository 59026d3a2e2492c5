# SPDX-License-Identifier: Apache-2.0
"""`transpose`: axes in another order."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.onednn import movement
from syclsched.kernels.tensor.making import expect, make, moving_work, read, written
from syclsched.model.operation import Operation, Signature


@cache
def transpose(permutation: tuple[int, ...]) -> Operation:
    """Return the operation that writes ``x`` with its axes in another order to ``y``.

    Parameters
    ----------
    permutation : tuple of int
        Axis ``i`` of the result is axis ``permutation[i]`` of ``x``.

    Returns
    -------
    Operation

    Raises
    ------
    ArgumentError
        If it is no permutation.
    """
    if sorted(permutation) != list(range(len(permutation))):
        raise ArgumentError(f"{permutation} is no permutation", where="transpose")
    return make(
        f"transpose {','.join(map(str, permutation))}",
        (written(), read(like="y")),
        partial(_host, permutation=permutation),
        partial(_check, permutation=permutation),
        work=moving_work,
        kernels=(movement.transpose(permutation=permutation),),
    )


def _check(signature: Signature, *, permutation: tuple[int, ...]) -> str | None:
    x = signature.shapes["x"]
    if len(x) != len(permutation):
        return f"{permutation} is no permutation of the axes of {x}"
    return expect(signature, tuple(x[axis] for axis in permutation), f"{x} transposed by {permutation}")


def _host(*, permutation: tuple[int, ...], y: Any, x: Any) -> None:
    y[...] = x.transpose(permutation)
