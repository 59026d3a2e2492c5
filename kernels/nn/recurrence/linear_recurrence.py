# SPDX-License-Identifier: Apache-2.0
"""`linear_recurrence`: the states of a first-order linear recurrence along the first axis."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import REAL_DTYPES
from syclsched.kernels.tensor.operation_factory import (
    array_bytes,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
)
from syclsched.kernels.tensor.reductions.reduction_kernels import split_axes
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import iteration_launch, write_iteration
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.row_column_blocks import block_launch, block_vectors, write_blocks
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Work


@cache
def linear_recurrence(reverse: bool = False) -> Operation:
    """Return the operation that writes the state before each step: from ``start``, each next is a * state + b.

    ``y``, ``a`` and ``b`` have one shape, ``start`` has it without the first axis. ``reverse``: from the last step to
    the first.
    """
    parameters = (
        output_parameter(dtypes=REAL_DTYPES),
        *(input_parameter(name, like="y") for name in ("a", "b", "start")),
    )
    return make_operation(
        f"linear_recurrence{' reverse' if reverse else ''}",
        parameters,
        partial(_host, reverse=reverse),
        _check,
        work=_work,
        kernels=generated_implementations(parameters, partial(_write, reverse=reverse), _launch, revision="1"),
    )


def _check(signature: Signature) -> str | None:
    shapes = signature.shapes
    shape = shapes["y"]
    if not shape:
        return "a recurrence has steps"
    wanted = {"a": shape, "b": shape, "start": shape[1:]}
    wrong = [name for name, each in wanted.items() if shapes[name] != each]
    return f"{wrong[0]} is {wanted[wrong[0]]}, not {shapes[wrong[0]]}" if wrong else None


def _work(signature: Signature) -> Work:
    count = elements(signature)
    return Work(2.0 * count, 3.0 * array_bytes(signature, "y"), signature.dtypes["y"], float(count))


def _host(*, reverse: bool, y: Any, a: Any, b: Any, start: Any) -> None:
    state = start
    for at in range(len(y))[:: -1 if reverse else 1]:
        y[at] = state
        state = a[at] * state + b[at]


def _write(w: KernelWriter, *, reverse: bool) -> None:
    plan = split_axes(w.signature.shapes["y"], (0,))
    extent, stride = plan.reduced[0]
    t = compute_dtype(w.signature.dtypes["y"])
    vectors = block_vectors(plan.kept, t)
    if vectors:
        write_blocks(w, plan.kept, vectors, partial(_write_block, w, t, (extent, stride), vectors, reverse))
        return

    def body(_: str, others: list[str]) -> None:
        state = w.variable(t, w.load("start", others[0]))
        with w.loop("0", str(extent)) as k:
            place = w.index(f"{others[0]} + {_step(extent, k, reverse)} * {stride}")
            w.store("y", place, state)
            w.assign(state, t, f"{w.load('a', place)} * {state} + {w.load('b', place)}")

    write_iteration(w, plan.kept, body)


def _step(extent: int, k: str, reverse: bool) -> str:
    return f"({extent - 1} - {k})" if reverse else k


def _write_block(
    w: KernelWriter, t: str, along: tuple[int, int], vectors: int, reverse: bool, _: str, first: str
) -> None:
    extent, stride = along
    states = w.vector_group(t, w.constant(0, t), vectors)

    def begin(pick: Any, lane: str) -> None:
        w.assign(pick(states), t, w.load_vector("start", f"{first} + {lane}"))

    w.each_vector(vectors, begin)
    with w.loop("0", str(extent)) as k:
        row = w.index(f"{first} + {_step(extent, k, reverse)} * {stride}")

        def advance(pick: Any, lane: str) -> None:
            state, place = pick(states), f"{row} + {lane}"
            w.store_vector("y", place, state, t)
            w.assign(state, t, f"{w.load_vector('a', place)} * {state} + {w.load_vector('b', place)}")

        w.each_vector(vectors, advance)


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    kept = split_axes(signature.shapes["y"], (0,)).kept
    vectors = block_vectors(kept, compute_dtype(signature.dtypes["y"]))
    return block_launch(kept, vectors, limits) if vectors else iteration_launch(kept, limits)
