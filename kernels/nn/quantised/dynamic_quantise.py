# SPDX-License-Identifier: Apache-2.0
"""`dynamic_quantise`: quantisation of an array to 8 bits by its own range, in one kernel, or in two if it is large.

The range includes 0. Scale and zero point are those of ONNX's DynamicQuantizeLinear; where the scale would be 0, it is
1, as in ONNX Runtime. A NaN is left out of the range and becomes 0.

Work-groups of one kernel cannot wait for each other. So one work-item of a CPU, or one work-group of a GPU, takes a
small array as a whole, in less time than another thread or kernel begins. Of a large one, a kernel finds the ranges of
parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from syclsched.kernels import groups
from syclsched.kernels.common import GROUPS_PER_UNIT, ceil_div
from syclsched.kernels.quantisation import LIMITS
from syclsched.kernels.tensor.operation_factory import (
    array_bytes,
    elements,
    input_parameter,
    make_operation,
    output_parameter,
)
from syclsched.kernels.tensor.reductions.group_reduction import LineReduction, local_bytes
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.kernel_writer import KernelWriter
from syclsched.kernels.tensor.writing.lines import Line, product
from syclsched.model.operation import (
    DeviceLimits,
    Launch,
    OpenCLSource,
    Operation,
    OperationStep,
    Parameter,
    Shape,
    Signature,
    Work,
)
from syclsched.model.sequence import sequence_operation

#: Elements of a large array: for fewer, a work-item needs some 10 microseconds.
_LARGE: Final = 1 << 16
#: Least elements that a work-item quantises, and most work-items.
_FEWEST, _MOST_ITEMS = 1 << 12, 256
#: Added to a number below 2^22 it leaves no bits behind the point: the sum is rounded to even.
_ROUNDING: Final = 1.5 * 2**23
_LOW, _HIGH = (float(limit) for limit in LIMITS["uint8"])

_RESULTS: Final = (
    output_parameter(dtypes=("uint8",)),
    output_parameter("s", dtypes=("float32",)),
    output_parameter("z", dtypes=("uint8",)),
    output_parameter("i", dtypes=("int32",)),
)
_X: Final = input_parameter(dtypes=("float32",))
_PARTS: Final = input_parameter("parts", dtypes=("float32",))


@cache
def dynamic_quantise() -> Operation:
    """Return the operation that writes ``x`` quantised to ``y``, its scale to ``s``, its zero point to ``z`` and ``i``.

    ``z`` has the dtype of ``y``, ``i`` has 32 bits, as integer products read it.
    """
    return _operation(
        "dynamic quantise",
        (*_RESULTS, _X),
        _host,
        _check,
        _write,
        lambda *_: Launch((1,), (1,)),
        _group_source,
        _group_launch,
    )


@cache
def dynamic_quantise_in_parts() -> Operation:
    """Return `dynamic_quantise` in two kernels, with the ranges of parts in ``parts`` (2, number)."""
    ranges = _operation(
        "ranges of parts",
        (output_parameter("parts", dtypes=("float32",)), _X),
        _host_ranges,
        _check_parts,
        _write_ranges,
        lambda signature, _: Launch((_count(signature),), (1,)),
        _group_ranges_source,
        lambda signature, limits: _part_lines(signature, limits).launch,
    )
    quantised = _operation(
        "quantise by ranges",
        (*_RESULTS, _X, _PARTS),
        _host_by_ranges,
        lambda signature: _check(signature) or _check_parts(signature),
        _write_by_ranges,
        _by_ranges_launch,
        _group_by_ranges_source,
        _group_by_ranges_launch,
    )
    steps = [OperationStep(each, tuple((p.name, p.name) for p in each.arrays)) for each in (ranges, quantised)]
    return sequence_operation(steps, [(name,) * 2 for name in (groups.NAME, "opencl-c", "python", "numpy")])


def in_parts_is_faster(shape: Shape) -> bool:
    """Return whether an array is so large that `dynamic_quantise_in_parts` takes less time."""
    return math.prod(shape) >= _LARGE


def _operation(
    name: str,
    parameters: tuple[Parameter, ...],
    host: Callable[..., None],
    check: Callable[[Signature], str | None],
    write: Callable[[KernelWriter], None],
    launch: Callable[[Signature, DeviceLimits], Launch],
    source: Callable[[Signature, DeviceLimits], OpenCLSource],
    group_launch: Callable[[Signature, DeviceLimits], Launch],
) -> Operation:
    return make_operation(
        name,
        parameters,
        host,
        check,
        work=_work,
        kernels=(
            groups.implementation(source, group_launch),
            *generated_implementations(parameters, write, launch, takes_extents=lambda _: True),
        ),
    )


def _check(signature: Signature) -> str | None:
    shapes = signature.shapes
    if shapes["y"] != shapes["x"]:
        return f"y has the shape of x {shapes['x']}, not {shapes['y']}"
    wrong = next((name for name in "szi" if shapes[name] not in ((), (1,))), None)
    return None if wrong is None else f"{wrong} is one number, not {shapes[wrong]}"


def _check_parts(signature: Signature) -> str | None:
    parts = signature.shapes["parts"]
    if len(parts) != 2 or parts[0] != 2 or not parts[1]:
        return f"parts are (2, number), not {parts}"
    fits = elements(signature, "x") >= parts[1]
    return None if fits else f"{parts[1]} parts of x {signature.shapes['x']} have no elements"


def _count(signature: Signature) -> int:
    """Return the number of parts."""
    return signature.shapes["parts"][1]


def _work(signature: Signature) -> Work:
    count = elements(signature, "x")
    moved = sum(array_bytes(signature, name) for name in signature.shapes)
    return Work(3.0 * count * (1 + ("y" in signature.shapes)), float(moved), "float32", float(max(count, 1)))


# --- functions of the host ---------------------------------------------------------------------------------


def _host(*, y: Any, s: Any, z: Any, i: Any, x: Any) -> None:
    import numpy as np

    low, high = (find.reduce(x, axis=None, initial=np.float32(0)) for find in (np.fmin, np.fmax))
    _quantise_host(low, high, y, s, z, i, x)


def _host_ranges(*, parts: Any, x: Any) -> None:
    import numpy as np

    flat, count = x.reshape(-1), parts.shape[1]
    starts = np.arange(count) * (flat.size // count)
    for row, find in enumerate((np.fmin, np.fmax)):
        parts[row] = find(find.reduceat(flat, starts), np.float32(0))


def _host_by_ranges(*, y: Any, s: Any, z: Any, i: Any, x: Any, parts: Any) -> None:
    _quantise_host(parts[0].min(), parts[1].max(), y, s, z, i, x)


def _quantise_host(low: Any, high: Any, y: Any, s: Any, z: Any, i: Any, x: Any) -> None:
    import numpy as np

    def saturated(numbers: Any) -> Any:
        return np.fmin(np.fmax(numbers, np.float32(_LOW)), np.float32(_HIGH))

    with np.errstate(over="ignore", invalid="ignore"):
        scale = (high - low) / np.float32(_HIGH)
        scale = scale if scale > 0 else np.float32(1)
        zero = saturated(np.rint(-low / scale))
        y[...] = saturated(np.rint(x / scale) + zero)
    s[...], z[...], i[...] = scale, zero, zero


# --- kernels, generated ------------------------------------------------------------------------------------


def _by_ranges_launch(signature: Signature, limits: DeviceLimits) -> Launch:
    """Return the launch of work-items that quantise a part each."""
    most = min(_MOST_ITEMS, GROUPS_PER_UNIT * limits.compute_units)
    return Launch((max(1, min(elements(signature, "x") // _FEWEST, most)),), (1,))


def _write(w: KernelWriter) -> None:
    count, known = product(w, w.extents("x")), elements(w.signature, "x")
    _write_part(w, _write_range(w, Line.of(w, "float32", count, known), [("x", "0")] * 2), count, known)


def _write_ranges(w: KernelWriter) -> None:
    count, known = product(w, w.extents("x")), elements(w.signature, "x")
    parts = _count(w.signature)
    part, each = w.index(w.item), w.index(w.div(count, str(parts)))
    first = w.index(f"{part} * {each}")
    length = w.index(w.select(f"({part} < {parts - 1})", each, f"{count} - {first}"))
    found = _write_range(w, Line.of(w, "float32", length, known // parts), [("x", first)] * 2)
    for row, value in enumerate(found):
        w.store("parts", f"{row * parts} + {part}", value)


def _write_by_ranges(w: KernelWriter) -> None:
    count, known = product(w, w.extents("x")), elements(w.signature, "x")
    parts = _count(w.signature)
    found = _write_range(w, Line.of(w, "float32", str(parts), parts), [("parts", "0"), ("parts", str(parts))])
    _write_part(w, found, count, known)


def _write_range(w: KernelWriter, line: Line, sources: list[tuple[str, str]]) -> list[str]:
    """Emit the least and the greatest element of lines (array and start) and 0, in one pass; return their names."""
    t, symbols = "float32", "<>"
    nothing = w.constant(0.0, t)
    vectors = line.vectors
    found = [w.vector_group(t, nothing, vectors) if vectors else w.variable(t, nothing) for _ in symbols]

    def better(symbol: str, x: str, best: str) -> str:
        return w.select(f"({x} {symbol} {best})", x, best)

    def take(pick: Callable[[str], str], k: str) -> None:
        read = {source: w.read(source[0], f"{source[1]} + {k}") for source in dict.fromkeys(sources)}
        for name, symbol, source in zip(found, symbols, sources, strict=True):
            w.assign(pick(name), t, better(symbol, read[source], pick(name)))

    line.each_group(take)
    if not vectors:
        return found
    return w.reduce_lanes(
        [(name, t) for name in found],
        vectors,
        lambda a, b: [better(symbol, *pair) for symbol, *pair in zip(symbols, a, b, strict=True)],
    )


def _write_part(w: KernelWriter, limits: list[str], count: str, known: int) -> None:
    """Emit the quantisation of a work-item's part by a range; the first one stores scale and zero point."""
    t, (low, high) = "float32", limits
    nothing, most, one = (w.constant(number, t) for number in (_LOW, _HIGH, 1.0))
    rounding = w.constant(_ROUNDING, t)

    def saturated(number: str) -> str:
        number = w.value(t, w.select(f"({number} > {nothing})", number, nothing))  # 0 for a NaN
        return w.value(t, w.select(f"({number} < {most})", number, most))

    def rounded(x: str, less: str) -> str:
        return w.value(t, f"{w.value(t, f'{x} / {scale} + {rounding}')} - {less}")

    scale = w.value(t, f"({high} - {low}) / {most}")
    scale = w.value(t, w.select(f"({scale} > {nothing})", scale, one))
    zero = saturated(rounded(f"({nothing} - {low})", rounding))
    less = w.value(t, f"{rounding} - {zero}")  # exact
    item, items = w.index(w.item), w.index(w.items)
    with w.if_block(w.first()):
        w.store("s", "0", scale)
        for name, dtype in (("z", "uint8"), ("i", "int32")):
            w.store(name, "0", w.cast(dtype, zero, t))
    each = w.index(w.div(f"({count} - 1 + {items})", items))
    first = w.index(f"{item} * {each}")
    length = w.index(w.select(f"({first} + {each} < {count})", each, f"{count} - {first}"))
    # All work-items but the last have as many elements: none has fewer than a vector unless the array does.
    line = Line.of(w, t, length, min(known, _FEWEST))

    def quantise(k: str) -> None:
        at = w.index(f"{first} + {k}")
        x = w.read("x", at)
        number = saturated(rounded(x, less))
        if line.vectors:
            w.store_vector("y", at, number, t)
        else:
            w.store("y", at, w.cast("uint8", number, t))

    line.each(quantise)


