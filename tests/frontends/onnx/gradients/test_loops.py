# SPDX-License-Identifier: Apache-2.0
"""Gradients of Scan, Loop and If against central differences in double precision, and on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.small_models import model_of
from support.training_steps import HostStep, check_gradients

import syclsched
from syclsched.errors import GradientError
from syclsched.training import SGD

DOUBLE, INT64, BOOL = TensorProto.DOUBLE, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def numbers(*shape: int, seed: int = 0) -> Any:
    return 0.6 * np.random.default_rng(seed).standard_normal(shape)


def body(nodes: Sequence[Any], inputs: Mapping[str, Any], outputs: Mapping[str, Any], **constants: Any) -> Any:
    """Return a graph whose inputs and outputs have the given element types and shapes."""
    declared = [
        [helper.make_tensor_value_info(name, *kind) for name, kind in values.items()] for values in (inputs, outputs)
    ]
    return helper.make_graph(
        nodes, "body", *declared, [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    )


#: A simple recurrent cell: s' = tanh(s r + x w), y = s' * s.
CELL = [
    node("MatMul", ["s", "r"], ["sr"], name="recurrent"),
    node("MatMul", ["x_t", "w"], ["xw"], name="input"),
    node("Add", ["sr", "xw"], ["sum"], name="sum"),
    node("Tanh", ["sum"], ["s_next"], name="tanh"),
    node("Mul", ["s_next", "s"], ["y_t"], name="mul"),
]
STATE, SLICE = (DOUBLE, (2, 3)), (DOUBLE, (2, 4))


def scan(*, steps: int = 6, **attributes: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the nodes of a scan whose results are both in ``out``, and its parameters."""
    cell = body(CELL, {"s": STATE, "x_t": SLICE}, {"s_next": STATE, "y_t": STATE})
    axis = attributes.get("scan_input_axes", [0])[0]
    shape = [2, 4]
    shape.insert(axis, steps)
    nodes = [
        node("Scan", ["s0", "x"], ["last", "all"], name="scan", body=cell, num_scan_inputs=1, **attributes),
        node("Mul", ["all", "all"], ["squares"]),
        node("ReduceSum", ["squares"], ["total"], keepdims=0),
        node("Mul", ["last", "total"], ["out"]),
    ]
    weights = {"w": numbers(4, 3, seed=2), "r": numbers(3, 3, seed=3)}
    return nodes, {"s0": numbers(2, 3), "x": numbers(*shape, seed=1), **weights}


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_directions": [1], "scan_output_directions": [1]},
        {"scan_input_axes": [1], "scan_output_axes": [2], "scan_output_directions": [1]},
    ],
)
def test_scans(attributes: dict[str, Any]) -> None:
    nodes, parameters = scan(**attributes)
    check_gradients(nodes, parameters)


def test_a_scan_is_few_tasks_and_reads_constants() -> None:
    nodes, parameters = scan(steps=50)
    x = parameters.pop("x")
    network = check_gradients(nodes, parameters, constants={"x": x})
    # The scan, a second time for its states, and backwards.
    assert [each.kind for each in network.nodes].count("loop") == 3


def loop(*, condition: bool = False) -> list[Any]:
    """Return a loop: s = tanh(s r + b) * (1 + i), stacked; it may end when the first number is too large."""
    end = [
        node("Slice", ["s_next", "zero", "one"], ["row"]),
        node("ReduceSum", ["row"], ["first"], keepdims=0),
        node("Less", ["first", "limit"], ["go_on"]),
    ]
    steps = [
        node("MatMul", ["s", "r"], ["sr"]),
        node("Add", ["sr", "b"], ["sum"]),
        node("Tanh", ["sum"], ["t"]),
        node("Cast", ["i"], ["number"], to=DOUBLE),
        node("Add", ["number", "unit"], ["factor"]),
        node("Mul", ["t", "factor"], ["s_next"]),
        node("Exp", ["s"], ["seen"]),
        *(end if condition else [node("Identity", ["go"], ["go_on"])]),
    ]
    inner = body(
        steps,
        {"i": (INT64, ()), "go": (BOOL, ()), "s": STATE},
        {"go_on": (BOOL, ()), "s_next": STATE, "seen": STATE},
        unit=1.0,
        zero=np.array([0]),
        one=np.array([1]),
    )
    return [
        node("Loop", ["trips", "", "s0"], ["last", "all"], name="loop", body=inner),
        node("ReduceSum", ["all"], ["total"], keepdims=0),
        node("Mul", ["last", "total"], ["out"]),
    ]


@pytest.mark.parametrize("trips", [1, 3, 7])
def test_loops_of_constant_length(trips: int) -> None:
    parameters = {"s0": numbers(2, 3), "r": numbers(3, 3, seed=3), "b": numbers(3, seed=4)}
    check_gradients(loop(), parameters, constants={"trips": np.array(trips)})


@pytest.mark.parametrize("limit", [-100.0, 0.9, 2.5])
def test_loops_that_a_condition_ends(limit: float) -> None:
    parameters = {"s0": abs(numbers(2, 3)), "r": abs(numbers(3, 3, seed=3)) / 3, "b": abs(numbers(3, seed=4))}
    check_gradients(
        loop(condition=True), parameters, constants={"trips": np.array(9), "limit": np.array(limit)}, opset=17
    )


