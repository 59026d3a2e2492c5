# SPDX-License-Identifier: Apache-2.0
"""Forms of prepared constants: signatures of equal forms share them, so that weights are packed once for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.operations import numbers

from syclsched.kernels import nn
from syclsched.kernels.nn.quantised.block_matmul import block_matmul
from syclsched.kernels.nn.quantised.finishing import Finish
from syclsched.kernels.nn.quantised.integer_conv import integer_conv
from syclsched.kernels.nn.quantised.integer_matmul import integer_matmul
from syclsched.kernels.nn.recurrence.recurrent import recurrent
from syclsched.model.operation import Operation, Signature

Shapes = dict[str, tuple[int, ...]]

SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 14, 16, 33, 50, 64, 77, 96, 120, 128)


def image_of(channels: int, made: int, *, last: bool, extent: int = 3, groups: int = 1) -> Callable[[int], Shapes]:
    """Return the shapes of a convolution that keeps the size of a square image, by that size."""

    def shapes(size: int) -> Shapes:
        y, x = (((1, size, size, n) if last else (1, n, size, size)) for n in (made, channels))
        return {"y": y, "x": x, "w": (made, channels // groups, extent, extent), "b": (made,)}

    return shapes


def conv(extent: int, *, last: bool = True, groups: int = 1) -> Operation:
    """Return the convolution."""
    return nn.conv(2, (), (extent // 2,) * 4, (), groups, last, bias=True)


FLOATS: dict[str, tuple[Operation, Callable[[int], Shapes]]] = {
    "matmul": (nn.matmul(bias=True), lambda m: {"y": (m, 70), "a": (m, 48), "b": (48, 70), "c": (70,)}),
    "matmul, transposed": (nn.matmul(False, True), lambda m: {"y": (2, m, 70), "a": (2, m, 48), "b": (70, 48)}),
    "matmul, batched": (nn.matmul(), lambda m: {"y": (2, m, 24), "a": (2, m, 48), "b": (2, 48, 24)}),
    "1x1": (conv(1), image_of(32, 40, last=True, extent=1)),
    "3x3": (conv(3), image_of(32, 40, last=True)),
    "3x3, channels first": (conv(3, last=False), image_of(32, 40, last=False)),
    "groups": (conv(3, groups=4), image_of(32, 40, last=True, groups=4)),
    "by channel": (conv(3, groups=32), image_of(32, 32, last=True, groups=32)),
    "conv_transpose": (
        nn.conv_transpose(2, (), (1,) * 4, (), 1, True),
        lambda n: {"y": (1, n, n, 40), "x": (1, n, n, 32), "w": (32, 40, 3, 3)},
    ),
    "recurrent": (
        recurrent("lstm", ((("sigmoid",),), (("tanh",),), (("tanh",),))),
        lambda n: {"y": (n, 2, 24), "x": (n, 2, 8), "w": (8, 96), "r": (24, 96), "b": (96,)},
    ),
}
BYTES: dict[str, tuple[Operation, Callable[[int], Shapes]]] = {
    "integer matmul": (
        integer_matmul(Finish(scaled=True, symmetric=True), narrow=True),
        lambda m: {"y": (m, 70), "x": (m, 48), "w": (48, 70), "s": ()},
    ),
    "integer conv": (
        integer_conv(
            2, (), (1,) * 4, (), groups=2, channels_last=True, finish=Finish(scaled=True, symmetric=True), narrow=False
        ),
        lambda n: {k: v for k, v in image_of(32, 40, last=True, groups=2)(n).items() if k != "b"} | {"s": (40,)},
    ),
}


def check(operation: Operation, sizes: Callable[[int], Shapes], arrays: Callable[[Shapes], dict[str, Any]]) -> None:
    """Check that constants of equal forms are prepared alike, and that large sizes have few forms."""
    prepared = [each for each in operation.implementations if each.prepare is not None and each.name != "onednn"]
    assert prepared
    for each in prepared:
        assert each.prepare is not None and each.form is not None
        found, forms = dict[Any, dict[str, Any]](), dict[int, Any]()
        for size in SIZES:
            shapes = sizes(size)
            constants = arrays(shapes)
            dtypes = {name: str(constants[name].dtype) if name in constants else "float32" for name in shapes}
            signature = Signature(shapes, dtypes, {}, frozenset(constants))
            if each.requires.refuses is not None and each.requires.refuses(signature) is not None:
                continue
            forms[size] = each.form(signature, None)
            made = each.prepare(signature, None, constants)
            known = found.setdefault(forms[size], dict(made))
            assert known.keys() == made.keys()
            for name, value in made.items():
                np.testing.assert_array_equal(known[name], value)
        # Blocks of one vector suit some numbers of rows, and those of two the others.
        assert len({form for size, form in forms.items() if size >= 33}) <= 2


@pytest.mark.parametrize("name", FLOATS)
def test_weights_of_an_equal_form_are_packed_alike(name: str) -> None:
    operation, sizes = FLOATS[name]
    check(operation, sizes, lambda shapes: {w: numbers(*shapes[w]) for w in "wbcr" if w in shapes})


@pytest.mark.parametrize("name", BYTES)
def test_8_bit_weights_of_an_equal_form_are_packed_alike(name: str) -> None:
    def constants(shapes: Shapes) -> dict[str, Any]:
        return {
            "w": np.arange(np.prod(shapes["w"])).astype("int8").reshape(shapes["w"]) // 2,
            "s": numbers(*shapes["s"]),
        }

    operation, sizes = BYTES[name]
    check(operation, sizes, constants)


def test_4_bit_weights_of_an_equal_form_are_packed_alike() -> None:
    def constants(shapes: Shapes) -> dict[str, Any]:
        return {"w": np.arange(np.prod(shapes["w"])).astype("uint8").reshape(shapes["w"]), "s": numbers(*shapes["s"])}

    check(block_matmul(32), lambda m: {"y": (m, 20), "x": (m, 64), "w": (20, 2, 16), "s": (20, 2)}, constants)
