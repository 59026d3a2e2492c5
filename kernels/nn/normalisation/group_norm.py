# SPDX-License-Identifier: Apache-2.0
"""`group_norm`: normalisation of groups of channels of each batch element (Wu and He, 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.kernels.common import ceil_div, numpy_implementation, with_recipe
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn.activation import Activation
from syclsched.kernels.nn.geometry import channels, last, size, spatial
from syclsched.kernels.nn.line_operations import number, standardised, work
from syclsched.kernels.nn.normalisation import norms_groups
from syclsched.kernels.nn.opencl_types import FLOATS, sum_dtype
from syclsched.kernels.onednn.operations import normalization as onednn
from syclsched.kernels.tensor.writing.implementation_factory import generated_implementations
from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter, compute_dtype
from syclsched.kernels.tensor.writing.lines import Line, launch_lines, product, write_lines, write_moments
from syclsched.model.access import AccessMode
from syclsched.model.operation import (
    DeviceLimits,
    Launch,
    Operation,
    Parameter,
    Signature,
    Split,
    Work,
)


def _check(signature: Signature, *, groups: int, last_: bool) -> str | None:
    y, x = signature.shapes["y"], signature.shapes["x"]
    if len(x) < 2:
        return f"x has a batch and channels, not {x}"
    if y != x:
        return f"group_norm keeps the shape: y {y} against x {x}"
    count = channels(x, last_)
    if count % groups:
        return f"the {count} channels of x {x} cannot be divided into {groups} groups"
    for name in ("scale", "bias"):
        if signature.shapes[name] != (count,):
            return f"{name} has one element for each channel of x {x}, not {signature.shapes[name]}"
    return None


def _work(signature: Signature, *, groups: int, extra: int) -> Work:
    return work(signature, flops=8.0 + extra, parallelism=float(signature.shapes["x"][0] * groups))


def _host(
    *,
    y: Any,
    x: Any,
    scale: Any,
    bias: Any,
    groups: int,
    epsilon: float,
    last_: bool,
    activation: Activation,
) -> None:
    if not x.size:
        return
    source = last(x, last_).astype(sum_dtype(str(y.dtype)), copy=False)
    pieces = source.reshape(*source.shape[:-1], groups, source.shape[-1] // groups)
    axes = (*range(1, source.ndim - 1), source.ndim)
    total = standardised(pieces, axes, epsilon).reshape(source.shape) * scale + bias
    last(y, last_)[...] = act.numpy(activation, total)


#: Most vectors of neighbouring channels per work-item, and the target number of work-items.
_MOST_VECTORS, _WANTED = 8, 16
#: Most elements of arrays whose kernels take extents as arguments.
_SHARED = 1 << 17
#: Pixels per chunk. A chunk's moments are computed in two passes within the L1 cache, then merged with those so far
#: (Chan, Golub and LeVeque, 1979): an array larger than the caches is read twice instead of three times.
_CHUNK_PIXELS = 32


def _extents(signature: Signature, groups: int, last_: bool) -> tuple[int, int, int]:
    """Return the number of images, of channels of a group, and of pixels of an image."""
    x = signature.shapes["x"]
    return x[0], channels(x, last_) // groups, size(spatial(x, last_))


def _vectors(signature: Signature, groups: int, last_: bool) -> int:
    """Return the vectors of channels, in whole groups, per work-item; 0 if a work-item computes a group."""
    images, count, pixels = _extents(signature, groups, last_)
    block, most = math.lcm(max(count, 1), LANES), min(_MOST_VECTORS * LANES, count * groups)
    if not last_ or pixels <= 1 or block > most:
        return 0
    while 2 * block <= most and images * ceil_div(count * groups, 2 * block) >= _WANTED:
        block *= 2
    return block // LANES


def _write(w: KernelWriter, *, groups: int, epsilon: float, last_: bool, activation: Activation) -> None:
    images, count, pixels = _extents(w.signature, groups, last_)
    if not images * count * pixels:
        return
    vectors, t, extents = _vectors(w.signature, groups, last_), compute_dtype(w.signature.dtypes["y"]), w.extents("x")
    if vectors:
        _write_channel_blocks(w, extents, count, vectors, epsilon, activation)
        return
    every, area = (extents[-1], product(w, extents[1:-1])) if last_ else (extents[1], product(w, extents[2:]))
    each = w.index(w.div(every, str(groups)))

    def finish(at: str, mean: str, factor: str, bias: str) -> None:
        value = w.value(t, f"({w.read('x', at)} - {mean}) * {factor} + {bias}")
        w.write("y", at, act.emit(w, activation, t, value))

    def group(number: str) -> None:
        image = w.index(w.div(number, str(groups)))
        first = w.index(f"({number} - {image} * {groups}) * {each}")

        def by_channel(k: str, base: str, moments: tuple[str, str]) -> None:
            c = w.index(f"{first} + {k}")
            factor = w.value(t, f"{moments[1]} * {w.read('scale', c)}")
            finish(w.index(f"{base} + {k}"), moments[0], factor, w.read("bias", c))

        if last_ and pixels > 1:
            line, start = Line.of(w, t, each, count), w.index(f"{image} * {area} * {every} + {first}")
            moments = write_moments(w, line, start, epsilon, (area, every))
            with w.loop("0", area) as p:
                base = w.index(f"{start} + {p} * {every}")
                line.each(lambda k: by_channel(k, base, moments))
            return
        line, start = Line.of(w, t, product(w, (each, area)), count * pixels), w.index(f"{number} * {each} * {area}")
        moments = write_moments(w, line, start, epsilon)
        if pixels == 1:
            line.each(lambda k: by_channel(k, start, moments))
            return
        with w.loop("0", each) as k:
            c, base = w.index(f"{first} + {k}"), w.index(f"{start} + {k} * {area}")
            known = moments[0], w.value(t, f"{moments[1]} * {w.read('scale', c)}"), w.read("bias", c)
            Line.of(w, t, area, pixels).each(lambda j: finish(f"{base} + {j}", *known))

    length = count if last_ and pixels > 1 else count * pixels
    write_lines(w, product(w, (extents[0], str(groups))), length, group)


def _write_channel_blocks(
    w: KernelWriter, extents: tuple[str, ...], count: int, vectors: int, epsilon: float, activation: Activation
) -> None:
    """Emit the kernel whose work-items compute blocks of neighbouring channels."""
    t, width, every = compute_dtype(w.signature.dtypes["y"]), vectors * LANES, extents[-1]
    pixels = product(w, extents[1:-1])
    zero, area = w.constant(0.0, t), w.value(t, w.cast(t, pixels, "int64"))
    pieces = w.index(w.div(f"({every} + {width - 1})", str(width)))
    image = w.index(w.div(w.item, pieces))
    begin, most = w.index(f"({w.item} - {image} * {pieces}) * {width}"), w.index(f"{every} - {width}")
    c = w.index(w.select(f"({begin} < {most})", begin, most))
    first = w.index(f"{image} * {pixels} * {every} + {c}")
    means, squares = (w.vector_group(t, zero, vectors) for _ in range(2))

    def change(name: str, value: Callable[[Callable[[str], str], str], str]) -> None:
        w.each_vector(vectors, lambda pick, lane: w.assign(pick(name), t, value(pick, lane)))

    def add_square(difference: str, total: str, times: str = "") -> str:
        d = w.value(t, difference)
        return (
            w.multiply_add(w.value(t, f"{d} * {d}"), w.value(t, times), total) if times else w.multiply_add(d, d, total)
        )

    with w.loop("0", pixels, str(_CHUNK_PIXELS)) as k:
        end = w.index(w.select(f"({k} + {_CHUNK_PIXELS} < {pixels})", f"{k} + {_CHUNK_PIXELS}", pixels))
        n, seen, before = (w.value(t, w.cast(t, f"({each})", "int64")) for each in (f"{end} - {k}", end, k))
        share = w.value(t, f"{n} / {seen}")
        old, chunk = w.value(t, f"{before} * {share}"), w.vector_group(t, zero, vectors)
        rows = partial(w.loop, f"{first} + {k} * {every}", f"{first} + {end} * {every}", every)
        with rows() as j:
            change(chunk, lambda pick, lane: f"{pick(chunk)} + {w.read('x', f'{j} + {lane}')}")
        change(chunk, lambda pick, _: f"{pick(chunk)} / {n}")
        with rows() as j:
            change(
                squares,
                lambda pick, lane: add_square(f"{w.read('x', f'{j} + {lane}')} - {pick(chunk)}", pick(squares)),
            )
        change(squares, lambda pick, _: add_square(f"{pick(chunk)} - {pick(means)}", pick(squares), old))
        change(means, lambda pick, _: f"{pick(means)} + ({pick(chunk)} - {pick(means)}) * {share}")
    if count > 1:
        part, own = w.private(t, width), w.vector_group(t, zero, vectors)
        change(own, lambda pick, _: pick(means))
        _write_group_means(w, t, part, means, vectors, count)
        change(squares, lambda pick, _: add_square(f"{pick(own)} - {pick(means)}", pick(squares), area))
        _write_group_means(w, t, part, squares, vectors, count)
    biases = w.vector_group(t, zero, vectors)

    def factor(pick: Callable[[str], str], lane: str) -> str:
        root = w.call("sqrt", w.value(t, f"{pick(squares)} / {area} + {w.constant(epsilon, t)}"))
        return f"{w.read('scale', f'{c} + {lane}')} / {root}"

    change(squares, factor)
    change(biases, lambda _, lane: w.read("bias", f"{c} + {lane}"))
    with w.loop("0", pixels) as k:
        # Backwards, because the data read last are still in the L2 cache.
        at = w.index(f"{first} + ({pixels} - 1 - {k}) * {every}")

        def finish(pick: Callable[[str], str], lane: str) -> None:
            x = w.read("x", f"{at} + {lane}")
            value = w.value(t, f"({x} - {pick(means)}) * {pick(squares)} + {pick(biases)}")
            w.write("y", f"{at} + {lane}", act.emit(w, activation, t, value))

        w.each_vector(vectors, finish)


def _write_group_means(w: KernelWriter, t: str, part: str, name: str, vectors: int, count: int) -> None:
    """Emit the replacement of vectors of channels by the means of their groups; ``part`` is private memory."""
    w.each_vector(vectors, lambda pick, lane: w.store_vector(part, lane, pick(name), t))
    with w.loop("0", str(vectors * LANES), str(count)) as group:
        total = w.variable(t, w.constant(0.0, t))
        with w.loop("0", str(count)) as k:
            w.assign(total, t, f"{total} + {part}[{group} + {k}]")
        with w.loop("0", str(count)) as k:
            w.assign(f"{part}[{group} + {k}]", t, f"{total} / {w.constant(count, t)}")
    w.each_vector(vectors, lambda pick, lane: w.assign(pick(name), t, w.load_vector(part, lane)))


def _launch(signature: Signature, limits: DeviceLimits, *, groups: int, last_: bool) -> Launch:
    images, count, pixels = _extents(signature, groups, last_)
    vectors = _vectors(signature, groups, last_)
    if vectors and images:
        return Launch((images * ceil_div(count * groups, vectors * LANES),), (1,))
    return launch_lines(images * groups, count if last_ and pixels > 1 else count * pixels, limits)


@cache
def _group_norm(groups: int, epsilon: float, channels_last: bool, activation: Activation) -> Operation:
    attributes = {"groups": groups, "last_": channels_last}
    names = [f"group_norm {groups}", number(epsilon), "last" if channels_last else "", act.label(activation)]
    host = partial(_host, epsilon=epsilon, activation=activation, **attributes)
    parameters = (
        Parameter("y", AccessMode.WRITE, dtypes=FLOATS),
        Parameter("x", AccessMode.READ, like="y"),
        Parameter("scale", AccessMode.READ, ndim=1, like="y"),
        Parameter("bias", AccessMode.READ, ndim=1, like="y"),
    )
    return Operation(
        name=" ".join(filter(None, names)),
        parameters=parameters,
        implementations=(
            onednn.group_norm(groups=groups, epsilon=epsilon, channels_last=channels_last, activation=activation),
            norms_groups.group_norm(groups, epsilon, channels_last, activation),
            *generated_implementations(
                parameters,
                partial(_write, epsilon=epsilon, activation=activation, **attributes),
                partial(_launch, **attributes),
                efficiency=0.4,
                revision="5",
                takes_extents=lambda signature: size(signature.shapes["y"]) <= _SHARED,
            ),
            numpy_implementation(host, efficiency=0.1),
        ),
        work=partial(_work, groups=groups, extra=act.cost(activation)),
        check=partial(_check, **attributes),
        split=Split(rows=("y", "x")),
    )


@with_recipe
def group_norm(
    groups: int, epsilon: float = 1e-5, channels_last: bool = False, activation: Activation = ()
) -> Operation:
    """Return y = activation((x - mean) / sqrt(variance + epsilon) * scale + bias), statistics per group."""
    if groups < 1:
        raise ArgumentError(f"there is at least one group, not {groups}", where="groups")
    return _group_norm(int(groups), float(epsilon), bool(channels_last), act.checked(activation))
