# SPDX-License-Identifier: Apache-2.0
"""3x3 convolution by Winograd's minimal filtering in OpenCL C, channels last, fused into one kernel.

A work-item transforms the input of its tiles into a private scratch area, with one plane (tiles, channels) for each
position of a transformed tile. Position by position it multiplies tiles by weights, which were transformed and packed
in advance, or by another kernel just before (`winograd_filters`). The sums overwrite the previous position's plane,
which is no longer needed, and are finally transformed to outputs. So only input, weights and output go through memory.

Weights are most of the data. While one panel is multiplied, the next is read one vector per step and discarded, which
brings it into the cache. (OpenCL C's `prefetch` costs more than it saves.)

Tiles are numbered across all images. The last tile of a line may extend beyond the image; its excess is not stored. The
last block of tiles repeats its last tile. Output channels that do not fill a vector are finished one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from syclsched.kernels.common import OPENCL_C
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.convolution import winograd
from syclsched.kernels.nn.convolution.winograd_tiling import (
    SCRATCH_BYTES,
    Tiles,
    WinogradTiling,
    is_profitable,
    tiling,
)
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.opencl_types import header
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.kernels.windows import Window
from syclsched.model.operation import OpenCLSource, Signature

NAME: Final = "opencl-c-winograd"
#: Convolutions of fewer channels are faster by direct sums.
LEAST_CHANNELS: Final = 16
#: A work-item's scratch is sized for a core's caches.
REQUIRES: Final = replace(OPENCL_C, device_kinds=("cpu", "accelerator"), dtypes=("float32",))

#: As stated: of the direct sum's roofline.
EFFICIENCY: Final = 1.5


def is_supported(window: Window, groups: int, last: bool) -> bool:
    """Return whether convolutions with these attributes are supported."""
    return window.ndim == 2 and last and groups == 1 and size(window.strides) == size(window.dilations) == 1


def refuses(signature: Signature) -> str | None:
    """Return why a signature is not supported, or None."""
    return refuses_shapes(signature) if "w" in signature.constants else "minimal filtering needs constant weights"


def refuses_shapes(signature: Signature) -> str | None:
    """Return why convolutions of these shapes are not supported, or None."""
    w, y = signature.shapes["w"], signature.shapes["y"]
    if w[2:] != (winograd.TAPS, winograd.TAPS):
        return f"minimal filtering is of 3x3 filters, not {w[2]}x{w[3]}"
    if min(w[:2]) < LEAST_CHANNELS:
        return f"minimal filtering is of {LEAST_CHANNELS} channels or more, and w is {w}"
    if not size(y) or not is_profitable((y[1], y[2]), 1 if "w" in signature.constants else y[0]):
        return f"minimal filtering saves nothing for images of {y[1]}x{y[2]}"
    if (tiled := tiling(signature)).scratch_bytes(tiled.block.rows) > SCRATCH_BYTES:
        return f"too much is transformed at once with {w[1]} and {w[0]} channels"
    return None


def prepare(signature: Signature, queue: Any, constants: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the constants with the filters transformed: (positions, panels, input channels, columns)."""
    import numpy as np

    tiled = tiling(signature)
    columns = tiled.block.columns
    packed = np.zeros((tiled.places, tiled.panels, tiled.inside, columns), np.float32)
    for panel in range(tiled.panels):
        # The channels of a panel are the last axis: the transform then writes what is packed, line by line.
        filters = constants["w"][panel * columns : (panel + 1) * columns].transpose(2, 3, 1, 0)
        packed[:, panel, :, : filters.shape[-1]] = winograd.filters(filters, tiled.m)
    return {**constants, "w": packed}


def load(signature: Signature, *, window: Window, activation: Activation, bias: bool, residual: str) -> OpenCLSource:
    """Return the kernel of a signature."""
    tiled = tiling(signature)
    added = ["b"] * bias + ["r"] * (residual == "r")
    parameters = "".join(f", __global const T* restrict {name}" for name in ("x", "w", *added))
    given = ExtentArguments()
    lines = [
        *_beginning(tiled, given),
        *transformed_inputs(
            tiled, given, signature, window, given("row", tiled.row), tiled.plane, f"s + {tiled.plane}"
        ),
        *_products(tiled, given),
        *_outputs(tiled, given, signature, activation, bias, residual),
    ]
    body, head = "\n  ".join(lines), header("float32") + panels.preamble(tiled.block, "float32")
    head += f"WHOLE_VECTORS __kernel void conv(__global T* restrict y{parameters}{given.declared})"
    return OpenCLSource(f"{head} {{\n  {body}\n}}\n", "conv", extents=given.values)


