# SPDX-License-Identifier: Apache-2.0
"""oneDNN normalisations: local response, batch, layer and group normalisation."""

from __future__ import annotations

from functools import partial
from math import prod

from syclsched.kernels.common import Activation
from syclsched.kernels.onednn import names
from syclsched.kernels.onednn.conv import fused
from syclsched.kernels.onednn.implementing import Described, implementation, refuse
from syclsched.kernels.onednn.post_ops import Eltwise
from syclsched.kernels.onednn.requests import Argument, Request
from syclsched.kernels.onednn.tensors import Tensor, activations, plain
from syclsched.model.operation import Implementation, Signature

_BOTH = names.USE_SCALE | names.USE_SHIFT
#: oneDNN's vector width: other channel counts run in its reference implementation, slower than our own kernels.
_LANES = 8


def lrn(*, alpha: float, beta: float, bias: float, size: int, channels_last: bool) -> Implementation:
    """Return oneDNN's local response normalisation: parameters y and x; see `syclsched.kernels.nn.lrn`."""
    settings = (size, alpha, beta, bias)
    return implementation(partial(_lrn, settings=settings, channels_last=channels_last), efficiency=0.3)


def _lrn(signature: Signature, *, settings: tuple[int, float, float, float], channels_last: bool) -> Described:
    if settings[0] % 2 == 0:
        raise refuse("the size is odd: of an even one, oneDNN takes the neighbours on the other side")
    x = _images(signature, channels_last)
    if not channels_last and x.dims[1] % _LANES:
        raise refuse(f"channels first are a multiple of {_LANES}")
    return Described(Request("lrn", _through(x), settings))


def batch_norm(*, epsilon: float, channels_last: bool, activation: Activation) -> Implementation:
    """Return oneDNN's batch normalisation: parameters y, x, scale, bias, mean, variance."""
    describe = partial(_batch_norm, epsilon=epsilon, channels_last=channels_last, activation=activation)
    return implementation(describe, efficiency=0.5)


def _batch_norm(signature: Signature, *, epsilon: float, channels_last: bool, activation: Activation) -> Described:
    post_ops = fused(activation)
    if post_ops not in ((), (Eltwise("relu"),)):
        raise refuse("only relu can follow")
    x = _images(signature, channels_last)
    if channels_last:
        # With known statistics rows are independent; as images, oneDNN distributes them over the cores.
        *rows, width, count = signature.shapes["x"]
        x = activations((prod(rows), width, 1, count), x.dtype, channels_last=True)
    channels = plain((x.dims[1],), x.dtype)
    arguments = (
        *_through(x),
        Argument("mean", names.MEAN, channels),
        Argument("variance", names.VARIANCE, channels),
        Argument("scale", names.SCALE, channels),
        Argument("bias", names.SHIFT, channels),
    )
    settings = (epsilon, names.USE_GLOBAL_STATISTICS | _BOTH)
    return Described(Request("batch_normalization", arguments, settings, post_ops))


def layer_norm(*, axis: int, epsilon: float) -> Implementation:
    """Return oneDNN's layer normalisation: parameters y, x, scale, and optionally b."""
    return implementation(partial(_layer_norm, axis=axis, epsilon=epsilon), efficiency=0.5)


def _layer_norm(signature: Signature, *, axis: int, epsilon: float) -> Described:
    shape, dtype = signature.shapes["x"], signature.dtypes["x"]
    axis %= len(shape)
    rows, length = prod(shape[:axis]), prod(shape[axis:])
    parameters = plain((length,), dtype)
    arguments = [*_through(plain((rows, length), dtype)), Argument("scale", names.SCALE, parameters)]
    flags = names.USE_SCALE
    if "b" in signature.shapes:
        arguments.append(Argument("b", names.SHIFT, parameters))
        flags = _BOTH
    return Described(Request("layer_normalization", tuple(arguments), (epsilon, flags)))


def group_norm(*, groups: int, epsilon: float, channels_last: bool, activation: Activation) -> Implementation:
    """Return oneDNN's group normalisation: parameters y, x, scale, bias."""
    describe = partial(_group_norm, groups=groups, epsilon=epsilon, channels_last=channels_last, activation=activation)
    return implementation(describe, efficiency=0.3)


def _group_norm(
    signature: Signature, *, groups: int, epsilon: float, channels_last: bool, activation: Activation
) -> Described:
    x = _images(signature, channels_last)
    if activation:
        raise refuse("nothing can follow")
    together = x.dims[1] // groups
    if channels_last and together != 1 and together % (2 * _LANES):
        raise refuse(f"channels last are in groups of one or multiples of {2 * _LANES}")
    channels = plain((x.dims[1],), x.dtype)
    arguments = (*_through(x), Argument("scale", names.SCALE, channels), Argument("bias", names.SHIFT, channels))
    return Described(Request("group_normalization", arguments, (groups, epsilon, _BOTH)))


def _images(signature: Signature, channels_last: bool) -> Tensor:
    """Return x as (N, C, pixels, 1), the form that all kinds accept."""
    shape, dtype = signature.shapes["x"], signature.dtypes["x"]
    if channels_last:
        image = (shape[0], prod(shape[1:-1]), 1, shape[-1])
    else:
        image = (*shape[:2], prod(shape[2:]), 1)
    return activations(image, dtype, channels_last=channels_last)


def _through(x: Tensor) -> tuple[Argument, Argument]:
    """Return the arguments x and y of a primitive that keeps the shape."""
    return Argument("x", names.SRC, x), Argument("y", names.DST, x)
