# SPDX-License-Identifier: Apache-2.0
"""Loop and Scan as one task, in a kernel and on the host, for any trip count, compared with ONNX Runtime."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import syclsched

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import helper, numpy_helper  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.repeatable import generator  # noqa: E402
from support.small_models import imported  # noqa: E402

from syclsched.errors import ModelError  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node
DTYPES = {"i": 7, "j": 7, "n": 7, "c": 9, "d": 9, "e": 9, "go": 9}
SHAPES = {"i": (), "n": (), "c": (), "go": ()}
RANDOM = generator(0)
X = RANDOM.standard_normal((6, 3, 4)).astype(np.float32)
H = RANDOM.standard_normal((3, 4)).astype(np.float32)
W = RANDOM.standard_normal((4, 4)).astype(np.float32)
MATRIX = {"W": W, "one": np.array(1), "limit": np.array(40, np.float32), "axes": np.array([0], np.int64)}


def values(names: str, shapes: Mapping[str, Any]) -> list[Any]:
    known = {**SHAPES, **shapes}
    return [helper.make_tensor_value_info(each, DTYPES.get(each, 1), known.get(each)) for each in names.split()]


def graph(nodes: list[Any], inputs: str, outputs: str, shapes: Mapping[str, Any] = SHAPES, **constants: Any) -> Any:
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    return helper.make_graph(nodes, "body", values(inputs, shapes), values(outputs, {}), weights)


def model(nodes: list[Any], inputs: Mapping[str, Any], outputs: str, **constants: Any) -> Any:
    shapes = {name: value.shape for name, value in inputs.items()}
    made = graph(nodes, " ".join(inputs), outputs, shapes, **{**MATRIX, **constants})
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def check(made: Any, *inputs: dict[str, Any], tasks: int | None = None) -> None:
    """Compare a model with ONNX Runtime for several inputs: on a device, and by NumPy; it is planned once."""
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    network = imported(made)
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        for each in inputs:
            names = [output.name for output in session.get_outputs()]
            wanted = dict(zip(names, session.run(None, each), strict=True))
            for got in (compiled(each), evaluate(network, each)):
                for name, value in wanted.items():
                    assert got[name].dtype == value.dtype
                    np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)
        assert len(compiled.kept_shapes) == 1
        if tasks is not None:
            assert len(compiled.graph) == tasks


STEP = [
    node("MatMul", ["h", "W"], ["m"]),
    node("Add", ["m", "x"], ["s"]),
    node("Tanh", ["s"], ["h1"]),
    node("Mul", ["h1", "x"], ["y"]),
]


@pytest.mark.parametrize("steps", [0, 5, 6])
def test_a_loop_of_constant_length_is_one_task(steps: int) -> None:
    body = graph([node("Gather", ["X", "i"], ["x"]), *STEP, node("Identity", ["c"], ["d"])], "i c h", "d h1 y")
    body.output[2].CopyFrom(helper.make_tensor_value_info("y", 1, (3, 4)))  # ONNX Runtime's results without iterations
    looped = node("Loop", ["count", "", "H"], ["last", "Y"], body=body)
    inputs = {"X": X, "H": H}
    check(model([looped], inputs, "last Y", count=np.array(steps)), inputs, tasks=1 if steps else None)


def test_the_number_of_tasks_does_not_grow_with_steps() -> None:
    body = graph([*STEP], "h x", "h1 y")
    scan = node("Scan", ["H", "X"], ["last", "Y"], body=body, num_scan_inputs=1)
    counts = []
    for steps in (5, 50):
        inputs = {"X": np.resize(X, (steps, 3, 4)), "H": H}
        made = model([scan], inputs, "last Y")
        check(made, inputs)
        counts.append(len(imported(made).nodes))
    assert counts[0] == counts[1] == 1


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("backwards", [0, 1])
def test_scans_go_along_any_axis_in_both_directions(axis: int, backwards: int) -> None:
    body = graph([*STEP, node("Neg", ["x"], ["z"])], "h x", "h1 y z")
    scan = node(
        "Scan",
        ["H", "X"],
        ["last", "Y", "Z"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[backwards],
        scan_output_axes=[axis, 0],
        scan_output_directions=[1 - backwards, backwards],
    )
    inputs = {"X": np.moveaxis(X, 0, axis).copy(), "H": H}
    check(model([scan], inputs, "last Y Z"), inputs, tasks=1)


def test_carried_values_are_swapped() -> None:
    body = graph([node("Add", ["h", "g"], ["s"]), node("Identity", ["c"], ["d"])], "i c h g k", "d g h s")
    looped = node("Loop", ["count", "", "H", "G", "K"], ["a", "b", "f"], body=body)
    inputs = {"H": H, "G": H + 1, "K": H * 2}
    check(model([looped], inputs, "a b f", count=np.array(7)), inputs)


def test_carried_values_of_other_shapes_are_swapped() -> None:
    body = graph(
        [
            node("Reshape", ["g", "wide"], ["h1"]),
            node("Reshape", ["h", "tall"], ["g1"]),
            node("Identity", ["c"], ["d"]),
        ],
        "i c h g",
        "d h1 g1",
        wide=np.array([3, 4]),
        tall=np.array([4, 3]),
    )
    looped = node("Loop", ["count", "", "H", "G"], ["a", "b"], body=body)
    inputs = {"H": H, "G": H.reshape(4, 3) + 1}
    check(model([looped], inputs, "a b", count=np.array(7)), inputs)


def test_the_number_of_iterations_is_an_input_or_computed() -> None:
    body = graph([node("Add", ["h", "H"], ["h1"]), node("Identity", ["c"], ["d"])], "i c h", "d h1")
    nodes = [
        node("Add", ["n", "one"], ["count"]),
        node("Loop", ["count", "go", "H"], ["last"], body=body),
        node("Mul", ["last", "H"], ["y"]),
    ]
    given = [{"H": H, "n": np.array(n), "go": np.array(go)} for n, go in ((7, True), (0, True), (-1, True), (4, False))]
    check(model(nodes, given[0], "y"), *given)


def test_a_condition_computed_by_the_body_ends_the_loop() -> None:
    body = graph(
        [
            node("Add", ["h", "H"], ["h1"]),
            node("ReduceSum", ["h1"], ["total"], keepdims=0),
            node("Less", ["total", "limit"], ["d"]),
        ],
        "i c h",
        "d h1",
    )
    looped = node("Loop", ["", "", "H"], ["last"], body=body)
    check(model([looped], {"H": H}, "last"), *({"H": np.full((3, 4), v, np.float32)} for v in (0.5, 1, 9)))


def test_loops_nest_and_read_values_around_them() -> None:
    inner = graph(
        [node("MatMul", ["g", "W"], ["p"]), node("Sub", ["p", "h"], ["g1"]), node("Identity", ["c"], ["e"])],
        "i c g",
        "e g1 p",
    )
    outer = graph(
        [
            node("Loop", ["inner_count", "", "h"], ["h0", "P"], body=inner),
            node("Sigmoid", ["h0"], ["h1"]),
            node("ReduceMax", ["P"], ["top"], keepdims=0),
            node("Identity", ["c"], ["d"]),
        ],
        "i c h",
        "d h1 top",
    )
    looped = node("Loop", ["count", "", "H"], ["last", "tops"], body=outer)
    made = model([looped], {"H": H}, "last tops", count=np.array(6), inner_count=np.array(5))
    check(made, {"H": H}, tasks=1)


def test_unread_results_of_inner_loops() -> None:
    """In a kernel the results after them were taken for those before."""
    inner = graph(
        [
            node("Cast", ["i"], ["number"], to=1),
            node("Add", ["g", "number"], ["g1"]),
            node("MatMul", ["p", "W"], ["p1"]),
            node("Identity", ["c"], ["e"]),
            node("Identity", ["number"], ["each"]),
            node("ReduceMax", ["p1"], ["most"], keepdims=0),
        ],
        "i c g p",
        "e g1 p1 each most",
        {**SHAPES, "g": (), "p": (3, 4)},
    )
    for left, names in (("g1", "_ P _ M"), ("p1", "G _ E _"), ("each", "_ _ _ M")):
        made = [f"{name}0" if name != "_" else f"{left}{k}" for k, name in enumerate(names.split())]
        parts = [
            node("ReduceSum", [name], [f"s{name}"], keepdims=0)
            for name in made
            if name.endswith("0") and name[0].isupper()
        ]
        total = [node("Sum", [each.output[0] for each in parts], ["top"]), node("Add", ["h", "top"], ["h1"])]
        looped = node("Loop", ["inner_count", "", "zero", "H"], made, body=inner)
        outer = graph([looped, *parts, *total, node("Identity", ["c"], ["d"])], "i c h", "d h1 top")
        whole = node("Loop", ["count", "", "H"], ["last", "tops"], body=outer)
        constants = {"count": np.array(6), "inner_count": np.array(5), "zero": np.array(0, np.float32)}
        check(model([whole], {"H": H}, "last tops", **constants), {"H": H})


def test_extents_from_a_value_that_many_iterations_carry() -> None:
    """The search for its origin went through all iterations by recursion."""
    inner = graph(
        [node("Mul", ["g", "half"], ["f"]), node("Identity", ["f"], ["e1"]), node("Identity", ["go"], ["e"])],
        "i go g",
        "e f e1",
        {**SHAPES, "g": ()},
        half=np.array(0.5, np.float32),
    )
    body = graph(
        [
            node("Loop", ["n", "", "start"], ["end", "steps"], body=inner),
            node("ReduceSum", ["steps"], ["y"], keepdims=0),
            node("Add", ["n", "n_more"], ["count1"]),
            node("Mod", ["count1", "four"], ["j"]),
        ],
        "n n_more",
        "j y",
        {"n": (), "n_more": ()},
        start=np.array(1, np.float32),
        four=np.array(4),
    )
    body.input[1].CopyFrom(helper.make_tensor_value_info("n_more", 7, ()))
    nodes = [
        node("Cast", ["F"], ["whole"], to=7),
        node("ReduceMax", ["whole"], ["n0"], keepdims=0),
        node("Cast", ["G"], ["J"], to=7),
        node("Scan", ["n0", "J"], ["count", "Y"], body=body, num_scan_inputs=1),
        node("Cast", ["count"], ["last"], to=1),
    ]
    inputs = {"F": np.arange(70, dtype=np.float32) / 8, "G": np.resize([0, -1, 2, -2], 200).astype(np.float32)}
    made = model(nodes, inputs, "last Y")
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        got = compiled(inputs)
        for name, value in zip(("last", "Y"), session.run(None, inputs), strict=True):
            np.testing.assert_allclose(got[name], value, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::syclsched.errors.HostOperatorWarning")
@pytest.mark.parametrize("backwards", [0, 1])
def test_loops_nested_in_reference_implementation_loops(backwards: int) -> None:
    """It ran no iteration of a Loop without a condition, and refused scans backwards or of no elements."""
    step = graph(
        [node("Add", ["f", "h"], ["f1"]), node("Identity", ["go"], ["e"])], "j go f", "e f1 f1", {"j": (), "go": ()}
    )
    lines = graph([node("Mul", ["s", "k"], ["k1"]), node("Tanh", ["k1"], ["r"])], "k s", "k1 r", {"k": (4,), "s": (4,)})
    ways = {"scan_input_directions": [backwards], "scan_output_directions": [1 - backwards], "scan_output_axes": [1]}
    body = graph(
        [
            node("Loop", ["n", "", "h"], ["g", "each"], body=step),
            node("ReduceSum", ["each", "axes"], ["total"], keepdims=0),
            node("Gather", ["h", "one"], ["q"]),
            node("Scan", ["q", "h"], ["q1", "R"], body=lines, num_scan_inputs=1, **ways),
            node("Transpose", ["R"], ["R1"]),
            node("Add", ["g", "total"], ["sum"]),
            node("Add", ["sum", "R1"], ["shifted"]),
            node("Tanh", ["shifted"], ["h1"]),
            node("Identity", ["c"], ["d"]),
        ],
        "i c h",
        "d h1",
        {**SHAPES, "h": (3, 4)},
    )
    body.output[1].CopyFrom(helper.make_tensor_value_info("h1", 1, (3, 4)))
    made = model([node("Loop", ["n", "", "H"], ["last"], body=body)], {"H": H, "n": np.array(3)}, "last")
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        for rounds in (3, 1, 0, 5):
            each = {"H": H, "n": np.array(rounds)}
            np.testing.assert_allclose(compiled(each)["last"], session.run(None, each)[0], rtol=1e-4, atol=1e-5)
        assert "reference" in str(compiled.report)


def test_names_in_a_loop_body_may_shadow_outer_names() -> None:
    """A kernel's own arrays, which are named after values of the body, were taken for values around it."""
    body = graph([node("MatMul", ["h", "W"], ["h1"]), node("Identity", ["c"], ["d"])], "i c h", "d h1")
    nodes = [
        node("MatMul", ["H", "W"], ["carried 0"]),
        node("Loop", ["n", "", "H"], ["last"], body=body),
        node("MatMul", ["carried 0", "W"], ["product"]),
        node("Add", ["last", "product"], ["y"]),
    ]
    wide = np.resize(H, (300, 4))
    inputs = {"H": wide, "n": np.array(7)}
    check(model(nodes, inputs, "y"), inputs)