# --- kernels by work-groups --------------------------------------------------------------------------------

_TAKE, _JOIN = "low = fmin(low, v); high = fmax(high, v);", "low = fmin(low, other_low); high = fmax(high, other_high);"
_VARIABLES: Final = {"low": "A", "high": "A"}
_NUMBERS: Final = f"""
  const A step = (high - low) / {_HIGH}f, scale = step > 0 ? step : 1;
  const A zero = fmin(fmax(rint(-low / scale), 0.0f), {_HIGH}f);
#define QUANTISED(v) (uchar)fmin(fmax(rint((v) / scale) + zero, 0.0f), {_HIGH}f)
"""
_STORE: Final = "{ s[0] = scale; z[0] = (uchar)zero; i[0] = (int)zero; }"
_ARGUMENTS: Final = "__global uchar* restrict y, __global float* s, __global uchar* z, __global int* i"


def _whole_lines(signature: Signature, limits: DeviceLimits) -> LineReduction:
    count = elements(signature, "x")
    return LineReduction.of_axes(((1, count),), ((count, 1),), limits, local_bytes("float32", "float32"))


def _part_lines(signature: Signature, limits: DeviceLimits) -> LineReduction:
    parts, count = _count(signature), elements(signature, "x")
    each, local = count // parts, local_bytes("float32", "float32")
    return LineReduction.of_axes(((parts, each),), ((each, 1),), limits, local, rest=count - each * parts)