def names_of(kind: str, count: int) -> list[str]:
    """Return variable names with an index."""
    return [f"{kind}{i}" for i in range(count)]


def loop(name: str, count: int) -> str:
    """Return the beginning of a loop that is not unrolled: unrolled, it is as fast, and takes longer to compile."""
    return f"\n#pragma nounroll\nfor (int {name} = 0; {name} < {count}; ++{name}) {{"


def _beginning(tiled: WinogradTiling, given: ExtentArguments) -> list[str]:
    tall, most = tiled.block.rows, given("most", tiled.most)
    tiles, count = given("tiles", tiled.tiles), given("panels", tiled.panels)
    return [
        "const int blocks = get_num_groups(0), parts = get_num_groups(1);",
        f"const int begin = (long){tiles} * get_group_id(0) / blocks;",
        f"const int end = (long){tiles} * (get_group_id(0) + 1) / blocks;",
        f"const int from = {count} * get_group_id(1) / parts;",
        f"const int to = {count} * (get_group_id(1) + 1) / parts;",
        # Sums of a position use its own plane, transformed inputs the next one.
        f"__attribute__((aligned({panels.VECTOR_BYTES}))) T s[{(tiled.places + 1) * tiled.plane}];",
        # One iteration, unless there are fewer groups than intended.
        f"for (int first = begin; first < end; first += {most}) {{",
        f"const int count = min({most}, end - first);",
        f"const int rows = (count + {tall - 1}) / {tall} * {tall};",
    ]


def position(tiled: Tiles, given: ExtentArguments, number: str) -> list[str]:
    """Return code that splits a tile's number into image, line and column."""
    across, down = given("across", tiled.across), given("down", tiled.down)
    return [
        f"int image = {number};",
        f"const int column = image % {across} * {tiled.m}; image /= {across};",
        f"const int line = image % {down} * {tiled.m}; image /= {down};",
    ]


def transformed_inputs(
    tiled: Tiles, given: ExtentArguments, signature: Signature, window: Window, row: str, plane: int, to: str
) -> list[str]:
    """Return code that transforms the input of ``rows`` tiles, of which those from ``count`` on repeat the last one.

    Each position of a tile has a plane, from ``to`` on, and each tile a row.
    """
    n, inside, width = tiled.n, given("inside", tiled.inside), tiled.block.width
    high, wide = (given(f"x_{axis}", signature.shapes["x"][axis]) for axis in (1, 2))

    def transformed(load: Callable[[int], str]) -> list[str]:
        loads = ", ".join(f"d{i} = {load(i)}" for i in range(n))
        columns = [f"a[j][{i}]" for i in range(n)]
        return [
            loop("j", n),
            f"const AV {loads};",
            *winograd.inputs(tiled.m, names_of("d", n), columns),
            "}",
        ]

    def inner(i: int) -> str:
        return f"READV(__global, p{i} + j * (long){inside})"

    def guarded(i: int) -> str:
        return f"((uint)(iy + {i}) < (uint){high} && (uint)(ix + j) < (uint){wide} ? {inner(i)} : (AV)0)"

    return [
        "for (int t = 0; t < rows; ++t) {",
        *position(tiled, given, "first + min(t, count - 1)"),
        f"const int iy = line - {window.begins[0]}, ix = column - {window.begins[1]};",
        f"const bool whole = iy >= 0 && ix >= 0 && iy + {n} <= {high} && ix + {n} <= {wide};",
        f"for (int q = 0; q < {inside}; q += {width}) {{",
        # The last vector starts where it still fits.
        f"const int c = min(q, {inside} - {width});",
        f"__global const T* p0 = x + (((long)image * {high} + iy) * {wide} + ix) * {inside} + c;",
        *(f"__global const T* p{i} = p{i - 1} + {wide} * {inside};" for i in range(1, n)),
        f"AV a[{n}][{n}];",
        "if (whole) {",
        *transformed(inner),
        "} else {",
        *transformed(guarded),
        "}",
        f"T* to_s = {to} + t * {row} + c;",
        loop("i", n),
        f"AV {', '.join(names_of('d', n))};",
        *winograd.inputs(tiled.m, [f"a[{j}][i]" for j in range(n)], names_of("d", n)),
        *(f"WRITEV(__private, to_s + (i * {n} + {j}) * {plane}, d{j});" for j in range(n)),
        *["}", "}", "}"],
    ]