def test_a_choice_in_a_body_is_made_in_every_iteration() -> None:
    yes, no = graph([node("Neg", ["h"], ["r"])], "", "r"), graph([node("Add", ["h", "x"], ["r"])], "", "r")
    body = graph(
        [
            node("Gather", ["X", "i"], ["x"]),
            node("ReduceSum", ["h"], ["total"], keepdims=0),
            node("Greater", ["total", "limit"], ["chosen"]),
            node("If", ["chosen"], ["h1"], then_branch=yes, else_branch=no),
            node("Identity", ["c"], ["d"]),
        ],
        "i c h",
        "d h1 total",
        limit=np.array(0.5, np.float32),
    )
    looped = node("Loop", ["count", "", "H"], ["last", "totals"], body=body)
    inputs = {"X": X, "H": H}
    check(model([looped], inputs, "last totals", count=np.array(6)), inputs, {"X": -X, "H": H})


def test_bodies_without_a_kernel_run_on_the_host() -> None:
    body = graph([node("CumSum", ["x", "one"], ["s"]), node("Add", ["h", "s"], ["h1"])], "h x", "h1 s")
    scan = node("Scan", ["H", "X"], ["last", "Y"], body=body, num_scan_inputs=1)
    inputs = {"X": X, "H": H}
    check(model([scan], inputs, "last Y"), inputs)


