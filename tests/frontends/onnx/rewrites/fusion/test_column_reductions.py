# SPDX-License-Identifier: Apache-2.0
"""Column reductions that read the summands directly, and share a pass over their arrays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.networks import Builder, assert_same, assert_whole, kinds, rewritten

from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.rewrites import rewrite

ROWS, COLUMNS = 1024, 3
_RECTIFIED = ("where", ("greater", 0, ("const", 0.0)), 1, ("const", 0.0))


def image(made: Builder, name: str) -> str:
    return made.input(name, (2, ROWS // 2, COLUMNS))


def total(made: Builder, x: str, mode: str = "sum", *, keepdims: bool = False) -> str:
    return made.reduce(x, mode, 0, 1, keepdims=keepdims)


def sums_of(network: Network) -> list[tuple[object, ...]]:
    return [node.attributes["expressions"] for node in network.nodes if node.kind == "column_sums"]


def test_a_column_sum_reads_the_summands_directly() -> None:
    made = Builder(dtype="float64")
    total(made, made.elementwise(("mul", 0, 1), image(made, "x"), made.input("row", (COLUMNS,))))
    network = rewritten(made, "columns")
    assert kinds(network) == ["column_sums", "reduce"]
    assert sums_of(network) == [(("mul", 0, 1),)]
    assert network.values[network.nodes[1].inputs[0] or ""].shape == (1, 1, COLUMNS)


def test_sums_of_the_same_arrays_take_one_pass() -> None:
    made = Builder(dtype="float64")
    x, y = image(made, "x"), image(made, "y")
    outputs = total(made, x, "mean"), total(made, made.elementwise(("mul", 0, 1), x, y)), total(made, y, keepdims=True)
    network = rewritten(made, "columns", outputs=outputs)
    assert kinds(network) == ["column_sums", "reduce", "reduce", "reduce"]
    assert network.nodes[0].attributes["means"] == (True, False, False)


def batch_norm_gradients(made: Builder) -> tuple[str, str, str, str, str]:
    """Return a rectifier's gradient, its sum, its product with the distance from a mean, that mean and x."""
    y, dy, x, mean = image(made, "y"), image(made, "dy"), image(made, "x"), made.input("mean", (COLUMNS,))
    passed = made.elementwise(_RECTIFIED, y, dy)
    spread = total(made, made.elementwise(("mul", 0, ("sub", 1, 2)), passed, x, mean))
    return passed, total(made, passed), spread, mean, x


def test_the_gradient_of_a_batch_normalisation_takes_two_passes() -> None:
    made = Builder(dtype="float64")
    passed, bias, scale, _, x = batch_norm_gradients(made)
    dx = made.elementwise(("add", 0, 1, ("mul", 2, 3)), passed, bias, x, scale)
    network = rewritten(made, outputs=(bias, scale, dx))
    assert kinds(network) == ["elementwise", "column_sums", "reshape", "reshape", "elementwise"]
    assert sums_of(network) == [(0, ("mul", 0, ("sub", 1, 2)))] or sums_of(network) == [(("mul", 0, ("sub", 1, 2)), 0)]


def test_summands_that_only_sums_read_are_not_stored() -> None:
    made = Builder(dtype="float64")
    _, bias, scale, *_ = batch_norm_gradients(made)
    network = rewritten(made, outputs=(bias, scale))
    assert kinds(network) == ["column_sums", "reshape", "reshape"]
    assert {*sums_of(network)[0]} == {_RECTIFIED, ("mul", _RECTIFIED, ("sub", 2, 3))}


def test_an_output_is_stored() -> None:
    made = Builder(dtype="float64")
    square = made.elementwise(("square", 0), image(made, "x"))
    assert kinds(rewritten(made, "columns", outputs=(square, total(made, square)))) == ["elementwise", "reduce"]


def test_a_sum_that_follows_from_another_has_a_pass_of_its_own() -> None:
    made = Builder(dtype="float64")
    x = image(made, "x")
    first = total(made, made.elementwise(("exp", 0), x), keepdims=True)
    far = made.elementwise(("sqrt", ("abs", 0)), first)
    outputs = first, total(made, made.elementwise(("mul", 0, 1), x, far))
    network = rewritten(made, "columns", outputs=outputs)
    assert sums_of(network) == [(("exp", 0),), (("mul", 0, 1),)]


