# SPDX-License-Identifier: Apache-2.0
"""Random integer matrix products and convolutions, with exact sums in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.quantised.finishing import Finish
from syclsched.kernels.nn.quantised.integer_conv import integer_conv
from syclsched.kernels.nn.quantised.integer_matmul import integer_matmul
from syclsched.kernels.quantisation import LIMITS, QuantisedAddend
from syclsched.model.operation import Operation

Case = tuple[Operation, dict[str, np.ndarray], np.ndarray]
_FINISHES = [
    {},
    {"scaled": True},
    {"scaled": True, "scaled_twice": True},
    {"scaled": True, "scaled_twice": True, "bias": True, "residual": True, "activation": (("relu",),)},
    {"scaled": True, "bias": True, "activation": (("gelu",),)},
    {"scaled": True, "residual": True, "activation": (("relu",),)},
    {"scaled": True, "bias": True, "activation": (("clip", -2.0, 3.0),), "quantise": (0.0371, 7)},
    {"scaled": True, "quantise": (1.0, 0)},
    # Numbers whose sums are no ties, or exact ones.
    {
        "scaled": True,
        "bias": True,
        "addend": QuantisedAddend((0.0513771, 9), "uint8", (0.0313139, -3)),
        "quantise": (0.0717173, 0),
    },
    {"scaled": True, "addend": QuantisedAddend((0.0513771, 9), "int8", None), "quantise": (0.0717173, 3)},
    {
        "scaled": True,
        "addend": QuantisedAddend((0.25, -4), "int8", (0.125, 0), (("relu",),)),
        "activation": (("leaky_relu", 0.5),),
    },
    {
        "scaled": True,
        "addend": QuantisedAddend((0.25, 0), "uint8", (0.125, 5)),
        "activation": (("relu",),),
        "quantise": (0.5, 1),
    },
]


def _whole(random: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Return random numbers of a dtype's range, with many extreme ones."""
    limits = np.iinfo(dtype)
    drawn = random.integers(limits.min, limits.max, shape, endpoint=True)
    extreme = random.choice([limits.min, limits.max], shape)
    return np.where(random.random(shape) < 0.5, extreme, drawn).astype(dtype)


def _finished(
    draw: st.DrawFn, random: np.random.Generator, sums: np.ndarray, columns: int, axis: int
) -> tuple[dict[str, Any], dict[str, np.ndarray], np.ndarray]:
    """Draw a finish; return it with its arrays including y, and the results of sums."""
    finish = draw(st.sampled_from(_FINISHES))
    if not finish:
        return finish, {"y": np.empty(sums.shape, np.int32)}, sums
    each = draw(st.booleans())
    along = [1] * sums.ndim
    along[axis] = columns
    scale = (random.random(columns if each else 1) * 2e-4 + 1e-5).astype(np.float32)
    if "addend" in finish and "quantise" not in finish:  # nothing is rounded before the sum's first rounding
        scale = np.full_like(scale, 2.0**-13)
    arrays = {"s": scale if each else scale.reshape(draw(st.sampled_from([(), (1,)])))}
    if finish.get("scaled_twice"):  # the product of both scales is exact
        arrays |= {"s": arrays["s"] * np.float32(2), "sx": np.full(draw(st.sampled_from([(), (1,)])), 0.5, np.float32)}
    made = sums * (scale.reshape(along) if each else scale[0]).astype(np.float64)
    if finish.get("bias"):
        arrays["b"] = random.standard_normal(columns).astype(np.float32)
        made = made + arrays["b"].reshape(along)
    if "addend" in finish:
        addend = finish["addend"]
        made = act.numpy(addend.activation, made)
        whole = np.clip(np.rint(made / addend.own[0]) + addend.own[1], *LIMITS[addend.dtype])
        made = (whole - addend.own[1]) * addend.own[0]
        if addend.other is None:
            arrays["r"] = random.standard_normal(columns).astype(np.float32)
            made = made + arrays["r"].reshape(along)
        else:
            arrays["r"] = _whole(random, draw(st.sampled_from(["uint8", "int8"])), *sums.shape)
            made = made + (arrays["r"].astype(float) - addend.other[1]) * addend.other[0]
    elif finish.get("residual"):
        arrays["r"] = random.standard_normal(sums.shape).astype(np.float32)
        made = made + arrays["r"]
    made = act.numpy(act.checked(finish.get("activation", ())), made)
    dtype = "float32"
    if "quantise" in finish:
        dtype, (step, zero) = draw(st.sampled_from(["uint8", "int8"])), finish["quantise"]
        made = np.clip(np.rint(made / step) + zero, np.iinfo(dtype).min, np.iinfo(dtype).max)
    return finish, {"y": np.empty(sums.shape, dtype), **arrays}, made


