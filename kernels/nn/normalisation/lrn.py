# SPDX-License-Identifier: Apache-2.0
"""`lrn`: local response normalisation across channels (Krizhevsky, Sutskever and Hinton, 2012, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ITEM_BYTES, ceil_div, line_launch, numpy_implementation, with_recipe
from syclsched.kernels.nn.geometry import last
from syclsched.kernels.nn.geometry import size as extent
from syclsched.kernels.nn.line_operations import number, work
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.onednn.operations import normalization as onednn
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import product
from syclsched.kernels.tensor.writing.row_column_blocks import rows_launch, write_rows
from syclsched.model.access import AccessMode
from syclsched.model.operation import DeviceLimits, Launch, Operation, Parameter, Signature, Split


def _check(signature: Signature) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) < 2:
        return f"x has a batch and channels, not {x}"
    return None if y == x else f"lrn keeps the shape: y {y} against x {x}"


def _host(*, y: Any, x: Any, alpha: float, beta: float, bias: float, size: int, last_: bool) -> None:
    import numpy as np

    target = last(y, last_)
    source = last(x, last_).astype(sum_dtype(str(y.dtype)), copy=False)
    before, after = (size - 1) // 2, size // 2
    count = source.shape[-1]
    # Differences of running sums would cancel, so the few neighbours are added directly.
    squares = np.pad(np.square(source), [(0, 0)] * (source.ndim - 1) + [(before, after)])
    total = np.zeros_like(source)
    for offset in range(size):
        total += squares[..., offset : offset + count]
    target[...] = source / (bias + alpha / size * total) ** beta


#: Elements of a work-item's line, and the target number of work-items.
_LINE, _TARGET_ITEMS = 48 * LANES, 32


def _strategy(signature: Signature, size: int, last_: bool) -> str:
    """Return the strategy: along 'neighbours', in 'lines' over channels, or by 'elements'."""
    x = signature.shapes["x"]
    if last_ or extent(x[2:]) == 1:
        return "neighbours" if size // 2 <= LANES and (x[-1] if last_ else x[1]) >= LANES + size - 1 else "elements"
    return "lines" if extent(x[2:]) >= LANES else "elements"


def _write(w: KernelWriter, *, alpha: float, beta: float, bias: float, size: int, last_: bool) -> None:
    if not extent(w.signature.shapes["x"]):
        return
    t, extents, before = compute_dtype(w.signature.dtypes["y"]), w.extents("x"), (size - 1) // 2
    strategy = _strategy(w.signature, size, last_)
    taps, kind = range(-before, size // 2 + 1), f"int{8 * ITEM_BYTES[t]}"

    def finish(at: str, squares: str) -> None:
        base = w.value(t, f"{w.constant(bias, t)} + {w.constant(alpha / size, t)} * {squares}")
        w.write(
            "y", at, w.value(t, f"{w.read('x', at)} * {_power(w, beta, t, base, in_vectors=strategy != 'elements')}")
        )

    def add(total: str, at: str, pick: Callable[[str], str] = str, _: str = "") -> None:
        x = w.read("x", at)
        w.assign(pick(total), t, w.multiply_add(x, x, pick(total)))

    def write_vector(at: str, apart: str, existing: tuple[str, str] | None = None) -> None:
        """Emit the results of a vector, which has all neighbours or those of a range."""
        total = w.vector_group(t, w.constant(0.0, t))
        for tap in _taps(w, existing or taps):
            w.each_vector(1, partial(add, total, w.index(f"{at} + {tap} * {apart}")))
        w.each_vector(1, lambda pick, _: finish(at, pick(total)))

    def write_element(at: str, apart: str, c: str, channels: str) -> None:
        total = w.variable(t, w.constant(0.0, t))
        begin, end = _existing(w, c, channels, taps)
        with w.loop(begin, end) as k:
            add(total, w.index(f"{at} + {k} * {apart}"))
        finish(at, total)

    channels = extents[-1] if last_ else extents[1]
    apart = "1" if last_ else product(w, extents[2:])
    if strategy == "elements":
        i = w.index(w.item)
        with w.if_block(f"{i} < {product(w, extents)}"):
            number = w.index(w.div(i, apart))
            write_element(i, apart, w.index(f"{number} - {w.div(number, channels)} * {channels}"), channels)
    elif strategy == "lines":
        _write_lines(w, extents[0], channels, apart, taps, write_vector)
    else:
        rows, padded = w.index(w.div(product(w, extents), channels)), w.private(t, LANES + size - 1)

        def row(number: str) -> None:
            first, last = w.index(f"{number} * {channels}"), w.index(f"{channels} - {LANES}")
            inner = w.all_of(f"({number} > 0)", f"({number} < {rows} - 1)")

            def write_edge(start: str, symbol: str, bound: int) -> None:
                """Emit the results of the first or last vector: neighbours whose lane is beyond a bound are masked."""
                at, total = w.index(f"{first} + {start}"), w.vector_group(t, w.constant(0.0, t))
                with w.if_block(w.negate(inner)), w.loop("0", str(LANES + size - 1)) as k:
                    # Before the first row and after the last there is nothing to read.
                    c = w.index(f"{start} + {k} - {before}")
                    w.assign(f"{padded}[{k}]", t, w.constant(0.0, t))
                    with w.if_block(w.all_of(f"({c} >= 0)", f"({c} < {channels})")):
                        w.assign(f"{padded}[{k}]", t, w.read("x", f"{first} + {c}"))

                def add_masked(tap: int, pick: Callable[[str], str], _: str) -> None:
                    x = w.read("x", f"{at} + {tap}")
                    mask = f"({w.places(kind)} {symbol} {w.constant(bound - tap, kind)})"
                    x = w.value(t, w.select(mask, x, w.constant(0.0, t)))
                    w.assign(pick(total), t, w.multiply_add(x, x, pick(total)))

                def add_padded(tap: int, pick: Callable[[str], str], _: str) -> None:
                    x = w.value(t, w.load_vector(padded, str(tap + before)))
                    w.assign(pick(total), t, w.multiply_add(x, x, pick(total)))

                for condition, body in ((inner, add_masked), (w.negate(inner), add_padded)):
                    with w.if_block(condition):
                        for tap in taps:
                            w.each_vector(1, partial(body, tap))
                w.each_vector(1, lambda pick, _: finish(at, pick(total)))

            write_edge("0", ">=", 0)
            most = w.index(w.select(f"({last} - {LANES} < {before})", str(before), f"{last} - {LANES}"))
            with w.loop(str(LANES), last, str(LANES)) as q:
                write_vector(w.index(f"{first} + {w.select(f'({q} < {most})', q, most)}"), "1")
            write_edge(last, "<", LANES)

        write_rows(w, rows, row)


def _write_lines(
    w: KernelWriter,
    images: str,
    channels: str,
    area: str,
    taps: range,
    write_vector: Callable[..., None],
) -> None:
    """Emit the kernel of strided channels: a work-item loops over channels with a line of vectors."""
    lines = w.index(w.div(f"({area} + {_LINE - 1})", str(_LINE)))
    parts = w.index(w.div(w.items, f"({images} * {lines})"))
    each = w.index(w.div(f"({channels} - 1 + {parts})", parts))
    number = w.index(w.div(w.item, parts))
    part, image = w.index(f"{w.item} - {number} * {parts}"), w.index(w.div(number, lines))
    low = w.index(f"({number} - {image} * {lines}) * {_LINE}")
    high = w.index(w.select(f"({low} + {_LINE} < {area})", f"{low} + {_LINE}", area))
    # A line shorter than a vector begins where one still fits.
    low = w.index(w.select(f"({low} < {high} - {LANES})", low, f"{high} - {LANES}"))
    end = w.index(f"({part} + 1) * {each}")
    with w.loop(f"{part} * {each}", w.index(w.select(f"({end} < {channels})", end, channels))) as c:
        start = w.index(f"({image} * {channels} + {c}) * {area}")

        def over_vectors(body: Callable[[str], None]) -> None:
            with w.loop("0", w.div(f"({high} - {low} + {LANES - 1})", str(LANES))) as q:
                place, most = w.index(f"{low} + {q} * {LANES}"), w.index(f"{high} - {LANES}")
                body(w.index(f"{start} + {w.select(f'({place} < {most})', place, most)}"))

        inside = w.all_of(f"({c} + ({taps[0]}) >= 0)", f"({c} + {taps[-1]} < {channels})")
        with w.if_block(inside):
            over_vectors(lambda at: write_vector(at, area))
        with w.if_block(w.negate(inside)):
            existing = _existing(w, c, channels, taps)
            over_vectors(lambda at: write_vector(at, area, existing))


def _taps(w: KernelWriter, taps: range | tuple[str, str]) -> Iterator[str]:
    """Yield the neighbours of a range; those of one that is known at run time in a loop."""
    if isinstance(taps, range):
        yield from map(str, taps)
    else:
        with w.loop(*taps) as tap:
            yield tap


def _existing(w: KernelWriter, c: str, channels: str, taps: range) -> tuple[str, str]:
    """Emit the range of a channel's neighbours, relative to it; return begin and end."""
    begin = w.index(w.select(f"({c} < {-taps[0]})", f"-{c}", str(taps[0])))
    return begin, w.index(w.select(f"({c} + {taps[-1]} < {channels})", str(taps[-1] + 1), f"{channels} - {c}"))


