# SPDX-License-Identifier: Apache-2.0
"""`attention`: causal attention of new tokens over the filled part of a cache, whose length is known only at run time.

Each query attends to the keys up to its own position, so that the cost grows with the number of tokens so far and not
with the size of the cache. Softmax is computed online (Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

from functools import cache, partial
from math import gcd
from typing import Any

from syclsched.kernels.common import C_TYPES, ITEM_BYTES, OPENCL_C, numpy_implementation
from syclsched.kernels.groups import head
from syclsched.kernels.nn.geometry import size
from syclsched.kernels.nn.line_operations import number
from syclsched.kernels.nn.opencl_types import FLOATS, empty_kernel, literal, sum_dtype
from syclsched.kernels.tensor.gather import INDEX_DTYPES
from syclsched.kernels.tensor.writing.extent_arguments import ExtentArguments
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    Parameter,
    Signature,
    Work,
)

#: Keys whose scores are computed before their values are added.
_KEYS = 8


@cache
def attention(scale: float, softcap: float = 0.0, window: int = -1) -> Operation:
    """Return the operation of causal attention over a cache.

    Parameters
    ----------
    scale : float
        Factor of the scores.
    softcap : float, optional
        Scores are limited smoothly to (-softcap, softcap); 0 for no limit.
    window : int, optional
        A query attends to at most this many keys, its own among them; -1 for all.

    Returns
    -------
    Operation
        Parameters ``y`` (batch, heads, count, value size), ``q`` (batch, heads, count, size), ``key`` (batch, groups,
        positions, size), ``value`` (batch, groups, positions, value size), and ``starts`` (batch): the position of each
        sample's first query. Neighbouring heads share a group.
    """
    return Operation(
        name=" ".join(
            [
                f"attention {number(scale)}",
                *([f"softcap {number(softcap)}"] if softcap else []),
                *([f"window {window}"] if window >= 0 else []),
            ]
        ),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            *(Parameter(name, AccessMode.READ, like="y") for name in ("q", "key", "value")),
            Parameter("starts", AccessMode.READ, dtypes=INDEX_DTYPES),
        ),
        implementations=(
            Implementation(
                "opencl-c",
                "opencl-c",
                partial(_source, scale=scale, softcap=softcap, window=window),
                _launch,
                OPENCL_C,
                efficiency=0.4,
            ),
            numpy_implementation(partial(_host, scale=scale, softcap=softcap, window=window), efficiency=0.1),
        ),
        work=_work,
        check=_check,
    )


def _check(signature: Signature) -> str | None:
    y, q, key, value, starts = (signature.shapes[name] for name in ("y", "q", "key", "value", "starts"))
    if not all(len(each) == 4 for each in (y, q, key, value)):
        return f"y {y}, q {q}, key {key} and value {value} have four axes each"
    if key[:3] != value[:3] or key[3] != q[3] or key[0] != q[0] or not key[1] or q[1] % key[1]:
        return f"key {key} and value {value} do not fit q {q}"
    if y != (*q[:3], value[3]) or starts != q[:1]:
        return f"y of q {q} is {(*q[:3], value[3])}, and starts is {q[:1]}, not {y} and {starts}"
    return None


def _work(signature: Signature) -> Work:
    (batch, heads, count, width), (_, groups, positions, _) = signature.shapes["q"], signature.shapes["key"]
    # The cache is half full on average.
    keys = positions / 2
    flops = batch * heads * count * keys * 4.0 * width
    moved = ITEM_BYTES[signature.dtypes["y"]] * width * 2.0 * batch * (heads * count + groups * keys)
    return Work(flops, moved, signature.dtypes["y"], float(max(1, batch * heads * count)))


def _host(*, scale: float, softcap: float, window: int, y: Any, q: Any, key: Any, value: Any, starts: Any) -> None:
    import numpy as np

    kind = sum_dtype(str(y.dtype))
    shared, positions = q.shape[1] // key.shape[1], key.shape[2]
    for sample, start in enumerate(starts.tolist()):
        for row in range(q.shape[2]):
            last = min(max(start + row + 1, 0), positions)
            first = max(0, start + row + 1 - window) if window >= 0 else 0
            if first >= last:
                y[sample, :, row] = 0
                continue
            keys, values = (each[sample, :, first:last].repeat(shared, 0).astype(kind) for each in (key, value))
            scores = (keys @ q[sample, :, row, :, None].astype(kind))[..., 0] * np.dtype(kind).type(scale)
            if softcap:
                scores = np.tanh(scores / softcap) * softcap
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            y[sample, :, row] = (weights[:, None] @ values)[:, 0]


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    # A work-item computes a whole row in vectors; in groups of one, compilers for CPUs leave the vectors as they are.
    return Launch((max(1, size(signature.shapes["q"][:3])),), (1,))


def _source(signature: Signature, *, scale: float, softcap: float, window: int) -> OpenCLSource:
    dtype, index = signature.dtypes["y"], "long" if signature.dtypes["starts"] == "int64" else "int"
    given = (
        "__global T* restrict y, __global const T* restrict q, __global const T* restrict key, "
        f"__global const T* restrict value, __global const {index}* restrict starts"
    )
    kind = sum_dtype(dtype)
    first = head(dtype, kind, max(map(size, signature.shapes.values())))
    if not size(signature.shapes["y"]):
        return empty_kernel("attention", given)
    (_, heads, count, width), (_, groups, positions, made) = signature.shapes["q"], signature.shapes["value"]
    lanes = gcd(_KEYS, gcd(width, made))
    vector, suffix = (C_TYPES[kind], "") if lanes == 1 else (f"{C_TYPES[kind]}{lanes}", str(lanes))
    load = f"vload_half{suffix}(i, p)" if dtype == "float16" else f"vload{suffix}(i, p)" if suffix else "(p)[i]"
    store = f"vstore_half{suffix}(v, i, p)" if dtype == "float16" else f"vstore{suffix}(v, i, p)"
    store = store if suffix or dtype == "float16" else "(p)[i] = (v)"
    scores = f"{C_TYPES[kind]}{_KEYS}"
    cap, extents = literal(softcap, kind), ExtentArguments()
    tokens, places = extents("tokens", count), extents("places", positions)
    capped = f"s = tanh(s / {cap}) * {cap};" if softcap else ""
    source = f"""{first}
