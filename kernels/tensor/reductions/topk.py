# SPDX-License-Identifier: Apache-2.0
"""`topk`: the largest or smallest elements along an axis, with their indices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from syclsched.kernels.common import with_recipe
from syclsched.kernels.tensor.operation_factory import (
    array_bytes,
    axis_error,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
)
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import (
    IterationSpace,
    contiguous_strides,
    iteration_launch,
    iteration_space,
    write_iteration,
)
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split, Work


@with_recipe
@cache
def topk(k: int, axis: int, largest: bool = True, sorted: bool = True) -> Operation:
    """Return the operation that writes the ``k`` best elements of ``x`` along an axis, and their indices."""
    parameters = (
        output_parameter("values"),
        output_parameter("indices", dtypes=("int64",)),
        input_parameter(like="values"),
    )
    return make_operation(
        f"topk {k} axis {axis} {'largest' if largest else 'smallest'}{'' if sorted else ' unsorted'}",
        parameters,
        partial(_host, k=k, axis=axis, largest=largest),
        partial(_check, k=k, axis=axis),
        work=_work,
        split=Split(("values", "indices", "x")) if axis else None,
        kernels=generated_implementations(
            parameters, partial(_write, k=k, axis=axis, largest=largest), partial(_launch, axis=axis)
        ),
    )


def _check(signature: Signature, *, k: int, axis: int) -> str | None:
    x = signature.shapes["x"]
    wrong = axis_error(axis, len(x))
    if wrong is not None:
        return wrong
    if not 0 <= k <= x[axis]:
        return f"there are {x[axis]} elements along axis {axis} of {x}, not {k}"
    shape = (*x[:axis], k, *x[axis + 1 :])
    for name in ("values", "indices"):
        if signature.shapes[name] != shape:
            return f"{name} have shape {shape}, not {signature.shapes[name]}"
    return None


def _work(signature: Signature) -> Work:
    count = elements(signature, "x")
    moved = sum(array_bytes(signature, name) for name in ("x", "values", "indices"))
    # A sort takes about log2(extent) comparisons per element; 10 approximates that.
    return Work(10.0 * count, float(moved), signature.dtypes["x"], float(count))


def _host(*, k: int, axis: int, largest: bool, values: Any, indices: Any, x: Any) -> None:
    import numpy as np

    if largest:
        # Flipping before and after a stable sort gives descending order with the first of equal elements first.
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    indices[...] = np.take(order, np.arange(k), axis=axis)
    values[...] = np.take_along_axis(x, indices, axis=axis)


# --- devices: a heap of the best so far, with the worst of them at the root; sorted at the end --------------


def _walk(signature: Signature, axis: int) -> IterationSpace:
    """Return the iteration space of the lines along the axis; operands are x and the results."""
    x, y = signature.shapes["x"], signature.shapes["values"]
    shape = tuple(1 if d == axis else n for d, n in enumerate(x))
    strides = [tuple(0 if d == axis else s for d, s in enumerate(contiguous_strides(each))) for each in (x, y)]
    return iteration_space(shape, strides)


@dataclass(frozen=True, slots=True)
class _HeapWriter:
    """Emits the code of a heap in the results of one line, with the worst element at the root.

    ``base`` is the offset of the line in the results.
    """

    w: KernelWriter
    dtype: str  # in which elements are compared
    step: int  # elements of the results between neighbours along the axis
    largest: bool

    def element(self, place: str) -> tuple[str, str]:
        """Emit the load of an element and its index; return their names."""
        w = self.w
        return w.value(self.dtype, w.load("values", place)), w.value("int64", w.load("indices", place))

    def is_worse(self, a: str, i: str, b: str, j: str) -> str:
        """Return the condition that element a at i ranks after element b at j."""
        w = self.w
        less, more = (f"({a} < {b})", f"({a} > {b})") if self.largest else (f"({a} > {b})", f"({a} < {b})")
        later = f"({i} > {j})"
        if self.dtype == "bool":
            less, more = (w.all_of(w.negate(a), b), w.all_of(a, w.negate(b)))[:: 1 if self.largest else -1]
        if not self.dtype.startswith("float"):
            return w.any_of(less, w.all_of(w.negate(more), later))
        # NaN counts as the largest.
        a_nan, b_nan = f"({a} != {a})", f"({b} != {b})"
        first, second = (b_nan, a_nan) if self.largest else (a_nan, b_nan)
        less = w.any_of(less, w.all_of(first, w.negate(second)))
        more = w.any_of(more, w.all_of(second, w.negate(first)))
        return w.any_of(less, w.all_of(w.negate(more), later))

    def put(self, base: str, position: str, value: str, index: str) -> None:
        """Emit the store of an element to a position of the heap."""
        place = self.w.index(f"{base} + {position} * {self.step}")
        self.w.store("values", place, value)
        self.w.store("indices", place, index)

    def sift_down(self, base: str, size: str, value: str, index: str) -> None:
        """Emit the replacement of the root by an element, and sift it down."""
        w = self.w
        hole, moving = w.variable(None, "0"), w.variable(None, "1")
        with w.while_block(f"{moving} == 1"):
            w.assign(moving, None, "0")
            child = w.variable(None, f"2 * {hole} + 1")
            with w.if_block(f"{child} + 1 < {size}"):
                left = w.index(f"{base} + {child} * {self.step}")
                right = w.index(f"{base} + ({child} + 1) * {self.step}")
                a, b = w.value(self.dtype, w.load("values", right)), w.value(self.dtype, w.load("values", left))
                i, j = w.value("int64", w.load("indices", right)), w.value("int64", w.load("indices", left))
                with w.if_block(self.is_worse(a, i, b, j)):
                    w.assign(child, None, f"{child} + 1")
            with w.if_block(f"{child} < {size}"):
                a, i = self.element(w.index(f"{base} + {child} * {self.step}"))
                with w.if_block(self.is_worse(a, i, value, index)):
                    self.put(base, hole, a, i)
                    w.assign(hole, None, child)
                    w.assign(moving, None, "1")
        self.put(base, hole, value, index)

    def sift_up(self, base: str, last: str, value: str, index: str) -> None:
        """Emit the insertion of an element at the end, and sift it up."""
        w = self.w
        hole, moving = w.variable(None, last), w.variable(None, "1")
        with w.while_block(w.all_of(f"{moving} == 1", f"{hole} > 0")):
            w.assign(moving, None, "0")
            parent = w.index(w.div(f"({hole} - 1)", "2"))
            a, i = self.element(w.index(f"{base} + {parent} * {self.step}"))
            with w.if_block(self.is_worse(value, index, a, i)):
                self.put(base, hole, a, i)
                w.assign(hole, None, parent)
                w.assign(moving, None, "1")
        self.put(base, hole, value, index)


def _write(w: KernelWriter, *, k: int, axis: int, largest: bool) -> None:
    x_shape = w.signature.shapes["x"]
    dtype = compute_dtype(w.signature.dtypes["x"])
    step_x = contiguous_strides(x_shape)[axis]
    step_y = contiguous_strides(w.signature.shapes["values"])[axis]
    heap = _HeapWriter(w, dtype, step_y, largest)

    def body(_: str, others: list[str]) -> None:
        first, base = others
        with w.loop("0", str(k)) as n:
            value = w.value(dtype, w.load("x", f"{first} + {n} * {step_x}"))
            heap.sift_up(base, n, value, w.value("int64", n))
        with w.loop(str(k), str(x_shape[axis])) as n:
            value = w.value(dtype, w.load("x", f"{first} + {n} * {step_x}"))
            index = w.value("int64", n)
            worst, at = heap.element(base)
            with w.if_block(heap.is_worse(worst, at, value, index)):
                heap.sift_down(base, str(k), value, index)
        with w.loop("1", str(k)) as n:
            last = w.index(f"{base} + ({k} - {n}) * {step_y}")
            value, index = heap.element(last)
            w.store("values", last, w.load("values", base))
            w.store("indices", last, w.load("indices", base))
            heap.sift_down(base, f"({k} - {n})", value, index)

    if k:
        write_iteration(w, _walk(w.signature, axis), body)


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    return iteration_launch(_walk(signature, axis), limits)
