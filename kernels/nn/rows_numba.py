# SPDX-License-Identifier: Apache-2.0
"""Parts of texts of numba-dpex's kernels: rows in vectors, and what a work-group has of a row."""

from __future__ import annotations

from syclsched.kernels.common import GROUPS_PER_UNIT
from syclsched.kernels.vector_words import LANES
from syclsched.model.operation import DeviceLimits, Launch

#: A work-group takes a part of a row of ``length`` elements, each work-item one.
BLOCK = """    l = item.get_local_id(0)
    width = item.get_local_range(0)
    groups = ({length} + width - 1) // width
    group = item.get_group().get_group_id(0)
    row = group // groups
    j = group % groups * width + l
"""
#: Vectors that are changed in turn, so that none waits for another.
_IN_TURN = 4


def rows_text(rows: str, length: str) -> str:
    """Return lines that begin what is done for every row of a work-item's, at ``first``, of ``n`` elements."""
    return f"""    n = {length}
    rows = {rows}
    i = item.get_global_id(0)
    items = item.get_global_range(0)
    each = (rows + items - 1) // items
    turns = n // {_IN_TURN * LANES} * {_IN_TURN * LANES}
    whole = n // {LANES} * {LANES}
    for row in range(i * each, min(i * each + each, rows)):
        first = row * n
"""


def indented(lines: str, depth: int) -> str:
    """Return lines indented so many times."""
    return "".join(f"{' ' * 4 * depth}{line}\n" for line in lines.strip("\n").splitlines())


def of_vectors(vectors: int, lines: str, depth: int) -> str:
    """Return lines for each of some vectors: {0} is its number, {1} how far its elements are from the first one's."""
    return "".join(indented(lines.format(k, k * LANES), depth) for k in range(vectors))


def everywhere(wide: str, narrow: str) -> str:
    """Return loops over places ``j`` of a row: by vectors, then by what is left."""
    text = indented(f"for j in range(0, whole, {LANES}):", 2) + indented(wide, 3)
    return text + indented("for j in range(whole, n):", 2) + indented(narrow, 3)


def folded(name: str, start: str, wide: str, narrow: str, join: str, end: str) -> str:
    """Return lines that make of all elements of a row one number, ``name``."""
    names = [f"{name}{k}" for k in range(_IN_TURN)]
    text = indented("\n".join(f"{each} = splat(real({start}))" for each in names), 2)
    text += indented(f"for j in range(0, turns, {_IN_TURN * LANES}):", 2)
    for k, each in enumerate(names):
        text += indented(wide.format(each, f"first + j + {k * LANES}"), 3)
    text += indented(f"for j in range(turns, whole, {LANES}):\n", 2) + indented(wide.format(names[0], "first + j"), 3)
    for other in names[1:]:
        text += indented(f"{names[0]} = {join.format(names[0], other)}", 2)
    text += indented(f"{name} = {end.format(names[0])}", 2)
    return text + indented("for j in range(whole, n):", 2) + indented(narrow.format(name, "first + j"), 3)


def summed(name: str, wide: str, narrow: str) -> str:
    """Return lines that make ``name`` a sum over a row; see `folded`."""
    return folded(name, "0", wide, narrow, "{0} + {1}", "total({0})")


def rows_launch(limits: DeviceLimits, rows: int, length: int) -> Launch:
    """Return an index space for rows in vectors: work-items by themselves, with enough to do for what one costs."""
    items = max(GROUPS_PER_UNIT * GROUPS_PER_UNIT * limits.compute_units, rows * length >> 15)
    return Launch((max(1, min(rows, items)),), (1,))
