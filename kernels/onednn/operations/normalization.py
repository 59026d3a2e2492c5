# SPDX-License-Identifier: Apache-2.0
"""oneDNN normalisations: local response, batch, layer and group normalisation."""

from __future__ import annotations

from functools import partial
from math import prod

from syclsched.kernels.common import Activation
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.operations.conv import post_ops_of
from syclsched.kernels.onednn.post_ops import Eltwise
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Tensor, activations, plain
from syclsched.model.operation import Implementation, Signature

_BOTH = c_api.USE_SCALE | c_api.USE_SHIFT
#: oneDNN's vector width: other channel counts run in its reference implementation, slower than our own kernels.
_LANES = 8


def lrn(*, alpha: float, beta: float, bias: float, size: int, channels_last: bool) -> Implementation:
    """Return oneDNN's local response normalisation: parameters y and x; see `kernels.nn.normalisation.lrn`."""
    settings = (size, alpha, beta, bias)
    return implementation(partial(_lrn, settings=settings, channels_last=channels_last), efficiency=0.3)


def _lrn(signature: Signature, *, settings: tuple[int, float, float, float], channels_last: bool) -> PrimitiveSpec:
    if settings[0] % 2 == 0:
        raise refuse("the size is odd: of an even one, oneDNN takes the neighbours on the other side")
    x = _images(signature, channels_last)
    if not channels_last and x.dims[1] % _LANES:
        raise refuse(f"channels first are a multiple of {_LANES}")
    return PrimitiveSpec(PrimitiveRequest("lrn", _through(x), settings))


def batch_norm(*, epsilon: float, channels_last: bool, activation: Activation) -> Implementation:
    """Return oneDNN's batch normalisation: parameters y, x, scale, bias, mean, variance."""
    describe = partial(_batch_norm, epsilon=epsilon, channels_last=channels_last, activation=activation)
    return implementation(describe, efficiency=0.5)


def _batch_norm(signature: Signature, *, epsilon: float, channels_last: bool, activation: Activation) -> PrimitiveSpec:
    post_ops = post_ops_of(activation)
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
        PrimitiveArgument("mean", c_api.MEAN, channels),
        PrimitiveArgument("variance", c_api.VARIANCE, channels),
        PrimitiveArgument("scale", c_api.SCALE, channels),
        PrimitiveArgument("bias", c_api.SHIFT, channels),
    )
    settings = (epsilon, c_api.USE_GLOBAL_STATISTICS | _BOTH)
    return PrimitiveSpec(PrimitiveRequest("batch_normalization", arguments, settings, post_ops))


def layer_norm(*, axis: int, epsilon: float) -> Implementation:
    """Return oneDNN's layer normalisation: parameters y, x, scale, and optionally b."""
    return implementation(partial(_layer_norm, axis=axis, epsilon=epsilon), efficiency=0.5)


def _layer_norm(signature: Signature, *, axis: int, epsilon: float) -> PrimitiveSpec:
    shape, dtype = signature.shapes["x"], signature.dtypes["x"]
    axis %= len(shape)
    rows, length = prod(shape[:axis]), prod(shape[axis:])
    parameters = plain((length,), dtype)
    arguments = [*_through(plain((rows, length), dtype)), PrimitiveArgument("scale", c_api.SCALE, parameters)]
    flags = c_api.USE_SCALE
    if "b" in signature.shapes:
        arguments.append(PrimitiveArgument("b", c_api.SHIFT, parameters))
        flags = _BOTH
    return PrimitiveSpec(PrimitiveRequest("layer_normalization", tuple(arguments), (epsilon, flags)))


def group_norm(*, groups: int, epsilon: float, channels_last: bool, activation: Activation) -> Implementation:
    """Return oneDNN's group normalisation: parameters y, x, scale, bias."""
    describe = partial(_group_norm, groups=groups, epsilon=epsilon, channels_last=channels_last, activation=activation)
    return implementation(describe, efficiency=0.3)


def _group_norm(
    signature: Signature, *, groups: int, epsilon: float, channels_last: bool, activation: Activation
) -> PrimitiveSpec:
    x = _images(signature, channels_last)
    if activation:
        raise refuse("nothing can follow")
    together = x.dims[1] // groups
    if channels_last and together != 1 and together % (2 * _LANES):
        raise refuse(f"channels last are in groups of one or multiples of {2 * _LANES}")
    channels = plain((x.dims[1],), x.dtype)
    arguments = (
        *_through(x),
        PrimitiveArgument("scale", c_api.SCALE, channels),
        PrimitiveArgument("bias", c_api.SHIFT, channels),
    )
    return PrimitiveSpec(PrimitiveRequest("group_normalization", arguments, (groups, epsilon, _BOTH)))


def _images(signature: Signature, channels_last: bool) -> Tensor:
    """Return x as (N, C, pixels, 1), the form that all kinds accept."""
    shape, dtype = signature.shapes["x"], signature.dtypes["x"]
    if channels_last:
        image = (shape[0], prod(shape[1:-1]), 1, shape[-1])
    else:
        image = (*shape[:2], prod(shape[2:]), 1)
    return activations(image, dtype, channels_last=channels_last)


def _through(x: Tensor) -> tuple[PrimitiveArgument, PrimitiveArgument]:
    """Return the arguments x and y of a primitive that keeps the shape."""
    return PrimitiveArgument("x", c_api.SRC, x), PrimitiveArgument("y", c_api.DST, x)
