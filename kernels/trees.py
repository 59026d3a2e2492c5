# SPDX-License-Identifier: Apache-2.0
"""`trees`: ensembles of decision trees, such as random forests and gradient boosted trees.

All nodes of all trees stand in one array, and the two children of a node side by side. A leaf is its own child, and its
threshold is NaN, with which every comparison is false: a row descends a tree in a fixed number of steps without a
branch, four trees at a time.

``nodes`` has three columns: the feature of a node, its first child, which is taken if the comparison is false, and the
number of its leaf. With ``missing`` the feature is doubled, and 1 is added where NaN counts as true. With both rules it
is doubled once more, and 2 is added to a node that compares by ``==``. ``roots`` has the root of each tree and its
depth.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Final

from syclsched.errors import ArgumentError
from syclsched.kernels.common import (
    C_TYPES,
    ITEM_BYTES,
    OPENCL_C,
    REAL_DTYPES,
    VECTOR_ITEMS,
    extension_pragma,
    line_launch,
    numpy_implementation,
)
from syclsched.kernels.nn.opencl_types import empty_kernel
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Parameter,
    Signature,
    Split,
    Work,
)

#: How leaves are combined: OpenCL C of a sum and a weight, and the value of no leaf.
_COMBINED: Final = {"sum": ("a + b", "0"), "min": ("fmin(a, b)", "INFINITY"), "max": ("fmax(a, b)", "-INFINITY")}
#: Comparisons of a feature and a threshold: one of all nodes, or each node's own.
RULES: Final = ("<=", "==", "both")
#: Trees that a work-item descends at once: each waits for memory most of the time.
_AT_ONCE: Final = 4
#: Most sums that a work-item keeps in private memory.
_MOST_PRIVATE: Final = 64
_PARAMETERS: Final = (
    Parameter("y", AccessMode.WRITE, dtypes=REAL_DTYPES),
    Parameter("x", AccessMode.READ, dtypes=REAL_DTYPES),
    Parameter("nodes", AccessMode.READ, dtypes=("int32",)),
    Parameter("thresholds", AccessMode.READ, like="x"),
    Parameter("roots", AccessMode.READ, dtypes=("int32",)),
    Parameter("weights", AccessMode.READ, like="y"),
)


def trees(rule: str, combine: str = "sum", *, missing: bool = False, sparse: bool = False) -> Operation:
    """Return the operation that combines, for each row, the weights of the leaves that it reaches.

    Parameters
    ----------
    rule : str
        The comparison of a feature with a threshold: ``<=`` or ``==``, or ``both``, as nodes say.
    combine : str, optional
        ``sum``, ``min`` or ``max``.
    missing : bool, optional
        Some nodes count NaN as true. With both rules they always may.
    sparse : bool, optional
        A leaf has one weight, for a column of its own.

    Returns
    -------
    Operation
        Parameters ``y`` (rows, columns), ``x`` (rows, features), ``nodes`` (nodes, 3), ``thresholds`` (nodes),
        ``roots`` (trees, 2), ``weights`` (leaves, columns), or sparse (leaves, 1) and ``columns`` (leaves).

    Raises
    ------
    ArgumentError
        If there is no such rule or way to combine, or columns are given and weights are not summed.
    """
    if rule not in RULES or combine not in _COMBINED:
        raise ArgumentError(
            f"no trees compare by {rule!r} and combine by {combine!r}",
            hint=f"There are {', '.join(RULES)}, and {', '.join(_COMBINED)}",
        )
    if sparse and combine != "sum":
        raise ArgumentError("only sums are sparse")
    return _trees(rule, combine, missing or rule == "both", sparse)


@cache
def _trees(rule: str, combine: str, missing: bool, sparse: bool) -> Operation:
    attributes: dict[str, Any] = {"rule": rule, "combine": combine, "missing": missing, "sparse": sparse}
    said = [word for word in ("missing", "sparse") if attributes[word]]
    return Operation(
        name=" ".join([f"trees {rule} {combine}", *said]),
        parameters=(*_PARAMETERS, *([Parameter("columns", AccessMode.READ, dtypes=("int32",))] if sparse else [])),
        implementations=(
            Implementation("opencl-c", "opencl-c", partial(_source, **attributes), _launch, OPENCL_C, efficiency=0.2),
            numpy_implementation(partial(_host, **attributes), efficiency=0.02),
        ),
        work=_work,
        check=_check,
        split=Split(("y", "x")),
    )


def _check(signature: Signature) -> str | None:
    shapes = signature.shapes
    y, x, nodes, roots = (shapes[name] for name in ("y", "x", "nodes", "roots"))
    if len(y) != 2 or len(x) != 2 or y[0] != x[0]:
        return f"x {x} and y {y} have the same rows"
    if nodes[1:] != (3,) or roots[1:] != (2,) or shapes["thresholds"] != nodes[:1]:
        return f"nodes {nodes} have 3 columns and a threshold each, and roots {roots} have 2 columns"
    leaves, width = (*shapes["weights"], 0)[:2]
    if width != (1 if "columns" in shapes else y[1]) or shapes.get("columns", (leaves,)) != (leaves,):
        return f"weights {shapes['weights']} are for {y[1]} columns"
    return None


def _steps(signature: Signature) -> float:
    """Return the steps of one row at most, if trees are balanced."""
    count = max(1, signature.shapes["roots"][0])
    return count * max(1.0, float((signature.shapes["nodes"][0] // count).bit_length()))


def _work(signature: Signature) -> Work:
    rows, features = signature.shapes["x"]
    steps, dtype = rows * _steps(signature), signature.dtypes["x"]
    moved = rows * features * ITEM_BYTES[dtype] + signature.shapes["nodes"][0] * (12 + ITEM_BYTES[dtype])
    return Work(8.0 * steps, float(moved), dtype, float(max(1, rows)))


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    rows = max(1, signature.shapes["x"][0])
    return Launch((rows,), (1,)) if rows < VECTOR_ITEMS else line_launch(limits, rows)


def _source(signature: Signature, *, rule: str, combine: str, missing: bool, sparse: bool) -> OpenCLSource:
    dtype, made = signature.dtypes["x"], signature.dtypes["y"]
    rows, count = signature.shapes["y"]
    trees, features = signature.shapes["roots"][0], signature.shapes["x"][1]
    given = (
        f"__global {C_TYPES[made]}* y, __global const {C_TYPES[dtype]}* x, __global const int* nodes, "
        f"__global const {C_TYPES[dtype]}* thresholds, __global const int2* roots, "
        f"__global const {C_TYPES[made]}* weights{', __global const int* columns' if sparse else ''}"
    )
    if not rows * count:
        return empty_kernel("trees", given)
    operator, start = _COMBINED[combine]
    keep = count <= _MOST_PRIVATE
    to = "sums" if keep else "y"
    goes = f"v {rule} thresholds[p]"
    if rule == "both":
        goes = "(v <= thresholds[p]) & ((v >= thresholds[p]) | !(n.x & 2))"
    if missing:
        goes = f"({goes}) | (isnan(v) & n.x)"
    feature = f"(n.x >> {_flags(rule, missing)})"
    add = (
        f"{to}[columns[leaf]] += weights[leaf];"
        if sparse
        else f"for (int c = 0; c < {count}; ++c) {to}[c] = combined({to}[c], weights[leaf * {count} + c]);"
    )
    source = f"""{extension_pragma("float64") if "float64" in (dtype, made) else ""}