def _group_launch(signature: Signature, limits: DeviceLimits) -> Launch:
    return _whole_lines(signature, limits).launch


def _group_source(signature: Signature, limits: DeviceLimits) -> OpenCLSource:
    """Return the kernel of one work-group that finds the range and quantises."""
    lines = _whole_lines(signature, limits)
    code = f"""{groups.head("float32", "float32", elements(signature, "x"))}
__kernel {lines.attributes} void quantise({_ARGUMENTS}, __global const T* restrict x) {{
{_found(lines)}{_NUMBERS}
  if (t == 0 && line == 0) {_STORE}
{lines.each("y[at] = QUANTISED(v);")}}}
"""
    return OpenCLSource(code, "quantise")


def _group_ranges_source(signature: Signature, limits: DeviceLimits) -> OpenCLSource:
    lines, parts = _part_lines(signature, limits), _count(signature)
    code = f"""{groups.head("float32", "float32", elements(signature, "x"))}
__kernel {lines.attributes} void ranges(__global T* restrict parts, __global const T* restrict x) {{
{_found(lines)}
  if (t == 0 && line < {parts}) {{ parts[line] = low; parts[{parts} + line] = high; }}
}}
"""
    return OpenCLSource(code, "ranges")


def _found(lines: LineReduction) -> str:
    """Return OpenCL C that finds ``low`` and ``high`` of a team's line."""
    local = lines.local(**_VARIABLES) if lines.team > 1 else ""
    return f"""{local}{lines.begin}{lines.loaded()}  A low = 0, high = 0;
{lines.each(_TAKE)}{lines.shared(_JOIN, **_VARIABLES)}"""


def _group_by_ranges_launch(signature: Signature, limits: DeviceLimits) -> Launch:
    size = groups.most_items(limits, 1)
    wanted = ceil_div(elements(signature, "x"), size * 4)
    return Launch((max(1, wanted) * size,), (size,))


def _group_by_ranges_source(signature: Signature, limits: DeviceLimits) -> OpenCLSource:
    count, parts = elements(signature, "x"), _count(signature)
    code = f"""{groups.head("float32", "float32", count)}
__kernel void quantise({_ARGUMENTS}, __global const T* restrict x, __global const T* restrict parts) {{
  A low = 0, high = 0;
  for (int p = 0; p < {parts}; ++p) {{ low = fmin(low, parts[p]); high = fmax(high, parts[{parts} + p]); }}{_NUMBERS}
  const I item = get_global_id(0), items = get_global_size(0);
  if (item == 0) {_STORE}
  for (I k = item; k < {count}; k += items) y[k] = QUANTISED(x[k]);
}}
"""
    return OpenCLSource(code, "quantise")
