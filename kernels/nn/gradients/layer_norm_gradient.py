# SPDX-License-Identifier: Apache-2.0
"""`layer_norm_gradient`: gradient of layer normalisation, by its input, its scale and its bias, in one pass.

The gradients of scale and bias are sums over rows. Each line computes some rows, one after another, and writes sums
of its own; a caller that needs the whole adds these parts in order.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import ITEM_BYTES, numpy_implementation
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.line_operations import number, standardised
from syclsched.kernels.nn.normalisation.layer_norm import rows
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import Line, launch_lines, write_lines, write_moments
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Signature, Work


def _check(signature: Signature, *, axis: int) -> str | None:
    shapes = signature.shapes
    y, x = shapes["y"], shapes["x"]
    if not -len(x) <= axis < len(x):
        return f"x {x} has no axis {axis}"
    if y != x or shapes["dy"] != x:
        return f"y and dy are as x {x}, not {y} and {shapes['dy']}"
    if shapes["scale"] != x[axis:]:
        return f"scale of x {x} from axis {axis} is {x[axis:]}, not {shapes['scale']}"
    parts = shapes["dscale"][:1]
    if not parts or not parts[0] or shapes["dscale"] != parts + x[axis:] or shapes["dbias"] != shapes["dscale"]:
        return f"dscale and dbias are parts of {x[axis:]}, not {shapes['dscale']} and {shapes['dbias']}"
    return None


def _work(signature: Signature) -> Work:
    dtype = signature.dtypes["y"]
    moved = sum(map(size, signature.shapes.values())) * ITEM_BYTES[dtype]
    parts = float(signature.shapes["dscale"][0])
    return Work(18.0 * size(signature.shapes["y"]), float(moved), dtype, parts)


def _host(
    *, y: Any, dscale: Any, dbias: Any, x: Any, scale: Any, dy: Any, axis: int, epsilon: float, centred: bool
) -> None:
    import numpy as np

    axes = tuple(range(axis % x.ndim, x.ndim))
    dscale[...] = dbias[...] = 0
    if not x.size:
        return
    given = dy.astype(sum_dtype(str(y.dtype)), copy=False)
    source = x.astype(given.dtype, copy=False)
    normalised = standardised(source, axes, epsilon, centred=centred)
    difference = source - source.mean(axis=axes, keepdims=True) if centred else source
    variance = np.square(difference).mean(axis=axes, keepdims=True)
    scaled = given * scale
    inner = scaled - normalised * (scaled * normalised).mean(axis=axes, keepdims=True)
    if centred:
        inner -= scaled.mean(axis=axes, keepdims=True)
    y[...] = inner / np.sqrt(variance + given.dtype.type(epsilon))
    count, length = rows(x.shape, axis)
    each = -(-count // len(dscale))
    for target, values in ((dscale, given * normalised), (dbias, given)):
        flat = values.reshape(count, length)
        for part, line in enumerate(target.reshape(len(target), length)):
            line[...] = flat[part * each : (part + 1) * each].sum(axis=0)


def _write(w: KernelWriter, *, axis: int, epsilon: float, centred: bool) -> None:
    count, known = rows(w.signature.shapes["x"], axis)
    parts = w.signature.shapes["dscale"][0]
    if not known:
        return
    t, length = compute_dtype(w.signature.dtypes["y"]), str(known)
    each = -(-count // parts)

    def part(number: str) -> None:
        first = w.index(f"{number} * {each}")
        end = w.index(w.select(f"({first} + {each} < {count})", f"{first} + {each}", str(count)))
        sums = w.index(f"{number} * {length}")
        line = Line.of(w, t, length, known)

        def clear(k: str) -> None:
            for name in ("dscale", "dbias"):
                w.write(name, f"{sums} + {k}", w.spread(t, w.constant(0.0, t)))

        line.each(clear)
        with w.loop(first, end) as row:
            _write_row(w, line, w.index(f"{row} * {length}"), sums, epsilon, centred=centred)

    write_lines(w, str(parts), known, part)


def _write_row(w: KernelWriter, line: Line, base: str, sums: str, epsilon: float, *, centred: bool) -> None:
    """Emit the gradient of a row, and the addition of its gradients of scale and bias."""
    t = line.dtype
    mean, factor = write_moments(w, line, base, epsilon, centred=centred)

    def at(name: str, k: str) -> str:
        return w.read(name, f"{base} + {k}")

    def scaled(k: str) -> str:
        return f"{at('dy', k)} * {w.read('scale', k)}"

    def add(a: str, b: str) -> str:
        return f"({a} + {b})"

    inverse = w.value(t, f"{w.constant(1.0, t)} / {w.cast(t, line.length, 'int64')}")
    projected = line.reduce(0.0, lambda k: w.value(t, f"{scaled(k)} * ({at('x', k)} - {mean})"), add)
    projected = w.value(t, f"{projected} * {factor} * {inverse}")
    average = w.value(t, w.constant(0.0, t))
    if centred:
        average = w.value(t, f"{line.reduce(0.0, lambda k: w.value(t, scaled(k)), add)} * {inverse}")

    def finish(k: str) -> None:
        given = at("dy", k)
        normalised = w.value(t, f"({at('x', k)} - {mean}) * {factor}")
        inner = f"{given} * {w.read('scale', k)} - {average} - {normalised} * {projected}"
        w.write("y", f"{base} + {k}", w.value(t, f"({inner}) * {factor}"))
        for name, value in (("dscale", f"{given} * {normalised}"), ("dbias", given)):
            w.write(name, f"{sums} + {k}", w.value(t, f"{w.read(name, f'{sums} + {k}')} + {value}"))

    line.each(finish, once=True)


def _launch(signature: Signature, limits: DeviceLimits, *, axis: int) -> Launch:
    return launch_lines(signature.shapes["dscale"][0], rows(signature.shapes["x"], axis)[1], limits)


@cache
def _layer_norm_gradient(axis: int, epsilon: float, centred: bool) -> Operation:
    attributes: dict[str, Any] = {"axis": axis, "epsilon": epsilon, "centred": centred}
    parameters = (
        Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
        *(Parameter(name, AccessMode.WRITE, like="y") for name in ("dscale", "dbias")),
        *(Parameter(name, AccessMode.READ, like="y") for name in ("x", "scale", "dy")),
    )
    return Operation(
        name=f"layer_norm_gradient {axis} {number(epsilon)}{'' if centred else ' root mean square'}",
        parameters=parameters,
        implementations=(
            *generated_implementations(parameters, partial(_write, **attributes), partial(_launch, axis=axis)),
            numpy_implementation(partial(_host, **attributes), efficiency=0.1),
        ),
        work=_work,
        check=partial(_check, axis=axis),
    )


def layer_norm_gradient(axis: int = -1, epsilon: float = 1e-5, centred: bool = True) -> Operation:
    """Return the operation that computes the gradient y of `layer_norm` by its input x, given that of its result, dy.

    It writes parts of the gradients of scale and bias, too: the sum of dscale and of dbias along axis 0 is the whole.
    """
    return _layer_norm_gradient(int(axis), float(epsilon), bool(centred))
