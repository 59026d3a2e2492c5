# SPDX-License-Identifier: Apache-2.0
"""Networks of canonical nodes written by hand, and hypothesis strategies for random small ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from support.host_evaluation import evaluate
from support.rounding import assert_rounded_alike
from syclsched.frontends.onnx.network import CanonicalNode, Network, Value
from syclsched.frontends.onnx.rewrites import DEFAULT_PASSES, rewrite


class Builder:
    """A builder of networks, node by node; it computes shapes in simple cases."""

    def __init__(self, seed: int = 0, dtype: str = "float32") -> None:
        self.random = np.random.default_rng(seed)
        self.dtype = dtype
        self.values: dict[str, Value] = {}
        self.constants: dict[str, Any] = {}
        self.nodes: list[CanonicalNode] = []
        self.inputs: list[str] = []
        self.last: tuple[str, ...] = ()

    def __repr__(self) -> str:
        nodes = ", ".join(
            f"{node.name}{[*map(str, node.inputs)]} {self.shape(str(node.outputs[0]))} {dict(node.attributes)}"
            for node in self.nodes
        )
        return f"Builder(inputs={[self.values[name] for name in self.inputs]}, {nodes}, last={self.last})"

    def shape(self, value: str) -> tuple[int, ...]:
        return self.values[value].shape

    def input(self, name: str, shape: tuple[int, ...], dtype: str | None = None) -> str:
        self.values[name] = Value(name, shape, dtype or self.dtype)
        self.inputs.append(name)
        return name

    def constant(self, array: Any) -> str:
        name = f"constant{len(self.constants)}"
        array = np.asarray(array)
        array = array.astype(self.dtype) if array.dtype.kind == "f" else array
        self.constants[name] = array
        self.values[name] = Value(name, array.shape, array.dtype.name)
        return name

    def normal(self, *shape: int) -> str:
        return self.constant(self.random.standard_normal(shape))

    def positive(self, *shape: int) -> str:
        return self.constant(self.random.uniform(0.5, 1.5, shape))

    def add(
        self, kind: str, inputs: tuple[str | None, ...], shape: tuple[int, ...], dtype: str = "", **attributes: Any
    ) -> str:
        name = f"{kind}{len(self.nodes)}"
        made = f"{name}_y"
        self.values[made] = Value(made, tuple(int(n) for n in shape), dtype or self.dtype)
        self.nodes.append(CanonicalNode(name, kind, inputs, (made,), attributes, (name,)))
        return made

    def network(self, *outputs: str) -> Network:
        return Network("made", tuple(self.inputs), outputs, self.values, self.constants, tuple(self.nodes))

    def given(self, seed: int = 1) -> dict[str, Any]:
        """Return values for the inputs."""
        random = np.random.default_rng(seed)
        return {name: random.standard_normal(self.shape(name)).astype(self.values[name].dtype) for name in self.inputs}

    # -- nodes --------------------------------------------------------------------------------------------------------

    def conv(
        self, x: str, channels: int, kernel: int = 3, stride: int = 1, groups: int = 1, dilation: int = 1, pad: int = -1
    ) -> str:
        n, c, *extents = self.shape(x)
        pad = (kernel - 1) * dilation // 2 if pad < 0 else pad
        made = [(extent + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1 for extent in extents]
        rank = len(extents)
        weight = self.constant(
            self.random.standard_normal((channels, c // groups, *(kernel,) * rank)) * (c * kernel**rank) ** -0.5
        )
        return self.add(
            "conv",
            (x, weight, self.normal(channels)),
            (n, channels, *made),
            strides=(stride,) * rank,
            pads=(pad,) * (2 * rank),
            dilations=(dilation,) * rank,
            groups=groups,
            channels_last=False,
            activation=(),
        )

    def conv_transpose(self, x: str, channels: int, groups: int = 1) -> str:
        n, c, *extents = self.shape(x)
        rank = len(extents)
        weight = self.constant(
            self.random.standard_normal((c, channels // groups, *(2,) * rank)) * (c * 2**rank) ** -0.5
        )
        return self.add(
            "conv_transpose",
            (x, weight, None),
            (n, channels, *(2 * extent for extent in extents)),
            strides=(2,) * rank,
            pads=(0,) * (2 * rank),
            dilations=(1,) * rank,
            groups=groups,
            output_padding=(0,) * rank,
            channels_last=False,
            activation=(),
        )

    def pool(self, x: str, mode: str, kernel: int = 2, stride: int = 2, pad: int = 0, counted: bool = False) -> str:
        n, c, *extents = self.shape(x)
        rank = len(extents)
        return self.add(
            "pool",
            (x,),
            (n, c, *((extent + 2 * pad - kernel) // stride + 1 for extent in extents)),
            mode=mode,
            kernel=(kernel,) * rank,
            strides=(stride,) * rank,
            pads=(pad,) * (2 * rank),
            dilations=(1,) * rank,
            count_include_pad=counted,
            channels_last=False,
        )

    def batch_norm(self, x: str) -> str:
        c = self.shape(x)[1]
        parameters = (self.positive(c), self.normal(c), self.normal(c), self.positive(c))
        return self.add("batch_norm", (x, *parameters), self.shape(x), epsilon=1e-5, channels_last=False, activation=())

    def elementwise(self, expression: Any, *inputs: str, dtype: str = "") -> str:
        return self.add(
            "elementwise",
            inputs,
            np.broadcast_shapes(*(self.shape(name) for name in inputs)),
            dtype,
            expression=expression,
        )

    def matmul(self, a: str, b: str, transpose_a: bool = False, transpose_b: bool = False) -> str:
        left, right = self.shape(a), self.shape(b)
        m = left[-1] if transpose_a else left[-2]
        n = right[-2] if transpose_b else right[-1]
        return self.add(
            "matmul",
            (a, b),
            (*np.broadcast_shapes(left[:-2], right[:-2]), m, n),
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            alpha=1.0,
            beta=1.0,
            activation=(),
        )

    def reduce(self, x: str, mode: str, *axes: int, keepdims: bool = True) -> str:
        shape = self.shape(x)
        axes = tuple(axis % len(shape) for axis in axes)
        made = tuple(1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes)
        return self.add("reduce", (x,), made, mode=mode, axes=axes, keepdims=keepdims)

    def transpose(self, x: str, *permutation: int) -> str:
        shape = self.shape(x)
        return self.add("transpose", (x,), tuple(shape[a] for a in permutation), permutation=permutation)

    def reshape(self, x: str, *shape: int) -> str:
        return self.add("reshape", (x,), shape)

    def concat(self, axis: int, *values: str) -> str:
        shape = list(self.shape(values[0]))
        shape[axis] = sum(self.shape(value)[axis] for value in values)
        return self.add("concat", values, tuple(shape), axis=axis)

    def slice(self, x: str, axis: int, start: int, stop: int) -> str:
        shape = self.shape(x)
        made = tuple(stop - start if i == axis else n for i, n in enumerate(shape))
        starts = tuple(start if i == axis else 0 for i in range(len(shape)))
        return self.add("slice", (x,), made, starts=starts, steps=(1,) * len(shape))

    def pad(self, x: str, pads: tuple[int, ...], value: float = 0.0, mode: str = "constant") -> str:
        shape = self.shape(x)
        rank = len(shape)
        made = tuple(n + pads[i] + pads[i + rank] for i, n in enumerate(shape))
        return self.add("pad", (x,), made, pads=pads, mode=mode, value=value)

    def softmax(self, x: str, axis: int) -> str:
        return self.add("softmax", (x,), self.shape(x), axis=axis % len(self.shape(x)), log=False)

    # -- formulas of exporters -------------------------------------------------------------------------------

    def gelu(self, x: str) -> str:
        erf = self.elementwise(("erf", ("div", 0, 1)), x, self.constant(np.float64(2**0.5)))
        more = self.elementwise(("add", 0, 1), erf, self.constant(np.float64(1)))
        return self.elementwise(("mul", 0, 1), self.elementwise(("mul", 0, 1), x, more), self.constant(np.float64(0.5)))

    def gelu_tanh(self, x: str) -> str:
        cube = self.elementwise(("pow", 0, 1), x, self.constant(np.float64(3)))
        inner = self.elementwise(("add", 0, ("mul", 1, 2)), x, cube, self.constant(np.float64(0.044715)))
        bent = self.elementwise(("tanh", ("mul", 0, 1)), inner, self.constant(np.float64((2 / math.pi) ** 0.5)))
        half = self.elementwise(("mul", 0, 1), x, self.constant(np.float64(0.5)))
        return self.elementwise(("mul", 0, ("add", 1, ("const", 1.0))), half, bent)

    def layer_norm(self, x: str) -> str:
        width = self.shape(x)[-1]
        centred = self.elementwise(("sub", 0, 1), x, self.reduce(x, "mean", -1))
        square = self.elementwise(("pow", 0, 1), centred, self.constant(np.float64(2)))
        variance = self.reduce(square, "mean", -1)
        deviation = self.elementwise(("sqrt", ("add", 0, 1)), variance, self.constant(np.float64(1e-3)))
        scaled = self.elementwise(
            ("mul", 0, 1), self.elementwise(("div", 0, 1), centred, deviation), self.positive(width)
        )
        return self.elementwise(("add", 0, 1), scaled, self.normal(width))

    def softmax_in_pieces(self, x: str) -> str:
        power = self.elementwise(("exp", ("sub", 0, 1)), x, self.reduce(x, "max", -1))
        return self.elementwise(("div", 0, 1), power, self.reduce(power, "sum", -1))

    def shuffle(self, x: str, groups: int) -> str:
        n, c, h, w = self.shape(x)
        split = self.reshape(x, n, groups, c // groups, h, w)
        return self.reshape(self.transpose(split, 0, 2, 1, 3, 4), n, c, h, w)

    def training_step(self) -> tuple[str, ...]:
        """Add two convolutions with pooling between, whose weights are inputs, and the gradients of a sum of squares.

        Return the gradients by the weights and by the first bias.
        """
        x, first, second = (
            self.input("image", (2, 4, 6, 5)),
            self.input("first", (6, 4, 3, 3)),
            self.input("second", (8, 3, 2, 2)),
        )
        window = {"dilations": (1, 1), "channels_last": False}
        near = {**window, "strides": (1, 1), "pads": (1,) * 4, "groups": 1}
        far = {**window, "strides": (1, 2), "pads": (0, 1, 0, 0), "groups": 2}
        pool = {
            **window,
            "mode": "max",
            "kernel": (2, 2),
            "strides": (2, 2),
            "pads": (0,) * 4,
            "count_include_pad": False,
        }
        h = self.elementwise(("relu", 0), self.add("conv", (x, first), (2, 6, 6, 5), **near, activation=()))
        p = self.add("pool", (h,), (2, 6, 3, 2), **pool)
        y = self.add("conv", (p, second), (2, 8, 2, 1), **far, activation=())
        dy = self.elementwise(("mul", 0, 0), y)
        by_second = self.add("conv_weights", (p, dy), (8, 3, 2, 2), **far, kernel=(2, 2))
        dp = self.add("conv_transpose", (dy, second), (2, 6, 3, 2), **far, activation=(), output_padding=(0, 1))
        dh = self.add("pool_gradient", (h, dp), (2, 6, 6, 5), **pool)
        da = self.elementwise(("mul", ("sign", 0), 1), h, dh)
        by_first = self.add("conv_weights", (x, da), (6, 4, 3, 3), **near, kernel=(3, 3))
        by_bias = self.reduce(da, "sum", 0, 2, 3, keepdims=False)
        return by_first, by_second, by_bias


def assert_same(one: Network, other: Network, given: dict[str, Any], tolerance: float = 1e-9) -> None:
    """Assert that two networks have the same inputs, outputs and results, but for rounding."""
    assert one.inputs == other.inputs
    assert one.outputs == other.outputs
    before, after = evaluate(one, given), evaluate(other, given)
    for name in one.outputs:
        assert_rounded_alike(after[name], before[name], tolerance)


def assert_whole(network: Network) -> None:
    """Assert that every value is made once, before it is read, and that no node is unused."""
    known = {*network.inputs, *network.constants}
    for node in network.nodes:
        assert all(name is None or name in known for name in node.inputs), node
        for name in node.outputs:
            if name is not None:
                assert name not in known
                known.add(name)
    assert known >= set(network.outputs)
    assert set(network.values) == known
    for name, array in network.constants.items():
        assert network.values[name].shape == array.shape
        assert network.values[name].dtype == array.dtype.name


def rewritten(made: Builder, *passes: str, outputs: tuple[str, ...] = ()) -> Network:
    """Return a network after passes, having compared both; its outputs are the last value, or those given."""
    network = made.network(*(outputs or (str(made.nodes[-1].outputs[0]),)))
    changed = rewrite(network, passes=passes or DEFAULT_PASSES).network
    assert_whole(changed)
    assert_same(network, changed, made.given(), 1e-9 if made.dtype == "float64" else 2e-5)
    return changed


def kinds(network: Network) -> list[str]:
    """Return the kinds of a network's nodes, in order."""
    return [node.kind for node in network.nodes]