def _power(w: KernelWriter, beta: float, t: str, base: str, *, in_vectors: bool) -> str:
    """Return the text of ``base`` to the power of -beta."""
    # Roots are several times faster than pow, and these are the common exponents.
    # Approximate roots of numbers and of vectors have other bits: the device's compiler must not choose.
    if t == "float32" and in_vectors and beta in (0.5, 0.75):
        return w.branch_free("inverse_root" if beta == 0.5 else "inverse_three_quarters", base)
    one, root = w.constant(1.0, t), partial(w.call, "sqrt")
    powers = {
        0.5: f"({one} / {root(base)})",
        0.75: f"({one} / ({root(base)} * {root(root(base))}))",
        1.0: f"({one} / {base})",
    }
    return powers.get(beta) or w.call("exp", f"({w.constant(-beta, t)} * {w.call('log', base)})")


def _launch(signature: Signature, limits: DeviceLimits, *, size: int, last_: bool) -> Launch:
    x, strategy = signature.shapes["x"], _strategy(signature, size, last_)
    if strategy == "elements" or not extent(x):
        return line_launch(limits, max(extent(x), 1))
    if strategy == "neighbours":
        count = x[-1] if last_ else x[1]
        return rows_launch(extent(x) // count, count, limits)
    lines = x[0] * ceil_div(extent(x[2:]), _LINE)
    return Launch((lines * max(1, min(x[1], _TARGET_ITEMS // lines)),), (1,))


@cache
def _lrn(alpha: float, beta: float, bias: float, size: int, channels_last: bool) -> Operation:
    attributes = {"alpha": alpha, "beta": beta, "bias": bias, "size": size, "last_": channels_last}
    parameters = (Parameter("y", AccessMode.WRITE, dtypes=FLOATS), Parameter("x", AccessMode.READ, like="y"))
    names = ["lrn", str(size), number(alpha), number(beta), number(bias), "last" if channels_last else ""]
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=parameters,
        implementations=(
            onednn.lrn(alpha=alpha, beta=beta, bias=bias, size=size, channels_last=channels_last),
            *generated_implementations(
                parameters,
                partial(_write, **attributes),
                partial(_launch, size=size, last_=channels_last),
                efficiency=0.4,
                revision="3",
                takes_extents=lambda _: True,
            ),
            numpy_implementation(partial(_host, **attributes), efficiency=0.1),
        ),
        work=partial(work, flops=2.0 * size + 20),
        check=_check,
        split=Split(rows=("y", "x")),
    )


@with_recipe
def lrn(
    alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int = 5, channels_last: bool = False
) -> Operation:
    """Return y = x / (bias + alpha / size * sum of squares of ``size`` neighbouring channels) ** beta."""
    if size < 1:
        raise ArgumentError(f"size is at least 1, not {size}", where="size")
    return _lrn(float(alpha), float(beta), float(bias), int(size), bool(channels_last))
