# SPDX-License-Identifier: Apache-2.0
"""`block_matmul`: product with constant weights of 4 bits, which have a scale and a zero point for each block of a row.

The OpenCL C kernel reads packed weights and unpacks them in registers: panels of `_COLUMNS` columns, in which a 32-bit
word has eight terms of a column. A single row is multiplied with whole numbers, whose sums are scaled at the end of a
block; for more rows, the weights of some terms are unpacked and scaled at a time, and multiplied with all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

from syclsched.kernels.common import OPENCL_C, ceil_div, numpy_implementation
from syclsched.kernels.nn.geometry import size
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
    Tailored,
    Work,
)

_COLUMNS: Final = 16
_VECTORS: Final = range(_COLUMNS // 8)
#: Terms in a word.
_WORD: Final = 8
#: Most rows whose sums, of two vectors, stay in registers.
_MOST_ROWS: Final = 6
#: Most terms of a single row that a work-item keeps.
_MOST_TERMS: Final = 1 << 14
_ITEMS: Final = 8
#: Most rows of a work-item, and terms whose weights are unpacked at a time: they stay in the first cache.
_TILE_ROWS, _UNPACKED_TERMS = 96, 256
#: Zero point of weights that have none.
MIDDLE: Final = 8


def block_matmul(block: int, *, zeros: bool = False, bias: bool = False) -> Operation:
    """Return y = x @ W^T + b, W[n, k] = (w[n, k] - z[n, k // block]) * s[n, k // block].

    Parameters
    ----------
    block : int
        Terms with the same scale, a multiple of 8.
    zeros : bool, optional
        There are zero points ``z``; without, they are 8.
    bias : bool, optional
        ``b`` is added, one number for each column.

    Returns
    -------
    Operation
        Parameters ``y`` (..., N), ``x`` (..., K), ``w`` (N, blocks, block / 2) bytes of two numbers, the first one in
        the lower bits, ``s`` (N, blocks), ``z`` (N, blocks) bytes, ``b`` (N).
    """
    return _block_matmul(int(block), bool(zeros), bool(bias))


@cache
def _block_matmul(block: int, zeros: bool, bias: bool) -> Operation:
    return Operation(
        name=" ".join(filter(None, ("block matmul", str(block), "zeros" if zeros else "", "bias" if bias else ""))),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=("float32",)),
            Parameter("x", AccessMode.READ, like="y"),
            Parameter("w", AccessMode.READ, ndim=3, dtypes=("uint8",)),
            Parameter("s", AccessMode.READ, ndim=2, like="y"),
            *([Parameter("z", AccessMode.READ, ndim=2, dtypes=("uint8",))] if zeros else []),
            *([Parameter("b", AccessMode.READ, ndim=1, like="y")] if bias else []),
        ),
        implementations=(
            Implementation(
                "opencl-c",
                "opencl-c",
                partial(_load, block=block, zeros=zeros, bias=bias),
                _launch,
                replace(OPENCL_C, refuses=_refuses),
                efficiency=0.5,
                prepare=_prepare,
                form=lambda signature, queue: "block matmul",
            ),
            numpy_implementation(partial(_host, block=block), 0.05),
        ),
        work=_work,
        check=partial(_check, block=block),
        split=Split(rows=("y", "x")),
    )


def _refuses(signature: Signature) -> str | None:
    if not {"w", "s", *({"z"} & signature.shapes.keys())} <= signature.constants:
        return "the weights must be constant"
    if signature.shapes["x"][-1] % _WORD:
        return f"terms are a multiple of {_WORD}"
    return None if all(map(size, signature.shapes.values())) else "arrays must not be empty"


def _check(signature: Signature, *, block: int) -> str | None:
    x, w = (signature.shapes[name] for name in "xw")
    if block < _WORD or block % _WORD or not x:
        return f"blocks of {block} terms are no multiple of {_WORD}, or x {x} has no terms"
    blocks = ceil_div(x[-1], block)
    wanted = {"y": (*x[:-1], w[0]), "w": (w[0], blocks, block // 2), "b": w[:1]}
    wanted |= dict.fromkeys("sz", (w[0], blocks))
    for name, shape in signature.shapes.items():
        if shape != wanted.get(name, shape):
            return f"{name} of x {x} in blocks of {block} is {wanted[name]}, not {shape}"
    return None


def _work(signature: Signature) -> Work:
    y, terms = size(signature.shapes["y"]), signature.shapes["x"][-1]
    return Work(2.0 * y * terms, float(signature.nbytes), "float32", float(max(1, y)))


def unpacked(packed: Any, bits: int) -> Any:
    """Return the numbers in bytes, along the last axis; the first one is in the lowest bits."""
    import numpy as np

    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*packed.shape[:-1], -1)


def _host(*, y: Any, x: Any, w: Any, s: Any, z: Any = None, b: Any = None, block: int) -> None:
    import numpy as np

    zero = np.float32(MIDDLE) if z is None else z[..., None].astype(np.float32)
    full = (unpacked(w, 4).astype(np.float32) - zero) * s[..., None]
    made = x @ full.reshape(len(w), -1)[:, : x.shape[-1]].T
    y[...] = made if b is None else made + b


def _prepare(signature: Signature, queue: Any, constants: Mapping[str, Any]) -> Mapping[str, Any]:
    """Pack words as (panels, words of a column, columns), scales and zero points as (panels, blocks, columns)."""
    import numpy as np

    def panels(array: Any) -> Any:
        filled = np.pad(array, ((0, -len(array) % _COLUMNS), (0, 0)))
        made = filled.reshape(-1, _COLUMNS, filled.shape[1]).transpose(0, 2, 1)
        return np.ascontiguousarray(made)

    w = np.ascontiguousarray(constants["w"]).reshape(len(constants["w"]), -1)
    found = {**constants, "w": panels(w.view(np.uint32)).view(np.uint8).reshape(1, 1, -1)}
    return {**found, **{name: panels(constants[name]).reshape(1, -1) for name in "sz" if name in constants}}


def _is_single(signature: Signature) -> bool:
    return size(signature.shapes["y"][:-1]) == 1 and signature.shapes["x"][-1] <= _MOST_TERMS


def _tiling(signature: Signature, limits: DeviceLimits) -> tuple[int, int, int]:
    """Return the rows of a block, those of a work-item, and into how many parts panels are divided."""
    rows, panels = size(signature.shapes["x"][:-1]), ceil_div(signature.shapes["w"][0], _COLUMNS)
    block = ceil_div(rows, ceil_div(rows, _MOST_ROWS))
    tiles = ceil_div(rows, _TILE_ROWS)
    tall = ceil_div(ceil_div(rows, tiles), block) * block
    return block, tall, min(panels, ceil_div(_ITEMS * limits.compute_units, tiles))


def _launch(signature: Signature, limits: DeviceLimits) -> Launch:
    _, tall, parts = _tiling(signature, limits)
    return Launch((ceil_div(size(signature.shapes["x"][:-1]), tall) * parts,), (1,))


def _load(signature: Signature, *, block: int, zeros: bool, bias: bool) -> Any:
    return Tailored(lambda limits: _source(signature, limits, block, zeros=zeros, bias=bias))


def _source(signature: Signature, limits: DeviceLimits, block: int, *, zeros: bool, bias: bool) -> OpenCLSource:
    terms, (columns, blocks, _) = signature.shapes["x"][-1], signature.shapes["w"]
    rows, (_, tall, parts) = size(signature.shapes["x"][:-1]), _tiling(signature, limits)
    panels, words = ceil_div(columns, _COLUMNS), block // _WORD * blocks
    zero = "convert_float8(vload8(0, zeros + n * 16 + {0}))" if zeros else f"(float8){MIDDLE}.0f"
    numbers = " ".join(
        f"const float8 s{h} = vload8(0, scales + n * 16 + {8 * h}), z{h} = s{h} * {zero.format(8 * h)};"
        for h in _VECTORS
    )
    load = " ".join(f"const uint8 w{h} = vload8(0, words + k * 16 + {8 * h});" for h in _VECTORS)
    more = ", b" * bias
    if _is_single(signature):
        prologue, body = _one_row(terms, block, blocks, numbers, load, more)
    else:
        prologue, body = _some_rows(signature, limits, block, numbers, load, more)
    largest = max(size(signature.shapes["y"]), size(signature.shapes["x"]), _COLUMNS * panels * words)
    index = "int" if largest < 1 << 30 else "long"
    code = f"""typedef {index} I;
void store(__global float* y, float8 v, int column{", __global const float* b" * bias}) {{
  if (column + 8 <= {columns}) {{ {"v += vload8(0, b + column);" * bias} vstore8(v, 0, y + column); return; }}
  float each[8]; vstore8(v, 0, each);
  for (int i = 0; i < 8 && column + i < {columns}; ++i) y[column + i] = each[i]{" + b[column + i]" * bias};
}}
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void block_matmul(
    __global float* restrict y, __global const float* restrict x, __global const uint* restrict w,
    __global const float* restrict s{", __global const uchar* restrict z" * zeros}
    {", __global const float* restrict b" * bias}) {{
  const int item = get_global_id(0), part = item % {parts}, first = item / {parts} * {tall};
  const int last = min(first + {tall}, {rows}) - 1;
  {prologue}
  for (int p = (I){panels} * part / {parts}; p < (I){panels} * (part + 1) / {parts}; ++p) {{
    __global const uint* words = w + (I)p * {words * _COLUMNS};
    __global const float* scales = s + (I)p * {blocks * _COLUMNS};
    {f"__global const uchar* zeros = z + (I)p * {blocks * _COLUMNS};" if zeros else ""}
    {body}
  }}
}}
"""
    return OpenCLSource(code, "block_matmul")


def _one_row(terms: int, block: int, blocks: int, numbers: str, load: str, more: str) -> tuple[str, str]:
    """Return code before the panels and for each panel, of a single row.

    A masked word is a number times a power of two, by which the other factor is divided beforehand: no shifts.
    """
    steps = ", ".join(f"0x1p-{4 * j}f" for j in range(_WORD - 1))
    prologue = f"""float own[{terms}], total[{blocks}];
  for (int k = 0; k < {terms}; k += 8) vstore8(vload8(0, x + k) * (float8)({steps}, 1.0f), 0, own + k);
  for (int n = 0; n < {blocks}; ++n) {{
    float8 sum = 0;
    for (int k = n * {block}; k < min((n + 1) * {block}, {terms}); k += 8) sum += vload8(0, x + k);
    const float4 four = sum.lo + sum.hi;
    total[n] = four.x + four.y + four.z + four.w;
  }}"""
    lines = []
    for j in range(_WORD):
        lines.append(f"const float8 x{j} = (float8)own[8 * k + {j}];")
        for h in _VECTORS:
            # The highest number is shifted: masked, it would have a sign.
            taken = f"as_int8(w{h} & 0x{15 << 4 * j:x}u)" if j < _WORD - 1 else f"as_int8(w{h} >> 28u)"
            lines.append(f"a{h} = fma(convert_float8({taken}), x{j}, a{h});")
    body = f"""float8 t0 = 0, t1 = 0;
    for (int n = 0; n < {blocks}; ++n) {{
      {numbers}
      float8 a0 = 0, a1 = 0;
      for (int k = n * {block // _WORD}; k < min((n + 1) * {block // _WORD}, {terms // _WORD}); ++k) {{
        {load}
        {(chr(10) + "        ").join(lines)}
      }}
      {" ".join(f"t{h} += s{h} * a{h} - z{h} * (float8)total[n];" for h in _VECTORS)}
    }}
    {" ".join(f"store(y, t{h}, p * 16 + {8 * h}{more});" for h in _VECTORS)}"""
    return prologue, body


def _some_rows(
    signature: Signature, limits: DeviceLimits, block: int, numbers: str, load: str, more: str
) -> tuple[str, str]:
    """Return code before the panels and for each panel, of some rows: weights are unpacked for some terms at a time."""
    terms, columns = signature.shapes["x"][-1], signature.shapes["w"][0]
    rows, tall, _ = _tiling(signature, limits)
    blocks_at_once = max(1, _UNPACKED_TERMS // block)
    depth = min(blocks_at_once * block, terms)
    unpack = " ".join(
        f"vstore8(fma(convert_float8(as_int8((w{h} >> {4 * j}u) & 15u)), s{h}, -z{h}), 0, "
        f"own + (8 * k - from + {j}) * 16 + {8 * h});"
        for j in range(_WORD)
        for h in _VECTORS
    )
    each = [(i, h) for i in range(rows) for h in _VECTORS]
    # Beyond the last row that one is read again.
    places = " ".join(
        f"__global const float* x{i} = x + (I)min(first + r + {i}, last) * {terms} + from;" for i in range(rows)
    )
    sums = ", ".join(f"t{i}_{h} = vload8(0, sums + (r + {i}) * 16 + {8 * h})" for i, h in each)
    steps = " ".join(
        f"{{ const float8 u = (float8)x{i}[k]; {' '.join(f't{i}_{h} = fma(u, v{h}, t{i}_{h});' for h in _VECTORS)} }}"
        for i in range(rows)
    )
    kept = " ".join(f"vstore8(t{i}_{h}, 0, sums + (r + {i}) * 16 + {8 * h});" for i, h in each)
    stores = " ".join(
        f"store(y + (I)(first + r) * {columns}, vload8(0, sums + r * 16 + {8 * h}), p * 16 + {8 * h}{more});"
        for h in _VECTORS
    )
    body = f"""for (int r = 0; r < {tall}; ++r) vstore16((float16)0, 0, sums + r * 16);
    for (int from = 0; from < {terms}; from += {depth}) {{
      const int to = min(from + {depth}, {terms});
      for (int n = from / {block}; n * {block} < to; ++n) {{
        {numbers}
        for (int k = n * {block // _WORD}; k < min((n + 1) * {block // _WORD}, to / {_WORD}); ++k) {{
          {load}
          {unpack}
        }}
      }}
      for (int r = 0; first + r <= last; r += {rows}) {{
        {places}
        float8 {sums};
        for (int k = 0; k < to - from; ++k) {{
          {" ".join(f"const float8 v{h} = vload8(0, own + k * 16 + {8 * h});" for h in _VECTORS)}
          {steps}
        }}
        {kept}
      }}
    }}
    for (int r = 0; first + r <= last; ++r) {{ {stores} }}"""
    return f"float own[{depth * _COLUMNS}], sums[{tall * _COLUMNS}];", body
