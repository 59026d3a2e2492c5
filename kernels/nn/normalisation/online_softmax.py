# SPDX-License-Identifier: Apache-2.0
"""Online softmax of strided lines in single precision: memory is read twice and written once.

A work-item processes vectors of neighbouring lines - whole rows of memory, if that leaves enough for all compute units.
For each lane it keeps the running maximum and the sum of exponentials, which is rescaled when the maximum grows (see
`syclsched.kernels.tensor.reductions.log_sum_exp`). A second pass writes the result. Vectors with values outside the
valid range are recomputed separately in three passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from syclsched.kernels.common import ceil_div
from syclsched.kernels.tensor.reductions.log_sum_exp import ROWS_PER_STEP, PartialSums, Pick
from syclsched.kernels.tensor.writing.kernel_writer import LANES, KernelWriter
from syclsched.kernels.vectors.scaled_exponential import LEAST, LN2_PARTS
from syclsched.model.operation import DeviceLimits, Launch

#: Compute dtype.
T = "float32"
#: Most and fewest vectors per work-item.
_MOST_VECTORS, _FEWEST_VECTORS = 64, 4
#: Target number of work-items per compute unit.
_ITEMS_PER_UNIT = 4


def launch(limits: DeviceLimits, before: int, behind: int) -> Launch:
    """Return the index space: equally many work-items for each set of ``behind`` neighbouring lines."""
    vectors = ceil_div(behind, LANES)
    wanted = ceil_div(_ITEMS_PER_UNIT * limits.compute_units, max(before, 1))
    # The last two vectors may overlap and belong to one work-item, which has up to one vector more than the others.
    pieces = max(ceil_div(vectors, _MOST_VECTORS - 1), min(wanted, vectors // _FEWEST_VECTORS), 1)
    return Launch((max(before, 1) * pieces,), (1,))


def write(w: KernelWriter, extents: tuple[str | None, str, str], log: bool, again: Callable[[str], None]) -> None:
    """Emit the kernel for extents before (None for none), along and behind the axis.

    ``again`` emits the computation, in three passes, of a vector of lines from an offset.
    """
    before, length, behind = extents
    vectors = w.index(w.div(f"({behind} + {LANES - 1})", str(LANES)))
    # For a quotient of 0, LLVM would use odd integer widths that SPIR-V lacks.
    pieces = w.index(w.items if before is None else w.div(w.items, before))
    number = "0" if before is None else w.index(w.div(w.item, pieces))
    piece = w.index(f"{w.item} - {number} * {pieces}")
    some = w.index(w.div(f"({vectors} - 2 + {pieces})", pieces))
    start, stop = w.index(f"{piece} * {some}"), w.index(f"({piece} + 1) * {some}")
    end = w.index(w.select(f"({stop} >= {vectors} - 1)", vectors, stop))
    begin = w.index(w.select(w.all_of(f"({piece} > 0)", f"({start} >= {vectors} - 1)"), vectors, start))
    first = w.index(f"{number} * {length} * {behind}")
    tops, totals = w.private(T, _MOST_VECTORS * LANES), w.private(T, _MOST_VECTORS * LANES)
    sums = PartialSums(w.vector_group(T, w.constant(LEAST, T)), w.vector_group(T, w.constant(0.0, T)))

    @contextmanager
    def vectors_of_item() -> Iterator[tuple[str, str]]:
        """Open a loop over a work-item's vectors; yield their offsets in private memory and in the first row."""
        with w.loop(begin, end) as v:
            place, most = w.index(f"{v} * {LANES}"), w.index(f"{behind} - {LANES}")
            at = w.index(f"{first} + {w.select(f'({place} < {most})', place, most)}")
            yield w.index(f"{place} - {begin} * {LANES}"), at

    def store(own: str, top: str, total: str) -> None:
        w.store_vector(tops, own, top, T)
        w.store_vector(totals, own, total, T)

    def load(own: str, pick: Pick) -> None:
        w.assign(pick(sums.top), T, w.load_vector(tops, own))
        w.assign(pick(sums.total), T, w.load_vector(totals, own))

    def add(own: str, places: list[str], pick: Pick, _: str) -> None:
        load(own, pick)
        sums.add(w, pick, [w.read("x", place) for place in places])
        store(own, pick(sums.top), pick(sums.total))

    def finish(own: str, pick: Pick, _: str) -> None:
        """Replace maximum and sum by the numbers that the second pass needs; the latter by NaN if invalid."""
        load(own, pick)
        k, one = w.value(T, w.branch_free("exponent", pick(sums.top))), w.constant(1.0, T)
        result = w.value(T, f"{one} / {pick(sums.total)}")
        if log:
            high, low = (w.value(T, w.constant(part, T)) for part in LN2_PARTS)
            shift = w.multiply_add(k, high, f"-{pick(sums.top)}")
            result = w.value(T, f"{shift} + ({k} * {low} + {w.call('log', pick(sums.total))})")
        valid = w.select(sums.is_valid(w, pick), result, w.constant(float("nan"), T))
        store(own, pick(sums.top) if log else k, w.value(T, valid))

    def write_result(own: str, place: str, _: Pick, __: str) -> None:
        top, total = (w.value(T, w.load_vector(each, own)) for each in (tops, totals))
        x = w.read("x", place)
        value = f"({x} - {top}) - {total}" if log else f"{w.branch_free('power_over', x, top)} * {total}"
        w.write("y", place, w.value(T, value))

    with vectors_of_item() as (own, _):
        w.each_vector(1, lambda pick, _: store(own, pick(sums.top), pick(sums.total)))
    whole = w.index(f"{w.div(length, str(ROWS_PER_STEP))} * {ROWS_PER_STEP}")
    for stop, step in ((whole, ROWS_PER_STEP), (length, 1)):
        with w.loop("0" if step > 1 else whole, stop, str(step)) as row, vectors_of_item() as (own, at):
            w.each_vector(1, partial(add, own, [f"{at} + ({row} + {k}) * {behind}" for k in range(step)]))
    with vectors_of_item() as (own, _):
        w.each_vector(1, partial(finish, own))
    with w.loop("0", length) as row, vectors_of_item() as (own, at):
        w.each_vector(1, partial(write_result, own, w.index(f"{at} + {row} * {behind}")))
    with vectors_of_item() as (own, at):
        w.each_vector(1, lambda pick, _: load(own, pick))
        (total,) = w.reduce_lanes([(sums.total, T)], 1, lambda a, b: [f"({a[0]} + {b[0]})"])
        with w.if_block(f"{total} != {total}"):
            again(at)
