# SPDX-License-Identifier: Apache-2.0
"""Transposition of a few long lines into many short ones by vector shuffles, as of an image's channels.

A work-item reads vectors of some columns of all lines and writes them interleaved. The result's vectors consist of
lanes of the vectors read, picked by constant indices.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final

from syclsched.kernels.common import GROUPS_PER_UNIT, ITEM_BYTES, OPENCL_C, ceil_div
from syclsched.kernels.onednn.operations.data_movement import MOST_LINES, few_lines
from syclsched.kernels.tensor.writing.kernel_writer import LANES
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Shape,
    Signature,
    Tailored,
)

NAME: Final = "opencl-c-interleaved"
#: Most columns of a work-item.
_COLUMNS: Final = 2048


def transpose(permutation: Shape) -> Implementation:
    """Return the implementation of `syclsched.kernels.tensor.transpose.transpose`."""
    return Implementation(
        NAME,
        "opencl-c",
        partial(_load, permutation=permutation),
        partial(_launch, permutation=permutation),
        replace(OPENCL_C, device_kinds=("cpu",), refuses=partial(_refuses, permutation=permutation)),
        efficiency=0.6,
    )


def _refuses(signature: Signature, *, permutation: Shape) -> str | None:
    if few_lines(signature.shapes["x"], permutation) is None:
        return f"it interleaves at most {MOST_LINES} lines of at least {LANES} elements"
    return None


def _tiling(planes: int, columns: int, limits: DeviceLimits) -> tuple[int, int]:
    """Return the columns of a work-item, in whole vectors, and the work-items of a plane."""
    wanted = ceil_div(GROUPS_PER_UNIT * limits.compute_units, planes)
    taken = ceil_div(min(_COLUMNS, ceil_div(columns, wanted)), LANES) * LANES
    return taken, ceil_div(columns, taken)


def _launch(signature: Signature, limits: DeviceLimits, *, permutation: Shape) -> Launch:
    found = few_lines(signature.shapes["x"], permutation)
    assert found is not None, "it has been refused"
    planes, _, columns = found
    # One work-item per group: each uses vectors itself.
    return Launch((planes * _tiling(planes, columns, limits)[1],), (1,))


def _load(signature: Signature, *, permutation: Shape) -> Any:
    return Tailored(partial(_source, signature, permutation=permutation))


def _shuffles(lines: int, part: int, kind: str) -> list[str]:
    """Return OpenCL C that makes a vector of the result from the vectors ``x0``, ``x1``, ... of the lines."""
    places = [divmod(part * LANES + lane, lines) for lane in range(LANES)]
    made = "x0"
    code = []
    for line in range(1, lines):
        taken = [
            LANES + column if owner == line else (column if line == 1 and owner == 0 else lane)
            for lane, (column, owner) in enumerate(places)
        ]
        code.append(f"made = shuffle2({made}, x{line}, ({kind}{LANES})({', '.join(map(str, taken))}));")
        made = "made"
    return code


def _source(signature: Signature, limits: DeviceLimits, *, permutation: Shape) -> OpenCLSource:
    found = few_lines(signature.shapes["x"], permutation)
    assert found is not None, "it has been refused"
    planes, lines, columns = found
    taken, items = _tiling(planes, columns, limits)
    kind = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[ITEM_BYTES[signature.dtypes["x"]]]
    index = "int" if prod(signature.shapes["x"]) < 1 << 30 else "long"
    loads = [f"const V x{line} = vload{LANES}(0, from + (I){line * columns});" for line in range(lines)]
    parts = [" ".join([*_shuffles(lines, part, kind), f"vstore{LANES}(made, {part}, to);"]) for part in range(lines)]
    code = f"""typedef {kind} T;
typedef {kind}{LANES} V;
typedef {index} I;
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) __attribute__((vec_type_hint(V))) void interleave(
    __global T* restrict y, __global const T* restrict x) {{
  const I item = get_global_id(0), plane = item / {items} * {lines * columns}, first = item % {items} * {taken};
  const I end = min((I){columns}, first + {taken});
  for (I c = first; c < end; c += {LANES}) {{
    // The last vector begins where it still fits, and writes some columns again.
    const I column = min(c, (I){columns - LANES});
    __global const T* from = x + plane + column;
    __global T* to = y + plane + column * {lines};
    {" ".join(loads)}
    V made;
    {(chr(10) + "    ").join(parts)}
  }}
}}
"""
    return OpenCLSource(code, "interleave")