@pytest.mark.parametrize("rows", [1, 3, 4, 14, 16])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("width", [5, 40, 81])
def test_products_of_any_size_within_a_kernel(rows: int, transposed: bool, width: int) -> None:
    w = (RANDOM.standard_normal((width, width)) / width).astype(np.float32)
    cell = [node("Gemm", ["h", "w", "b"], ["m"], transB=int(transposed), alpha=0.5), node("Add", ["m", "x"], ["h1"])]
    body = graph([*cell, node("Softmax", ["h1"], ["y"])], "h x", "h1 y")
    scan = node("Scan", ["h0", "x0"], ["last", "Y"], body=body, num_scan_inputs=1)
    inputs = {"h0": np.ones((rows, width), np.float32), "x0": np.ones((5, rows, width), np.float32)}
    check(model([scan], inputs, "last Y", w=w, b=w[0]), inputs, tasks=1)


def test_a_large_body_is_planned_once_and_run_in_every_iteration() -> None:
    """A body with convolutions is no kernel; the trip count is an input, and changes without a new plan."""
    weights = (RANDOM.standard_normal((8, 8, 3, 3)) / 9).astype(np.float32)
    nodes = [
        node("Conv", ["h", "w"], ["m"], pads=[1, 1, 1, 1]),
        node("Relu", ["m"], ["p"]),
        node("Add", ["p", "H"], ["h1"]),
        node("Identity", ["c"], ["d"]),
    ]
    looped = node("Loop", ["n", "", "H"], ["last"], body=graph(nodes, "i c h", "d h1"))
    image = RANDOM.standard_normal((1, 8, 12, 12)).astype(np.float32)
    given = [{"H": image * scale, "n": np.array(count)} for scale, count in ((1, 7), (2, 5), (1, 0))]
    made = model([looped], given[0], "last", w=weights)
    check(made, *given, tasks=1)
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled, ThreadPoolExecutor(3) as threads:
        alone = [compiled(each)["last"] for each in given]
        for _ in range(3):  # the body's arrays serve one call at a time
            for got, want in zip(threads.map(lambda each: compiled(each)["last"], given), alone, strict=True):
                np.testing.assert_array_equal(got, want)


