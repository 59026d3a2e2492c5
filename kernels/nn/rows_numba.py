# SPDX-License-Identifier: Apache-2.0
"""Source fragments of numba-dpex kernels over rows: in vectors, or by work-groups."""

from __future__ import annotations

from syclsched.kernels.common import GROUPS_PER_UNIT
from syclsched.kernels.vectors.vector_functions import LANES
from syclsched.model.operation import DeviceLimits, Launch

#: Prologue: a work-group covers part of a row of ``length`` elements, one per work-item.
BLOCK = """    l = item.get_local_id(0)
    width = item.get_local_range(0)
    groups = ({length} + width - 1) // width
    group = item.get_group().get_group_id(0)
    row = group // groups
    j = group % groups * width + l
"""
#: Independent accumulators, which hide the latency of an update.
_ACCUMULATORS = 4


def rows_text(rows: str, length: str) -> str:
    """Return the source lines that open the loop over a work-item's rows; a row has ``n`` elements from ``first``."""
    return f"""    n = {length}
    rows = {rows}
    i = item.get_global_id(0)
    items = item.get_global_range(0)
    each = (rows + items - 1) // items
    turns = n // {_ACCUMULATORS * LANES} * {_ACCUMULATORS * LANES}
    whole = n // {LANES} * {LANES}
    for row in range(i * each, min(i * each + each, rows)):
        first = row * n
"""


def indented(lines: str, depth: int) -> str:
    """Return source lines indented by ``depth`` levels."""
    return "".join(f"{' ' * 4 * depth}{line}\n" for line in lines.strip("\n").splitlines())


def per_vector(vectors: int, lines: str, depth: int) -> str:
    """Return source lines for each vector: {0} is its number, {1} the offset of its elements from the first one's."""
    return "".join(indented(lines.format(k, k * LANES), depth) for k in range(vectors))


def reduced_row(name: str, start: str, wide: str, narrow: str, join: str, end: str) -> str:
    """Return source lines that reduce a row to one number, ``name``."""
    names = [f"{name}{k}" for k in range(_ACCUMULATORS)]
    text = indented("\n".join(f"{each} = splat(real({start}))" for each in names), 2)
    text += indented(f"for j in range(0, turns, {_ACCUMULATORS * LANES}):", 2)
    for k, each in enumerate(names):
        text += indented(wide.format(each, f"first + j + {k * LANES}"), 3)
    text += indented(f"for j in range(turns, whole, {LANES}):\n", 2) + indented(wide.format(names[0], "first + j"), 3)
    for other in names[1:]:
        text += indented(f"{names[0]} = {join.format(names[0], other)}", 2)
    text += indented(f"{name} = {end.format(names[0])}", 2)
    return text + indented("for j in range(whole, n):", 2) + indented(narrow.format(name, "first + j"), 3)


def rows_launch(limits: DeviceLimits, rows: int, length: int) -> Launch:
    """Return an index space for rows in vectors: groups of one work-item, with enough rows each."""
    items = max(GROUPS_PER_UNIT * GROUPS_PER_UNIT * limits.compute_units, rows * length >> 15)
    return Launch((max(1, min(rows, items)),), (1,))
