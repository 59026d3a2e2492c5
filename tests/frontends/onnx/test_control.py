# SPDX-License-Identifier: Apache-2.0
"""If, Loop, Scan and sequences: resolved at import where possible, else executed by the host or refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

from syclsched.errors import ModelError, ValueNeededError  # noqa: E402
from syclsched.frontends.onnx.reference import host_operators  # noqa: E402

node = helper.make_node
FLOAT, INT, BOOL = 1, 7, 9
X = np.array([1.0, -2.0, 3.0], np.float32)


def branch(operator: str, *names: str) -> Any:
    made = node(operator, list(names), ["out"])
    return helper.make_graph([made], operator, [], [helper.make_tensor_value_info("out", FLOAT, (3,))])


def choice() -> list[Any]:
    chosen = node("If", ["c"], ["y"], then_branch=branch("Add", "a", "w"), else_branch=branch("Neg", "a"))
    return [node("Abs", ["x"], ["a"]), chosen]


@pytest.mark.parametrize("condition", [True, False])
def test_a_constant_condition_imports_only_its_branch(condition: bool) -> None:
    model = model_of(choice(), {"x": (3,)}, ["y"], {"c": np.array(condition), "w": X})
    network = imported(model)
    assert not host_operators(network)
    assert np.array_equal(evaluate(network, {"x": X})["y"], np.abs(X) + X if condition else -np.abs(X))


@pytest.mark.parametrize("condition", [True, False])
def test_both_branches_are_computed_for_a_runtime_condition(condition: bool) -> None:
    model = model_of(choice(), {"x": (3,), "c": ()}, ["y"], {"w": X}, dtypes={"c": BOOL})
    network = imported(model)
    assert not host_operators(network)
    got = evaluate(network, {"x": X, "c": np.array(condition)})["y"]
    assert np.array_equal(got, np.abs(X) + X if condition else -np.abs(X))


def test_values_of_a_body_may_have_the_names_of_results_of_its_node() -> None:
    """Outside, these names are not visible before the node has been computed."""
    line = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Add", ["total", "each"], ["s"]), node("Neg", ["s"], ["out"]), node("Abs", ["out"], ["last"])],
        "body",
        [line("total", FLOAT, ()), line("each", FLOAT, ())],
        [line("s", FLOAT, ()), line("out", FLOAT, ())],
    )
    scan = node("Scan", ["zero", "x"], ["s", "out"], body=body, num_scan_inputs=1)
    model = model_of([scan, node("Neg", ["out"], ["last"])], {"x": (3,)}, ["s", "out", "last"], {"zero": np.float32(0)})
    got = evaluate(imported(model), {"x": X})
    assert got["s"] == 2
    assert np.array_equal(got["out"], -np.cumsum(X))
    assert np.array_equal(got["last"], np.cumsum(X))


def chain(length: int, size: int = 3) -> Any:
    """Return a branch with this many nodes, whose result has this many elements."""
    names = ["a", *(f"v{number}" for number in range(length - 2)), "last"]
    made = [node("Neg", [one], [other]) for one, other in itertools.pairwise(names)]
    made.append(node("Slice", ["last", "begin", "end"], ["out"]))
    ends = [
        helper.make_tensor("begin", INT, (1,), [0]),
        helper.make_tensor("end", INT, (1,), [size]),
    ]
    return helper.make_graph(made, "chain", [], [helper.make_tensor_value_info("out", FLOAT, (size,))], ends)


def test_long_branches_are_decided_by_the_value_of_a_switch_alone() -> None:
    """Before, a model with an If on its sampling rate was planned again for every sample: the branches read it."""
    chosen = node("If", ["c"], ["y"], then_branch=chain(9), else_branch=chain(12, 2))
    equal = node("Equal", ["rate", "wanted"], ["c"])
    inputs = {"x": (3,), "rate": ()}
    model = model_of(
        [node("Abs", ["x"], ["a"]), equal, chosen], inputs, ["y"], {"wanted": np.array(16000)}, dtypes={"rate": INT}
    )
    with pytest.raises(ValueNeededError, match="its condition must be known") as caught:
        imported(model)
    assert caught.value.inputs == ("rate",)
    for rate, size in ((16000, 3), (8000, 2)):
        network = imported(model, known={"rate": np.array(rate)})
        assert evaluate(network, {"x": X})["y"].shape == (size,)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_condition_of_computed_numbers_selects(sign: int) -> None:
    total = node("ReduceSum", ["x"], ["s"], keepdims=0)
    greater = node("Greater", ["s", "zero"], ["c"])
    chosen = node("If", ["c"], ["y"], then_branch=chain(12), else_branch=chain(13))
    constants = {"zero": np.array(0, np.float32)}
    model = model_of([node("Abs", ["x"], ["a"]), total, greater, chosen], {"x": (3,)}, ["y"], constants)
    network = imported(model)
    assert not host_operators(network)
    got = evaluate(network, {"x": sign * X})["y"]
    assert np.array_equal(got, -np.abs(X) if sign > 0 else np.abs(X))


def test_branches_of_computed_shapes_run_on_the_host() -> None:
    greater = node("Greater", ["x", "zero"], ["c"])
    out = [helper.make_tensor_value_info("out", FLOAT, None)]
    joined = helper.make_graph([node("Concat", ["x", "x"], ["out"], axis=0)], "joined", [], out)
    kept = helper.make_graph([node("Neg", ["x"], ["out"])], "kept", [], out)
    chosen = node("If", ["c"], ["y"], then_branch=joined, else_branch=kept)
    constants = {"zero": np.array(0, np.float32)}
    model = model_of([greater, chosen], {"x": (1,)}, ["y"], constants)
    with pytest.raises(ValueNeededError, match="depends on the values"):
        imported(model)


def test_a_branch_may_need_the_value_of_an_integer_alone() -> None:
    out = [helper.make_tensor_value_info("out", FLOAT, None)]
    shaped = helper.make_graph([node("Reshape", ["x", "size"], ["out"])], "shaped", [], out)
    kept = helper.make_graph([node("Neg", ["x"], ["out"])], "kept", [], out)
    total = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "zero"], ["c"])]
    chosen = node("If", ["c"], ["y"], then_branch=shaped, else_branch=kept)
    constants = {"zero": np.array(0, np.float32)}
    model = model_of([*total, chosen], {"x": (3,), "size": (1,)}, ["y"], constants, dtypes={"size": INT})
    with pytest.raises(ValueNeededError) as caught:
        imported(model)
    assert caught.value.inputs == ("size",)
    network = imported(model, known={"size": np.array([3])})
    assert np.array_equal(evaluate(network, {"x": X})["y"], X)


def loop(condition: Any) -> Any:
    body = helper.make_graph(
        [node("Add", ["v", "x"], ["v1"]), node("Identity", ["v1"], ["s"]), condition],
        "body",
        [
            helper.make_tensor_value_info("i", INT, ()),
            helper.make_tensor_value_info("c", BOOL, ()),
            helper.make_tensor_value_info("v", FLOAT, (3,)),
        ],
        [
            helper.make_tensor_value_info("c1", BOOL, ()),
            helper.make_tensor_value_info("v1", FLOAT, (3,)),
            helper.make_tensor_value_info("s", FLOAT, (3,)),
        ],
    )
    return node("Loop", ["trips", "", "start"], ["y", "all"], body=body)


def test_a_loop_of_constant_length_is_unrolled() -> None:
    constants = {"trips": np.array(3), "start": np.zeros(3, np.float32)}
    model = model_of([loop(node("Identity", ["c"], ["c1"]))], {"x": (3,)}, ["y", "all"], constants)
    network = imported(model)
    assert not host_operators(network)
    got = evaluate(network, {"x": X})
    assert np.array_equal(got["y"], 3 * X)
    assert np.array_equal(got["all"], np.stack([X, 2 * X, 3 * X]))


def test_a_loop_ends_by_its_counter() -> None:
    constants = {"trips": np.array(100), "start": np.zeros(3, np.float32), "two": np.array(2)}
    model = model_of([loop(node("Less", ["i", "two"], ["c1"]))], {"x": (3,)}, ["all"], constants)
    assert imported(model).values["all"].shape == (3, 3)


def test_a_loop_of_length_0_has_empty_results() -> None:
    """The carried value would grow, so that the body is no network of its own."""
    body = helper.make_graph(
        [node("Concat", ["v", "x"], ["v1"], axis=0), node("Neg", ["v1"], ["s"]), node("Identity", ["c"], ["c1"])],
        "body",
        [helper.make_tensor_value_info(*each) for each in (("i", INT, ()), ("c", BOOL, ()), ("v", FLOAT, None))],
        [helper.make_tensor_value_info(*each) for each in (("c1", BOOL, ()), ("v1", FLOAT, None), ("s", FLOAT, None))],
    )
    looped = node("Loop", ["trips", "", "x"], ["y", "all"], body=body)
    model = model_of([looped], {"x": (3,), "trips": ()}, ["y", "all"], dtypes={"trips": INT})
    for known in ({"trips": np.array(0)}, {"trips": np.array(0), "x": X}):
        network = imported(model, known=known)
        got = evaluate(network, {name: X for name in network.inputs if name == "x"} | {"trips": np.array(0)})
        assert np.array_equal(got["y"], X)
        assert got["all"].shape == (0, 6) and got["all"].dtype == np.float32


def test_empty_loop_has_declared_results() -> None:
    sequence = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [node("SequenceInsert", ["q", "x"], ["q1"]), node("Identity", ["c"], ["c1"]), node("Neg", ["x"], ["s"])],
        "body",
        [helper.make_tensor_value_info(*each) for each in (("i", INT, ()), ("c", BOOL, ()))]
        + [sequence("q", FLOAT, None)],
        [
            helper.make_tensor_value_info("c1", BOOL, ()),
            sequence("q1", FLOAT, None),
            helper.make_tensor_value_info("s", FLOAT, (3,)),
        ],
    )
    nodes = [node("SequenceEmpty", [], ["q0"]), node("Loop", ["trips", "", "q0"], ["q2", "all"], body=body)]
    network = imported(model_of(nodes, {"x": (3,)}, ["all"], {"trips": np.array(0)}))
    assert network.values["all"].shape == (0, 3)


LARGEST = np.array(np.iinfo(np.int64).max)


def test_a_loop_of_any_length_ends_by_its_counter() -> None:
    constants = {"trips": LARGEST, "start": np.zeros(3, np.float32), "two": np.array(2)}
    model = model_of([loop(node("Less", ["i", "two"], ["c1"]))], {"x": (3,)}, ["all"], constants)
    assert imported(model).values["all"].shape == (3, 3)


def test_a_loop_that_ends_by_its_values_is_one_task() -> None:
    total = node("ReduceSum", ["v1"], ["n"], keepdims=0)
    body = helper.make_graph(
        [node("Add", ["v", "x"], ["v1"]), total, node("Less", ["n", "w"], ["d"])],
        "body",
        [helper.make_tensor_value_info(*each) for each in (("i", INT, ()), ("c", BOOL, ()), ("v", FLOAT, (3,)))],
        [helper.make_tensor_value_info(*each) for each in (("d", BOOL, ()), ("v1", FLOAT, (3,)))],
    )
    looped = node("Loop", ["trips", "", "start"], ["y"], body=body)
    constants = {"trips": LARGEST, "start": np.zeros(3, np.float32), "w": np.float32(9)}
    network = imported(model_of([looped], {"x": (3,)}, ["y"], constants))
    assert [each.kind for each in network.nodes] == ["loop"]
    assert np.array_equal(evaluate(network, {"x": X})["y"], 5 * X)  # sums of 2, 4, 6, 8, 10


def test_a_loop_of_value_dependent_length_names_the_input() -> None:
    model = model_of(
        [loop(node("Identity", ["c"], ["c1"]))],
        {"x": (3,), "trips": ()},
        ["all"],
        {"start": np.zeros(3, np.float32)},
        dtypes={"trips": INT},
    )
    with pytest.raises(ValueNeededError) as caught:
        imported(model)
    assert "trips" in caught.value.inputs
    assert imported(model, known={"trips": np.array(2)}).values["all"].shape == (2, 3)


def test_scans_in_both_directions() -> None:
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["s1"]), node("Identity", ["s1"], ["o"])],
        "body",
        [helper.make_tensor_value_info(name, FLOAT, (2,)) for name in ("s", "e")],
        [helper.make_tensor_value_info(name, FLOAT, (2,)) for name in ("s1", "o")],
    )
    scan = node(
        "Scan", ["z", "x"], ["last", "all"], body=body, num_scan_inputs=1, scan_input_axes=[1],
        scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1],
    )  # fmt: skip
    model = model_of([scan], {"x": (2, 3)}, ["last", "all"], {"z": np.zeros(2, np.float32)})
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = evaluate(imported(model), {"x": x})
    sums = np.cumsum(x[:, ::-1], axis=1)[:, ::-1]
    assert np.array_equal(got["all"], sums)
    assert np.array_equal(got["last"], sums[:, 0])


def test_sequence_operators_are_resolved_at_import() -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["s"], axis=0),
        node("SequenceAt", ["s", "last"], ["a"]),
        node("SequenceInsert", ["s", "a", "first"], ["t"]),
        node("SequenceErase", ["t", "last"], ["u"]),
        node("ConcatFromSequence", ["u"], ["y"], axis=0),
        node("SequenceLength", ["u"], ["n"]),
    ]
    constants = {"last": np.array(-1), "first": np.array(0)}
    model = model_of(nodes, {"x": (3,)}, ["y", "n"], constants, dtypes={"n": INT})
    got = evaluate(imported(model), {"x": X})
    assert np.array_equal(got["y"], X[[2, 0, 1]])
    assert got["n"] == 3


def test_positions_outside_a_sequence_are_refused() -> None:
    nodes = [node("SequenceConstruct", ["x"], ["s"]), node("SequenceAt", ["s", "i"], ["y"])]
    with pytest.raises(ModelError, match="position 4"):
        imported(model_of(nodes, {"x": (3,)}, ["y"], {"i": np.array(4)}))
