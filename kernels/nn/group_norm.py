# SPDX-License-Identifier: Apache-2.0
"""`group_norm`: normalisation of groups of channels of each element of a batch (Wu and He, 2018)."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import channels, last
from syclsched.kernels.nn.norm import centred, number, work
from syclsched.kernels.nn.source import FLOATS, sums
from syclsched.kernels.onednn import normalization as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, Parameter, Signature, Split, Work


def _check(signature: Signature, *, groups: int, last_: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) < 2:
        return f"x has a batch and channels, not {x}"
    if y != x:
        return f"group_norm keeps the shape: y {y} against x {x}"
    count = channels(x, last_)
    if count % groups:
        return f"the {count} channels of x {x} cannot be divided into {groups} groups"
    for name in ("scale", "bias"):
        if signature.shapes[name] != (count,):
            return f"{name} has one element for each channel of x {x}, not {signature.shapes[name]}"
    return None


def _work(signature: Signature, *, groups: int, extra: int) -> Work:
    return work(signature, flops=8.0 + extra, parallelism=float(signature.shapes["x"][0] * groups))


def _host(
    *,
    y: Any,
    x: Any,
    scale: Any,
    bias: Any,
    groups: int,
    epsilon: float,
    last_: bool,
    activation: Activation,
) -> None:
    if not x.size:
        return
    source = last(x, last_).astype(sums(str(y.dtype)), copy=False)
    pieces = source.reshape(*source.shape[:-1], groups, source.shape[-1] // groups)
    axes = (*range(1, source.ndim - 1), source.ndim)
    total = centred(pieces, axes, epsilon).reshape(source.shape) * scale + bias
    last(y, last_)[...] = act.numpy(activation, total)


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


@cache
def _group_norm(groups: int, epsilon: float, channels_last: bool, activation: Activation) -> Operation:
    attributes = {"groups": groups, "last_": channels_last}
    names = [f"group_norm {groups}", number(epsilon), "last" if channels_last else "", act.label(activation)]
    load = partial(_load_host, epsilon=epsilon, activation=activation, **attributes)
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
            Parameter("scale", AccessMode.READ, ndim=1, like="y"),
            Parameter("bias", AccessMode.READ, ndim=1, like="y"),
        ),
        implementations=(
            onednn.group_norm(groups=groups, epsilon=epsilon, channels_last=channels_last, activation=activation),
            Implementation("numpy", "host", load, efficiency=0.1),
        ),
        work=partial(_work, groups=groups, extra=act.cost(activation)),
        check=partial(_check, **attributes),
        split=Split(rows=("y", "x")),
    )


def group_norm(
    groups: int, epsilon: float = 1e-5, channels_last: bool = False, activation: Activation = ()
) -> Operation:
    """Return y = activation((x - mean) / sqrt(variance + epsilon) * scale + bias), both of each group of channels.

    Parameters
    ----------
    groups : int
        Into how many groups the channels are divided. As many as there are channels: instance normalisation.
    epsilon : float, optional
        As in the formula.
    channels_last : bool, optional
        Whether x and y are (N, *spatial, C), not (N, C, *spatial).
    activation : Activation, optional
        See `syclsched.kernels.nn.activation`.

    Returns
    -------
    Operation
        With parameters y (written), x, scale and bias: the last two (C,).

    Raises
    ------
    ArgumentError
        If there is no group.
    """
    if groups < 1:
        raise ArgumentError(f"there is at least one group, not {groups}", where="groups")
    return _group_norm(int(groups), float(epsilon), bool(channels_last), act.checked(activation))
