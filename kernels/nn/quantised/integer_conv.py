# SPDX-License-Identifier: Apache-2.0
"""`integer_conv`: convolution of 8-bit numbers with constant weights around zero, summed in 32-bit integers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, numpy_implementation
from syclsched.kernels.nn.convolution.conv import convolve
from syclsched.kernels.nn.convolution.conv_parameters import label
from syclsched.kernels.nn.geometry import arranged, channels, size, spatial, strides_of
from syclsched.kernels.nn.quantised import row_products
from syclsched.kernels.nn.quantised.finishing import SUMS, Finish
from syclsched.kernels.nn.quantised.row_products import RowProduct
from syclsched.kernels.onednn.operations import integer as onednn
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.kernels.windows import Convolution, Window
from syclsched.model.operation import Operation, Signature, Split, Work


def integer_conv(
    ndim: int,
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    dilations: Sequence[int] = (),
    groups: int = 1,
    *,
    channels_last: bool = False,
    finish: Finish = SUMS,
    narrow: bool = False,
) -> Operation:
    """Return the convolution of x - z with w, pads being z; see `kernels.nn.quantised.integer_matmul` for the result.

    Returns
    -------
    Operation
        Parameters ``y`` and ``x`` as those of `kernels.nn.conv`, ``w`` (O, I / groups, *kernel) of 8 or 16 bits,
        ``z``, and optionally ``s``, ``b``, ``r``, ``sx``.
    """
    window = Window.of(ndim, strides, pads, dilations)
    convolution = Convolution(window, int(groups), bool(channels_last), ())
    return _integer_conv(convolution, finish, bool(narrow))


@cache
def _integer_conv(convolution: Convolution, finish: Finish, narrow: bool) -> Operation:
    kernels = row_products.implementations(
        "integer_conv",
        partial(_product, convolution=convolution),
        finish,
        partial(_weights, groups=convolution.groups),
        narrow=narrow,
    )
    return Operation(
        name=" ".join(
            filter(None, (label("integer conv", convolution, bias=False), "narrow" if narrow else "", finish.label))
        ),
        parameters=finish.parameters(),
        implementations=(
            onednn.conv(convolution, onednn.ScaledSum(finish.activation, finish.quantise, finish.addend)),
            *kernels,
            numpy_implementation(partial(_host, convolution=convolution, finish=finish), 0.02),
        ),
        work=partial(_work, finish=finish),
        check=partial(_check, convolution=convolution, finish=finish),
        split=Split(rows=("y", "x", *(["r"] if finish.has_residual_rows else []))),
    )


def _check(signature: Signature, *, convolution: Convolution, finish: Finish) -> str | None:
    y, x, w = (signature.shapes[name] for name in "yxw")
    window, last = convolution.window, convolution.channels_last
    if not len(x) == len(w) == len(y) == window.ndim + 2:
        return f"y {y}, x {x} and w {w} have {window.ndim + 2} axes each"
    if w[1] * convolution.groups != channels(x, last) or w[0] % convolution.groups:
        return f"w {w} does not fit the {channels(x, last)} channels of x {x} in {convolution.groups} groups"
    wanted = arranged(x[0], window.extents(spatial(x, last), w[2:]), w[0], last)
    if y != wanted:
        return f"y of x {x} and w {w} is {wanted}, not {y}"
    return finish.check(signature, w[0])


def _work(signature: Signature, *, finish: Finish) -> Work:
    results = size(signature.shapes["y"])
    flops = results * (2.0 * size(signature.shapes["w"][1:]) + finish.cost)
    moved = sum(size(shape) * ITEM_BYTES[signature.dtypes[name]] for name, shape in signature.shapes.items())
    return Work(flops, float(moved), "float32", float(max(1, results)))


def _product(signature: Signature, *, convolution: Convolution) -> RowProduct:
    """Return the product whose rows are the windows of all output pixels, with channels innermost."""
    y, w = (signature.shapes[name] for name in "yw")
    pixels = size(spatial(y, convolution.channels_last))

    def place(given: ExtentArguments) -> str:
        one, all_ = given("pixels", pixels), given("image", w[0] * pixels)
        return f"(I)(row / {one}) * {all_} + (I)column * {one} + row % {one}"

    return RowProduct(
        y[0] * pixels,
        size(w[1:]),
        w[0] // convolution.groups,
        convolution.groups,
        partial(_gather, signature=signature, convolution=convolution),
        None if convolution.channels_last else place,
    )


def _gather(given: ExtentArguments, *, signature: Signature, convolution: Convolution) -> str:
    """Return code that copies the window of a row; of its extents it contains those along the kernel."""
    x, y, w = (signature.shapes[name] for name in "xyw")
    window, last, groups = convolution.window, convolution.channels_last, convolution.groups
    kernel, ndim = w[2:], window.ndim
    steps, along, batch = strides_of(spatial(x, last), channels(x, last), last)
    inside, apart = given("inside", w[1]), given("apart", along)
    outputs, extents, lines = (
        [given(f"{name}_{axis}", n) for axis, n in enumerate(each)]
        for name, each in (("y", spatial(y, last)), ("x", spatial(x, last)), ("line", steps))
    )
    begin = ["int rest = row;"]
    begin += [f"const int o{a} = rest % {outputs[a]}; rest /= {outputs[a]};" for a in reversed(range(ndim))]
    begin += [f"__global const X* from = x + (I)rest * {given('batch', batch)} + (I)group * {inside} * {apart};"]
    begin += [f"const int i{a} = o{a} * {window.strides[a]} - {window.begins[a]};" for a in range(ndim)]
    # Along the last axis without dilation, windows without gaps between channels are one run of numbers.
    run = last and groups == 1 and window.dilations[-1] == 1
    walked = ndim - 1 if run else ndim
    loops = [f"for (int k{a} = 0; k{a} < {kernel[a]}; ++k{a})" for a in range(walked)]
    places = [f"(i{a} + k{a} * {window.dilations[a]})" for a in range(walked)]
    inner = " && ".join(f"{at} >= 0 && {at} < {extents[a]}" for a, at in enumerate(places)) or "1"
    line = " + ".join(["from", *(f"(I){at} * {lines[a]}" for a, at in enumerate(places))])
    if run:
        wide, full = kernel[-1], f"{kernel[-1]} * {inside}"
        copy = f"""const int at = i{ndim - 1}, low = max(0, -at), high = max(low, min({wide}, {extents[-1]} - at));
      FILL(to, min(low, {wide}) * {inside});
      if (high > low) COPY(to + low * {inside}, {line} + (I)(at + low) * {inside}, (high - low) * {inside});
      FILL(to + min(high, {wide}) * {inside}, {full} - min(high, {wide}) * {inside});"""
    else:
        full = inside
        copy = f"COPY(to, {line}, {inside});"
        if along != 1:
            copy = f"{{ __global const X* first = {line}; "
            copy += f"for (int c = 0; c < {inside}; ++c) to[c] = NUMBER(first[(I)c * {apart}]); }}"
    return f"""{" ".join(begin)}
    {" ".join(loops)} {{
      if ({inner}) {{ {copy} }} else FILL(to, {full});
      to += {full};
    }}"""


def _weights(w: Any, *, groups: int) -> Any:
    import numpy as np

    return np.moveaxis(w, 1, -1).reshape(groups, w.shape[0] // groups, -1)


def _host(*, convolution: Convolution, finish: Finish, y: Any, x: Any, w: Any, z: Any = 0, **arrays: Any) -> None:
    import numpy as np

    last = convolution.channels_last
    sums = np.zeros(y.shape)
    wide = x.astype(np.float64) - np.reshape(z, ())
    attributes = {"window": convolution.window, "groups": convolution.groups, "last_": last}
    convolve(y=sums, x=wide, w=w.astype(np.float64), activation=(), residual="", **attributes)
    target, total = (each if last else np.moveaxis(each, 1, -1) for each in (y, sums))
    if finish.has_residual_rows and not last:
        arrays["r"] = np.moveaxis(arrays["r"], 1, -1)
    target[...] = finish.numpy(total, y, arrays)
