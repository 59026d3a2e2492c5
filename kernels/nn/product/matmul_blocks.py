# SPDX-License-Identifier: Apache-2.0
"""Matrix products by register blocks of rows of a by columns of b, with either operand transposed or interleaved."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from syclsched.kernels.common import Ints
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.block_sums import BlockStart, BlockSums, count_blocks
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.tensor.writing.iteration_space import unravel_index
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import product
from syclsched.model.operation import AS_GIVEN, DeviceLimits, Launch, Signature

#: Terms of a sum from which on a product takes as long with extents as arguments, or up to 2 % longer.
LONG_SUM: Final = 32
#: Terms of all sums of products that take some 5 us by one core.
_FEW_TERMS: Final = 1 << 16


def strides(shape: Ints, like: Ints) -> Ints:
    """Return the strides, in elements, of an array broadcast to shape ``like``: 0 for repeated axes."""
    shape = (1,) * (len(like) - len(shape)) + shape
    found, step = [], 1
    for extent in reversed(shape):
        found.append(0 if extent == 1 else step)
        step *= extent
    return tuple(reversed(found))


def by_matrices(shapes: Mapping[str, Ints], interleaved: Collection[str]) -> dict[str, Ints]:
    """Return shapes in which the rows of interleaved arrays come after their batch."""
    return {
        name: (*shape[:-3], shape[-2], shape[-3], shape[-1]) if name in interleaved else shape
        for name, shape in shapes.items()
    }


@dataclass(frozen=True, slots=True)
class ProductShape:
    """A batch of matrix products, with as few matrices as possible."""

    batch: Ints  # extents of the batch
    #: Extents of each product.
    m: int
    n: int
    k: int
    #: Strides of a and b along each batch axis, in matrices.
    a: Ints
    b: Ints
    interleaved: Mapping[str, Ints]  # shapes of the arrays stored so

    @classmethod
    def of(
        cls, signature: Signature, transpose_a: bool, transpose_b: bool, interleaved: Collection[str] = ()
    ) -> ProductShape:
        """Return the products of a signature; a batch with a common b becomes one product with more rows."""
        shapes = by_matrices(signature.shapes, interleaved)
        y, a, b = (shapes[name] for name in ("y", "a", "b"))
        k = a[-2] if transpose_a else a[-1]
        before = y[:-2]
        c = shapes.get("c", ())
        plain = (c == y or size(c[:-1]) == 1) and not interleaved
        if not transpose_a and size(b[:-2]) == 1 and a[:-2] == before and plain:
            return cls((), size(before) * y[-2], y[-1], k, (), (), {})
        stored = {name: signature.shapes[name] for name in interleaved}
        return cls(before, y[-2], y[-1], k, strides(a[:-2], before), strides(b[:-2], before), stored)

    def steps(self, name: str) -> Ints:
        """Return the strides of an array's matrices along each batch axis, in matrices."""
        return {"a": self.a, "b": self.b}.get(name, strides(self.batch, self.batch))

    def interleaved_steps(self, name: str) -> tuple[Ints, int]:
        """Return the strides of an interleaved array along each batch axis, and between rows, in elements."""
        *_, rows, beside, columns = self.interleaved[name]
        *outer, last = self.steps(name)
        return (*(step * rows * columns for step in outer), last * columns), beside * columns

    def block(self, dtype: str) -> RegisterBlock:
        """Return the block of results that a work-item computes."""
        return RegisterBlock.of(self.m, self.n, dtype)

    def items(self, dtype: str) -> int:
        """Return the number of blocks."""
        block = self.block(dtype)
        return size(self.batch) * panels.block_count(self.m, block.rows) * panels.block_count(self.n, block.columns)


def launch(
    signature: Signature, limits: DeviceLimits, *, transpose_a: bool, transpose_b: bool, interleaved: Collection[str]
) -> Launch:
    """Return the index space."""
    if not size(signature.shapes["y"]):
        return Launch((1,), (1,))
    shape = ProductShape.of(signature, transpose_a, transpose_b, interleaved)
    return panels.launch(limits, shape.items(signature.dtypes["y"]))


