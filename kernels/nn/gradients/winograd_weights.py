# SPDX-License-Identifier: Apache-2.0
"""Gradient of a 3x3 convolution's weights by minimal filtering, in two kernels.

If y = A^T ((G g) * (B^T d)) along an axis, the gradient by the taps g is G^T ((A dy) * (B^T d)). So the first kernel
transforms tiles of the input and of the result's gradient and adds their products over all tiles, position by
position; the second one transforms the sums, which are in an array that the caller provides.

A work-item of the first kernel takes a block of tiles and a part of the output channels. Blocks have sums of their own,
which the second kernel adds in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from syclsched.kernels.common import GROUPS_PER_UNIT, ITEM_BYTES, ceil_div
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.convolution import winograd, winograd_opencl
from syclsched.kernels.nn.convolution.scratch_sequences import with_scratch
from syclsched.kernels.nn.convolution.winograd_opencl import loop, names_of
from syclsched.kernels.nn.convolution.winograd_tiling import SCRATCH_BYTES, Tiles, cut
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.opencl_types import header
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.kernels.windows import Window
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    OperationStep,
    Parameter,
    Shape,
    Signature,
    Work,
)

#: The parameter of the sums.
SUMS: Final = "sums"
_ARRAY: Final = Parameter(SUMS, AccessMode.WRITE, ndim=4, dtypes=("float32",))
#: Input channels of a register block, and on processors with few and short registers.
_ROWS: Final = 8
_FEW_ROWS: Final = 4
#: Input and output channels are a multiple of this, so of rows and of vectors.
_CHANNELS: Final = 16
#: Most bytes of the sums of a block, and of all: they go through memory.
_BLOCK_BYTES, _SUMS_BYTES = 4 << 20, 32 << 20
#: As stated: of the direct sum's roofline.
_EFFICIENCY: Final = 1.3
#: Cost of transforming a channel of a tile, and of a sum's way through memory, in products of a vector.
_TRANSFORMING, _MOVING = 0.6, 2.0


@dataclass(frozen=True, slots=True)
class GradientTiling(Tiles):
    """Tiles, and how sums are divided."""

    blocks: int  # blocks of tiles

    @property
    def panels(self) -> int:
        """Panels of output channels."""
        return ceil_div(self.outside, self.block.columns)

    @property
    def plane(self) -> int:
        """Stride between positions in either scratch, in elements, which kernels contain."""
        width = self.block.width
        return SCRATCH_BYTES // 4 // (2 * self.places) // width * width - width

    @property
    def row(self) -> int:
        """Stride between tiles in either scratch, in elements."""
        return max(self.inside, self.panels * self.block.columns) + self.block.width

    @property
    def most(self) -> int:
        """Most tiles that are transformed at once."""
        return self.plane // self.row

    @property
    def shape(self) -> Shape:
        """The shape of the sums."""
        return (self.blocks, self.places, self.inside, self.outside)


def with_sums(operation: Operation, signature: Signature, units: int) -> tuple[Operation, Shape] | None:
    """Return a gradient of weights with the further parameter ``sums``, and the shape of its array.

    ``units`` is the number of the device's compute units. Implementations other than minimal filtering leave the array
    as it is. None where minimal filtering does not apply.
    """
    kind, given = operation.recipe or ("", {})
    if kind != "conv_weights" or set(signature.dtypes.values()) != {"float32"}:
        return None
    window = Window.of(given["ndim"], given["strides"], given["pads"], given["dilations"])
    if not winograd_opencl.is_supported(window, given["groups"], given["channels_last"]) or min(window.pads) < 0:
        return None
    y, dy = signature.shapes["y"], signature.shapes["dy"]
    if y[2:] != (winograd.TAPS, winograd.TAPS) or not size(y) or not size(dy) or y[0] % _CHANNELS or y[1] % _CHANNELS:
        return None
    tiled = _tiling(dy, y[1], units)
    if tiled.most < 1 or size(tiled.shape[1:]) * ITEM_BYTES["float32"] > _BLOCK_BYTES:
        return None
    return _with_sums(operation, window), tiled.shape


@cache
def _with_sums(operation: Operation, window: Window) -> Operation:
    steps = (
        OperationStep(_add(window), ((SUMS, SUMS), ("x", "x"), ("dy", "dy"))),
        OperationStep(_finish(), (("y", "y"), (SUMS, SUMS))),
    )
    return with_scratch(operation, _ARRAY, steps, winograd_opencl.NAME, winograd_opencl.REQUIRES, _EFFICIENCY)


@cache
def _tiling(dy: Shape, inside: int, units: int) -> GradientTiling:
    """Return the tiles of a gradient (N, H, W, C), and the blocks and parts that take the least time."""
    batch, high, wide, outside = dy
    block = _block(outside)
    places = {m: (m + winograd.TAPS - 1) ** 2 for m in winograd.POINTS}
    fitting = [m for m in places if places[m] * inside * outside * ITEM_BYTES["float32"] <= _BLOCK_BYTES]
    m = min(fitting or places, key=lambda m: places[m] * size(cut((high, wide), m)))
    down, across = cut((high, wide), m)
    count = batch * down * across

    def tiling(blocks: int) -> GradientTiling:
        return GradientTiling(m, down, across, count, inside, outside, block, blocks)

    def seconds(tiled: GradientTiling) -> float:
        parts = _parts(tiled, units)
        tiles, share = ceil_div(count, tiled.blocks), ceil_div(tiled.panels, parts) * block.columns
        one = tiles * (inside * share / 32 + (inside + share) * _TRANSFORMING)
        one += _MOVING * inside * share / 32 * ceil_div(tiles, max(1, tiled.most))
        return ceil_div(tiled.blocks * parts, units) * one + _MOVING * tiled.blocks * inside * outside / 32 / units

    one = size(tiling(1).shape) * ITEM_BYTES["float32"]
    most = max(1, min(count, units, _SUMS_BYTES // one))
    return min(map(tiling, range(1, most + 1)), key=seconds)


def _block(outside: int) -> RegisterBlock:
    """Return the register block with the fewest columns beyond the last output channel, best of two vectors."""
    width = RegisterBlock.widest("float32")
    vectors, rows = outside // width, _FEW_ROWS if panels.has_small_registers() else _ROWS
    return RegisterBlock(rows, min((2, 3, 1), key=lambda each: (ceil_div(vectors, each) * each, each == 1)), width)


def _parts(tiled: GradientTiling, units: int) -> int:
    """Return into how many parts output channels are divided, so that all compute units have work."""
    return min(tiled.panels, ceil_div(units, tiled.blocks))


# --- first step -----------------------------------------------------------------------------------


@cache
def _add(window: Window) -> Operation:
    """Return the operation that adds products of transformed tiles."""
    return Operation(
        name=f"conv_weights sums {window.label()}",
        parameters=(
            _ARRAY,
            Parameter("x", AccessMode.READ, ndim=4, like=SUMS),
            Parameter("dy", AccessMode.READ, ndim=4, like=SUMS),
        ),
        implementations=(
            Implementation(
                winograd_opencl.NAME,
                "opencl-c",
                partial(_adding, window=window),
                _adding_launch,
                winograd_opencl.REQUIRES,
                _EFFICIENCY,
            ),
        ),
        work=_adding_work,
    )


def _tiles(signature: Signature) -> GradientTiling:
    """Return the tiling of a signature whose sums have been divided."""
    blocks, places, inside, outside = signature.shapes[SUMS]
    dy = signature.shapes["dy"]
    m = winograd.outputs_of(places)
    down, across = cut((dy[1], dy[2]), m)
    return GradientTiling(m, down, across, dy[0] * down * across, inside, outside, _block(outside), blocks)


def _adding_work(signature: Signature) -> Work:
    x, dy = signature.shapes["x"], signature.shapes["dy"]
    moved = sum(map(size, signature.shapes.values())) * ITEM_BYTES["float32"]
    return Work(2.0 * winograd.TAPS**2 * size(dy) * x[3], float(moved), "float32", float(max(1, size(dy))))


def _adding_launch(signature: Signature, limits: DeviceLimits) -> Launch:
    tiled = _tiles(signature)
    return Launch((tiled.blocks, _parts(tiled, limits.compute_units)), (1, 1))


def _adding(signature: Signature, *, window: Window) -> OpenCLSource:
    """Return the kernel: tiles are transformed, up to the capacity of scratch memory, and their products added."""
    tiled, given = _tiles(signature), ExtentArguments()
    block, row, plane = tiled.block, given("row", tiled.row), tiled.plane
    tiles, count, inside = given("tiles", tiled.tiles), given("panels", tiled.panels), given("inside", tiled.inside)
    outside, places = given("outside", tiled.outside), tiled.places
    lines = [
        "const int blocks = get_num_groups(0), parts = get_num_groups(1), own = get_group_id(0);",
        f"const int begin = (long){tiles} * own / blocks, end = (long){tiles} * (own + 1) / blocks;",
        f"const int from = {count} * get_group_id(1) / parts, to = {count} * (get_group_id(1) + 1) / parts;",
        f"__attribute__((aligned({panels.VECTOR_BYTES}))) T s[{2 * places * plane}];",
        f"T* e = s + {places * plane};",
        f"for (int first = begin; first < end; first += {given('most', tiled.most)}) {{",
        f"const int count = min({given('most', tiled.most)}, end - first), rows = count;",
        *winograd_opencl.transformed_inputs(tiled, given, signature, window, row, plane, "s"),
        *_transformed_gradients(tiled, given, signature, row),
        f"for (int place = 0; place < {places}; ++place)",
        "for (int panel = from; panel < to; ++panel)",
        f"for (int i = 0; i < {inside}; i += {block.rows}) {{",
        f"const T* p = s + place * {plane} + i;",
        f"const T* q = e + place * {plane} + (panel - from) * {block.columns};",
        panels.declare(block),
        "for (int t = 0; t < count; ++t) {",
        panels.step(block, [f"p[{r}]" for r in range(block.rows)], "q", "__private"),
        f"p += {row}; q += {row};",
        "}",
        f"const long line = ((long)own * {places} + place) * {inside} + i;",
        f"__global T* u = sums + line * {outside} + panel * {block.columns};",
    ]
    for j in range(block.vectors):
        whole = [] if j == 0 else [f"if (panel * {block.columns} + {j * block.width} < {outside}) {{"]
        lines += whole
        for r in range(block.rows):
            at = f"u + {r} * (long){outside} + {j * block.width}"
            lines.append(f"if (first > begin) s{r}_{j} += READV(__global, {at}); WRITEV(__global, {at}, s{r}_{j});")
        lines += ["}"] * len(whole)
    body, head = "\n  ".join([*lines, "}", "}"]), header("float32") + panels.preamble(block, "float32")
    head += "WHOLE_VECTORS __kernel void add(__global T* restrict sums, __global const T* restrict x"
    return OpenCLSource(
        f"{head}, __global const T* restrict dy{given.declared}) {{\n  {body}\n}}\n", "add", extents=given.values
    )


def _transformed_gradients(tiled: GradientTiling, given: ExtentArguments, signature: Signature, row: str) -> list[str]:
    """Return code that transforms the tiles of the result's gradient, with zeros beyond the image."""
    m, n, outside, columns = tiled.m, tiled.n, given("outside", tiled.outside), tiled.block.columns
    high, wide = (given(f"dy_{axis}", signature.shapes["dy"][axis]) for axis in (1, 2))
    return [
        "for (int t = 0; t < count; ++t) {",
        *winograd_opencl.position(tiled, given, "first + t"),
        f"for (int c = from * {columns}; c < to * {columns}; c += {tiled.block.width}) {{",
        f"__global const T* p = dy + (((long)image * {high} + line) * {wide} + column) * {outside} + c;",
        f"AV a[{m}][{n}];",
        loop("j", m),
        *(
            f"const AV e{i} = c < {outside} && line + {i} < {high} && column + j < {wide} ? "
            f"READV(__global, p + ({i} * (long){wide} + j) * {outside}) : (AV)0;"
            for i in range(m)
        ),
        *winograd.gradients(m, names_of("e", m), [f"a[j][{i}]" for i in range(n)]),
        "}",
        f"T* to_e = e + t * {row} + c - from * {columns};",
        loop("i", n),
        f"AV {', '.join(names_of('d', n))};",
        *winograd.gradients(m, [f"a[{j}][i]" for j in range(m)], names_of("d", n)),
        *(f"WRITEV(__private, to_e + (i * {n} + {j}) * {tiled.plane}, d{j});" for j in range(n)),
        *["}", "}", "}"],
    ]


