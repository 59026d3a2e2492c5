# SPDX-License-Identifier: Apache-2.0
"""Code of the nodes of a loop's body within its kernel: one work-item computes each node in loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from syclsched.frontends.onnx.network import CanonicalNode, Network
from syclsched.kernels.common import REAL_DTYPES
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.panels import has_small_registers
from syclsched.kernels.tensor.writing.expression import TypedExpression, axes_of, infer_dtypes
from syclsched.kernels.tensor.writing.expression_codegen import emit_expression
from syclsched.kernels.tensor.writing.index_arrays import clamped_index, load_index
from syclsched.kernels.tensor.writing.iteration_space import broadcast_strides, contiguous_strides, iteration_space
from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter
from syclsched.model.operation import Shape

#: Reductions that there is code for.
_REDUCTIONS: Final = ("sum", "mean", "max", "min")
#: Operators of expressions that are computed in vectors.
_VECTOR_OPERATORS: Final = frozenset(
    {
        *("input", "const", "add", "sub", "mul", "div", "neg", "abs", "square", "sqrt", "rsqrt", "reciprocal"),
        *("exp", "log", "tanh", "sigmoid", "silu"),
    }
)
#: Most vectors of columns, and most rows, of a matrix product that are summed at once.
_VECTORS, _ROWS = 4, 8
#: Most of these sums, which stay in registers: with AVX-512, and without.
_SUMS, _FEW_SUMS = 16, 4


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """The place of a value: an array, and the text of the index of its first element."""

    array: str
    first: str = "0"
    shape: Shape = ()

    def reshaped(self, shape: Shape) -> ArrayPlace:
        """Return the place of the same elements in another shape."""
        return ArrayPlace(self.array, self.first, shape)


def why_unsupported(node: CanonicalNode, network: Network) -> str | None:
    """Return why a node is not computed within a loop's kernel; None if it is."""
    if node.kind not in ("reshape", *_WRITERS):
        return f"there is no code for {node.kind} within a kernel"
    if node.kind == "reduce" and node.attributes["mode"] not in _REDUCTIONS:
        return f"there is no code for the reduction {node.attributes['mode']} within a kernel"
    if node.kind in ("matmul", "softmax") and network.values[node.outputs[0] or ""].dtype not in REAL_DTYPES:
        return f"{node.kind} of integers"
    return None


def write_node(w: KernelWriter, node: CanonicalNode, network: Network, places: Mapping[str, ArrayPlace]) -> None:
    """Emit the code of a node."""
    _WRITERS[node.kind](_NodeWriter(w, node, network, places))


def write_elements(
    w: KernelWriter,
    shape: Shape,
    strides: Sequence[tuple[int, ...]],
    starts: Sequence[str],
    body: Callable[[list[str]], None],
) -> None:
    """Emit nested loops over the elements of a shape; the body is given the indices of all operands' elements."""
    space = iteration_space(shape, strides)
    _write_loops(w, space.shape, space.strides, starts, body)


def _write_loops(
    w: KernelWriter,
    shape: Shape,
    strides: Sequence[tuple[int, ...]],
    starts: Sequence[str],
    body: Callable[[list[str]], None],
) -> None:
    with ExitStack() as stack:
        at = list(starts)
        for axis, extent in enumerate(shape):
            number = stack.enter_context(w.loop("0", str(extent), short=True))
            at = [_moved(each, number, steps[axis]) for each, steps in zip(at, strides, strict=True)]
        body(at)


def _moved(index: str, number: str, step: int) -> str:
    moved = number if step == 1 else f"{number} * ({step})"
    return index if step == 0 else moved if index == "0" else f"{index} + {moved}"


