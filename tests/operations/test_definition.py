# SPDX-License-Identifier: Apache-2.0
"""Operations made from functions: parameters, index spaces and work from their code, and added implementations."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

import syclsched
from syclsched import AccessMode, DeviceLimits, Launch, Read, Reduce, Signature, Update, Work, Write, kernel_api
from syclsched.errors import ArgumentError

LIMITS = DeviceLimits(256, 2, 1 << 15)


@syclsched.device_func
def store(to: Any, i: Any, value: Any) -> None:
    to[i] = value


@syclsched.device_func
def square(value: Any) -> Any:
    return value * value


def modes(operation: syclsched.Operation) -> dict[str, AccessMode | None]:
    return {parameter.name: parameter.mode for parameter in operation.parameters}


def of(operation: syclsched.Operation, **arguments: Any) -> Signature:
    shapes = {name: value for name, value in arguments.items() if isinstance(value, tuple)}
    scalars = {name: value for name, value in arguments.items() if name not in shapes}
    return Signature(shapes, dict.fromkeys(shapes, "float32"), scalars)


# --- access modes -------------------------------------------------------------------------------------


def test_modes_follow_from_the_code() -> None:
    @syclsched.operation
    def mix(item, out, a, b, total, share):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        out[i] = a[i] + share * square(b[i])
        kernel_api.AtomicRef(total, 0).fetch_add(a[i])

    @syclsched.operation
    def flipped(item, out, a):  # type: ignore[no-untyped-def]
        y, x = item.get_id(0), item.get_id(1)
        out[y, x] = a[x, y]

    assert modes(flipped) == {"out": AccessMode.WRITE, "a": AccessMode.READ}
    assert [parameter.ndim for parameter in flipped.parameters] == [2, None]
    assert modes(mix) == {
        "out": AccessMode.WRITE,
        "a": AccessMode.READ,
        "b": AccessMode.READ,
        "total": AccessMode.UPDATE,
        "share": None,
    }
    assert [parameter.like for parameter in mix.parameters] == [None, None, None, None, "out"]


def test_arrays_not_certainly_written_whole_are_updates() -> None:
    @syclsched.operation
    def conditional(item, x, y):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        if y[i] > 0:
            x[i] = y[i]

    @syclsched.operation
    def shifted(item, x, y):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        x[i + 1] = y[i]

    @syclsched.operation
    def left_early(item, x, y):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        if i > 3:
            return
        x[i] = y[i]

    @syclsched.operation
    def changed_index(item, x, y):  # type: ignore[no-untyped-def]
        i = item.get_id(0)
        i = i // 2
        x[i] = y[i]

    @syclsched.operation
    def through_a_view(item, x, y):  # type: ignore[no-untyped-def]
        row = x[item.get_id(0)]
        row[0] = y[0]

    @syclsched.operation
    def through_a_pair_of_views(item, x, y):  # type: ignore[no-untyped-def]
        row, first = x[item.get_id(0)], y[0]
        row[0] = first

    @syclsched.operation
    def through_a_choice(item, x, y):  # type: ignore[no-untyped-def]
        row = x[1:] if item.get_id(0) > 2 else x
        row[0] = y[0]

    @syclsched.operation
    def through_an_annotated_view(item, x, y):  # type: ignore[no-untyped-def]
        row: Any = x[item.get_id(0)]
        row[0] = y[0]

    @syclsched.operation
    def through_a_loop(item, x, y):  # type: ignore[no-untyped-def]
        for row in x:
            row[item.get_id(0)] = y[0]

    @syclsched.operation
    def by_a_function(item, x, y):  # type: ignore[no-untyped-def]
        store(x, item.get_id(0), y[0])

    @syclsched.operation
    def in_the_wrong_order(item, x, y):  # type: ignore[no-untyped-def]
        x[item.get_id(1), item.get_id(0)] = y[0]

    for operation in (
        conditional, shifted, left_early, changed_index, through_a_view, through_a_pair_of_views,
        through_a_loop, through_a_choice, through_an_annotated_view, by_a_function, in_the_wrong_order
    ):  # fmt: skip
        assert modes(operation) == {"x": AccessMode.UPDATE, "y": AccessMode.READ}, operation.name


def test_written_array_has_the_shape_of_the_index_space() -> None:
    @syclsched.operation(over="a")
    def copied(item, out, a):  # type: ignore[no-untyped-def]
        out[item.get_id(0), item.get_id(1)] = a[item.get_id(0), item.get_id(1)]

    graph = syclsched.TaskGraph()
    small, large = graph.array("small", (2, 3), "float32"), graph.array("large", (2, 4), "float32")
    graph.kernel(copied, out=graph.array("out", (2, 3), "float32"), a=small)
    with pytest.raises(ArgumentError, match=r"do not write all of out, whose shape is \(2, 4\)"):
        graph.kernel(copied, out=large, a=small)


def test_annotations_decide() -> None:
    @syclsched.operation
    def annotated(
        item: kernel_api.Item,
        a: Read[np.float32, "n", 3],  # noqa: F821,UP037
        b: Write[[np.float32, np.float64], "n"],  # noqa: F821,UP037
        c: Annotated[Any, Update],
        d: AccessMode.REDUCE,  # type: ignore[valid-type]
        count: int,
        share: np.float32,
    ) -> None:
        b[item.get_id(0)] = a[0, 0]

    assert list(modes(annotated).values())[:4] == [
        AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE, AccessMode.REDUCE
    ]  # fmt: skip
    assert [p.dtypes for p in annotated.parameters[:2]] == [("float32",), ("float32", "float64")]
    assert [p.dtype for p in annotated.parameters[4:]] == ["int64", "float32"]
    assert annotated.check is not None
    good = {"a": (5, 3), "b": (5,), "c": (1,), "d": (1,), "count": 1, "share": 1.0}
    assert annotated.check(of(annotated, **good)) is None
    assert annotated.check(of(annotated, **{**good, "b": (4,)})) == "n is 5 (axis 0 of a) and 4 (axis 0 of b)"
    assert annotated.check(of(annotated, **{**good, "a": (5, 2)})) == "axis 1 of a has extent 2, not 3"
    assert "not 2 dimensions" in str(annotated.check(of(annotated, **{**good, "a": (5,)})))


def test_functions_with_undecidable_accesses_are_refused() -> None:
    def unknown(item, x):  # type: ignore[no-untyped-def]
        x[0] = 0
        print(x)

    with pytest.raises(ArgumentError, match="'x' is accessed does not follow from the code: it is passed to print"):
        syclsched.operation(unknown)
    space: dict[str, Any] = {}
    exec("def typed_in(item, x):\n    x[item.get_id(0)] = 1", space)
    with pytest.raises(ArgumentError, match="its source cannot be read"):
        syclsched.operation(space["typed_in"])
    with pytest.raises(ArgumentError, match="its source cannot be read"):
        syclsched.operation(lambda item, c: c[0])

    def on_host(x, y: Read):  # type: ignore[no-untyped-def]
        x[:] = y

    with pytest.raises(ArgumentError, match="'x' of a function for the host says neither mode nor type"):
        syclsched.operation(on_host)
    with pytest.raises(ArgumentError, match="not an extent"):
        Read["float32", 1.5]
    with pytest.raises(ArgumentError, match="not a dtype"):
        Read["flaot32"]
    with pytest.raises(ArgumentError, match="decorates a Python function, not int"):
        syclsched.operation(3)  # type: ignore[call-overload]


# --- index spaces and work ----------------------------------------------------------------------------


def test_index_spaces() -> None:
    def kernel(item, x: Update, y: Update, n: int):  # type: ignore[no-untyped-def]
        x[0] = y[0]

    def space(**options: Any) -> Launch:
        made = syclsched.operation(**options)(kernel)
        assert made.index_space is not None
        return made.index_space(of(made, x=(5, 7), y=(9,), n=4), LIMITS)

    assert space() == Launch((5, 7))
    assert space(over="y") == Launch((9,))
    assert space(over=(2, 3)) == Launch((2, 3))
    assert space(over=lambda n: n) == Launch((4,))
    assert space(over=lambda x, y: (x.size, y.shape[0])) == Launch((35, 9))
    assert space(over=lambda n: Launch((8,), (n,))) == Launch((8,), (4,))
    assert space(group=(4, 4)) == Launch((8, 8), (4, 4))
    with pytest.raises(ArgumentError, match="does not fit"):
        space(group=(4,))
    with pytest.raises(ArgumentError, match="up to 3 dimensions"):
        space(over=(1, 1, 1, 1))
    with pytest.raises(ArgumentError, match=r"no array of the operation. Arrays: x, y"):
        space(over="z")
    with pytest.raises(ArgumentError, match="takes 'q', which is no parameter"):
        space(over=lambda q: q)


def test_work_is_counted_in_the_code() -> None:
    @syclsched.operation
    def product(item, c, a: Read, b: Read):  # type: ignore[no-untyped-def]
        i, j = item.get_id(0), item.get_id(1)
        total = c.dtype.type(0)
        for k in range(a.shape[1]):
            total += a[i, k + 0] * math.sqrt(b[k, j])
        c[i, j] = total

    signature = of(product, c=(4, 5), a=(4, 10), b=(10, 5))
    work = product.work(signature)
    assert work.parallelism == 20
    assert work.flops == 20 * 10 * 3  # a sum, a product and a root in each turn
    assert work.bytes == 4 * (20 + 40 + 50)
    counted = syclsched.operation(work=lambda x: Work(7.0, x.size))(rectified)
    assert counted.work(of(counted, x=(3,), slope=1.0)) == Work(7.0, 3)
    assert syclsched.operation(work=4.0)(rectified).work(of(counted, x=(3,), slope=1.0)).flops == 12


# --- implementations ----------------------------------------------------------------------------------


def rectified(item: Any, x: Update[np.float32], slope) -> None:  # type: ignore[no-untyped-def,valid-type]
    i = item.get_id(0)
    if x[i] < 0:
        x[i] = slope * x[i]


SOURCE = """
// __kernel void not_this_one(
__kernel void rectify(__global float *x, float slope) {
    size_t i = get_global_id(0);
    x[i] = x[i] < 0.0f ? slope * x[i] : x[i];
}
"""


def loop(x: Any, slope: Any) -> None:
    for i in range(x.size):
        if x[i] < 0:
            x[i] = slope * x[i]


def with_all() -> Any:
    made = syclsched.operation(name="rectify")(rectified).opencl(SOURCE).numba(loop)
    return made.host(lambda x, slope: np.multiply(x, np.float32(slope), out=x, where=x < 0))


def test_host_function_takes_any_number_of_dimensions() -> None:
    @syclsched.operation
    def halved(y: Write, x: Read) -> None:
        y[...] = x / 2

    graph = syclsched.TaskGraph("many axes")
    x = graph.array("x", data=np.arange(32.0).reshape(2, 2, 2, 2, 2))
    y = graph.array("y", x.shape)
    graph.kernel(halved, y=y, x=x)
    assert halved.work(of(halved, y=x.shape, x=x.shape)).flops == 32
    with syclsched.run(graph, syclsched.discover("cpu"), calibrate=False) as run:
        assert (run.result(y) == np.arange(32).reshape(x.shape) / 2).all()


def test_adding_an_implementation_changes_nothing_of_the_others() -> None:
    first = syclsched.operation(rectified)
    second = first.opencl(SOURCE)
    assert [each.name for each in first.implementations] == ["python"]
    # Measured times are kept by revision: another program has its own.
    other = first.opencl(SOURCE.replace("0.0f", "1.0f")).implementations[1]
    assert len({first.implementations[0].revision, second.implementations[1].revision, other.revision}) == 3
    assert [each.name for each in second.implementations] == ["python", "opencl-c"]
    with pytest.raises(ArgumentError, match="there is an implementation 'opencl-c' already"):
        second.opencl(SOURCE)
    assert [each.name for each in second.opencl(SOURCE, name="other").implementations][2] == "other"


def test_mistakes_in_implementations() -> None:
    made = syclsched.operation(rectified)
    with pytest.raises(ArgumentError, match="has no kernel"):
        made.opencl("void f() {}")
    with pytest.raises(ArgumentError, match="has no kernel 'other'"):
        made.opencl(SOURCE, kernel_name="other")
    with pytest.raises(ArgumentError, match="has the kernels a, b"):
        made.opencl("kernel void a() {} __kernel void b() {}")
    with pytest.raises(ArgumentError, match="takes x, not x, slope"):
        made.host(lambda x: None)
    with pytest.raises(ArgumentError, match="takes slope, x, not x, slope"):
        made.kernel(lambda item, slope, x: None)


@pytest.mark.sycl
@settings(max_examples=examples(8))
@given(size=st.integers(1, 70), slope=st.sampled_from([0.5, -2.0, 0.1]))
def test_every_implementation_gives_the_same(size: int, slope: float) -> None:
    data = np.random.default_rng(size).standard_normal(size).astype("float32")
    operation = _ALL
    graph = syclsched.TaskGraph("ways")
    arrays = {}
    for each in operation.implementations:
        arrays[each.name] = graph.array(each.name, data=data)
        graph.kernel(replace(operation, implementations=(each,)), x=arrays[each.name], slope=slope)
    with syclsched.run(graph, syclsched.discover("cpu"), calibrate=False) as run:
        for name, array in arrays.items():
            expected = np.where(data < 0, np.float32(slope) * data, data)
            np.testing.assert_array_equal(run.result(array), expected, name)


_ALL = with_all()


@pytest.mark.sycl
def test_a_library_call_and_reductions() -> None:
    @syclsched.operation(over="x")
    def histogram(item, bins: Reduce[np.int64], x: Read[np.int64]):  # type: ignore[no-untyped-def,valid-type]
        kernel_api.AtomicRef(bins, x[item.get_id(0)]).fetch_add(1)

    def fill(queue: Any, arguments: Any, depends: list[Any]) -> Any:
        bins = arguments["bins"]
        sevens = np.full(bins.shape, 7, bins.dtype)
        return queue.memcpy_async(bins.usm_data, sevens.view("uint8"), bins.nbytes, depends)

    def filled(bins: Write[np.int64]) -> None:  # type: ignore[valid-type]
        bins[:] = 7

    preset = syclsched.operation(filled).library(fill)
    assert [each.kind for each in preset.implementations] == ["host", "library"]
    data = np.random.default_rng(0).integers(0, 8, 1000)
    graph = syclsched.TaskGraph()
    bins, x = graph.array("bins", (8,), "int64"), graph.array("x", data=data)
    graph.kernel(replace(preset, implementations=preset.implementations[1:]), bins=bins)
    graph.kernel(histogram, bins=bins, x=x)
    with syclsched.run(graph, syclsched.discover("cpu"), calibrate=False) as run:
        np.testing.assert_array_equal(run.result(bins), 7 + np.bincount(data, minlength=8))