def test_a_mean_and_the_variance_around_it_take_one_pass() -> None:
    made = Builder(dtype="float64")
    x = image(made, "x")
    mean = total(made, x, "mean", keepdims=True)
    variance = total(made, made.elementwise(("square", ("sub", 0, 1)), x, mean), "mean")
    network = rewritten(made, "columns", outputs=(mean, variance))
    assert kinds(network) == ["column_moments", "reduce", "reduce"]
    assert kinds(rewritten(made, outputs=(mean, variance)))[0] == "column_moments"


def test_many_rows_are_reduced_in_parts() -> None:
    made = Builder(dtype="float64")
    x = made.input("x", (2, 1 << 17, 8))
    mean = total(made, x, "mean", keepdims=True)
    variance = total(made, made.elementwise(("square", ("sub", 0, 1)), x, mean), "mean")
    outputs = mean, variance, total(made, made.elementwise(("abs", 0), x)), total(made, x, "mean")
    network = rewritten(made, "columns", outputs=outputs)
    assert sorted(kinds(network)) == ["column_moments", "column_sums", "elementwise", *["reduce"] * 4]
    reduced = [network.values[node.inputs[0] or ""].shape for node in network.nodes if node.kind == "reduce"]
    assert reduced == [(64, 1, 8)] * 4


@pytest.mark.parametrize("mode", ["sum", "max"])
def test_other_sums_of_squares_are_no_variance(mode: str) -> None:
    made = Builder(dtype="float64")
    x = image(made, "x")
    mean = total(made, x, "mean", keepdims=True)
    around = total(made, made.elementwise(("square", ("sub", 0, 1)), x, mean), mode)
    assert "column_moments" not in kinds(rewritten(made, "columns", outputs=(mean, around)))


def test_other_reductions_stay() -> None:
    for shape, axes in (((ROWS, COLUMNS), (1,)), ((2, ROWS, COLUMNS), (1,)), ((200, COLUMNS), (0,)), ((ROWS,), (0,))):
        made = Builder(dtype="float64")
        made.reduce(made.elementwise(("exp", 0), made.input("x", shape)), "sum", *axes, keepdims=True)
        assert kinds(rewritten(made, "columns")) == ["elementwise", "reduce"]
    made = Builder(dtype="float64")
    made.reduce(made.elementwise(("exp", 0), image(made, "x")), "max", 0, 1)
    assert kinds(rewritten(made, "columns")) == ["elementwise", "reduce"]


def test_an_array_that_differs_by_rows_is_not_read() -> None:
    made = Builder(dtype="float64")
    x, per_row = image(made, "x"), made.input("per row", (2, 1, 1))
    total(made, made.elementwise(("mul", 0, 1), x, per_row))
    assert kinds(rewritten(made, "columns")) == ["elementwise", "reduce"]


@st.composite
def networks(draw: st.DrawFn) -> Builder:
    """Draw networks of sums along columns and element-wise operations on them and on two arrays."""
    made = Builder(draw(st.integers(0, 3)), "float64")
    large, small = [image(made, "x"), image(made, "y")], [made.input("row", (COLUMNS,)), made.input("number", (1,))]
    for _ in range(draw(st.integers(2, 12))):
        a, b = draw(st.sampled_from(large[-4:])), draw(st.sampled_from(large[-4:] + small[-4:]))
        if draw(st.booleans()):
            mode = draw(st.sampled_from(["sum", "mean"]))
            small.append(made.elementwise(("tanh", 0), total(made, a, mode, keepdims=draw(st.booleans()))))
        else:
            forms = ("mul", 0, ("tanh", 1)), ("square", ("sub", 0, 1)), ("where", ("greater", 0, 1), 0, ("sub", 1, 0))
            large.append(made.elementwise(draw(st.sampled_from(forms)), a, b))
    made.last = tuple(dict.fromkeys([small[-1], large[-1], *draw(st.lists(st.sampled_from(small[2:] or small[:1])))]))
    return made


@given(networks())
@settings(max_examples=examples(80), deadline=None)
def test_random_networks_give_the_same(made: Builder) -> None:
    outputs = tuple(name for name in made.last if name not in made.inputs)
    if not outputs:
        return
    network = made.network(*outputs)
    for passes in (("columns",), ("elementwise", "columns"), None):
        changed = rewrite(network, **({} if passes is None else {"passes": passes})).network
        assert_whole(changed)
        assert_same(network, changed, made.given(), 1e-9)