def _products(tiled: WinogradTiling, given: ExtentArguments) -> list[str]:
    """Return code that multiplies tiles by weights, position by position."""
    block, inside, count = tiled.block, given("inside", tiled.inside), given("panels", tiled.panels)
    row = given("row", tiled.row)
    panel = f"({inside} * {block.columns})"
    # Strides of 64 bits from a pointer that advances: with indices of 32 bits, products take up to 7 % longer.
    values = [f"p[{r} * (long){row}]" for r in range(block.rows)]
    out = [
        f"for (int place = 0; place < {tiled.places}; ++place)",
        "for (int panel = from; panel < to; ++panel) {",
        f"__global const T* u = w + ((long)place * {count} + panel) * {panel};",
        f"const int step = panel + 1 < to ? 1 : place + 1 < {tiled.places} ? {count} + from - panel : 0;",
        # A volatile read is not optimised away.
        f"__global volatile const T* next = u + (long)step * {panel};",
        f"for (int t = 0; t < rows; t += {block.rows}) {{",
        f"const T* p = s + (place + 1) * {tiled.plane} + t * {row};",
        panels.declare(block),
        f"for (int c = 0; c < {inside}; ++c) {{",
        f"if (t < {block.vectors * block.rows}) next[(t / {block.rows} * {inside} + c) * {block.width}];",
        panels.step(block, values, f"u + c * {block.columns}"),
        "++p;",
        "}",
        f"T* to_s = s + place * {tiled.plane} + t * {row} + (panel - from) * {block.columns};",
    ]
    for r in range(block.rows):
        out += [f"WRITEV(__private, to_s + {r} * {row} + {j * block.width}, s{r}_{j});" for j in range(block.vectors)]
    return [*out, "}", "}"]


def _outputs(
    tiled: WinogradTiling,
    given: ExtentArguments,
    signature: Signature,
    activation: Activation,
    bias: bool,
    residual: str,
) -> list[str]:
    """Return code that transforms sums to outputs, finishes and stores them."""
    m, n, block, outside = tiled.m, tiled.n, tiled.block, given("outside", tiled.outside)
    high, wide = (given(f"y_{axis}", signature.shapes["y"][axis]) for axis in (1, 2))
    width = block.width
    left = tiled.outside % width
    out = [
        "for (int t = 0; t < count; ++t) {",
        *position(tiled, given, "first + t"),
        f"const int lines = min({m}, {high} - line), columns = min({m}, {wide} - column);",
        f"const long at = (((long)image * {high} + line) * {wide} + column) * {outside};",
        f"for (int o = from * {block.columns}; o < min(to * {block.columns}, {outside}); o += {width}) {{",
        f"const T* p = s + t * {given('row', tiled.row)} + o - from * {block.columns};",
        f"AV a[{n}][{m}], e[{m}][{m}];",
        loop("j", n),
        f"const AV {', '.join(f'd{i} = READV(__private, p + ({i * n} + j) * {tiled.plane})' for i in range(n))};",
        *winograd.results(m, names_of("d", n), [f"a[j][{i}]" for i in range(m)]),
        "}",
        loop("i", m),
        *winograd.results(m, [f"a[{j}][i]" for j in range(n)], [f"e[i][{j}]" for j in range(m)]),
        "}",
    ]

    def finished(kind: str, load: str, store: str) -> str:
        more = f"z += {load.format('b + o')};" if bias else ""
        more += f" z += {load.format(f'{residual} + here')};" if residual else ""
        return f"{more} {act.opencl(activation, 'z', 'float32', kind, given)} {store}"

    out.append("for (int k = 0; k < lines; ++k) for (int l = 0; l < columns; ++l) {")
    out.append(f"const long here = at + (k * {wide} + l) * {outside} + o;")
    whole = f"AV z = e[k][l]; {finished('AV', 'READV(__global, {})', 'WRITEV(__global, y + here, z);')}"
    if left:
        one = f"T z = rest[i]; {finished('T', '({})[i]', 'y[here + i] = z;')}"
        rest = f"T rest[{width}]; STOREV(rest, e[k][l]); for (int i = 0; i < {left}; ++i) {{ {one} }}"
        whole = f"if (o + {width} <= {outside}) {{ {whole} }} else {{ {rest} }}"
    return [*out, whole, "}", "}", "}", "}"]
