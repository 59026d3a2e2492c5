# SPDX-License-Identifier: Apache-2.0
"""`batch_norm`: normalisation of every channel by a known mean and variance, as in inference."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import channels, last
from syclsched.kernels.nn.norm import number, work
from syclsched.kernels.nn.source import FLOATS, sums
from syclsched.kernels.onednn import normalization as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, Parameter, Signature, Split

NAMES = ("scale", "bias", "mean", "variance")


def _check(signature: Signature, *, last_: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) < 2:
        return f"x has a batch and channels, not {x}"
    if y != x:
        return f"batch_norm keeps the shape: y {y} against x {x}"
    for name in NAMES:
        if signature.shapes[name] != (channels(x, last_),):
            return f"{name} has one element for each channel of x {x}, not {signature.shapes[name]}"
    return None


def _host(
    *,
    y: Any,
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    epsilon: float,
    last_: bool,
    activation: Activation,
) -> None:
    import numpy as np

    dtype = np.dtype(sums(str(y.dtype)))
    source = last(x, last_).astype(dtype, copy=False)
    # What has no root is no number, without a warning.
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = scale.astype(dtype, copy=False) / np.sqrt(variance.astype(dtype, copy=False) + dtype.type(epsilon))
    last(y, last_)[...] = act.numpy(activation, (source - mean.astype(dtype, copy=False)) * factor + bias)


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


@cache
def _batch_norm(epsilon: float, channels_last: bool, activation: Activation) -> Operation:
    attributes = {"epsilon": epsilon, "last_": channels_last, "activation": activation}
    names = ["batch_norm", number(epsilon), "last" if channels_last else "", act.label(activation)]
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
            *(Parameter(name, AccessMode.READ, ndim=1, like="y") for name in NAMES),
        ),
        implementations=(
            onednn.batch_norm(epsilon=epsilon, channels_last=channels_last, activation=activation),
            Implementation("numpy", "host", partial(_load_host, **attributes), efficiency=0.2),
        ),
        work=partial(work, flops=3.0 + act.cost(activation)),
        check=partial(_check, last_=channels_last),
        split=Split(rows=("y", "x")),
    )


def batch_norm(epsilon: float = 1e-5, channels_last: bool = False, activation: Activation = ()) -> Operation:
    """Return y = activation((x - mean) / sqrt(variance + epsilon) * scale + bias), for every channel.

    Parameters
    ----------
    epsilon : float, optional
        As in the formula.
    channels_last : bool, optional
        Whether x and y are (N, *spatial, C), not (N, C, *spatial).
    activation : Activation, optional
        See `syclsched.kernels.nn.activation`.

    Returns
    -------
    Operation
        With parameters y (written), x, scale, bias, mean, variance: the last four (C,).
    """
    return _batch_norm(float(epsilon), bool(channels_last), act.checked(activation))