typedef {C_TYPES[dtype]} T;
typedef {C_TYPES[made]} W;
inline W combined(W a, W b) {{ return {operator}; }}
inline int next_of(int p, __global const T* x, __global const int* nodes, __global const T* thresholds) {{
  const int2 n = vload2(0, nodes + 3 * p);
  const T v = x[{feature}];
  return n.y + (({goes}) ? 1 : 0);
}}
__kernel void trees({given}) {{
  const int row = get_global_id(0);
  if (row >= {rows}) return;
  x += (long)row * {features};
  y += (long)row * {count};
  {f"W sums[{count}];" if keep else ""}
  for (int c = 0; c < {count}; ++c) {to}[c] = {start};
  int t = 0;
  for (; t + {_AT_ONCE} <= {trees}; t += {_AT_ONCE}) {{
    int p[{_AT_ONCE}], depth = 0;
    for (int i = 0; i < {_AT_ONCE}; ++i) {{
      const int2 root = roots[t + i];
      p[i] = root.x;
      depth = max(depth, root.y);
    }}
    for (int d = 0; d < depth; ++d)
      for (int i = 0; i < {_AT_ONCE}; ++i) p[i] = next_of(p[i], x, nodes, thresholds);
    for (int i = 0; i < {_AT_ONCE}; ++i) {{
      const int leaf = nodes[3 * p[i] + 2];
      {add}
    }}
  }}
  for (; t < {trees}; ++t) {{
    int p = roots[t].x;
    for (int d = 0; d < roots[t].y; ++d) p = next_of(p, x, nodes, thresholds);
    const int leaf = nodes[3 * p + 2];
    {add}
  }}
  {f"for (int c = 0; c < {count}; ++c) y[c] = sums[c];" if keep else ""}
}}
"""
    return OpenCLSource(source, "trees")


def _flags(rule: str, missing: bool) -> int:
    """Return the number of flags beside a node's feature."""
    return missing + (rule == "both")


def _host(*, rule: str, combine: str, missing: bool, sparse: bool, y: Any, x: Any, **arrays: Any) -> None:
    import numpy as np

    nodes, thresholds, weights = (arrays[name] for name in ("nodes", "thresholds", "weights"))
    y[...] = {"sum": 0.0, "min": np.inf, "max": -np.inf}[combine]
    gather = {"sum": np.add, "min": np.minimum, "max": np.maximum}[combine]
    every = np.arange(x.shape[0])
    for root, depth in arrays["roots"].tolist():
        place = np.full(x.shape[0], root)
        for _ in range(depth):
            feature, threshold = nodes[place, 0], thresholds[place]
            value = x[every, feature >> _flags(rule, missing)]
            goes = value == threshold if rule == "==" else value <= threshold
            if rule == "both":
                goes &= (value >= threshold) | (feature & 2 == 0)
            if missing:
                goes |= np.isnan(value) & (feature & 1).astype(bool)
            place = nodes[place, 1] + goes
        leaf = nodes[place, 2]
        if sparse:
            y[every, arrays["columns"][leaf]] += weights[leaf, 0]
        else:
            gather(y, weights[leaf], out=y)