def _write_vectors(
    w: KernelWriter,
    shape: Shape,
    strides: Sequence[tuple[int, ...]],
    starts: Sequence[str],
    body: Callable[[list[str], Sequence[int]], None],
) -> None:
    """Emit loops as `write_elements` does, along the last axis in vectors where operands are contiguous or constant.

    The body is also given the step of each operand along the vector.
    """
    space = iteration_space(shape, strides)
    if not space.shape or any(steps[-1] not in (0, 1) for steps in space.strides):
        _write_loops(w, space.shape, space.strides, starts, lambda at: body(at, [0] * len(at)))
        return
    extent, steps = space.shape[-1], [each[-1] for each in space.strides]
    whole = extent // LANES * LANES

    def line(at: list[str]) -> None:
        if whole:
            with w.loop("0", str(whole), str(LANES), short=True) as k, w.vectors_of(LANES):
                body([_moved(each, k, step) for each, step in zip(at, steps, strict=True)], steps)
        if whole < extent:
            with w.loop(str(whole), str(extent), short=True) as k:
                body([_moved(each, k, step) for each, step in zip(at, steps, strict=True)], steps)

    _write_loops(w, space.shape[:-1], [each[:-1] for each in space.strides], starts, line)


class _NodeWriter:
    """Access to a node's values."""

    def __init__(
        self, w: KernelWriter, node: CanonicalNode, network: Network, places: Mapping[str, ArrayPlace]
    ) -> None:
        self.w, self.node = w, node
        self._network, self._places = network, places

    def has(self, position: int) -> bool:
        return self.node.input(position) is not None

    def shape(self, position: int) -> Shape:
        return self._network.values[self.node.inputs[position] or ""].shape

    def dtype(self, position: int) -> str:
        return self._network.values[self.node.inputs[position] or ""].dtype

    def place(self, position: int) -> ArrayPlace:
        return self._places[self.node.inputs[position] or ""]

    def read(self, position: int, index: str, step: int) -> str:
        """Emit the load of a number, or of a vector along which the operand moves by a step of 1 or 0."""
        w, array, dtype = self.w, self.place(position).array, self.dtype(position)
        found: str = w.read(array, index) if step else w.value(dtype, w.spread(dtype, w.load(array, index)))
        return found

    @property
    def y(self) -> ArrayPlace:
        return self._places[self.node.outputs[0] or ""]

    @property
    def y_shape(self) -> Shape:
        return self._network.values[self.node.outputs[0] or ""].shape

    @property
    def y_dtype(self) -> str:
        return self._network.values[self.node.outputs[0] or ""].dtype

    def copy(self, shape: Shape, source: ArrayPlace, taken: Sequence[int], to: str, put: Sequence[int]) -> None:
        """Emit a copy of elements with strides."""
        w, y = self.w, self.y
        write_elements(
            w,
            shape,
            [tuple(taken), tuple(put)],
            [source.first, to],
            lambda at: w.store(y.array, at[1], w.load(source.array, at[0])),
        )


def _elementwise(n: _NodeWriter) -> None:
    w, shape, expression = n.w, n.y_shape, n.node.attributes["expression"]
    count = len(n.node.inputs)
    axes = tuple(sorted(axes_of(expression)))
    root = infer_dtypes(expression, tuple(n.dtype(i) for i in range(count)), n.y_dtype)
    strides = [broadcast_strides(n.shape(i), shape) for i in range(count)]
    strides += [tuple(int(at == axis + len(shape)) for at in range(len(shape))) for axis in axes]
    starts = [*(n.place(i).first for i in range(count)), *("0" for _ in axes), n.y.first]

    if not axes and _has_vectors(root):

        def vector(at: list[str], steps: Sequence[int]) -> None:
            inputs = {i: n.read(i, at[i], steps[i]) for i in range(count)}
            w.write(n.y.array, at[-1], w.value(n.y_dtype, emit_expression(w, root, inputs, {})))

        _write_vectors(w, shape, [*strides, contiguous_strides(shape)], starts, vector)
        return

    def body(at: list[str]) -> None:
        inputs = {i: w.load(n.place(i).array, at[i]) for i in range(count)}
        indices = dict(zip(axes, at[count:-1], strict=True))
        w.store(n.y.array, at[-1], emit_expression(w, root, inputs, indices))

    write_elements(w, shape, [*strides, contiguous_strides(shape)], starts, body)