# --- second step ----------------------------------------------------------------------------------


@cache
def _finish() -> Operation:
    """Return the operation that adds the sums of blocks and transforms them to the gradient of the weights."""
    return Operation(
        name="conv_weights of sums",
        parameters=(
            Parameter("y", AccessMode.WRITE, ndim=4, dtypes=("float32",)),
            Parameter(SUMS, AccessMode.READ, ndim=4, like="y"),
        ),
        implementations=(
            Implementation(winograd_opencl.NAME, "opencl-c", _finishing, _finishing_launch, winograd_opencl.REQUIRES),
        ),
        work=_finishing_work,
    )


def _finishing_work(signature: Signature) -> Work:
    y, sums = (size(signature.shapes[name]) for name in ("y", SUMS))
    return Work(2.0 * winograd.TAPS * sums, (y + sums) * ITEM_BYTES["float32"], "float32", float(max(1, y)))


def _finishing_launch(signature: Signature, limits: DeviceLimits) -> Launch:
    _, _, inside, outside = signature.shapes[SUMS]
    vectors = inside * outside // RegisterBlock.widest("float32")
    return Launch((max(1, min(vectors, GROUPS_PER_UNIT * limits.compute_units)),), (1,))


def _finishing(signature: Signature) -> OpenCLSource:
    """Return the kernel: a work-item makes the taps of some pairs of channels, for a vector of output channels."""
    count, places, inside, outside = signature.shapes[SUMS]
    width = RegisterBlock.widest("float32")
    m = winograd.outputs_of(places)
    n, taps, given = m + winograd.TAPS - 1, winograd.TAPS, ExtentArguments()
    blocks, channels, outputs = given("blocks", count), given("inside", inside), given("outside", outside)
    lines = [
        f"const long vectors = {outputs} / {width}, lines = {channels} * vectors;",
        "const long end = lines * (get_group_id(0) + 1) / get_num_groups(0);",
        "for (long line = lines * get_group_id(0) / get_num_groups(0); line < end; ++line) {",
        f"const long i = line / vectors, o = line % vectors * {width};",
        f"const long plane = (long){channels} * {outputs};",
        f"AV a[{n}][{taps}];",
        f"for (int k = 0; k < {n}; ++k) {{",
        f"AV {', '.join(f'd{j} = (AV)0' for j in range(n))};",
        f"for (int b = 0; b < {blocks}; ++b) {{",
        f"__global const T* p = sums + ((long)b * {places} + k * {n}) * plane + i * {outputs} + o;",
        *(f"d{j} += READV(__global, p + {j} * plane);" for j in range(n)),
        "}",
        *winograd.filter_sums(m, names_of("d", n), [f"a[k][{tap}]" for tap in range(taps)]),
        "}",
        f"T g[{taps * taps}][{width}];",
        loop("tap", taps),
        f"AV {', '.join(names_of('t', taps))};",
        *winograd.filter_sums(m, [f"a[{k}][tap]" for k in range(n)], names_of("t", taps)),
        *(f"WRITEV(__private, g[{tap * taps} + tap], t{tap});" for tap in range(taps)),
        "}",
        f"for (int lane = 0; lane < {width}; ++lane) {{",
        f"__global T* to = y + ((o + lane) * {channels} + i) * {taps * taps};",
        *(f"to[{tap}] = g[{tap}][lane];" for tap in range(taps * taps)),
        *["}", "}"],
    ]
    body = "\n  ".join(lines)
    head = header("float32") + panels.preamble(RegisterBlock(1, 1, width), "float32")
    head += "WHOLE_VECTORS __kernel void finish(__global T* restrict y, __global const T* restrict sums"
    return OpenCLSource(f"{head}{given.declared}) {{\n  {body}\n}}\n", "finish", extents=given.values)
