# SPDX-License-Identifier: Apache-2.0
"""`layer_norm`: normalisation of each batch element over its last axes (Ba, Kiros and Hinton, 2016)."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import Ints, numpy_implementation, with_recipe
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.line_operations import number, standardised, work
from syclsched.kernels.nn.normalisation import norms_groups
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.onednn.operations import normalization as onednn
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import Line, launch_lines, product, write_lines, write_moments
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Launch,
    Operation,
    Parameter,
    Signature,
    Split,
    Work,
)


def rows(shape: Ints, axis: int) -> tuple[int, int]:
    """Return the number of independently normalised rows and their length."""
    axis %= len(shape)
    return size(shape[:axis]), size(shape[axis:])


def _check(signature: Signature, *, axis: int, bias: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if not -len(x) <= axis < len(x):
        return f"x {x} has no axis {axis}"
    if y != x:
        return f"layer_norm keeps the shape: y {y} against x {x}"
    for name in ("scale", "b") if bias else ("scale",):
        if signature.shapes[name] != x[axis:]:
            return f"{name} of x {x} from axis {axis} is {x[axis:]}, not {signature.shapes[name]}"
    return None


def _work(signature: Signature, *, axis: int, bias: bool) -> Work:
    count, _ = rows(signature.shapes["x"], axis)
    return work(signature, flops=7.0 + bias, parallelism=float(count))


def _host(*, y: Any, x: Any, scale: Any, b: Any = None, axis: int, epsilon: float, centred: bool) -> None:
    source = x.astype(sum_dtype(str(y.dtype)), copy=False)
    if not source.size:
        return
    total = standardised(source, tuple(range(axis % x.ndim, x.ndim)), epsilon, centred=centred) * scale
    y[...] = total if b is None else total + b


def _write(w: KernelWriter, *, axis: int, epsilon: float, centred: bool, bias: bool) -> None:
    count, known = rows(w.signature.shapes["x"], axis)
    if not count * known:
        return
    t = compute_dtype(w.signature.dtypes["y"])
    extents = w.extents("x")
    before, length = product(w, extents[: axis % len(extents)]), product(w, extents[axis % len(extents) :])

    def row(number: str) -> None:
        base = w.index(f"{number} * {length}")
        line = Line.of(w, t, length, known)
        mean, factor = write_moments(w, line, base, epsilon, centred=centred)

        def finish(k: str) -> None:
            value = f"({w.read('x', f'{base} + {k}')} - {mean}) * {factor} * {w.read('scale', k)}"
            w.write("y", f"{base} + {k}", w.value(t, value + (f" + {w.read('b', k)}" if bias else "")))

        line.each(finish)

    write_lines(w, before, known, row)


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    return launch_lines(*rows(signature.shapes["x"], axis), limits)


@cache
def _layer_norm(axis: int, epsilon: float, bias: bool, centred: bool) -> Operation:
    attributes: dict[str, Any] = {"axis": axis, "epsilon": epsilon, "centred": centred}
    parameters = (
        Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
        Parameter("x", AccessMode.READ, like="y"),
        Parameter("scale", AccessMode.READ, like="y"),
        *([Parameter("b", AccessMode.READ, like="y")] if bias else []),
    )
    return Operation(
        name=f"layer_norm {axis} {number(epsilon)}{' bias' if bias else ''}{'' if centred else ' root mean square'}",
        parameters=parameters,
        implementations=(
            *([onednn.layer_norm(axis=axis, epsilon=epsilon)] if centred else []),
            norms_groups.layer_norm(axis, epsilon, bias, centred),
            *generated_implementations(
                parameters,
                partial(_write, bias=bias, **attributes),
                partial(_launch, axis=axis),
                revision="3",
                takes_extents=lambda _: True,
            ),
            numpy_implementation(partial(_host, **attributes), efficiency=0.1),
        ),
        work=partial(_work, axis=axis, bias=bias),
        check=partial(_check, axis=axis, bias=bias),
        # A split along axis 0 requires that axis 0 is not normalised; a negative axis may be axis 0.
        split=Split(rows=("y", "x")) if axis > 0 else None,
    )


@with_recipe
def layer_norm(axis: int = -1, epsilon: float = 1e-5, bias: bool = False, centred: bool = True) -> Operation:
    """Return y = (x - mean) / sqrt(variance + epsilon) * scale + b, with statistics over the axes from ``axis`` on.

    Unless it is centred, the mean counts as 0 (root mean square normalisation, Zhang and Sennrich, 2019).
    """
    return _layer_norm(int(axis), float(epsilon), bool(bias), bool(centred))