def _has_vectors(root: TypedExpression) -> bool:
    """Return whether an expression can be computed in vectors."""
    is_real = root.dtype in REAL_DTYPES and root.operator in _VECTOR_OPERATORS
    return is_real and all(map(_has_vectors, root.operands))


def _transpose(n: _NodeWriter) -> None:
    strides = contiguous_strides(n.shape(0))
    n.copy(
        n.y_shape,
        n.place(0),
        [strides[i] for i in n.node.attributes["permutation"]],
        "0",
        contiguous_strides(n.y_shape),
    )


def _slice(n: _NodeWriter) -> None:
    strides, at = contiguous_strides(n.shape(0)), n.node.attributes
    first = sum(start * stride for start, stride in zip(at["starts"], strides, strict=True))
    source = ArrayPlace(n.place(0).array, n.w.index(f"{n.place(0).first} + {first}"))
    taken = [step * stride for step, stride in zip(at["steps"], strides, strict=True)]
    n.copy(n.y_shape, source, taken, "0", contiguous_strides(n.y_shape))


def _concat(n: _NodeWriter) -> None:
    axis, put, before = n.node.attributes["axis"], contiguous_strides(n.y_shape), 0
    for i in range(len(n.node.inputs)):
        shape = n.shape(i)
        if 0 not in shape:
            n.copy(shape, n.place(i), contiguous_strides(shape), str(before * put[axis]), put)
        before += shape[axis]


def _gather(n: _NodeWriter) -> None:
    w, axis, indices = n.w, n.node.attributes["axis"], n.place(1)
    x, picked, y = n.shape(0), n.shape(1), n.y_shape
    inner = (*x[:axis], *x[axis + 1 :])
    own, put = contiguous_strides(x), contiguous_strides(y)
    rank = len(picked)

    def body(at: list[str]) -> None:
        found, _inside = load_index(w, indices.array, at[0], x[axis])
        first = w.index(f"{n.place(0).first} + {clamped_index(w, found, x[axis])} * {own[axis]}")
        n.copy(
            inner,
            ArrayPlace(n.place(0).array, first),
            _without(own, axis),
            w.index(at[1]),
            (*put[:axis], *put[axis + rank :]),
        )

    write_elements(w, picked, [contiguous_strides(picked), put[axis : axis + rank]], [indices.first, "0"], body)


def _without(values: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*values[:axis], *values[axis + 1 :])


def _reduce(n: _NodeWriter) -> None:
    w, mode, x, dtype = n.w, n.node.attributes["mode"], n.shape(0), n.y_dtype
    axes = n.node.attributes["axes"]
    outer = [axis for axis in range(len(x)) if axis not in axes]
    strides, kept = contiguous_strides(x), tuple(x[axis] for axis in outer)
    count = math.prod(x[axis] for axis in axes)

    def body(at: list[str]) -> None:
        first = w.index(at[0])
        start = w.load(n.place(0).array, first) if mode in ("max", "min") else w.constant(0, dtype)
        total = w.variable(dtype, start)

        def each(inner: list[str]) -> None:
            value = w.value(dtype, w.load(n.place(0).array, inner[0]))
            if mode in ("max", "min"):
                symbol = ">" if mode == "max" else "<"
                better = w.any_of(f"({value} {symbol} {total})", f"({value} != {value})")
                w.assign(total, dtype, w.select(better, value, total))
            else:
                w.assign(total, dtype, f"{total} + {value}")

        write_elements(w, tuple(x[axis] for axis in axes), [tuple(strides[axis] for axis in axes)], [first], each)
        w.store(n.y.array, at[1], f"{total} / {w.constant(count, dtype)}" if mode == "mean" else total)

    write_elements(
        w, kept, [tuple(strides[axis] for axis in outer), contiguous_strides(kept)], [n.place(0).first, "0"], body
    )


