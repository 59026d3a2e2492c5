# SPDX-License-Identifier: Apache-2.0
"""Inputs with default values: given by the caller or left out, by turns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.commands import call

import syclsched
from syclsched.errors import ArgumentError

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

pytestmark = pytest.mark.sycl

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def model_of(nodes, inputs, defaults, *, ir_version: int = 8, opset: int = 17):
    """Return a model whose first inputs have no default value."""
    declared = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
    tensors = [numpy_helper.from_array(value, name) for name, value in defaults.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "defaults", declared, [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def affine(*, first: bool = False, ir_version: int = 8):
    """Return a model of x * scale + shift, of which scale and shift have default values."""
    inputs = {"x": (TensorProto.FLOAT, ["n", 3])}
    others = {"scale": (TensorProto.FLOAT, ["m"]), "shift": (TensorProto.FLOAT, ["m"])}
    nodes = [helper.make_node("Mul", ["x", "scale"], ["z"]), helper.make_node("Add", ["z", "shift"], ["y"])]
    defaults = {"scale": np.float32([1, 2, 3]), "shift": np.float32([10, 20, 30])}
    return model_of(nodes, {**others, **inputs} if first else {**inputs, **others}, defaults, ir_version=ir_version)


@pytest.mark.parametrize("first", [False, True])
def test_default_values_are_used_for_missing_inputs(first: bool) -> None:
    """The error said that the model had a value, although the format allows callers to give another."""
    proto = affine(first=first)
    right = ReferenceEvaluator(proto)
    scale, shift, one = np.float32([4, 5, 6]), np.float32([-1, -2, -3]), np.float32([7])
    with syclsched.compile(proto, devices="cpu", autotune=False) as compiled:
        assert [each.name for each in compiled.inputs] == ["x"]
        assert [each.name for each in compiled.model.defaulted] == ["scale", "shift"]
        for _ in range(3):  # the last calls of each kind have been planned
            for given in (
                {},
                {"shift": shift},
                {"scale": scale},
                {"scale": scale, "shift": shift},
                {"scale": shift, "shift": scale},
                {"scale": one, "shift": one},
            ):
                (expected,) = right.run(None, {"x": X, **given})
                np.testing.assert_allclose(compiled({"x": X, **given})["y"], expected)
                np.testing.assert_allclose(compiled(X, **given)["y"], expected)
                if list(given) != ["shift"]:
                    np.testing.assert_allclose(compiled(X, *given.values())["y"], expected)
            np.testing.assert_allclose(compiled(X)["y"], X * [1, 2, 3] + [10, 20, 30])


def test_repeated_calls_distinguish_the_given_defaults() -> None:
    with syclsched.compile(affine(), devices="cpu", autotune=False) as compiled:
        other = np.float32([1, 1, 1])
        for _ in range(4):
            np.testing.assert_allclose(compiled({"x": X, "shift": other})["y"], X * [1, 2, 3] + 1)
        for _ in range(4):
            np.testing.assert_allclose(compiled(X, other)["y"], np.float32([10, 20, 30]) + X)
        for _ in range(4):
            np.testing.assert_allclose(compiled({"x": X, "shift": other})["y"], X * [1, 2, 3] + 1)


def test_default_values_may_decide_shapes() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    inputs = {"x": (TensorProto.FLOAT, ["n", 3]), "shape": (TensorProto.INT64, ["rank"])}
    proto = model_of(nodes, inputs, {"shape": np.int64([3, -1])})
    with syclsched.compile(proto, devices="cpu", autotune=False) as compiled:
        for _ in range(2):
            for shape in ([3, 2], [6], [1, 2, 3], [2, -1], [-1]):
                found = compiled(X, np.int64(shape))["y"]
                np.testing.assert_array_equal(found, X.reshape(shape))
                np.testing.assert_array_equal(compiled(X)["y"], X.reshape(3, 2))


def test_optional_input_that_decides_shapes() -> None:
    """The second call looked for a value that it was not given."""
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.INT64, [None]))
    value = helper.make_node("OptionalGetElement", ["shape"], ["given"])
    then = helper.make_graph([value], "then", [], [helper.make_tensor_value_info("given", TensorProto.INT64, None)])
    constant = helper.make_node("Constant", [], ["other"], value_ints=[3, 2])
    other = helper.make_graph(
        [constant], "other", [], [helper.make_tensor_value_info("other", TensorProto.INT64, None)]
    )
    nodes = [
        helper.make_node("OptionalHasElement", ["shape"], ["has"]),
        helper.make_node("If", ["has"], ["target"], then_branch=then, else_branch=other),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    declared = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3]),
        helper.make_value_info("shape", optional),
    ]
    graph = helper.make_graph(nodes, "g", declared, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with syclsched.compile(proto, devices="cpu", autotune=False) as compiled:
        for shape in ([6], None, [1, 6], None):
            found = compiled(X) if shape is None else compiled(X, np.int64(shape))
            np.testing.assert_array_equal(found["y"], X.reshape(shape or (3, 2)))


def test_the_command_line_gives_default_values(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    onnx.save(affine(), tmp_path / "affine.onnx")
    np.save(tmp_path / "shift.npy", np.float32([1, 1, 1]))
    np.save(tmp_path / "x.npy", X)
    done = call(
        capsys, "run", tmp_path / "affine.onnx", "--input", f"x={tmp_path / 'x.npy'}", "--devices", "cpu",
        "--input", f"shift={tmp_path / 'shift.npy'}", "--no-calibrate", "--output", tmp_path / "out.npz",
        "--compare", "onnxruntime",
    )  # fmt: skip
    assert done.code == 0, done.err
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["y"], X * [1, 2, 3] + 1)


def test_wrong_values_in_place_of_defaults_are_refused() -> None:
    with syclsched.compile(affine(), devices="cpu", autotune=False) as compiled:
        with pytest.raises(ArgumentError, match="model takes 3") as caught:
            compiled(X, X, X, X)
        assert "x, scale, shift" in str(caught.value)
        with pytest.raises(ArgumentError, match="dtype is float64"):
            compiled(X, scale=np.ones(3))
        with pytest.raises(ArgumentError, match=r"shape \(1, 3\)"):
            compiled(X, scale=np.ones((1, 3), np.float32))
        with pytest.raises(ArgumentError, match="with default values scale, shift"):
            compiled(X, bias=np.ones(3, np.float32))


def test_constants_of_old_models_are_no_inputs() -> None:
    """In version 3 of the format every constant is listed as an input."""
    with (
        syclsched.compile(affine(ir_version=3), devices="cpu", autotune=False) as compiled,
        pytest.raises(ArgumentError, match="has a value for scale"),
    ):
        compiled(X, scale=np.float32([1, 1, 1]))


def test_default_values_in_buckets_streams_and_runs() -> None:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    inputs = {"x": (TensorProto.FLOAT, ["n"]), "w": (TensorProto.FLOAT, ["n"])}
    proto = model_of(nodes, inputs, {"w": np.float32([5, 6, 7, 8])})
    with syclsched.compile(proto, devices="cpu", autotune=False, buckets={"n": (4, 8)}) as compiled:
        for n in (3, 2, 7, 3):
            one = np.ones(n, np.float32)
            np.testing.assert_array_equal(compiled(one, one)["y"], one + 1)
    with syclsched.compile(proto, devices="cpu", autotune=False) as compiled:
        one = np.ones(4, np.float32)
        given = [(one,), (one, one), {"x": one}, {"x": one, "w": 2 * one}]
        found = [each["y"].tolist() for each in compiled.stream(given)]
        assert found == [[6, 7, 8, 9], [2] * 4, [6, 7, 8, 9], [3] * 4]
        assert compiled.start(one, w=3 * one).result("y").tolist() == [4] * 4


@pytest.mark.parametrize("way", [lambda c: c({"x": X}, x=X), lambda c: c(X, x=X), lambda c: c(X, X[0], scale=X[0])])
def test_two_values_for_one_input_are_refused(way) -> None:
    """One of them was taken."""
    with (
        syclsched.compile(affine(), devices="cpu", autotune=False) as compiled,
        pytest.raises(ArgumentError, match="two values are given for"),
    ):
        way(compiled)


def test_carried_values_begin_with_their_defaults() -> None:
    """The error said that the model had no such input."""
    state = np.float32([[1, 2, 3], [4, 5, 6]])
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["z"]),
        helper.make_node("Add", ["z", "state"], ["next"]),
        helper.make_node("Neg", ["next"], ["y"]),
    ]
    inputs = {name: (TensorProto.FLOAT, ["n", 3]) for name in ("x", "state")}
    proto = model_of(
        nodes, {**inputs, "scale": (TensorProto.FLOAT, [3])}, {"scale": np.float32([1, 2, 3]), "state": state}
    )
    proto.graph.output.append(helper.make_tensor_value_info("next", TensorProto.FLOAT, ["n", 3]))
    one = np.float32([1, 1, 1])
    with syclsched.compile(proto, devices="cpu", autotune=False, carried={"next": "state"}) as compiled:
        for _ in range(2):
            np.testing.assert_array_equal(compiled(X)["y"], -state - X * [1, 2, 3])
            np.testing.assert_array_equal(compiled(X, one)["y"], -state - X * [1, 2, 3] - X)
            compiled.reset()
            np.testing.assert_array_equal(compiled.carried()["state"], state)
        with pytest.raises(ArgumentError, match="shapes of their defaults"):
            compiled(np.ones((3, 3), np.float32))
        compiled.reset(state=np.ones((3, 3), np.float32))
        np.testing.assert_array_equal(compiled(np.ones((3, 3), np.float32), one)["y"], np.full((3, 3), -2))
        compiled.reset()
        np.testing.assert_array_equal(compiled(X, scale=one)["y"], -state - X)
