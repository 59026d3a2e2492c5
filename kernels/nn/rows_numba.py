# SPDX-License-Identifier: Apache-2.0
"""Source fragments of Python kernels over rows: in vectors, or by work-groups."""

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


def indented(lines: str, depth: int) -> str:
    """Return source lines indented by ``depth`` levels."""
    return "".join(f"{' ' * 4 * depth}{line}\n" for line in lines.strip("\n").splitlines())


def per_vector(vectors: int, lines: str, depth: int) -> str:
    """Return source lines for each vector: {0} is its number, {1} the offset of its elements from the first one's."""
    return "".join(indented(lines.format(k, k * LANES), depth) for k in range(vectors))


def rows_launch(limits: DeviceLimits, rows: int, length: int) -> Launch:
    """Return an index space for rows in vectors: groups of one work-item, with enough rows each."""
    items = max(GROUPS_PER_UNIT * GROUPS_PER_UNIT * limits.compute_units, rows * length >> 15)
    return Launch((max(1, min(rows, items)),), (1,))