def _softmax(n: _NodeWriter) -> None:
    w, axis, log, x, dtype = n.w, n.node.attributes["axis"], n.node.attributes["log"], n.shape(0), n.y_dtype
    strides, source = contiguous_strides(x), n.place(0)
    extent, step = str(x[axis]), strides[axis]
    others = _without(strides, axis)

    def body(at: list[str]) -> None:
        first, to = w.index(at[0]), w.index(at[1])
        most, total = w.variable(dtype, w.load(source.array, first)), w.variable(dtype, w.constant(0, dtype))
        with w.loop("0", extent, short=True) as k:
            w.assign(most, dtype, w.call("fmax", most, w.load(source.array, f"{first} + {k} * {step}")))
        with w.loop("0", extent, short=True) as k:
            shifted = w.value(dtype, f"{w.load(source.array, f'{first} + {k} * {step}')} - {most}")
            power = w.value(dtype, w.call("exp", shifted))
            w.assign(total, dtype, f"{total} + {power}")
            w.store(n.y.array, f"{to} + {k} * {step}", shifted if log else power)
        rest = w.value(dtype, w.call("log", total) if log else f"1 / {total}")
        with w.loop("0", extent, short=True) as k:
            place = f"{to} + {k} * {step}"
            w.store(n.y.array, place, f"{w.load(n.y.array, place)} {'-' if log else '*'} {rest}")

    write_elements(w, _without(x, axis), [others, others], [source.first, "0"], body)


def _matmul(n: _NodeWriter) -> None:
    a, b, y = n.shape(0), n.shape(1), n.y_shape
    batch = y[:-2]
    steps = [broadcast_strides(each[:-2], batch) for each in (a, b)]
    sizes = [math.prod(each[-2:]) for each in (a, b)]
    scaled = [tuple(step * size for step in each) for each, size in zip(steps, sizes, strict=True)]
    own = tuple(step * math.prod(y[-2:]) for step in contiguous_strides(batch))
    write_elements(
        n.w,
        batch,
        [*scaled, own],
        [n.place(0).first, n.place(1).first, "0"],
        lambda at: _one_product(n, *map(n.w.index, at)),
    )
    _finish_product(n)


