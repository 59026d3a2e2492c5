# SPDX-License-Identifier: Apache-2.0
"""`rotary`: rotary position embeddings (Su et al., 2021): pairs of elements turned by angles of their position."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.kernels.common import line_launch, with_recipe
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.tensor.gather import INDEX_DTYPES
from syclsched.kernels.tensor.operation_factory import array_bytes, elements, input_parameter, make_operation
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.index_arrays import clamped_index
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter, compute_dtype
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Signature, Work


@with_recipe
@cache
def rotary(interleaved: bool = False, part: tuple[int, int, int] | None = None) -> Operation:
    """Return the operation that turns pairs of elements of ``x``; further elements stay.

    The pairs are neighbours if interleaved, else half of the turned elements apart. Parameters ``y`` and ``x``
    (batch, heads, count, size), ``cosines`` and ``sines`` (positions, pairs), ``positions`` (batch or 1, count). A
    position out of range counts as the nearest one. With ``part``, the first column, the number of heads
    and their size, ``x`` is (batch, count, columns), and the heads are neighbours there from that column on.
    """
    parameters = (
        Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
        *(input_parameter(name, like="y") for name in ("x", "cosines", "sines")),
        input_parameter("positions", dtypes=INDEX_DTYPES),
    )
    return make_operation(
        f"rotary{' interleaved' if interleaved else ''}{f' of {part[1]} heads from {part[0]}' if part else ''}",
        parameters,
        partial(_host, interleaved=interleaved, part=part),
        partial(_check, part=part),
        work=_work,
        kernels=generated_implementations(
            parameters,
            partial(_write, interleaved=interleaved, part=part),
            _launch,
            takes_extents=lambda _: True,  # those of tokens
        ),
    )


def _check(signature: Signature, *, part: tuple[int, int, int] | None) -> str | None:
    y, x, cosines, sines, positions = (signature.shapes[name] for name in ("y", "x", "cosines", "sines", "positions"))
    if part is None and (len(x) != 4 or y != x):
        return f"x {x} and y {y} are (batch, heads, count, size)"
    if part is not None:
        first, heads, size = part
        if len(x) != 3 or y != (x[0], heads, x[1], size) or not 0 <= first <= x[2] - heads * size:
            return f"y {y} is not {heads} heads of size {size} from column {first} on of x {x}"
    if len(cosines) != 2 or cosines != sines or 2 * cosines[1] > y[3] or not cosines[0]:
        return f"cosines {cosines} and sines {sines} do not fit x {x}"
    if positions not in ((y[0], y[2]), (1, y[2])):
        return f"x {x} has positions {(y[0], y[2])} or {(1, y[2])}, not {positions}"
    return None


def _work(signature: Signature) -> Work:
    moved = 2.0 * array_bytes(signature, "y")
    return Work(3.0 * elements(signature), moved, signature.dtypes["y"], float(max(1, elements(signature))))


def _items(signature: Signature) -> int:
    """Return the number of work-items: one for each pair, and for each element that stays."""
    *outer, size = signature.shapes["y"]
    return outer[0] * outer[1] * outer[2] * (size - signature.shapes["cosines"][1])


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    return line_launch(limits, max(1, _items(signature)))


def _host(
    *,
    interleaved: bool,
    part: tuple[int, int, int] | None,
    y: Any,
    x: Any,
    cosines: Any,
    sines: Any,
    positions: Any,
) -> None:
    import numpy as np

    if part is not None:
        batch, heads, count, size = y.shape
        columns = x[..., part[0] : part[0] + heads * size]
        x = columns.reshape(batch, count, heads, size).swapaxes(1, 2)
    kind, pairs = sum_dtype(str(y.dtype)), cosines.shape[1]
    at = np.clip(positions, 0, cosines.shape[0] - 1)
    c, s = (each[at][:, None].astype(kind) for each in (cosines, sines))
    first = slice(0, 2 * pairs, 2) if interleaved else slice(0, pairs)
    second = slice(1, 2 * pairs, 2) if interleaved else slice(pairs, 2 * pairs)
    a, b = x[..., first].astype(kind), x[..., second].astype(kind)
    y[...] = x
    y[..., first], y[..., second] = a * c - b * s, b * c + a * s


def _write(w: KernelWriter, *, interleaved: bool, part: tuple[int, int, int] | None) -> None:
    (_, heads, tokens, size), (extent, pairs) = w.signature.shapes["y"], w.signature.shapes["cosines"]
    t, total, width = compute_dtype(w.signature.dtypes["y"]), _items(w.signature), size - pairs
    if not total:
        return
    item, count = w.index(w.item), w.number("tokens", tokens)
    with w.if_block(f"{item} < {w.number('items', total)}"):
        line = w.index(w.div(item, str(width)))
        k = w.index(f"{item} - {line} * {width}")
        base = origin = w.index(f"{line} * {size}")
        image = w.index(w.div(line, count))
        token = w.index(f"{line} - {image} * {count}")
        if part is not None:
            row = w.index(f"{w.div(image, str(heads))} * {count} + {token}")
            origin = w.index(f"{row} * {w.signature.shapes['x'][2]} + {part[0]} + {image} % {heads} * {size}")
        with w.if_block(f"{k} >= {pairs}"):
            w.store("y", f"{base} + {k} + {pairs}", w.load("x", f"{origin} + {k} + {pairs}"))
        with w.if_block(f"{k} < {pairs}"):
            place = token
            if w.signature.shapes["positions"][0] > 1:
                place = w.index(f"{token} + {w.div(image, str(heads))} * {count}")
            loaded = w.value("int64", w.cast("int64", w.load("positions", place), w.signature.dtypes["positions"]))
            at = w.index(f"{clamped_index(w, loaded, extent)} * {pairs} + {k}")
            first = w.index(f"2 * {k}" if interleaved else k)
            second = w.index(f"{first} + {1 if interleaved else pairs}")
            a, b = w.read("x", f"{origin} + {first}"), w.read("x", f"{origin} + {second}")
            c, s = w.read("cosines", at), w.read("sines", at)
            w.store("y", f"{base} + {first}", w.value(t, f"{a} * {c} - {b} * {s}"))
            w.store("y", f"{base} + {second}", w.value(t, f"{b} * {c} + {a} * {s}"))
