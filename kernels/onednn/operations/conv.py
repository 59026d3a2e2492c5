# SPDX-License-Identifier: Apache-2.0
"""oneDNN convolutions and transposed convolutions, with bias, residual and activation fused."""

from __future__ import annotations

from functools import partial

from syclsched.kernels.common import Activation
from syclsched.kernels.onednn import c_api
from syclsched.kernels.onednn.post_ops import Binary, PostOp, Sum, of_activation
from syclsched.kernels.onednn.primitive_spec import PrimitiveSpec, implementation, refuse
from syclsched.kernels.onednn.requests import PrimitiveArgument, PrimitiveRequest
from syclsched.kernels.onednn.tensors import Shape, Tensor, activations, plain
from syclsched.kernels.windows import Convolution, Window
from syclsched.model.operation import Implementation, Signature


def post_ops_of(
    activation: Activation, residual: Tensor | None = None, *, in_place: bool = False
) -> tuple[PostOp, ...]:
    """Return the post-ops that add a residual, then apply an activation."""
    found = of_activation(activation)
    if found is None:
        raise refuse(f"there is no post-op for {activation}")
    if residual is None:
        return found
    return (Sum() if in_place else Binary("add", residual, "r"), *found)


def conv(convolution: Convolution, *, residual: str) -> Implementation:
    """Return oneDNN's convolution: parameters y, x, w (O, I / groups, *kernel), and optionally b and r."""
    return implementation(partial(_conv, convolution, residual), efficiency=0.8)


def _conv(convolution: Convolution, residual: str, signature: Signature) -> PrimitiveSpec:
    window, last = convolution.window, convolution.channels_last
    check_window(window)
    if residual and not last:  # it has its reference implementation only, which is slower than our own kernels
        raise refuse("a residual needs channels last")
    x, y = (activations(signature.shapes[name], signature.dtypes[name], channels_last=last) for name in "xy")
    return _described(
        "convolution",
        signature,
        (x, y),
        _grouped(signature, "w", convolution.groups),
        _settings(window),
        post_ops_of(convolution.activation, y if residual else None, in_place=residual == "y"),
    )


def conv_weights(convolution: Convolution) -> Implementation:
    """Return oneDNN's gradient of a convolution's weights: parameters y (O, I / groups, *kernel), x, dy."""
    return implementation(partial(_conv_weights, convolution), efficiency=0.7)


def _conv_weights(convolution: Convolution, signature: Signature) -> PrimitiveSpec:
    check_window(convolution.window)
    x, dy = (
        activations(signature.shapes[name], signature.dtypes[name], channels_last=convolution.channels_last)
        for name in ("x", "dy")
    )
    weights = _grouped(signature, "y", convolution.groups)
    arguments = (
        PrimitiveArgument("x", c_api.SRC, x),
        PrimitiveArgument("dy", c_api.DIFF_DST, dy),
        PrimitiveArgument("y", c_api.DIFF_WEIGHTS, weights.with_any_layout()),
    )
    request = PrimitiveRequest("convolution_weights", arguments, _settings(convolution.window))
    return PrimitiveSpec(request, {"y": weights})


def _grouped(signature: Signature, name: str, groups: int) -> Tensor:
    """Return weights (O, I / groups, *kernel) as oneDNN has them: with an axis of groups in front if there are any."""
    shape = signature.shapes[name]
    return plain(shape if groups == 1 else (groups, shape[0] // groups, *shape[1:]), signature.dtypes[name])


def _settings(window: Window) -> tuple[Shape, ...]:
    return window.strides, gaps(window), window.begins, window.ends


def conv_transpose(convolution: Convolution, *, output_padding: Shape) -> Implementation:
    """Return oneDNN's transposed convolution: parameters y, x, w (I, O / groups, *kernel), and optionally b."""
    return implementation(partial(_conv_transpose, convolution, output_padding), efficiency=0.5)


def _conv_transpose(convolution: Convolution, output_padding: Shape, signature: Signature) -> PrimitiveSpec:
    dtype, weights = signature.dtypes["y"], signature.shapes["w"]
    window, groups, last = convolution.window, convolution.groups, convolution.channels_last
    check_window(window)
    x, y = (activations(signature.shapes[name], dtype, channels_last=last) for name in "xy")
    spatial = range(2, len(weights))
    if groups == 1:
        source = plain(weights, dtype).permuted((1, 0, *spatial))
    else:
        split = plain((groups, weights[0] // groups, *weights[1:]), dtype)
        source = split.permuted((0, 2, 1, *(axis + 1 for axis in spatial)))
    # Output padding at the end reduces the crop there.
    cut = tuple(end - extra for end, extra in zip(window.ends, output_padding, strict=True))
    if any(end + stride < 0 for end, stride in zip(cut, window.strides, strict=True)):
        raise refuse("output_padding is larger than the pads and the stride")
    settings = (window.strides, gaps(window), window.begins, cut)
    return _described("deconvolution", signature, (x, y), source, settings, post_ops_of(convolution.activation))


def check_window(window: Window) -> None:
    """Refuse windows that oneDNN does not support."""
    if not 1 <= window.ndim <= 3:
        raise refuse(f"there are 1 to 3 spatial axes, not {window.ndim}")
    if min(window.pads) < 0:
        raise refuse(f"pads are not negative: {window.pads}")


def gaps(window: Window) -> Shape:
    """Return oneDNN's dilations: the number of positions skipped, so 0 is dense."""
    return tuple(each - 1 for each in window.dilations)


def _described(
    kind: str,
    signature: Signature,
    ends: tuple[Tensor, Tensor],
    weights: Tensor,
    settings: tuple[Shape, ...],
    post_ops: tuple[PostOp, ...],
) -> PrimitiveSpec:
    """Describe a convolution of either kind; the library chooses the layout of the weights."""
    x, y = ends
    arguments = [
        PrimitiveArgument("x", c_api.SRC, x),
        PrimitiveArgument("w", c_api.WEIGHTS, weights.with_any_layout()),
        PrimitiveArgument("y", c_api.DST, y),
    ]
    if "b" in signature.shapes:
        arguments.append(PrimitiveArgument("b", c_api.BIAS, plain(signature.shapes["b"], weights.dtype)))
    return PrimitiveSpec(PrimitiveRequest(kind, tuple(arguments), settings, post_ops), {"w": weights})