def _one_product(n: _NodeWriter, a: str, b: str, y: str) -> None:
    """Emit one product of matrices, without the operations that follow it."""
    w, at = n.w, n.node.attributes
    m, columns = n.y_shape[-2:]
    depth = n.shape(0)[-2 if at["transpose_a"] else -1]
    row_step, deep_step = (1, m) if at["transpose_a"] else (depth, 1)
    sums = _FEW_SUMS if has_small_registers() else _SUMS
    rows = next(each for each in range(min(_ROWS, sums), 0, -1) if m % each == 0)

    @contextmanager
    def some_rows() -> Iterator[tuple[list[str], list[str]]]:
        """Open a loop over a few rows at once; yield the indices of their first elements in a and in y."""
        with w.loop("0", str(m), str(rows), short=True) as row:
            first = [w.index(f"{a} + ({row} + {i}) * {row_step}") for i in range(rows)]
            yield first, [w.index(f"{y} + ({row} + {i}) * {columns}") for i in range(rows)]

    if at["transpose_b"]:
        with some_rows() as (first, to):
            _rows_by_columns(n, first, to, b, depth, deep_step)
    else:
        _rows_by_rows(n, some_rows, min(_VECTORS, sums // rows), b, depth, deep_step)


def _rows_by_rows(
    n: _NodeWriter,
    some_rows: Callable[[], AbstractContextManager[tuple[list[str], list[str]]]],
    vectors: int,
    b: str,
    depth: int,
    deep_step: int,
) -> None:
    """Emit the product of a with b, whose rows are contiguous: vectors of columns are summed.

    All rows of a take a block of columns before the next, so that the first cache holds it.
    """
    w, dtype, columns = n.w, n.y_dtype, n.y_shape[-1]
    block, done = LANES * vectors, 0
    while done < columns:
        lanes = LANES if columns - done >= LANES else 1
        width = block if columns - done >= block else lanes
        stop = done + (columns - done) // width * width
        with w.loop(str(done), str(stop), str(width), short=True) as j, some_rows() as (a, y), w.vectors_of(lanes):
            count = width // lanes
            zero = w.spread(dtype, w.constant(0, dtype))
            sums = [[w.variable(dtype, zero) for _ in range(count)] for _ in a]
            with w.loop("0", str(depth), short=True) as k:
                at = [f"{b} + {k} * {columns} + {j} + {v * lanes}" for v in range(count)]
                lines = [w.read(n.place(1).array, each) for each in at]
                for row, first in enumerate(a):
                    factor = w.spread(dtype, w.load(n.place(0).array, f"{first} + {k} * {deep_step}"))
                    factor = w.value(dtype, factor)
                    for v in range(count):
                        w.assign(sums[row][v], dtype, w.multiply_add(factor, lines[v], sums[row][v]))
            for row, first in enumerate(y):
                for v in range(count):
                    w.write(n.y.array, f"{first} + {j} + {v * lanes}", sums[row][v])
        done = stop


def _rows_by_columns(n: _NodeWriter, a: list[str], y: list[str], b: str, depth: int, deep_step: int) -> None:
    """Emit the product of a few rows of a with the transpose of b: vectors along the sum are added."""
    w, dtype = n.w, n.y_dtype
    whole = depth // LANES * LANES if deep_step == 1 else 0
    with w.loop("0", str(n.y_shape[-1]), short=True) as j:
        line = w.index(f"{b} + {j} * {depth}")
        for first, to in zip(a, y, strict=True):
            total = w.variable(dtype, w.constant(0, dtype))
            if whole:
                wide = w.vector_group(dtype, w.constant(0, dtype))

                def add(pick: Callable[[str], str], _: str, first: str = first, wide: str = wide) -> None:
                    with w.loop("0", str(whole), str(LANES), short=True) as k:
                        x = w.value(dtype, w.load_vector(n.place(0).array, f"{first} + {k}"))
                        z = w.value(dtype, w.load_vector(n.place(1).array, f"{line} + {k}"))
                        w.assign(pick(wide), dtype, w.multiply_add(x, z, pick(wide)))

                w.each_vector(1, add)
                (found,) = w.reduce_lanes([(wide, dtype)], 1, lambda p, q: [f"{p[0]} + {q[0]}"])
                w.assign(total, dtype, found)
            if whole < depth:
                with w.loop(str(whole), str(depth), short=True) as k:
                    x = w.load(n.place(0).array, f"{first} + {k} * {deep_step}")
                    w.assign(total, dtype, f"{total} + {x} * {w.load(n.place(1).array, f'{line} + {k}')}")
            w.store(n.y.array, f"{to} + {j}", total)


def _finish_product(n: _NodeWriter) -> None:
    """Emit the factor, bias, residual and activation of a product."""
    w, at, dtype, shape = n.w, n.node.attributes, n.y_dtype, n.y_shape
    if at["alpha"] == 1 and not n.has(2) and not n.has(3) and not at["activation"]:
        return
    others = [position for position in (2, 3) if n.has(position)]
    strides = [broadcast_strides(n.shape(position), shape) for position in others]

    def body(places: list[str], steps: Sequence[int]) -> None:
        text = w.read(n.y.array, places[-1])
        if at["alpha"] != 1:
            text = f"{text} * {w.constant(at['alpha'], dtype)}"
        for position, place, step in zip(others, places, steps, strict=False):
            addend = n.read(position, place, step)
            if position == 2 and at["beta"] != 1:
                addend = f"{addend} * {w.constant(at['beta'], dtype)}"
            text = f"{text} + {addend}"
        w.write(n.y.array, places[-1], act.emit(w, at["activation"], dtype, w.value(dtype, text)))

    starts = [*(n.place(position).first for position in others), n.y.first]
    _write_vectors(w, shape, [*strides, contiguous_strides(shape)], starts, body)


_WRITERS: Final[dict[str, Callable[[_NodeWriter], None]]] = {
    "elementwise": _elementwise,
    "transpose": _transpose,
    "slice": _slice,
    "concat": _concat,
    "gather": _gather,
    "reduce": _reduce,
    "softmax": _softmax,
    "matmul": _matmul,
}