def test_of_two_branches_with_much_to_compute_a_run_executes_one() -> None:
    wide = RANDOM.standard_normal((600, 600)).astype(np.float32) / 25
    body = graph([node("MatMul", ["h", "wide"], ["h1"]), node("Identity", ["c"], ["d"])], "i c h", "d h1")
    no = graph([node("Loop", ["n", "", "x"], ["r"], body=body)], "", "r")
    yes = graph([node("MatMul", ["x", "wide"], ["m"]), node("Tanh", ["m"], ["r"])], "", "r")
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["go"]),
        node("If", ["go"], ["y"], then_branch=yes, else_branch=no),
        node("Neg", ["y"], ["z"]),
    ]
    made = model(nodes, {"x": np.ones((20, 600), np.float32), "n": np.array(3)}, "z", wide=wide, zero=np.float32(0))
    x = RANDOM.standard_normal((20, 600)).astype(np.float32)
    check(made, *({"x": x + shift, "n": np.array(n)} for shift, n in ((1, 3), (-1, 3), (-1, 5), (1, 2))))
    # If both branches were computed, this many iterations would not end.
    with syclsched.compile(made, devices="cpu", autotune=False) as compiled:
        endless = {"x": x + 1, "n": np.array(1 << 60)}
        np.testing.assert_allclose(compiled(endless)["z"], -np.tanh((x + 1) @ wide), rtol=1e-3, atol=1e-4)


