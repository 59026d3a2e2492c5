# SPDX-License-Identifier: Apache-2.0
"""`pad`: padding with a constant, or with elements of the array."""

from __future__ import annotations

from functools import partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import with_recipe
from syclsched.kernels.tensor.operation_factory import (
    copy_work,
    input_parameter,
    make_operation,
    output_parameter,
    shape_error,
)
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.iteration_space import (
    IterationSpace,
    contiguous_strides,
    iteration_launch,
    iteration_space,
    write_iteration,
)
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.model.operation import DeviceLimits, Launch, Operation, Signature, Split

#: Padding modes.
MODES = ("constant", "reflect", "edge", "wrap")

_CACHE: dict[tuple[tuple[int, ...], str, str], Operation] = {}


@with_recipe
def pad(pads: tuple[int, ...], mode: str = "constant", value: float = 0) -> Operation:
    """Return the operation that writes ``x`` with padding to ``y``; pads are all starts, then all ends."""
    if mode not in MODES:
        raise ArgumentError(f"there is no mode {mode!r}", where="pad", hint=f"There are: {', '.join(MODES)}")
    if len(pads) % 2 or any(n < 0 for n in pads):
        raise ArgumentError(f"margins are two for each axis and not negative, not {pads}", where="pad")
    key = (pads, mode, repr(value) if mode == "constant" else "")
    if key not in _CACHE:
        parameters = (output_parameter(), input_parameter(like="y"))
        _CACHE[key] = make_operation(
            f"pad {','.join(map(str, pads))} {mode}{f' {value}' if mode == 'constant' else ''}",
            parameters,
            partial(_host, pads=pads, mode=mode, value=value),
            partial(_check, pads=pads, mode=mode),
            work=copy_work,
            split=Split(("y", "x")) if pads and pads[0] == pads[len(pads) // 2] == 0 else None,
            kernels=generated_implementations(
                parameters,
                partial(_write, pads=pads, mode=mode, value=value),
                partial(_launch, pads=pads),
                revision="2",
                takes_extents=lambda signature: mode == "constant" and _walk(signature, pads).shares_code,
            ),
        )
    return _CACHE[key]


def _check(signature: Signature, *, pads: tuple[int, ...], mode: str) -> str | None:
    x = signature.shapes["x"]
    if len(pads) != 2 * len(x):
        return f"{len(pads)} margins for {len(x)} axes"
    before, after = pads[: len(x)], pads[len(x) :]
    if mode != "constant" and any(n == 0 and b + a for n, b, a in zip(x, before, after, strict=True)):
        return f"{x} has no elements to fill a margin with"
    return shape_error(
        signature, tuple(b + n + a for b, n, a in zip(before, x, after, strict=True)), f"{x} with {pads}"
    )


def _places(extent: int, before: int, after: int, mode: str) -> Any:
    """Return the source index for each index of a padded axis."""
    import numpy as np

    at = np.arange(-before, extent + after)
    if mode == "edge":
        return np.clip(at, 0, extent - 1)
    if mode == "wrap":
        return at % extent
    period = max(2 * (extent - 1), 1)
    at = at % period
    return np.where(at < extent, at, period - at)


def _host(*, pads: tuple[int, ...], mode: str, value: float, y: Any, x: Any) -> None:
    import numpy as np

    if not y.size:
        return
    before, after = pads[: x.ndim], pads[x.ndim :]
    if mode == "constant":
        y[...] = value
        y[tuple(slice(b, b + n) for b, n in zip(before, x.shape, strict=True))] = x
    elif x.ndim == 0:
        y[...] = x
    else:
        y[...] = x[np.ix_(*(_places(n, b, a, mode) for n, b, a in zip(x.shape, before, after, strict=True)))]


def _padded(pads: tuple[int, ...]) -> list[int]:
    rank = len(pads) // 2
    return [axis for axis in range(rank) if pads[axis] or pads[axis + rank]]


def _walk(signature: Signature, pads: tuple[int, ...]) -> IterationSpace:
    """Return the iteration space of the result; operands are x without padded axes, then their indices."""
    x, padded = signature.shapes["x"], _padded(pads)
    x_strides = tuple(0 if axis in padded else step for axis, step in enumerate(contiguous_strides(x)))
    places = [tuple(int(other == axis) for other in range(len(x))) for axis in padded]
    return iteration_space(signature.shapes["y"], [x_strides, *places])


def _write(w: KernelWriter, *, pads: tuple[int, ...], mode: str, value: float) -> None:
    x, dtype, space = w.signature.shapes["x"], w.signature.dtypes["x"], _walk(w.signature, pads)
    strides = contiguous_strides(x)
    steps = {axis: space.number(w, f"apart{axis}", strides[axis]) for axis in _padded(pads)}
    begins = {axis: space.number(w, f"margin{axis}", pads[axis]) for axis in _padded(pads)}
    extents = {axis: space.number(w, f"x{axis}", x[axis]) for axis in _padded(pads)}

    def body(at: str, others: list[str]) -> None:
        terms, inside = [others[0]], []
        for axis, place in zip(_padded(pads), others[1:], strict=True):
            source = w.index(f"{place} - {begins[axis]}")
            if mode == "constant":
                inside += [f"({source} >= 0)", f"({source} < {extents[axis]})"]
            else:
                source = _source(w, source, x[axis], pads[axis], mode)
            terms.append(f"{source} * {steps[axis]}")
        if not inside:
            w.store("y", at, w.load("x", " + ".join(terms)))
            return
        result = w.variable(dtype, w.constant(value, dtype))
        if 0 not in x:
            with w.if_block(w.all_of(*inside)):
                w.assign(result, dtype, w.load("x", " + ".join(terms)))
        w.store("y", at, result)

    write_iteration(w, space, body)


def _source(w: KernelWriter, at: str, extent: int, before: int, mode: str) -> str:
    """Emit the source index for an index that may be out of range."""
    if mode == "edge":
        return w.index(w.select(f"({at} < 0)", "0", w.select(f"({at} < {extent})", at, str(extent - 1))))
    period = extent if mode == "wrap" else max(2 * (extent - 1), 1)
    # A whole number of periods is added to make the dividend positive.
    rest = w.index(f"({at} + {-(-before // period) * period}) % {period}")
    return rest if mode == "wrap" else w.index(w.select(f"({rest} < {extent})", rest, f"{period} - {rest}"))


def _launch(signature: Signature, limits: DeviceLimits, *, pads: tuple[int, ...]) -> Launch:
    return iteration_launch(_walk(signature, pads), limits)
