# SPDX-License-Identifier: Apache-2.0
"""`lrn`: local response normalisation across channels (Krizhevsky, Sutskever and Hinton, 2012, section 3.3)."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import OPENCL_C
from syclsched.kernels.nn import panels, windows_numba
from syclsched.kernels.nn.geometry import last
from syclsched.kernels.nn.geometry import size as extent
from syclsched.kernels.nn.norm import lines_launch, number, work
from syclsched.kernels.nn.rows_opencl import Rows
from syclsched.kernels.nn.source import FLOATS, literal, nothing, sums
from syclsched.kernels.onednn import normalization as onednn
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, OpenCLSource, Operation, Parameter, Signature, Split


def _check(signature: Signature) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) < 2:
        return f"x has a batch and channels, not {x}"
    return None if y == x else f"lrn keeps the shape: y {y} against x {x}"


def _host(*, y: Any, x: Any, alpha: float, beta: float, bias: float, size: int, last_: bool) -> None:
    import numpy as np

    target = last(y, last_)
    source = last(x, last_).astype(sums(str(y.dtype)), copy=False)
    before, after = (size - 1) // 2, size // 2
    count = source.shape[-1]
    # Differences of running sums would lose digits: add up the neighbours, of which there are few.
    squares = np.pad(np.square(source), [(0, 0)] * (source.ndim - 1) + [(before, after)])
    total = np.zeros_like(source)
    for offset in range(size):
        total += squares[..., offset : offset + count]
    target[...] = source / (bias + alpha / size * total) ** beta


def _line(signature: Signature, last_: bool) -> tuple[int, int, int]:
    """Return how many channels x has, how many elements apart they lie, and the length of a line of vectors."""
    x = signature.shapes["x"]
    apart = 1 if last_ else extent(x[2:])
    count = x[-1] if last_ else x[1]
    return count, apart, apart if apart > 1 else count


def _count(signature: Signature, *, last_: bool) -> int:
    _, _, line = _line(signature, last_)
    width = Rows(max(1, line), signature.dtypes["y"]).block.width
    return extent(signature.shapes["x"]) // max(1, line) * panels.starts(line, width)


def _load_opencl(
    signature: Signature, *, alpha: float, beta: float, bias: float, size: int, last_: bool
) -> OpenCLSource:
    dtype = signature.dtypes["y"]
    kind = sums(dtype)
    parameters = "__global T* restrict y, __global const T* restrict x"
    if not extent(signature.shapes["y"]):
        return nothing("lrn", parameters.replace("T*", "uchar*"))
    channels, apart, line = _line(signature, last_)
    rows = Rows(line, dtype)
    width, pieces, before, after = rows.block.width, panels.starts(line, rows.block.width), (size - 1) // 2, size // 2
    body = f"""const size_t i = get_global_id(0);
  if (i >= {_count(signature, last_=last_)}) return;
  const int l = min((int)(i % {pieces}) * {width}, {line - width});
  x += i / {pieces} * {line} + l; y += i / {pieces} * {line} + l;
  AV s = (AV)0;"""
    if apart > 1:
        body += f"""
  const int c = i / {pieces} % {channels};
  for (int k = max(-{before}, -c); k <= min({after}, {channels - 1} - c); ++k) {{
    const AV v = LOADV(x + k * {apart}); s = fma(v, v, s);
  }}"""
    else:
        lanes = ", ".join(f"((uint)(l + k + {lane}) < {channels}u ? (A)x[k + {lane}] : (A)0)" for lane in range(width))
        body += f"""
  if (l >= {before} && l + {width - 1 + after} < {channels})
    for (int k = -{before}; k <= {after}; ++k) {{ const AV v = LOADV(x + k); s = fma(v, v, s); }}
  else for (int k = -{before}; k <= {after}; ++k) {{ const AV v = (AV)({lanes}); s = fma(v, v, s); }}"""
    base = f"{literal(bias, kind)} + {literal(alpha / size, kind)} * s"
    # Roots are several times as fast as powers, and these are the exponents in use.
    powers = {0.5: "t", 0.75: "t * sqrt(t)", 1.0: "t * t"}
    power = powers.get(beta, f"pow(base, (AV){literal(-beta, kind)})")
    root = "const AV t = 1 / sqrt(base); " if beta in powers else ""
    body += f"\n  const AV base = {base}; {root}STOREV(y, LOADV(x) * ({power}));"
    return OpenCLSource(f"{rows.head}WHOLE_VECTORS __kernel void lrn({parameters}) {{\n  {body}\n}}\n", "lrn")


def _load_host(signature: Signature, **attributes: Any) -> Any:
    return partial(_host, **attributes)


@cache
def _lrn(alpha: float, beta: float, bias: float, size: int, channels_last: bool) -> Operation:
    attributes = {"alpha": alpha, "beta": beta, "bias": bias, "size": size, "last_": channels_last}
    launch = partial(lines_launch, count=partial(_count, last_=channels_last))
    opencl = Implementation(
        "opencl-c", "opencl-c", partial(_load_opencl, **attributes), launch, OPENCL_C, efficiency=0.4
    )
    names = ["lrn", str(size), number(alpha), number(beta), number(bias), "last" if channels_last else ""]
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=(
            Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
            Parameter("x", AccessMode.READ, like="y"),
        ),
        implementations=(
            onednn.lrn(alpha=alpha, beta=beta, bias=bias, size=size, channels_last=channels_last),
            opencl,
            windows_numba.lrn(alpha=alpha, beta=beta, bias=bias, size=size, last_=channels_last),
            Implementation("numpy", "host", partial(_load_host, **attributes), efficiency=0.1),
        ),
        work=partial(work, flops=2.0 * size + 20),
        check=_check,
        split=Split(rows=("y", "x")),
    )


def lrn(
    alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int = 5, channels_last: bool = False
) -> Operation:
    """Return y = x / (bias + alpha / size * sum of squares of ``size`` neighbouring channels) ** beta.

    Parameters
    ----------
    alpha, beta, bias : float, optional
        As in the formula.
    size : int, optional
        Channels that are summed: (size - 1) // 2 before each, and size // 2 behind it.
    channels_last : bool, optional
        Whether x and y are (N, *spatial, C), not (N, C, *spatial).

    Returns
    -------
    Operation
        With parameters y (written) and x.

    Raises
    ------
    ArgumentError
        If the size is below 1.
    """
    if size < 1:
        raise ArgumentError(f"size is at least 1, not {size}", where="size")
    return _lrn(float(alpha), float(beta), float(bias), int(size), bool(channels_last))
