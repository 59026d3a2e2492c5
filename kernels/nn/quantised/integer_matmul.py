# SPDX-License-Identifier: Apache-2.0
"""`integer_matmul`: product of 8-bit numbers with constant weights around zero, summed in 32-bit integers."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, numpy_implementation
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.quantised import row_products
from syclsched.kernels.nn.quantised.finishing import SUMS, Finish
from syclsched.kernels.nn.quantised.row_products import RowProduct
from syclsched.kernels.onednn.operations import integer as onednn
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.model.operation import Operation, Signature, Split, Work


@cache
def integer_matmul(finish: Finish = SUMS, *, narrow: bool = False) -> Operation:
    """Return y = (x - z) @ w as int32, or scaled: activation((x - z) @ w * (s * sx) + b + r), quantised or not.

    Parameters
    ----------
    finish : Finish, optional
        What becomes of the sums, and whether x has a zero point.
    narrow : bool, optional
        All weights are from -64 to 64, as of 7 bits: sums of two products have at most 16 bits.

    Returns
    -------
    Operation
        Parameters ``y`` (..., N), ``x`` (..., K) of 8 bits, ``w`` (K, N) of 8 or 16 bits, ``z``, ``s``, ``b``, ``r``,
        ``sx``.
    """
    parameters = finish.parameters()
    return Operation(
        name=" ".join(filter(None, ("integer matmul", "narrow" if narrow else "", finish.label))),
        parameters=parameters,
        implementations=(
            onednn.matmul(onednn.ScaledSum(finish.activation, finish.quantise, finish.addend)),
            *row_products.implementations("integer_matmul", _product, finish, _weights, narrow=narrow),
            numpy_implementation(partial(_host, finish=finish), 0.02),
        ),
        work=partial(_work, finish=finish),
        check=partial(_check, finish=finish),
        split=Split(rows=("y", "x", *(["r"] if finish.has_residual_rows else []))),
    )


def _check(signature: Signature, *, finish: Finish) -> str | None:
    y, x, w = (signature.shapes[name] for name in "yxw")
    if not x or len(w) != 2 or x[-1] != w[0]:
        return f"x {x} and w {w} cannot be multiplied"
    if y != (*x[:-1], w[1]):
        return f"y of x {x} and w {w} is {(*x[:-1], w[1])}, not {y}"
    return finish.check(signature, w[1])


def _work(signature: Signature, *, finish: Finish) -> Work:
    results = size(signature.shapes["y"])
    flops = results * (2.0 * signature.shapes["w"][0] + finish.cost)
    moved = sum(size(shape) * ITEM_BYTES[signature.dtypes[name]] for name, shape in signature.shapes.items())
    return Work(flops, float(moved), "float32", float(max(1, results)))


def _product(signature: Signature) -> RowProduct:
    terms, columns = signature.shapes["w"]
    rows = size(signature.shapes["x"][:-1])
    return RowProduct(rows, terms, columns, 1, _gather)


def _gather(given: ExtentArguments) -> str:
    return "COPY(to, x + (I)row * taken, taken);"


def _weights(w: Any) -> Any:
    return w.T[None]


def _host(*, finish: Finish, y: Any, x: Any, w: Any, z: Any = 0, **arrays: Any) -> None:
    import numpy as np

    # Exact: sums of fewer than 2^35 products of so few bits are whole numbers below 2^53.
    sums = (x.astype("float64") - np.reshape(z, ())) @ w.astype("float64")
    y[...] = finish.numpy(sums, y, arrays)