def takes_extents(signature: Signature, *, transpose_a: bool, transpose_b: bool, interleaved: Collection[str]) -> bool:
    """Return whether the kernel takes extents as arguments.

    In those of short sums, compilers unroll them. Those that read columns of a transposed b, which are far apart, take
    up to 2.3 times as long if the distance is not known. Products of few terms take a few microseconds in any case.
    """
    if not size(signature.shapes["y"]):
        return False
    shape = ProductShape.of(signature, transpose_a, transpose_b, interleaved)
    is_fast = shape.k >= LONG_SUM and not (transpose_b and "b" not in signature.constants)
    return is_fast or size(signature.shapes["y"]) * shape.k <= _FEW_TERMS


def prepare(
    signature: Signature,
    queue: Any,
    constants: Mapping[str, Any],
    *,
    transpose_a: bool,
    transpose_b: bool,
    interleaved: Collection[str],
) -> Mapping[str, Any]:
    """Return the constants with b packed into panels."""
    if "b" not in constants or not size(signature.shapes["y"]) or not size(signature.shapes["b"]):
        return constants
    b = constants["b"]
    b = b.swapaxes(-2, -3) if "b" in interleaved else b
    shape = ProductShape.of(signature, transpose_a, transpose_b, interleaved)
    columns = b.reshape(size(b.shape[:-2]), *b.shape[-2:])
    columns = columns if transpose_b else columns.swapaxes(1, 2)
    block = shape.block(signature.dtypes["y"])
    packed = panels.packed(columns, shape.n, block, b.ndim, streamed=_is_streamed(shape, block))
    return {**constants, "b": packed}


def form(
    signature: Signature, queue: Any, *, transpose_a: bool, transpose_b: bool, interleaved: Collection[str]
) -> Hashable:
    """Return what identifies the layout of the constants that `prepare` returns."""
    if "b" not in signature.constants or not size(signature.shapes["y"]) or not size(signature.shapes["b"]):
        return AS_GIVEN
    shape = ProductShape.of(signature, transpose_a, transpose_b, interleaved)
    block = shape.block(signature.dtypes["y"])
    is_streamed = _is_streamed(shape, block)
    return "matmul", transpose_b, "b" in interleaved, block.vectors, block.width, is_streamed


def _is_streamed(shape: ProductShape, block: RegisterBlock) -> bool:
    """Return whether packed weights of each vector of columns are in one line, and not those of each term.

    For the few rows of one block, memory bounds the time, and processors read several lines at once faster than one.
    """
    return block.rows == shape.m