def test_a_loop_without_a_limit_is_refused() -> None:
    inner = body(
        [
            node("Exp", ["s"], ["s_next"]),
            node("ReduceMax", ["s_next"], ["most"], keepdims=0),
            node("Less", ["most", "limit"], ["go_on"]),
        ],
        {"i": (INT64, ()), "go": (BOOL, ()), "s": STATE},
        {"go_on": (BOOL, ()), "s_next": STATE},
    )
    nodes = [node("Loop", ["", "go_first", "s0"], ["out"], name="loop", body=inner)]
    with pytest.raises(GradientError, match=r"Loop 'loop': a loop .* has no limit.*Give it a trip count"):
        check_gradients(nodes, {"s0": numbers(2, 3)}, constants={"limit": np.array(9.0), "go_first": np.array(True)})


def test_a_node_of_a_body_without_a_gradient_is_named() -> None:
    matrix = (DOUBLE, (3, 3))
    inner = body(
        [node("Det", ["s"], ["d"], name="determinant"), node("Mul", ["s", "d"], ["s_next"])],
        {"i": (INT64, ()), "go": (BOOL, ()), "s": matrix},
        {"go": (BOOL, ()), "s_next": matrix},
    )
    nodes = [node("Loop", ["n", "", "s0"], ["out"], name="loop", body=inner)]
    with pytest.raises(GradientError, match=r"Loop 'loop': in its body, node Det 'determinant'"):
        check_gradients(nodes, {"s0": numbers(3, 3)}, constants={"n": np.array(7)})


def branches(width: int) -> tuple[list[Any], dict[str, Any]]:
    """Return an If on whether the sum of x is greater than ``least``, and its parameters."""
    kind = (DOUBLE, (width, width))
    product = [node("MatMul", ["x", "v"], ["p"]), node("MatMul", ["p", "v"], ["q"]), node("Tanh", ["q"], ["yes"])]
    other = [node("MatMul", ["x", "u"], ["m"]), node("Sin", ["m"], ["no"])]
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "least"], ["cond"]),
        node(
            "If",
            ["cond"],
            ["y"],
            name="if",
            then_branch=body(product, {}, {"yes": kind}),
            else_branch=body(other, {}, {"no": kind}),
        ),
        node("ReduceMean", ["y"], ["out"], keepdims=0),
    ]
    return nodes, {name: numbers(width, width, seed=i) for i, name in enumerate("xvu")}


@pytest.mark.parametrize("is_taken", [False, True])
@pytest.mark.parametrize("width", [3, 200])
def test_branches_that_a_run_chooses(is_taken: bool, width: int) -> None:
    nodes, parameters = branches(width)
    least = np.array(parameters["x"].sum() + (-1 if is_taken else 1))
    network = check_gradients(nodes, parameters, constants={"least": least})
    # The selected branch computes much, the other little.
    assert ("loop" in {each.kind for each in network.nodes}) == (width == 200)


def test_loops_that_drop_are_unrolled() -> None:
    nodes, parameters = scan()
    graph = nodes[0].attribute[[each.name for each in nodes[0].attribute].index("body")].g
    graph.node[-1].input[0] = "dropped"
    graph.node.insert(4, node("Dropout", ["s_next", "half", "yes"], ["dropped"], name="drop"))
    network = check_gradients(nodes, parameters, constants={"half": np.array(0.5, "float32"), "yes": np.array(True)})
    assert "loop" not in {each.kind for each in network.nodes}
    assert "seed of dropout" in network.inputs


@pytest.mark.sycl
@pytest.mark.parametrize("kind", ["scan", "loop", "condition", "if"])
def test_a_step_on_a_device_is_that_of_the_host(kind: str) -> None:
    if kind == "scan":
        nodes, parameters = scan()
        constants = {}
    elif kind == "if":
        nodes, parameters = branches(200)
        constants = {"least": np.array(0.0)}
    else:
        nodes = loop(condition=kind == "condition")
        parameters = {"s0": numbers(2, 3), "r": numbers(3, 3, seed=3), "b": numbers(3, seed=4)}
        constants = {"trips": np.array(7), **({"limit": np.array(2.5)} if kind == "condition" else {})}
    given = {name: value.astype("float32") for name, value in parameters.items()}
    constants = {name: value.astype("float32") if value.dtype == float else value for name, value in constants.items()}
    x = given.pop("s0" if "s0" in given else "x")
    name = "x" if kind == "if" else "s0"
    model = model_of([single(each) for each in nodes], {name: x.shape}, ["out"], {**given, **constants})
    target = np.zeros_like(x) if kind != "if" else np.float32(0.0).reshape(())
    host = HostStep(model, np.asarray(target), {name: x}, parameters=list(given))
    wanted = {each: host.values[each] - gradient for each, gradient in host.gradients().items()}
    with syclsched.train(
        model, "mean_squared_error", SGD(1.0), devices="cpu", autotune=False, parameters=list(given)
    ) as trainer:
        trainer.step(x, target)
        for each, value in trainer.parameters.items():
            # Gradients through seven steps reach 1e7, and some elements are differences of such numbers.
            np.testing.assert_allclose(value, wanted[each], rtol=1e-4, atol=1e-5 * max(1.0, np.abs(wanted[each]).max()))


def single(each: Any) -> Any:
    """Return a node with float32 in place of float64, also in its subgraphs."""
    made = onnx.NodeProto()
    made.CopyFrom(each)
    for attribute in made.attribute:
        if attribute.name == "to" and attribute.i == DOUBLE:
            attribute.i = TensorProto.FLOAT
        if attribute.type == onnx.AttributeProto.GRAPH:
            inner = attribute.g
            for value in (*inner.input, *inner.output):
                if value.type.tensor_type.elem_type == DOUBLE:
                    value.type.tensor_type.elem_type = TensorProto.FLOAT
            for tensor in inner.initializer:
                if tensor.data_type == DOUBLE:
                    tensor.CopyFrom(
                        numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float32"), tensor.name)
                    )
            nodes = [single(one) for one in inner.node]
            del inner.node[:]
            inner.node.extend(nodes)
    return made