def _made(finish: dict[str, Any], arrays: dict[str, np.ndarray]) -> Finish:
    checked = act.checked(finish.get("activation", ()))
    given = {"residual": "addend" in finish, **finish, "activation": checked, "symmetric": "z" not in arrays}
    return Finish(**given)


def _operands(
    draw: st.DrawFn, random: np.random.Generator, x: tuple[int, ...], w: tuple[int, ...], narrow: bool
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Draw arrays x, w and z, which may be missing; also return x and w less their zero points."""
    dtype = draw(st.sampled_from(["uint8", "int8"]))
    limits = np.iinfo(dtype)
    zero = draw(st.sampled_from([limits.min, limits.max, 3, None]))
    weights = np.clip(_whole(random, "int8", *w), *((-64, 64) if narrow else (-128, 127))).astype(np.int8)
    if not narrow and draw(st.booleans()):
        weights = weights.astype(np.int16) + np.int16(draw(st.sampled_from([-127, 128, 5])))
    values = _whole(random, dtype, *x)
    kind = draw(st.sampled_from([dtype, "int32", "int32"]))
    arrays = {"x": values, "w": weights}
    if zero is not None:
        arrays["z"] = np.full(draw(st.sampled_from([(), (1,)])), zero, kind)
    return arrays, values.astype(np.int64) - (zero or 0), weights.astype(np.int64)


@st.composite
def products(draw: st.DrawFn) -> Case:
    """Draw a matrix product, its arrays and its expected result."""
    random = np.random.default_rng(draw(st.integers(0, 99)))
    before = draw(st.sampled_from([(1,), (2, 3), (7,), (40,), (1, 13), ()]))
    terms, columns = draw(st.sampled_from([(1, 1), (2, 8), (17, 16), (33, 30), (64, 24), (129, 50)]))
    arrays, x, w = _operands(draw, random, (*before, terms), (terms, columns), narrow := draw(st.booleans()))
    finish, more, wanted = _finished(draw, random, x @ w, columns, -1)
    return integer_matmul(_made(finish, arrays), narrow=narrow), {**more, **arrays}, wanted


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    """Draw a convolution, its arrays and its expected result."""
    random = np.random.default_rng(draw(st.integers(0, 99)))
    groups, inside, outside = draw(
        st.sampled_from([(1, 3, 8), (1, 16, 20), (2, 4, 16), (6, 1, 6), (1, 1, 1), (5, 2, 15)])
    )
    kernel = draw(st.sampled_from([(1, 1), (3, 3), (2, 3), (5, 1), (3,), (2, 1, 2)]))
    ndim = len(kernel)
    extents = tuple(draw(st.integers(1, 9)) for _ in kernel)
    strides, dilations = ([draw(st.integers(1, 2)) for _ in kernel] for _ in range(2))
    pads = [draw(st.integers(0, 3)) for _ in range(2 * ndim)]
    spans = [
        n + a + b - (k - 1) * d for n, a, b, k, d in zip(extents, pads, pads[ndim:], kernel, dilations, strict=False)
    ]
    pads[:ndim] = [a + max(0, 1 - span) for a, span in zip(pads, spans, strict=False)]
    last, batch = draw(st.booleans()), draw(st.integers(1, 2))
    arrays, x, w = _operands(
        draw, random, (batch, groups * inside, *extents), (outside, inside, *kernel), narrow := draw(st.booleans())
    )
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads, pads[ndim:], strict=False)])
    counts = [
        (n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(padded.shape[2:], kernel, dilations, strides, strict=True)
    ]
    sums = np.zeros((batch, outside, *counts), np.int64)
    for place in np.ndindex(*kernel):
        cut = tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, dilations, counts, strides, strict=True)
        )
        seen = padded[(slice(None), slice(None), *cut)].reshape(batch, groups, inside, *counts)
        taken = w[(..., *place)].reshape(groups, outside // groups, inside)
        sums += np.einsum("bgi...,goi->bgo...", seen, taken).reshape(sums.shape)
    finish, more, wanted = _finished(draw, random, sums, outside, 1)
    if last:
        arrays["x"], wanted = np.moveaxis(arrays["x"], 1, -1).copy(), np.moveaxis(wanted, 1, -1)
        more = {name: np.moveaxis(each, 1, -1).copy() if each.ndim > 1 else each for name, each in more.items()}
    made = _made(finish, arrays)
    operation = integer_conv(ndim, strides, pads, dilations, groups, channels_last=last, narrow=narrow, finish=made)
    return operation, {**more, **arrays}, wanted


def same_but_for_rounding(found: np.ndarray, wanted: np.ndarray) -> None:
    """Compare; quantised results may be one step away where float32 rounds to the other side."""
    assert found.shape == wanted.shape
    if found.dtype == np.float32:
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    elif found.dtype == np.int32:
        np.testing.assert_array_equal(found, wanted)
    else:
        apart = np.abs(found.astype(int) - wanted)
        assert apart.max(initial=0) <= 1 and apart.sum() <= 1 + apart.size // 200