def write(
    w: KernelWriter,
    *,
    transpose_a: bool,
    transpose_b: bool,
    interleaved: Collection[str],
    alpha: float,
    beta: float,
    bias: bool,
    residual: bool,
    activation: Activation,
) -> None:
    """Emit the kernel."""
    signature = w.signature
    if not size(signature.shapes["y"]):
        return
    shape = ProductShape.of(signature, transpose_a, transpose_b, interleaved)
    t, block = compute_dtype(signature.dtypes["y"]), shape.block(signature.dtypes["y"])
    activate = act.emitter(w, activation, t)
    extents = {name: tuple(by_matrices({name: w.extents(name)}, interleaved)[name]) for name in "ya"}
    *batch, m, n = extents["y"]
    if not shape.batch:
        batch, m = [], product(w, (*batch, m))
    # Packed or not, a constant b has as many numbers.
    k = extents["a"][-2 if transpose_a else -1]
    tall, count = count_blocks(w, m, block.rows), count_blocks(w, n, block.columns)
    item = w.index(w.item)
    with w.if_block(f"{item} < {product(w, (tall, count, *batch))}"):
        *places, panel, number = unravel_index(w, item, (*batch, count, tall))
        rows = BlockStart.of(w, number, block.rows, m, shape.m)
        columns = BlockStart.of(w, panel, block.columns, n, shape.n)

        def begin(name: str, columns: str, matrix: str) -> tuple[str, str]:
            """Return the offset of a matrix by its numbers of columns and elements, and the distance of its rows."""
            if name not in interleaved:
                return f"{_offset(w, name, places, shape.steps(name))} * {matrix}", columns
            steps, apart = shape.interleaved_steps(name)
            return _offset(w, name, places, steps), w.number(f"{name}_apart", apart)

        a, apart_a = begin("a", m if transpose_a else k, f"{m} * {k}")
        down, along = ("1", apart_a) if transpose_a else (apart_a, "1")
        a = w.index(f"{a} + {rows.at} * {down}")
        apart = [w.index(f"{row} * {down}") for row in range(block.rows)]
        b, apart_b = begin("b", k if transpose_b else n, f"{n} * {k}")
        stride, vectors_apart = "1", ""
        if "b" in signature.constants and size(signature.shapes["b"]):
            b = w.index(f"({_offset(w, 'b', places, shape.b)} * {count} + {panel}) * {k} * {block.columns}")
            step = str(block.columns)
            if _is_streamed(shape, block):
                step, vectors_apart = str(block.width), w.index(f"{k} * {block.width}")
        elif transpose_b:
            b, step, stride = w.index(f"{b} + {columns.at} * {apart_b}"), "1", apart_b
        else:
            b, step = w.index(f"{b} + {columns.at}"), apart_b
        sums = BlockSums.zeros(w, t, block)
        with w.loop("0", k) as term:
            here = w.index(f"{a} + {term} * {along}")
            values = [w.load("a", f"{here} + {each}") for each in apart]
            sums.add(values, "b", w.index(f"{b} + {term} * {step}"), stride, vectors_apart)
        c, c_down, c_along = _bias(w, shape, places, rows.at, columns.at, n) if bias else ("", "", "")

        def finish(x: str, at: str, row: int, column: int) -> str:
            if alpha != 1:
                x = w.value(t, f"{x} * {w.constant(alpha, t)}")
            if bias:
                where = f"{c} + {row} * {c_down}"
                if c_along == "1":
                    added = w.read("c", f"{where} + {column}")
                else:
                    with w.vectors_of(1):
                        added = w.read("c", where)
                x = w.value(t, f"{x} + {added}" if beta == 1 else f"{x} + {w.constant(beta, t)} * {added}")
            if residual:
                x = w.value(t, f"{x} + {w.read('r', at)}")
            return activate(x)

        to, apart_y = begin("y", n, f"{m} * {n}")
        sums.store(w.index(f"{to} + {rows.at} * {apart_y} + {columns.at}"), (apart_y, "1"), finish, rows, columns)


def _offset(w: KernelWriter, name: str, places: list[str], steps: Ints) -> str:
    """Return the text of a matrix's number, or its offset, in an array with given strides."""
    terms = [
        place if step == 1 else f"{place} * {w.number(f'{name}_step_{axis}', step)}"
        for axis, (place, step) in enumerate(zip(places, steps, strict=True))
        if step
    ]
    return f"({' + '.join(terms) or '0'})"


def _bias(
    w: KernelWriter, shape: ProductShape, places: list[str], row: str, column: str, n: str
) -> tuple[str, str, str]:
    """Emit the offset of a block's first number in c; return its name and the strides along rows and columns."""
    *steps, down, along = bias_strides(w.signature, shape)
    by_row = "0" if not down else "1" if down == 1 else n
    first = f"{_offset(w, 'c', places, tuple(steps))} + {row} * {by_row} + {column} * {along}"
    return w.index(first), by_row, str(along)


def bias_strides(signature: Signature, shape: ProductShape) -> Ints:
    """Return c's strides along the batch, rows and columns, in elements: 0 where repeated."""
    c = signature.shapes["c"]
    if c == signature.shapes["y"] and not shape.batch:
        return (shape.n, 1)
    if size(c[:-1]) == 1:
        return (0,) * (len(shape.batch) + 1) + (int(size(c) > 1),)
    return strides(c, (*shape.batch, shape.m, shape.n))