def while_loop(width: int, *, made: bool) -> Any:
    """Return a recurrent layer as converters write loops of TensorFlow: all that the body reads is carried."""
    body = graph(
        [
            node("Add", ["t", "step"], ["t1"]),
            node("Gather", ["lines", "t"], ["line"], axis=0),
            node("Gather", ["masks", "t"], ["mask"], axis=0),
            node("MatMul", ["line", "v0"], ["p"]),
            node("MatMul", ["h", "w0"], ["q"]),
            node("Add", ["p", "q"], ["s"]),
            node("Tanh", ["s"], ["new"]),
            node("Where", ["mask", "new", "h"], ["h1"]),
            node("Cast", ["t1"], ["t2"], to=1),
            node("Cast", ["last"], ["last2"], to=1),
            node("Less", ["t2", "last2"], ["d"]),
            node("Identity", ["v0"], ["v1"]),
            *([node("Where", ["mask", "new", "none"], ["y"])] if made else []),
        ],
        "i c t none h last w0 v0",
        "d t1 none h1 last w0 v1" + made * " y",
        {"h": (None, width), "w0": (width, width), "v0": (width, width), "none": (None, width), "t": (), "last": ()},
        step=np.array(1, np.int32),
    )
    typed(body, t=6, t1=6, last=6)
    random = generator(1)
    shape, batch = ["steps", "batch", width], ["batch", width]
    nodes = [
        node("Shape", ["x"], ["extents"]),
        node("Gather", ["extents", "zero"], ["n"], axis=0),
        node("Cast", ["n"], ["steps"], to=6),
        node("Less", ["first", "steps"], ["any"]),
        node("Gather", ["x", "zero"], ["first_line"], axis=0),
        node("Mul", ["first_line", "nothing"], ["start"]),
        node("Identity", ["x"], ["lines"]),
        node("ReduceSum", ["x", "width_axis"], ["sums"]),
        node("Less", ["nothing", "sums"], ["masks"]),
        node(
            "Loop",
            ["", "any", "first", "start", "start", "steps", "w", "v"],
            ["t_end", "n_end", "h_end", "s_end", "w_end", "v_end", *(["made"] if made else [])],
            body=body,
        ),
    ]
    constants = {
        "zero": np.array(0),
        "first": np.array(0, np.int32),
        "nothing": np.array(0, np.float32),
        "width_axis": np.array([2]),
        "w": random.standard_normal((width, width)).astype(np.float32) / width,
        "v": random.standard_normal((width, width)).astype(np.float32),
    }
    outputs = [("h_end", 1, batch), ("t_end", 6, ()), ("w_end", 1, (width, width)), ("n_end", 1, batch)]
    made_graph = helper.make_graph(
        nodes,
        "while",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info(*each) for each in (*outputs, *([("made", 1, shape)] if made else []))],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(made_graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("made", [False, True], ids=["carried", "scanned"])
def test_a_while_loop_that_a_carried_counter_ends_is_one_task_for_any_length(made: bool) -> None:
    written = while_loop(8, made=made)
    session = ort.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
    tasks = set()
    with syclsched.compile(written, devices="cpu", autotune=False) as compiled:
        for steps, batch in ((1, 1), (7, 2), (40, 2)):
            x = RANDOM.standard_normal((steps, batch, 8)).astype(np.float32)
            network = imported(written, {"x": x.shape})
            wanted = session.run(None, {"x": x})
            for got in (compiled({"x": x}), evaluate(network, {"x": x})):
                for name, value in zip([each.name for each in session.get_outputs()], wanted, strict=True):
                    assert got[name].dtype == value.dtype
                    np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)
            if steps > 4:
                tasks.add(len(compiled.graph))
                (loop,) = (each for each in network.nodes if each.kind == "loop")
                assert loop.attributes["body"].rounds == steps
                assert not loop.attributes["body"].is_counted_at_run_time
    assert len(tasks) == 1


@pytest.mark.parametrize("trips", [3, 9, 30])
def test_a_carried_value_that_halves_ends_a_loop_before_its_trip_count(trips: int) -> None:
    body = graph(
        [
            node("Mul", ["g", "half"], ["g1"]),
            node("Less", ["least", "g1"], ["d"]),
            node("MatMul", ["h", "W"], ["h1"]),
        ],
        "i c g h",
        "d g1 h1",
        half=np.array(0.5, np.float32),
        least=np.array(1, np.float32),
    )
    looped = node("Loop", ["count", "", "limit", "H"], ["g2", "h2"], body=body)
    made = model([looped], {"H": H}, "g2 h2", count=np.array(trips))
    check(made, {"H": H})
    for each in imported(made).nodes:
        assert each.kind != "loop" or each.attributes["body"].rounds == 6


def test_a_carried_counter_with_an_unknown_start_ends_a_loop() -> None:
    body = graph(
        [node("Add", ["g", "step"], ["g1"]), node("Less", ["g1", "limit"], ["d"]), node("MatMul", ["h", "W"], ["h1"])],
        "i c g h",
        "d g1 h1",
        step=np.array(1, np.float32),
    )
    looped = node("Loop", ["", "", "G", "H"], ["g2", "h2"], body=body)
    given = [{"G": np.array(start, np.float32), "H": H} for start in (35, 0, 50)]
    made = model([looped], given[0], "g2 h2")
    check(made, *given)


def typed(made: Any, **kinds: int) -> Any:
    """Return a graph with other types of elements of its inputs and outputs; those of no known shape keep none."""
    for each in (*made.input, *made.output):
        if each.name in kinds:
            each.type.tensor_type.elem_type = kinds[each.name]
    return made


