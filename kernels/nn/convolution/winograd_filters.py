# SPDX-License-Identifier: Apache-2.0
"""Winograd's minimal filtering by weights that change: one kernel transforms the filters, a second one convolves.

The transformed filters are in an array that the caller provides. The gradient of such a convolution by what it reads is
one of the turned filters, so `conv_transpose` of stride 1 is computed in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Final

from syclsched.kernels.common import GROUPS_PER_UNIT, ITEM_BYTES
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import panels
from syclsched.kernels.nn.convolution import winograd, winograd_opencl, winograd_tiling
from syclsched.kernels.nn.convolution.conv_parameters import label
from syclsched.kernels.nn.convolution.scratch_sequences import with_scratch
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.opencl_types import header
from syclsched.kernels.nn.panels import RegisterBlock
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.kernels.windows import Convolution, Window, spread
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

#: The parameter of the transformed filters.
FILTERS: Final = "filters"
_ARRAY: Final = Parameter(FILTERS, AccessMode.WRITE, ndim=4, dtypes=("float32",))
#: Most bytes of transformed filters: larger ones are read from memory for too few tiles.
_MOST_BYTES: Final = 64 << 20


def with_filters(operation: Operation, signature: Signature) -> tuple[Operation, Shape] | None:
    """Return a convolution with the further parameter ``filters``, and the shape of its array.

    Implementations other than minimal filtering leave the array as it is. None where minimal filtering does not apply,
    or the weights are constants, which are transformed in advance.
    """
    kind, given = operation.recipe or ("", {})
    if kind not in ("conv", "conv_transpose") or "w" in signature.constants or given["ndim"] != 2:
        return None
    padded = any(spread(given.get("output_padding", ()), 2, 0, "output_padding"))
    if padded or set(signature.dtypes.values()) != {"float32"}:
        return None
    window = Window.of(2, given["strides"], given["pads"], given["dilations"])
    is_transposed = kind == "conv_transpose"
    if not winograd_opencl.is_supported(window, given["groups"], given["channels_last"]):
        return None
    if is_transposed and max(window.pads) >= winograd.TAPS:
        return None
    y, x, w = (signature.shapes[name] for name in "yxw")
    straight = Signature({"y": y, "x": x, "w": (y[3], x[3], *w[2:])}, {})
    if min(window.pads) < 0 or winograd_opencl.refuses_shapes(straight) is not None:
        return None
    tiled = winograd_tiling.tiling(straight)
    if tiled.weight_bytes(tiled.panels) > _MOST_BYTES:
        return None
    return _with_filters(operation), (tiled.places, tiled.panels, tiled.inside, tiled.block.columns)


@cache
def _with_filters(operation: Operation) -> Operation:
    kind, given = operation.recipe or ("", {})
    window, is_transposed = Window.of(2, (), given["pads"], ()), kind == "conv_transpose"
    if is_transposed:
        window = replace(window, pads=tuple(winograd.TAPS - 1 - pad for pad in window.pads))
    activation = act.checked(given["activation"])
    others = [each for each in operation.parameters if each.name != "w"]
    steps = (
        OperationStep(_transform(is_transposed), ((FILTERS, FILTERS), ("w", "w"))),
        OperationStep(
            _convolve(Convolution(window, 1, True, activation), tuple(others)),
            (*((each.name, each.name) for each in others), ("w", FILTERS)),
        ),
    )
    return with_scratch(
        operation, _ARRAY, steps, winograd_opencl.NAME, winograd_opencl.REQUIRES, winograd_opencl.EFFICIENCY
    )


# --- first step -----------------------------------------------------------------------------------


@cache
def _transform(is_transposed: bool) -> Operation:
    """Return the operation that transforms weights, or turned ones, and packs them as minimal filtering reads them."""
    return Operation(
        name=f"filters{' turned' * is_transposed}",
        parameters=(
            _ARRAY,
            Parameter("w", AccessMode.READ, ndim=4, like=FILTERS),
        ),
        implementations=(
            Implementation(
                winograd_opencl.NAME,
                "opencl-c",
                partial(_transforming, is_transposed=is_transposed),
                _transforming_launch,
                winograd_opencl.REQUIRES,
            ),
        ),
        work=_transforming_work,
    )


def _block(signature: Signature) -> tuple[int, RegisterBlock]:
    """Return the rows of a tile's outputs, and the block whose columns a panel has."""
    places, _, _, columns = signature.shapes[FILTERS]
    m = winograd.outputs_of(places)
    width = RegisterBlock.widest("float32")
    return m, RegisterBlock(1, columns // width, width)


def _transforming_work(signature: Signature) -> Work:
    made, given = (size(signature.shapes[name]) for name in (FILTERS, "w"))
    return Work(2.0 * winograd.TAPS * made, (made + given) * ITEM_BYTES["float32"], "float32", float(max(1, given)))


def _transforming_launch(signature: Signature, limits: DeviceLimits) -> Launch:
    _, count, inside, _ = signature.shapes[FILTERS]
    return Launch((max(1, min(count * inside, GROUPS_PER_UNIT * limits.compute_units)),), (1,))


def _transforming(signature: Signature, *, is_transposed: bool) -> OpenCLSource:
    """Return the kernel: a work-item transforms the filters of some panels and input channels, a vector at a time."""
    (m, block), taps = _block(signature), winograd.TAPS
    n, width, given = m + taps - 1, block.width, ExtentArguments()
    _, count, inside, _ = signature.shapes[FILTERS]
    outside, area = signature.shapes["w"][is_transposed], taps * taps
    panels_, channels, outputs = given("panels", count), given("inside", inside), given("outside", outside)
    by_output = given("by_output", area if is_transposed else inside * area)
    by_input = given("by_input", outside * area if is_transposed else area)
    first = given("first", area - 1 if is_transposed else 0)  # the tap that comes first, from where others are counted
    lines = [
        f"const long lines = (long){panels_} * {channels};",
        "const long end = lines * (get_group_id(0) + 1) / get_num_groups(0);",
        "for (long line = lines * get_group_id(0) / get_num_groups(0); line < end; ++line) {",
        f"const long panel = line / {channels}, c = line % {channels};",
        f"for (int j = 0; j < {block.vectors}; ++j) {{",
        f"T g[{area}][{width}];",
        f"for (int lane = 0; lane < {width}; ++lane) {{",
        f"const long o = panel * {block.columns} + j * {width} + lane;",
        # Columns beyond the last output channel are not stored by convolutions: any number will do.
        f"__global const T* p = w + min(o, (long){outputs} - 1) * {by_output} + c * {by_input};",
        *(f"g[{tap}][lane] = p[abs({first} - {tap})];" for tap in range(area)),
        "}",
        f"AV a[{n}][{taps}];",
    ]
    for b in range(taps):
        names = [f"READV(__private, g[{tap * taps + b}])" for tap in range(taps)]
        lines += winograd.taps(m, names, [f"a[{i}][{b}]" for i in range(n)])
    lines += [
        f"__global T* to = filters + (panel * {channels} + c) * {block.columns} + j * {width};",
        f"const long plane = lines * {block.columns};",
        f"for (int i = 0; i < {n}; ++i) {{",
        f"AV {', '.join(f'd{j}' for j in range(n))};",
        *winograd.taps(m, [f"a[i][{b}]" for b in range(taps)], [f"d{j}" for j in range(n)]),
        *(f"WRITEV(__global, to + (i * {n} + {j}) * plane, d{j});" for j in range(n)),
        *["}", "}", "}"],
    ]
    body, head = "\n  ".join(lines), header("float32") + panels.preamble(block, "float32")
    head += "WHOLE_VECTORS __kernel void transform(__global T* restrict filters, __global const T* restrict w"
    return OpenCLSource(f"{head}{given.declared}) {{\n  {body}\n}}\n", "transform", extents=given.values)


# --- second step ----------------------------------------------------------------------------------


@cache
def _convolve(convolution: Convolution, others: tuple[Parameter, ...]) -> Operation:
    """Return the operation that convolves with transformed filters ``w``."""
    names = {each.name for each in others}
    updated = any(each.name == "y" and each.mode is AccessMode.UPDATE for each in others)
    settings = {
        "window": convolution.window,
        "activation": convolution.activation,
        "bias": "b" in names,
        "residual": "y" if updated else "r" if "r" in names else "",
    }
    return Operation(
        name=label("conv", convolution, more="by filters", bias="b" in names, residual=str(settings["residual"])),
        parameters=(*others[:2], Parameter("w", AccessMode.READ, ndim=4, like="y"), *others[2:]),
        implementations=(
            Implementation(
                winograd_opencl.NAME,
                "opencl-c",
                partial(winograd_opencl.load, **settings),
                winograd_tiling.launch,
                winograd_opencl.REQUIRES,
                winograd_opencl.EFFICIENCY,
            ),
        ),
        work=_convolving_work,
    )


def _convolving_work(signature: Signature) -> Work:
    y, x = signature.shapes["y"], signature.shapes["x"]
    moved = sum(map(size, signature.shapes.values())) * ITEM_BYTES["float32"]
    return Work(2.0 * winograd.TAPS**2 * size(y) * x[3], float(moved), "float32", float(max(1, size(y))))