typedef {vector} V;
#define LOAD(p, i) {load}
#define STORE(p, i, v) {store}
A total(V v) {{ return {_sum("v", lanes)}; }}
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention({given}{extents.declared}) {{
  const I row = get_global_id(0), head = row / {tokens}, sample = head / {heads};
  const I group = sample * {groups} + head % {heads} / {heads // groups};
  const int place = (int)starts[sample] + (int)(row % {tokens});
  const int last = min(place + 1, {places}), first = {f"max(0, place + 1 - {window})" if window >= 0 else "0"};
  __global const T* restrict keys = key + group * {places} * {width};
  __global const T* restrict values = value + group * {places} * {made};
  V wanted[{width // lanes}], sums[{made // lanes}];
  __attribute__((opencl_unroll_hint)) for (int c = 0; c < {width // lanes}; ++c)
    wanted[c] = LOAD(q, row * {width // lanes} + c) * {literal(scale, kind)};
  __attribute__((opencl_unroll_hint)) for (int c = 0; c < {made // lanes}; ++c) sums[c] = 0;
  A most = -INFINITY, weight = 0;
  for (int at = first; at < last; at += {_KEYS}) {{
    const int number = min({_KEYS}, last - at);
    A each[{_KEYS}];
    for (int j = 0; j < {_KEYS}; ++j) each[j] = -INFINITY;
    for (int j = 0; j < number; ++j) {{
      const I from = (I)(at + j) * {width // lanes};
      V v = 0;
      __attribute__((opencl_unroll_hint)) for (int c = 0; c < {width // lanes}; ++c)
        v = fma(wanted[c], LOAD(keys, from + c), v);
      A s = total(v); {capped} each[j] = s;
    }}
    A high = most;
    for (int j = 0; j < {_KEYS}; ++j) high = fmax(high, each[j]);
    const A factor = exp(most - high);
    const {scores} found = exp(vload{_KEYS}(0, each) - high);
    vstore{_KEYS}(found, 0, each);
    weight *= factor;
    __attribute__((opencl_unroll_hint)) for (int c = 0; c < {made // lanes}; ++c) sums[c] *= factor;
    for (int j = 0; j < number; ++j) {{
      const I from = (I)(at + j) * {made // lanes};
      weight += each[j];
      __attribute__((opencl_unroll_hint)) for (int c = 0; c < {made // lanes}; ++c)
        sums[c] = fma((V)each[j], LOAD(values, from + c), sums[c]);
    }}
    most = high;
  }}
  const A inverse = weight > 0 ? 1 / weight : 0;
  for (int c = 0; c < {made // lanes}; ++c) STORE(y, row * {made // lanes} + c, sums[c] * inverse);
}}
"""
    return OpenCLSource(source, "attention", extents=extents.values)


def _sum(vector: str, lanes: int) -> str:
    """Return the sum of a vector's lanes, in pairs."""
    if lanes == 1:
        return vector
    if lanes == 2:
        return f"({vector}.x + {vector}.y)"
    return _sum(f"({vector}.lo + {vector}.hi)", lanes // 2)