def decoder_body(result: str) -> Any:
    """Return the body of a decoder as Paddle's converter writes it: results are set in place.

    The declared shape of a branch of its If is wrong, and so is that of a flag before its first iteration.
    """
    yes = typed(graph([node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True)))], "", "yes"), yes=9)
    no = graph(
        [node("Cast", ["end"], ["e1"], to=7), node("Add", ["e1", "none"], ["e2"]), node("Cast", ["e2"], ["no"], to=9)],
        "",
        "no",
        none=np.array([0]),
    )
    no.output[0].CopyFrom(helper.make_tensor_value_info("no", 9, ()))
    body = graph(
        [
            node("MatMul", ["h", "W2"], ["p"]),
            node("Tanh", ["p"], ["h1"]),
            node("Cast", ["at"], ["at1"], to=1),
            node("Add", ["at1", "step"], ["at2"]),
            node("Cast", ["at2"], ["at3"], to=7),
            node("Reshape", ["at", "line"], ["from"]),
            node("Reshape", ["at3", "line"], ["to"]),
            node("Shape", ["made"], ["extents"]),
            node("Gather", ["extents", "second"], ["most"], axis=0),
            node("Min", ["most", "to"], ["stop"]),
            node("Slice", ["made", "from", "stop", "second", "ones"], ["part"]),
            node("Shape", ["part"], ["part_shape"]),
            node("Unsqueeze", ["h1", "second"], ["lines"]),
            node("Expand", ["lines", "part_shape"], ["wide"]),
            node("Squeeze", ["from"], ["from0"]),
            node("Squeeze", ["stop"], ["stop0"]),
            node("Range", ["from0", "stop0", "one0"], ["places"]),
            node("Reshape", ["places", "column"], ["places3"]),
            node("Tile", ["places3", "tiles"], ["places4"]),
            node("ScatterElements", ["made", "places4", "wide"], ["made1"], axis=1),
            node("ReduceMax", ["h1"], ["top"], keepdims=0),
            node("Less", ["top", "bound"], ["low"]),
            node("If", ["low"], ["ended"], then_branch=yes, else_branch=no),
            node("Less", ["at3", "limit0"], ["left"]),
            node("Not", ["ended"], ["going"]),
            node("And", ["left", "going"], ["both"]),
            node("Cast", ["both"], ["both1"], to=7),
            node("Add", ["both1", "none0"], ["both2"]),
            node("Cast", ["both2"], ["d"], to=9),
            node("Cast", ["ended"], ["ended1"], to=7),
            node("Add", ["ended1", "none0"], ["ended2"]),
            node("Cast", ["ended2"], ["end1"], to=9),
            node("Identity", ["h1"], ["last"]),
        ],
        "i c at h made end written limit0 W2",
        f"d at3 h1 made1 {result} last limit0 W2",
        {"at": (), "h": (1, 4), "end": (), "made": (1, None, 4), "limit0": (), "W2": (4, 4)},
        step=np.array(1, np.float32),
        line=np.array([-1]),
        second=np.array([1]),
        ones=np.array([1]),
        one0=np.array(1),
        column=np.array([1, -1, 1]),
        tiles=np.array([1, 1, 4]),
        none0=np.array([0]),
        bound=np.array(0.05, np.float32),
    )
    return typed(body, at=7, at3=7, end=9, limit0=7, **{result: 9})


def decoder(result: str) -> Any:
    """Return a decoder, a loop whose end values decide."""
    nodes = [
        node(
            "Loop",
            ["trips", "begins", "zero", "x", "nothing", "ends", "unset", "most_steps", "shrinking"],
            ["count", "h_end", "y", "flag", "written_end", "limit_end", "w_end"],
            body=decoder_body(result),
        )
    ]
    constants = {
        "trips": np.array([64]),
        "begins": np.array(True),
        "zero": np.array(0),
        "nothing": np.zeros((1, 9, 4), np.float32),
        "ends": np.array(False),
        "unset": np.array(0, np.float32),
        "most_steps": np.array(8),
        "shrinking": np.eye(4, dtype=np.float32) * np.float32(0.8),
    }
    made = model(nodes, {"x": H[:1]}, "count h_end y flag written_end", **constants)
    typed(made.graph, count=7, flag=9)
    return made


def test_a_decoder_with_wrong_declared_shapes_is_one_task() -> None:
    made = decoder("end1")
    starts = (np.full((1, 4), each, np.float32) for each in (0.04, 0.1, 0.3, 3))
    check(made, *({"x": each} for each in starts))
    kinds = [each.kind for each in imported(made).nodes]
    assert "loop" in kinds and "reference" not in kinds


def test_a_loop_whose_carried_rank_follows_from_values_is_refused_with_the_node() -> None:
    with pytest.raises(ModelError, match=r"node If .*the shape of its result 'ended' depends on the values"):
        imported(decoder("ended"))


