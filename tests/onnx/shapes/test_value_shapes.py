# SPDX-License-Identifier: Apache-2.0
"""Extents that depend on values of inputs: results of ONNX Runtime, and no new plan for values within the bounds."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper  # noqa: E402
from support.examples import examples  # noqa: E402
from support.small_models import model_of  # noqa: E402
from support.value_extents import CONSTANTS, EXTENTS, Both, array, check, node, two, x  # noqa: E402

from syclsched.errors import ArgumentError, HostOperatorWarning, ModelError, RemadeModelWarning  # noqa: E402

pytestmark = pytest.mark.sycl


@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_ranges(kind: str) -> None:
    nodes = [
        node("Range", ["start", "limit", "delta"], ["y"]),
        node("Neg", ["y"], ["z"]),
        node("ReduceSum", ["y"], ["sum"], keepdims=0),
    ]
    steps = ((0, 1), (0.5, 0.75), (5, -2)) if kind == "float32" else ((0, 1), (2, 3), (5, -2))
    values = [
        {"start": array(s, kind), "limit": array(n, kind), "delta": array(d, kind)} for n in EXTENTS for s, d in steps
    ]
    check(nodes, {"z": kind, "sum": kind}, values, 6)


def test_range_combined_with_a_constant_of_its_length() -> None:
    nodes = [
        node("Range", ["zero", "n", "one"], ["places"]),
        node("Unsqueeze", ["n", "first"], ["shape"]),
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("Cast", ["places"], ["numbers"], to=1),
        node("Add", ["numbers", "zeros"], ["y"]),
        node("Gather", ["rows", "places"], ["lines_"]),
        node("Reshape", ["lines_", "lines"], ["parts"]),
        node("Shape", ["parts"], ["extents"]),
        node("Gather", ["extents", "first"], ["extent"]),
        node("Concat", ["extent", "flat"], ["wanted"], axis=0),
        node("Reshape", ["parts", "wanted"], ["z"]),
    ]
    check(nodes, {"y": "float32", "z": "float32"}, [{"n": array(n, "int64")} for n in EXTENTS], 4)


def test_extents_from_a_real_number() -> None:
    nodes = [
        node("Cast", ["n"], ["count"], to=7),
        node("Concat", ["count", "four"], ["shape"], axis=0),
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("Expand", ["x", "shape"], ["y"]),
        node("Add", ["y", "zeros"], ["sums"]),
        node("MatMul", ["sums", "w"], ["z"]),
        node("ReduceMean", ["z", "first"], ["means"], keepdims=0),
    ]
    values = [{"n": array([n], "float32"), "x": x(1, 4)} for n in EXTENTS]
    check(nodes, {"y": "float32", "z": "float32", "means": "float32"}, values, 4)


CASES: dict[str, tuple[Any, Callable[[int, int], dict[str, Any]]]] = {
    "ConstantOfShape": (["n"], lambda n, k: {"n": two(n, k)}),
    "Expand": (["x", "n"], lambda n, k: {"x": x(1, 4), "n": two(n, 4)}),
    "Tile": (["x", "n"], lambda n, k: {"x": x(2, 3), "n": two(n, k)}),
    "Pad": (["x", "n"], lambda n, k: {"x": x(9, 3), "n": two(n, 0, -k, 2)}),
    "OneHot": (["places", "n", "hot"], lambda n, k: {"places": two(0, -1, 2), "n": two(n)}),
    "Slice": (["rows", "n", "end"], lambda n, k: {"n": two(-n), "end": two(30 + k)}),
}


@pytest.mark.parametrize("operator", CASES)
def test_extents_from_a_list_of_integers(operator: str) -> None:
    inputs, values = CASES[operator]
    nodes = [node(operator, inputs, ["y"]), node("Neg", ["y"], ["z"])]
    check(nodes, {"y": "float32", "z": "float32"}, [values(n, k) for n in EXTENTS for k in (1, 5)], 8)


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
def test_margins_that_repeat_elements(mode: str) -> None:
    nodes = [node("Pad", ["x", "n"], ["y"], mode=mode)]
    values = [{"x": x(4, 3), "n": two(n, 1, 1, k)} for n in (1, 2, 3) for k in (1, 2)]
    check(nodes, {"y": "float32"}, values, 4)


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
def test_margins_that_crop_on_one_side(mode: str) -> None:
    """Elements are removed before margins repeat others, as with constant margins."""
    values = [two(n, 0, k, 0) for n in (-2, -1, 1, 2, 3) for k in (-1, 1, 2)]
    rows = x(7, 3)
    both = Both([node("Pad", ["x", "n"], ["y"], mode=mode)], {"x": rows, "n": values[0]}, {"y": "float32"})
    with both.compiled as compiled:
        for each in values:
            begin, end = int(each[0]), int(each[2])
            cropped = rows[max(-begin, 0) : 7 + min(end, 0)]
            wanted = np.pad(cropped, ((max(begin, 0), max(end, 0)), (0, 0)), mode)
            np.testing.assert_array_equal(compiled(rows, each)["y"], wanted)
        assert both.plans <= 5 and not compiled._plans.by_value.inputs


BACKWARDS = ((-1, -100), (100, 2), (8, -9), (3, 3), (-50, -100), (5, -11), (2, 6), (39, 0), (17, 5))


@pytest.mark.parametrize("step", [-1, -2, -7])
def test_slices_backwards(step: int) -> None:
    nodes = [
        node("Constant", [], ["steps"], value_ints=[step]),
        node("Slice", ["rows", "start", "end", "first", "steps"], ["y"]),
        node("Slice", ["y", "minus", "low", "first", "minus"], ["z"]),
        node("ReduceSum", ["y", "first"], ["sums"], keepdims=0),
    ]
    values = [{"start": two(a), "end": two(z)} for a, z in BACKWARDS]
    check(nodes, {"y": "float32", "z": "float32", "sums": "float32"}, values, 7)


def check_refusal(nodes: Any, values: Any, refused: Any, reason: str) -> None:
    """Check that a plan for several values refuses others at run time, when they are known."""
    both = Both(nodes, values[0], {"y": "float32", "sums": "float32"})
    with both.compiled:
        for each in values[:3]:
            both.check(each)
        with pytest.raises(ModelError, match=reason):
            both.compiled(*refused)


def test_slices_in_steps_that_values_decide() -> None:
    nodes = [
        node("Slice", ["rows", "start", "end", "first", "step"], ["y"]),
        node("ReduceSum", ["y", "first"], ["sums"], keepdims=0),
    ]
    steps = (3, -2, 1, -40, 2, 7, -1, 100, -7)
    values = [{"start": two(a), "end": two(z), "step": two(s)} for (a, z), s in zip(BACKWARDS, steps, strict=True)]
    values += [{"start": two(0), "end": two(z), "step": two(s)} for z, s in ((40, 1), (30, 2), (7, 3), (-1, 1))]
    check(nodes, {"y": "float32", "sums": "float32"}, values, 8)
    check_refusal(nodes, values, (two(0), two(3), two(0)), "a step is 0")


def test_splits_with_value_dependent_sizes() -> None:
    nodes = [
        node("Split", ["rows", "sizes"], ["y", "z"], axis=0),
        node("ReduceSum", ["z", "first"], ["sums"], keepdims=0),
    ]
    values = [{"sizes": two(n, 40 - n)} for n in (3, 7, 40, 0, 21, 5)]
    check(nodes, {"y": "float32", "sums": "float32"}, values, 7)
    check_refusal(nodes, values, (two(3, 30),), "parts")


def test_a_constant_value_has_exact_extents() -> None:
    both = Both([node("Tile", ["x", "n"], ["y"])], {"x": x(2, 3), "n": two(3, 1)}, {"y": "float32"})
    with both.compiled as compiled:
        for _ in range(3):
            both.check({"x": x(2, 3), "n": two(3, 1)})
        assert [each.shape for each in compiled.graph.arrays.values() if each.shape[:1] == (6,)]
        assert both.plans == 1


RESHAPED = ((3, 8), (2, -1), (6, 4), (-1, 12), (24, 1), (0, 6), (3, 8))


@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_a_shape_from_values(kind: str) -> None:
    nodes = [
        node("Cast", ["s"], ["shape"], to=7),
        node("Reshape", ["x", "shape"], ["y"]),
        node("Transpose", ["y"], ["z"], perm=[1, 0]),
        node("ReduceSum", ["y", "first"], ["sums"], keepdims=0),
    ]
    values = [{"x": x(4, 6), "s": array(each, kind)} for each in RESHAPED]
    check(nodes, {"y": "float32", "z": "float32", "sums": "float32"}, values, 9)


def test_rows_parted_by_values() -> None:
    nodes = [
        node("Unsqueeze", ["n", "first"], ["count"]),
        node("Concat", ["count", "lines"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
        node("Shape", ["y"], ["extents"]),
        node("ReduceMean", ["y", "first"], ["means"], keepdims=0),
        node("Concat", ["lines", "count"], ["turned"], axis=0),
        node("Reshape", ["y", "turned"], ["z"]),
    ]
    values = [{"x": x(12, 6), "n": array(n, "int64")} for n in (1, 2, 3, 4, 6, 12)]
    check(nodes, {"y": "float32", "means": "float32", "extents": "int64", "z": "float32"}, values, 8)


def test_shapes_that_vary_much_are_planned_for_each_value() -> None:
    rows = x(160, 160)
    nodes = [node("Cast", ["s"], ["shape"], to=7), node("Reshape", ["x", "shape"], ["y"])]
    shapes = [array(each, "float32") for each in ((25600, 1), (160, 160), (1, 25600), (25600, 1))]
    both = Both(nodes, {"x": rows, "s": shapes[0]}, {"y": "float32"})
    with both.compiled, pytest.warns(RemadeModelWarning, match=r"every value of 's'.*Reshape"):
        for each in shapes:
            both.check({"x": rows, "s": each})


def test_a_shape_of_other_elements_is_refused() -> None:
    both = Both([node("Reshape", ["x", "n"], ["y"])], {"x": x(4, 6), "n": two(3, 8)}, {"y": "float32"})
    with both.compiled as compiled:
        for shape in (two(3, 8), two(8, 3), two(-1, 4)):
            both.check({"x": x(4, 6), "n": shape})
        for shape in (two(5, 5), two(-1, 5), two(4, 4), two(-1, -1), two(-2, -12)):
            with pytest.raises(ModelError, match="Reshape"):
                compiled(x(4, 6), shape)
        both.check({"x": x(4, 6), "n": two(12, 2)})


def test_nodes_without_variable_extents_are_planned_for_each_value() -> None:
    nodes = [
        node("Resize", ["x", "", "", "n"], ["h"], mode="nearest"),
        node("GridSample", ["h", "grid"], ["y"]),
    ]
    values = [{"x": x(1, 3, 5, 6), "n": two(1, 3, n, 6)} for n in (3, 5, 3, 8, 5)]
    both = Both(nodes, values[0], {"y": "float32"})
    with both.compiled as compiled, warnings.catch_warnings():
        warnings.simplefilter("error")
        for each in values:
            both.check(each)
        assert compiled._plans.by_value.inputs == ("n",)


@pytest.mark.parametrize("by_condition", [False, True])
def test_loops_with_a_trip_count_from_an_input(by_condition: bool) -> None:
    def declared(name: str, kind: int, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    nodes = [
        node("Add", ["state", "x"], ["next"]),
        node("ReduceSum", ["next"], ["total"], keepdims=0),
        node("Less", ["total", "limit"], ["below"]),
        node("Or" if by_condition else "Identity", ["below", "below"] if by_condition else ["condition"], ["goes"]),
        node("Mul", ["next", "next"], ["slice"]),
    ]
    body = helper.make_graph(
        nodes,
        "body",
        [declared("i", 7, []), declared("condition", 9, []), declared("state", 1, [3])],
        [declared("goes", 9, []), declared("next", 1, [3]), declared("slice", 1, [3])],
    )
    outer = [
        node("Constant", [], ["yes"], value=helper.make_tensor("yes", 9, [], [True])),
        node("Loop", ["n", "yes", "x"], ["last", "all"], body=body),
        node("Neg", ["all"], ["y"]),
        node("ReduceSum", ["all", "first"], ["sums"], keepdims=0),
    ]
    values = [
        {"n": array(n, "int64"), "x": np.abs(x(3)), "limit": array(20.0, "float32")} for n in (*EXTENTS, 0, -2, 6)
    ]
    check(outer, {"y": "float32", "sums": "float32", "last": "float32"}, values, 6)


def carried_sums(window: bool) -> Any:
    """Return a model that accumulates repeated rows, or keeps as many of the last sums as an input gives."""
    nodes = [
        node("Tile", ["x", "n"], ["tiled"]),
        node("ReduceSum", ["tiled", "first"], ["sum"], keepdims=1),
        node("Add", ["past", "sum"], ["present"]),
        node("Slice", ["tiled", "first", "four"], ["begin"]),
        node("Neg", ["present"], ["y"]),
    ]
    if window:
        nodes[2:4] = [
            node("Concat", ["past", "sum"], ["all"], axis=0),
            node("Slice", ["all", "low", "k"], ["present"]),
            node("Slice", ["tiled", "first", "four"], ["begin"]),
        ]
    shapes = {"past": ("rows" if window else 1, 3), "x": (2, 3), "n": (2,)} | ({"k": (1,)} if window else {})
    return model_of(nodes, shapes, ["y", "begin", "present"], CONSTANTS, opset=19, dtypes={"n": 7, "k": 7})


@pytest.mark.parametrize("window", [False, True])
def test_values_decide_extents_beside_carried_values(window: bool) -> None:
    model = carried_sums(window)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    shapes = {"rows": 0} if window else None
    with syclsched.compile(
        model, devices="cpu", autotune=False, shapes=shapes, carried={"present": "past"}
    ) as compiled:
        for _ in range(2):
            past = np.zeros((0 if window else 1, 3), np.float32)
            for n in EXTENTS:
                given = {"x": x(2, 3), "n": two(n, 1)} | ({"k": two(n % 4)} if window else {})
                y, begin, past = session.run(None, {**given, "past": past})
                found = compiled(given)
                np.testing.assert_allclose(found["y"], y, rtol=1e-5, atol=1e-5)
                np.testing.assert_array_equal(found["begin"], begin)
            np.testing.assert_allclose(compiled.carried()["past"], past, rtol=1e-5, atol=1e-5)
            compiled.reset()
        assert not compiled._plans.by_value.inputs
        if not window:
            assert len(compiled.kept_shapes) == 1


def test_inputs_of_another_dtype_leave_carried_values_as_they_are() -> None:
    given = {"x": x(2, 3), "n": two(2, 1)}
    with syclsched.compile(carried_sums(False), devices="cpu", autotune=False, carried={"present": "past"}) as compiled:
        for n in (2, 3, 2, 2):
            compiled(given | {"n": two(n, 1)})
        past = compiled.carried()["past"]
        with pytest.raises(ArgumentError, match="takes int64"):
            compiled(given | {"n": np.array([2.0, 1.0])})
        np.testing.assert_array_equal(compiled.carried()["past"], past)


def test_extents_of_large_inputs_are_planned_for_each() -> None:
    nodes = [
        node("ReduceSum", ["m", "first"], ["n"], keepdims=0),
        node("ConstantOfShape", ["n"], ["zeros"]),
        node("Shape", ["zeros"], ["y"]),
        node("Add", ["past", "n"], ["present"]),
    ]
    dtypes = dict.fromkeys(("m", "past", "y", "present"), 7)
    model = model_of(nodes, {"m": (9000, 1), "past": (1,)}, ["y", "present"], CONSTANTS, opset=19, dtypes=dtypes)
    ones = np.zeros((9000, 1), np.int64)
    with syclsched.compile(model, devices="cpu", autotune=False, carried={"present": "past"}) as compiled:
        for n in (1, 5, 3, 5):
            ones[:n], ones[n:] = 1, 0
            assert compiled(ones)["y"].tolist() == [n]
        assert compiled.carried()["past"].tolist() == [14]
        assert compiled._plans.by_value.inputs == ("m",)


def test_values_that_a_node_does_not_take_are_refused() -> None:
    both = Both([node("ConstantOfShape", ["n"], ["y"])], {"n": two(2)}, {"y": "float32"})
    with both.compiled as compiled:
        for n in (3, 4, 2):
            both.check({"n": two(n)})
        with pytest.raises(ModelError, match="ConstantOfShape"):
            compiled(two(-2))
        both.check({"n": two(3)})
    steps = Both(
        [node("Range", ["a", "b", "c"], ["y"])], {name: array(1, "float32") for name in "abc"}, {"y": "float32"}
    )
    with steps.compiled as compiled:
        for n in (3, 5):
            steps.check({"a": array(0, "float32"), "b": array(n, "float32"), "c": array(0.5, "float32")})
        with pytest.raises(ModelError, match="steps of 0"):
            compiled(np.float32(0), np.float32(3), np.float32(0))


HUGE = 10**7


@pytest.mark.parametrize(
    ("operator", "bad", "good"),
    [("Reshape", (5, -1), ((4, 6), (3, 8), (6, 4))), ("Expand", (HUGE, HUGE), ((2, 12), (1, 12), (30, 12)))],
)
def test_a_call_that_cannot_be_planned_does_not_affect_later_calls(
    operator: str, bad: tuple[int, ...], good: tuple[tuple[int, ...], ...]
) -> None:
    rows = x(2, 12) if operator == "Reshape" else x(1, 12)
    both = Both([node(operator, ["x", "n"], ["y"])], {"x": rows, "n": two(*good[0])}, {"y": "float32"})
    with both.compiled as compiled:
        for shape in good:
            with pytest.raises(ModelError, match=operator):
                compiled(rows, two(*bad))
            both.check({"x": rows, "n": two(*shape)})
        with pytest.raises(ModelError, match=operator):
            compiled(rows, two(*bad))
        both.check({"x": rows, "n": two(*good[0])})


def test_failing_calls_of_other_threads_do_not_affect_valid_calls() -> None:
    both = Both([node("Expand", ["x", "n"], ["y"])], {"x": x(1, 3), "n": two(2, 3)}, {"y": "float32"})

    def call(number: int) -> Any:
        try:
            return both.compiled(x(1, 3), two(HUGE if number % 2 else number + 1, HUGE if number % 2 else 3))["y"].shape
        except ModelError:
            return None

    with both.compiled, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(call, range(24))) == [None if n % 2 else (n + 1, 3) for n in range(24)]


def test_streams_starts_and_threads_with_fresh_values() -> None:
    nodes = [node("Tile", ["x", "n"], ["y"])]
    values = [{"x": x(2, 3), "n": two(n, 1)} for n in EXTENTS]
    both = Both(nodes, values[0], {"y": "float32"})
    with both.compiled as compiled:
        for each, found in zip(values, compiled.stream(values), strict=True):
            both.check(each, found)
        with ThreadPoolExecutor(4) as pool:
            for each, found in zip(values, pool.map(compiled, values), strict=True):
                both.check(each, found)
        made = both.plans
        for each in values[:3]:
            run = compiled.start(each)
            assert np.array_equal(run.result("y"), both.wanted(each)["y"])
            assert np.array_equal(run.result("y"), both.wanted(each)["y"])
        assert both.plans == made


def test_a_started_run_beyond_the_bounds_is_computed_once_more() -> None:
    nodes = [node("Tile", ["x", "n"], ["y"]), node("Shape", ["y"], ["shape"])]
    values = [{"x": x(2, 3), "n": two(n, 1)} for n in EXTENTS]
    both = Both(nodes, values[0], {"y": "float32", "shape": "int64"})
    with both.compiled as compiled:
        for i, each in enumerate(values):
            wanted = both.wanted(each)
            given = {name: value.copy() for name, value in each.items()}
            run = compiled.start(given)
            if i % 2:
                run.wait()
                given["x"][:] = 0
            assert np.array_equal(run.result("y"), wanted["y"])
            assert np.array_equal(run.result("shape"), wanted["shape"])
        assert both.plans <= 5
        for each in values:  # without waiting for it
            compiled.start(each)
        assert asyncio.run(awaited(compiled, values[1]))["y"].shape == both.wanted(values[1])["y"].shape


async def awaited(compiled: Any, values: Any) -> dict[str, Any]:
    run = await compiled.start(values)
    return {name: run.result(name) for name in ("y", "shape")}


def test_extents_of_a_branch_that_is_not_taken() -> None:
    def branch(name: str, number: str) -> Any:
        nodes = [
            node("Tile", ["rows", number], [f"{name} tiled"]),
            node("Slice", [f"{name} tiled", "first", "four"], [name]),
        ]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, 1, None)])

    nodes = [
        node("Less", ["a", "zero"], ["is_less"]),
        node("If", ["is_less"], ["y"], then_branch=branch("yes", "n"), else_branch=branch("no", "m")),
    ]
    values = [
        {"a": array(a, "int64"), "n": two(*n), "m": two(*m)}
        for a, n, m in ((-1, (1, 2), (-1, 1)), (1, (-7, 1), (2, 1)), (-1, (3, 1), (-2, 1)), (2, (1, 1), (1, 3)))
    ]
    both = Both(nodes, values[0], {"y": "float32"})
    with both.compiled, warnings.catch_warnings():
        warnings.simplefilter("ignore", HostOperatorWarning)
        for each in values:
            both.check(each)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6), st.integers(1, 3)), min_size=2, max_size=8))
def test_any_extents_in_any_order(drawn: list[tuple[int, int, int]]) -> None:
    nodes = [
        node("Slice", ["rows", "start", "n"], ["part"]),
        node("Tile", ["part", "times"], ["tiled"]),
        node("Pad", ["tiled", "margins"], ["y"]),
        node("Pad", ["part", "margins"], ["edges"], mode="edge"),
        node("ReduceSum", ["y", "first"], ["sums"], keepdims=0),
    ]
    values = [
        {"start": two(s), "n": two(n), "times": two(t, 1), "margins": two(s, 0, t, 0)} for n, s, t in drawn if n > s
    ]
    if values:
        both = Both(nodes, values[0], {"y": "float32", "edges": "float32", "sums": "float32"})
        with both.compiled:
            for each in values:
                both.check(each)
            made = both.plans
            for each in values:
                both.check(each)
            assert both.plans == made