_UNARY = ("relu", "sigmoid", "tanh", "gelu", "silu", "abs", "neg", "softplus", "hard_swish", "mish", "square")


def _choices(b: Builder, x: str, values: list[str]) -> list[Callable[[int], str]]:
    """Return possible operations on a value, each as a function of a number that selects a variant."""
    shape = b.shape(x)
    rank = len(shape)
    alike = [value for value in values if b.shape(value) == shape]
    done: list[Callable[[int], str]] = [
        lambda n: b.elementwise((_UNARY[n % len(_UNARY)], 0), x),
        lambda n: b.elementwise((("add", "mul", "sub", "max")[n % 4], 0, 1), x, alike[n % len(alike)]),
        lambda n: b.elementwise((("add", "mul", "sub", "div")[n % 4], 0, 1), x, b.positive(*shape[n % (rank + 1) :])),
        lambda n: b.elementwise((("add", "mul")[n % 2], 0, ("const", (0.0, 1.0, 0.5)[n % 3])), x),
        lambda n: b.softmax(x, n % rank),
        lambda n: b.concat(n % rank, x, alike[n % len(alike)]),
        lambda n: b.reduce(x, ("mean", "max", "sum")[n % 3], n % rank, keepdims=bool(n & 1) or rank == 1),
        lambda n: b.pad(x, tuple((n >> i) & 1 for i in range(2 * rank))),
        lambda n: b.gelu(x),
        lambda n: b.gelu_tanh(x),
        lambda n: b.layer_norm(x),
        lambda n: b.softmax_in_pieces(x),
        lambda n: b.transpose(x, *np.random.default_rng(n).permutation(rank)),
        lambda n: b.reshape(x, *((*shape[:1], math.prod(shape[1:])) if n % 2 else (*shape, 1))),
        lambda n: b.elementwise(("sub", 0, 1), x, b.reduce(x, "mean", n % rank)),
        lambda n: b.slice(x, n % rank, 0, max(1, shape[n % rank] - n % 2)),
    ]
    if rank == 2:
        done.append(lambda n: b.matmul(x, b.normal(shape[1], 4)))
        done.append(lambda n: b.matmul(x, b.normal(3, shape[1]), transpose_b=True))
    if rank > 2:
        done.append(lambda n: b.matmul(x, b.transpose(x, *range(rank - 2), rank - 1, rank - 2)))
        done.append(lambda n: b.elementwise(("mul", 0, 1), x, b.positive(shape[1], *(1,) * (rank - 2))))
        done.append(lambda n: b.elementwise(("add", 0, 1), x, b.positive(shape[1], *(1,) * (rank - 2))))
    if rank in (3, 4) and min(shape[2:]) >= 3:
        for _ in range(3):
            done += [
                lambda n: b.conv(x, 4, 1 + 2 * (n % 2), 1 + n % 3 // 2),
                lambda n: b.conv(x, 2 * shape[1], 3, groups=shape[1], dilation=1, pad=n % 2),
                lambda n: b.batch_norm(x),
                lambda n: b.pool(x, ("max", "average")[n % 2], 3, 1 + n % 2, n % 3 // 2, counted=bool(n & 4)),
                lambda n: b.add("lrn", (x,), shape, alpha=0.1, beta=0.75, bias=1.0, size=3, channels_last=False),
                lambda n: b.add(
                    "group_norm",
                    (x, b.positive(shape[1]), b.normal(shape[1])),
                    shape,
                    groups=shape[1],
                    epsilon=1e-3,
                    channels_last=False,
                ),
                lambda n: b.conv_transpose(x, 3),
            ]
    if rank == 4 and shape[1] % 2 == 0:
        done += [lambda n: b.shuffle(x, 2)] * 3
    return done


@st.composite
def networks(draw: st.DrawFn, dtype: str = "float64", most: int = 14) -> Builder:
    """Draw networks that begin with an image; `Builder.last` are their outputs."""
    b = Builder(draw(st.integers(0, 3)), dtype)
    first = b.input("image", draw(st.sampled_from([(1, 2, 5, 6), (2, 4, 4, 4), (1, 3, 7), (2, 6, 3, 5)])))
    values = [first]
    for _ in range(draw(st.integers(1, most))):
        # Mostly the last values, sometimes earlier ones.
        x = values[-1 - draw(st.integers(0, 3)) % len(values) if draw(st.booleans()) else -1]
        if math.prod(b.shape(x)) > 3000:
            x = first
        choices = _choices(b, x, values)
        values.append(choices[draw(st.integers(0, len(choices) - 1))](draw(st.integers(0, 11))))
    made = {node.outputs[0] for node in b.nodes}
    asked = [values[-1], *(value for value in values[1:-1] if value in made and draw(st.integers(0, 7)) == 0)]
    b.last = tuple(dict.fromkeys(asked))
    return b