def body_that_reads_a_shape(is_start: bool) -> Any:
    """Return a loop of which an iteration adds the number of axes of a flag, () or (1,), to its state.

    Values decide the rank within an If, or a start value has another rank than that of the first iteration.
    """
    outside = {"lowest": np.float32(0), "one": np.int64(1), "nine": np.int64(9), "last": np.array([-1])}

    def branch(name: str, shape: list[int]) -> Any:
        made = helper.make_tensor(name, onnx.TensorProto.BOOL, shape, [bool(shape)])
        info = helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, shape)
        return helper.make_graph([helper.make_node("Constant", [], [name], value=made)], name, [], [info])

    node = helper.make_node
    flag = node("If", ["is_low"], ["flag"], then_branch=branch("yes", []), else_branch=branch("no", [1]))
    nodes = [
        node("Add", ["t", "one"], ["t1"]),
        node("Less", ["t1", "nine"], ["goes"]),
        node("ReduceMax", ["h"], ["top"], keepdims=0),
        node("Less", ["top", "lowest"], ["is_low"]),
        *([node("Reshape", ["is_low", "last"], ["flag1"])] if is_start else [flag]),
        node("Shape", ["flag"], ["extents"]),
        node("Size", ["extents"], ["rank"]),
        node("Cast", ["rank"], ["added"], to=onnx.TensorProto.FLOAT),
        node("Add", ["h", "added"], ["h1"]),
    ]

    def info(name: str, kind: int, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    given = [
        info("i", 7, []),
        info("c", 9, []),
        info("t", 7, []),
        *([info("flag", 9, None)] * is_start),
        info("h", 1, [3]),
    ]
    made = [info("goes", 9, []), info("t1", 7, []), *([info("flag1", 9, None)] * is_start), info("h1", 1, [3])]
    body = helper.make_graph(nodes, "body", given, made)
    starts = ["zero", *(["false"] if is_start else []), "x"]
    results = ["t_end", *(["flag_end"] if is_start else []), "y"]
    constants = outside | {"zero": np.int64(0), "false": np.array(False)}
    whole = helper.make_graph(
        [node("Loop", ["", "", *starts], results, body=body)],
        "ranks",
        [info("x", 1, [3])],
        [info("y", 1, [3])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_loop_that_computes_with_a_rank_that_values_decide_is_refused() -> None:
    with pytest.raises(ModelError, match="depends on the values of its inputs"):
        imported(body_that_reads_a_shape(is_start=False))


def test_a_loop_that_computes_with_the_rank_of_a_start_value_is_unrolled() -> None:
    x = np.array([1.0, -2.0, 3.0], np.float32)
    found = evaluate(imported(body_that_reads_a_shape(is_start=True)), {"x": x})
    assert np.array_equal(found["y"], x + 8)  # of nine iterations the first adds 0


@pytest.mark.parametrize("way", ["counter", "carried"])
def test_extents_that_change_with_a_counter(way: str) -> None:
    body = graph(
        [
            node("Add", ["t", "one"], ["t1"]),
            node("Add", ["i" if way == "counter" else "t", "one"], ["n0"]),
            node("Reshape", ["n0", "line"], ["stop"]),
            node("Slice", ["x", "from0", "stop", "from0"], ["part"]),
            node("ReduceSum", ["part", "from0"], ["sum"], keepdims=0),
            node("Range", ["first", "n0", "one"], ["places"]),
            node("ReduceSum", ["places"], ["places_sum"], keepdims=0),
            node("Cast", ["places_sum"], ["places_sum1"], to=1),
            node("Add", ["h", "sum"], ["h0"]),
            node("Add", ["h0", "places_sum1"], ["h1"]),
            node("Less", ["t1", "seven"], ["d"]),
        ],
        "i c t h",
        "d t1 h1",
        {"t": (), "h": (4,)},
        line=np.array([-1]),
        from0=np.array([0]),
        first=np.array(0),
        seven=np.array(7),
    )
    typed(body, t=7, t1=7)
    looped = node("Loop", ["", "", "zero", "start"], ["t_end", "y"], body=body)
    x = RANDOM.standard_normal((9, 4)).astype(np.float32)
    made = model([looped], {"x": x}, "y", zero=np.array(0), start=np.zeros(4, np.float32))
    check(made, {"x": x}, {"x": x + 1})


def test_what_outer_values_alone_determine_is_computed_before_the_loop() -> None:
    weights = RANDOM.standard_normal((64, 64)).astype(np.float32) / 8
    body = graph(
        [
            node("MatMul", ["x", "weights"], ["p"]),
            node("Tanh", ["p"], ["keys"]),
            node("Mul", ["h", "keys"], ["s"]),
            node("MatMul", ["s", "weights"], ["h1"]),
            node("Identity", ["c"], ["d"]),
            node("Add", ["keys", "h"], ["y"]),
        ],
        "i c h",
        "d h1 y",
        {"h": (16, 64)},
    )
    looped = node("Loop", ["n", "", "x"], ["last", "ys"], body=body)
    x = RANDOM.standard_normal((16, 64)).astype(np.float32)
    made = model([looped], {"x": x}, "last ys", n=np.array(7), weights=weights)
    check(made, {"x": x}, {"x": x + 1})
    network = imported(made)
    (loop,) = (each for each in network.nodes if each.kind == "loop")
    inner = [each.kind for each in loop.attributes["body"].network.nodes]
    assert inner.count("matmul") == 1
    assert [each.kind for each in network.nodes].count("matmul") == 1


def test_constants_computed_for_a_body_serve_other_shapes(tmp_path: Path) -> None:
    weights = RANDOM.standard_normal((160, 160)).astype(np.float32) / 40
    body = graph(
        [
            node("Transpose", ["weights"], ["turned"], perm=[1, 0]),
            node("MatMul", ["h", "turned"], ["h1"]),
            node("Identity", ["c"], ["d"]),
        ],
        "i c h",
        "d h1",
    )
    nodes = [node("Loop", ["count", "", "x"], ["y"], body=body)]
    made = model(nodes, {"x": weights}, "y", count=np.array(6), weights=weights)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    path = tmp_path / "loop.onnx"
    onnx.save(made, path)
    with syclsched.compile(path, devices="cpu", autotune=False) as compiled:
        for count in (1, 3):
            x = weights[:count]
            wanted = x.astype(np.float64)
            for _ in range(6):
                wanted = wanted @ weights.T
            np.testing.assert_allclose(compiled(x)["y"], wanted, rtol=1e-3, atol=1e-4)


def test_a_loop_that_the_counter_ends_late() -> None:
    body = graph(
        [node("Less", ["i", "most"], ["go_on"]), node("Add", ["h", "step"], ["h1"])],
        "i c h",
        "go_on h1",
        {"h": ()},
        most=np.array(20_000),
        step=np.array(1, np.float32),
    )
    body.output[0].type.tensor_type.elem_type = 9
    made = model(
        [node("Loop", ["n", "", "h"], ["y"], body=body)], {"n": np.array(30_000), "h": np.array(0, np.float32)}, "y"
    )
    check(made, {"n": np.array(30_000), "h": np.array(0, np.float32)})


def test_results_of_unknown_length_in_a_body() -> None:
    """They are refused: a length computed in the body is not available outside."""
    body = graph(
        [node("NonZero", ["h"], ["p"]), node("Identity", ["h"], ["h1"]), node("Identity", ["c"], ["d"])],
        "i c h",
        "d h1 p",
    )
    made = model([node("Loop", ["trips", "", "h"], ["y", "ps"], body=body)], {"h": H}, "y ps", trips=np.array(6))
    with pytest.raises(ModelError):
        imported(made)


def test_results_of_no_iterations_whose_extents_follow_from_the_counter() -> None:
    nodes = [
        node("Add", ["i", "one"], ["next"]),
        node("Unsqueeze", ["next", "axes"], ["end"]),
        node("Slice", ["h", "axes", "end", "axes"], ["part"]),
        node("ReduceSum", ["part", "axes"], ["row"], keepdims=0),
        node("Identity", ["h"], ["h1"]),
        node("Identity", ["c"], ["d"]),
    ]
    looped = node("Loop", ["trips", "", "h"], ["y", "rows"], body=graph(nodes, "i c h", "d h1 row"))
    made = [looped, node("MatMul", ["rows", "W"], ["z"])]
    for trips in (0, 2):  # of none, ONNX Runtime finds the shapes only where they are declared
        rows = np.cumsum(H, axis=0)[:trips]
        with syclsched.compile(model(made, {"h": H}, "rows z", trips=np.array(trips)), devices="cpu") as compiled:
            found = compiled(h=H)
        np.testing.assert_allclose(found["rows"], rows, rtol=1e-5)
        np.testing.assert_allclose(found["z"], rows @ W, rtol=1e-4, atol=1e-5)


def test_long_loop_releases_the_gil() -> None:
    """After short calls, which the calling thread would execute itself without releasing the GIL."""
    body = graph([*STEP[:1], node("Tanh", ["m"], ["h1"]), node("Identity", ["c"], ["d"])], "i c h", "d h1")
    looped = node("Loop", ["n", "", "H"], ["last"], body=body)
    inputs = {"H": H, "n": np.array(3)}
    turns: list[float] = []
    ended = threading.Event()

    def take_turns() -> None:
        while not ended.wait(1e-3):
            turns.append(time.perf_counter())

    other = threading.Thread(target=take_turns)
    with syclsched.compile(model([looped], inputs, "last"), devices="cpu", autotune=False) as compiled:
        for _ in range(50):
            compiled(inputs)
        other.start()
        begun_s = time.perf_counter()
        try:
            compiled({**inputs, "n": np.array(300_000)})
        finally:
            ended_s = time.perf_counter()
            ended.set()
            other.join()
    quarter_s = (ended_s - begun_s) / 4
    assert any(begun_s + quarter_s < each < ended_s - quarter_s for each in turns)
