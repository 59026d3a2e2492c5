# SPDX-License-Identifier: Apache-2.0
"""Invalid models: refused before any computation, with the error and its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from support.examples import examples  # noqa: E402
from support.small_models import imported, model_of, relu_model  # noqa: E402

from syclsched.errors import (  # noqa: E402
    DeclaredShapeWarning,
    ModelError,
    OpenDimensionError,
    StorageError,
    SyclschedError,
    ValueNeededError,
)
from syclsched.frontends.onnx.model_file.mapped_files import mapped_location  # noqa: E402
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits  # noqa: E402
from syclsched.frontends.onnx.model_file.model_reader import read_model  # noqa: E402

node = helper.make_node
opset_28 = pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="the package onnx does not know opset 28")


def refusal(call: Callable[[], Any], kind: type[SyclschedError] = ModelError) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# --- files --------------------------------------------------------------------------------------------


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    data = relu_model().SerializeToString()
    path.write_bytes(data[: len(data) // 2])
    text = refusal(lambda: read_model(path))
    assert str(path) in text and "cut short" in text


@pytest.mark.parametrize(
    ("data", "said", "advice"),
    [
        (b"", "is empty", "downloaded"),
        (b"version https://git-lfs.github.com/spec/v1\n", "no ONNX model", "git lfs pull"),
        (b"\x00" * 100, "no ONNX model", "downloaded"),
        (b"PK\x03\x04zip", "no ONNX model", "downloaded"),
    ],
)
def test_data_without_a_model_is_refused(data: bytes, said: str, advice: str) -> None:
    text = refusal(lambda: read_model(data))
    assert said in text and advice in text


def test_a_missing_file_is_a_storage_error(tmp_path: Path) -> None:
    assert "No such file" in refusal(lambda: read_model(tmp_path / "none.onnx"), StorageError)
    assert "cannot be read" in refusal(lambda: read_model(tmp_path), StorageError)
    assert "cannot be read" in refusal(lambda: read_model("a\0b"), StorageError)


def test_a_model_larger_than_memory_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with open(path, "wb") as file:
        file.truncate(1 << 40)  # sparse: it takes no disk space
    text = refusal(lambda: read_model(path))
    assert "1,099,511,627,776 bytes" in text and "memory" in text
    with open(path, "wb") as file:
        file.truncate(3 << 30)
    assert "protobuf" in refusal(lambda: read_model(path, limits=ModelLimits(memory_bytes=1 << 40)))


def test_values_of_other_types_are_no_models() -> None:
    said = refusal(lambda: read_model(3))
    assert "int" in said and "torch.onnx.export" in said


def function(name: str, body: list[onnx.NodeProto]) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], body, opsets)


def test_exponential_functions_are_refused_before_inlining() -> None:
    model = model_of([node("F0", ["x"], ["y"], domain="own")], {"x": (1,)}, ["y"], opset=17)
    model.opset_import.append(helper.make_opsetid("own", 1))
    for level in range(40):
        inner = f"F{level + 1}"
        body = [node(inner, ["a"], ["m"], domain="own"), node(inner, ["m"], ["b"], domain="own")]
        model.functions.append(function(f"F{level}", body))
    model.functions.append(function("F40", [node("Relu", ["a"], ["b"])]))
    assert f"{1 << 40:,} nodes" in refusal(lambda: read_model(model))


def test_a_function_that_calls_itself_is_refused() -> None:
    model = model_of([node("F", ["x"], ["y"], domain="own")], {"x": (1,)}, ["y"], opset=17)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(function("F", [node("F", ["a"], ["b"], domain="own")]))
    assert "'F' calls itself" in refusal(lambda: read_model(model))


# --- operators and versions ---------------------------------------------------------------------------


def test_an_unknown_operator_is_named_with_its_node() -> None:
    model = model_of([node("Frobnicate", ["x"], ["y"], name="f7")], {"x": (1,)}, ["y"])
    text = refusal(lambda: read_model(model))
    assert "Frobnicate" in text and "f7" in text


def test_an_operator_of_another_maker_is_refused() -> None:
    model = model_of([node("FusedConvs", ["x"], ["y"], domain="com.microsoft")], {"x": (1,)}, ["y"])
    assert "com.microsoft" in refusal(lambda: read_model(model))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert "Did you mean 'FusedConv'?" in refusal(lambda: read_model(model))
    assert "basic level, or quantised as QuantFormat.QDQ" in refusal(lambda: read_model(model))
    model.graph.node[0].domain = model.opset_import[1].domain = "com.microsoft.nchwc"
    assert "optimised with ORT_ENABLE_EXTENDED" in refusal(lambda: read_model(model))
    model.graph.node[0].domain = model.opset_import[1].domain = "com.others"
    assert "other makers" in refusal(lambda: read_model(model))


def test_an_operator_of_a_later_opset_names_that_opset() -> None:
    model = model_of([node("Gelu", ["x"], ["y"])], {"x": (1,)}, ["y"], opset=17)
    assert "came with opset 20" in refusal(lambda: read_model(model))


@pytest.mark.parametrize("opset", [1, 6, 29, 99])
def test_unsupported_opsets_are_refused_with_the_supported_range(opset: int) -> None:
    text = refusal(lambda: read_model(relu_model(opset=opset)))
    assert f"opset {opset}" in text and "7 to 28" in text


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_shifts_of_signed_integers_are_refused_before_opset_28(dtype: str) -> None:
    shift = node("BitShift", ["x", "y"], ["z"], name="shift7", direction="RIGHT")
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = model_of([shift], {"x": (2,), "y": (2,)}, ["z"], dtypes=dict.fromkeys("xyz", number))
    text = refusal(lambda: imported(model))
    assert "'shift7'" in text and f"elements of {dtype}, and BitShift of opset 17 takes uint16" in text


@pytest.mark.parametrize(("number", "name"), [(24, "float8e8m0"), (14, "complex64")])
def test_casts_to_types_that_numpy_does_not_have_are_refused(number: int, name: str) -> None:
    model = model_of([node("Cast", ["x"], ["y"], name="cast3", to=number)], {"x": (2,)}, ["y"])
    text = refusal(lambda: imported(model))
    assert "'cast3'" in text and name in text


@pytest.mark.parametrize("operator", ["ReduceLogSum", "ReduceLogSumExp"])
@opset_28
def test_logarithms_of_integers_are_refused_from_opset_28_on(operator: str) -> None:
    dtypes = dict.fromkeys("xy", TensorProto.INT32)
    model = model_of([node(operator, ["x"], ["y"], name="log1")], {"x": (3,)}, ["y"], opset=28, dtypes=dtypes)
    text = refusal(lambda: imported(model))
    assert "'log1'" in text and "int32" in text


@opset_28
def test_gated_activations_do_not_broadcast() -> None:
    model = model_of([node("SwiGLU", ["a", "b"], ["y"], name="gate")], {"a": (2, 3), "b": (1, 3)}, ["y"], opset=28)
    text = refusal(lambda: imported(model))
    assert "'gate'" in text and "(2, 3) and (1, 3)" in text


def test_an_opset_that_the_package_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 20)
    assert "knows those up to 20" in refusal(lambda: read_model(relu_model(opset=21)))


def test_a_model_must_say_its_opset() -> None:
    model = relu_model()
    del model.opset_import[:]
    assert "opset_import" in refusal(lambda: read_model(model))


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (node("Relu", [], ["y"]), "0 inputs"),
        (node("Relu", ["x", "x"], ["y"]), "2 inputs"),
        (node("Relu", ["x"], ["y", "z"]), "2 outputs"),
        (node("Relu", ["x"], ["y"], colour=3), "no attribute 'colour'"),
        (node("Concat", ["x"], ["y"]), "'axis' is missing"),
        (node("Concat", ["x"], ["y"], axis=1.5), "'axis' is not of the type"),
        (node("Gemm", ["x", ""], ["y"]), "input 'B' is left out"),
    ],
)
def test_nodes_are_held_to_their_schema(broken: Any, said: str) -> None:
    assert said in refusal(lambda: read_model(model_of([broken], {"x": (1, 2)}, ["y"])))


# --- graphs -------------------------------------------------------------------------------------------


def test_a_circle_is_named() -> None:
    nodes = [node("Add", ["x", "c"], ["a"], name="one"), node("Relu", ["a"], ["b"]), node("Neg", ["b"], ["c"])]
    text = refusal(lambda: read_model(model_of(nodes, {"x": (1,)}, ["c"])))
    assert "cycle" in text and "'one'" in text


def test_nodes_out_of_order_are_brought_into_order() -> None:
    nodes = [node("Neg", ["a"], ["y"]), node("Relu", ["x"], ["a"])]
    model = read_model(model_of(nodes, {"x": (1,)}, ["y"]))
    assert [each.operator for each in model.graph.nodes] == ["Relu", "Neg"]


def test_a_missing_initialiser_is_named_with_its_reader() -> None:
    text = refusal(lambda: read_model(model_of([node("Add", ["x", "w"], ["y"], name="a")], {"x": (1,)}, ["y"])))
    assert "'w'" in text and "'a'" in text and "weight" in text


def test_values_produced_twice_are_refused() -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])]
    assert "made twice" in refusal(lambda: read_model(model_of(nodes, {"x": (1,)}, ["y"])))


def test_an_unproduced_output_and_missing_outputs_are_refused() -> None:
    assert "no node produces output 'z'" in refusal(lambda: read_model(model_of([], {"x": (1,)}, ["z"])))
    assert "no outputs" in refusal(lambda: read_model(model_of([], {"x": (1,)}, [])))


# --- tensors ------------------------------------------------------------------------------------------


def declaring(dtype: int, shape: Any) -> Any:
    model = relu_model()
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", dtype, shape))
    return model


@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 1)])
def test_outputs_that_differ_from_the_declared_shape_warn(shape: Any) -> None:
    with pytest.warns(DeclaredShapeWarning, match=r"output 'y': its shape is \(2, 3\), and \("):
        assert imported(declaring(onnx.TensorProto.FLOAT, shape)).values["y"].shape == (2, 3)


def test_outputs_of_another_dtype_than_declared_are_refused() -> None:
    text = refusal(lambda: imported(declaring(onnx.TensorProto.DOUBLE, ("any", 3))))
    assert "output 'y': its elements are float32, and float64 is declared" in text


def test_a_tensor_with_too_few_data_is_refused() -> None:
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (2,)}, ["y"], {"w": np.ones(2, np.float32)})
    model.graph.initializer[0].dims[0] = 1000
    assert "8 bytes of data, expected 4,000" in refusal(lambda: read_model(model))
    model.graph.initializer[0].dims[0] = -2
    assert "negative" in refusal(lambda: read_model(model))
    model.graph.initializer[0].dims[0] = 1 << 62
    assert "memory" in refusal(lambda: read_model(model)) or "there are" in refusal(lambda: read_model(model))


@pytest.mark.parametrize(("number", "said"), [(24, "float8e8m0"), (14, "complex64"), (77, "type 77")])
def test_other_element_types_are_named(number: int, said: str) -> None:
    model = relu_model()
    model.graph.input[0].type.tensor_type.elem_type = number
    assert said in refusal(lambda: read_model(model))
    tensor = TensorProto(name="w", data_type=number, dims=[1])
    other = relu_model()
    other.graph.initializer.append(tensor)
    assert said in refusal(lambda: read_model(other))


def test_text_is_refused_where_numbers_are_needed() -> None:
    model = relu_model()
    model.graph.input[0].type.tensor_type.elem_type = 8
    assert "'x' is text or a map, and Relu takes numbers" in refusal(lambda: read_model(model))


def test_sparse_tensors_are_checked_and_filled() -> None:
    values = numpy_helper.from_array(np.array([2.0, 3.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([1, 3], np.int64))
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (4,)}, ["y"])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    assert read_model(model).graph.initialisers["w"].tolist() == [0, 2, 0, 3]
    model.graph.sparse_initializer[0].dims[0] = 2
    assert "do not fit" in refusal(lambda: read_model(model))
    model.graph.sparse_initializer[0].dims[0] = 1 << 33
    assert "sparse" in refusal(lambda: read_model(model)) or "memory" in refusal(lambda: read_model(model))


@pytest.mark.parametrize("place", [[[0, 3], [1, 0]], [[-1, 0], [1, 0]]])
def test_an_index_of_a_sparse_tensor_lies_within_every_axis(place: list[list[int]]) -> None:
    values = numpy_helper.from_array(np.array([2.0, 3.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array(place, np.int64))
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (2, 3)}, ["y"])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    assert "lies outside it" in refusal(lambda: read_model(model))


@pytest.mark.parametrize("count", [3, 5])
def test_data_whose_length_contradicts_the_shape_are_refused(count: int) -> None:
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (4,)}, ["y"])
    raw = np.zeros(count, np.float32).tobytes()
    model.graph.initializer.append(TensorProto(name="w", data_type=1, dims=[4], raw_data=raw))
    assert f"{4 * count} bytes of data, expected 16 for float32 (4,)" in refusal(lambda: read_model(model))


@pytest.mark.parametrize(("axes", "said"), [([1, -1], "an axis stands twice in [1, 1]"), ([2], "there is no axis 2")])
def test_missing_or_repeated_axes_are_refused(axes: list[int], said: str) -> None:
    model = model_of([node("ReduceMean", ["x"], ["y"], axes=axes)], {"x": (2, 3)}, ["y"], opset=13)
    assert said in refusal(lambda: imported(model))


# --- external data ------------------------------------------------------------------------------------


def external(location: str, **more: Any) -> bytes:
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": (4,)}, ["y"])
    tensor = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(tensor)
    return bytes(model.SerializeToString())


def test_external_data_beside_the_model_are_mapped(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "w.bin").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    (tmp_path / "m.onnx").write_bytes(external("in/w.bin", offset=8, length=16))
    array = read_model(tmp_path / "m.onnx").graph.initialisers["w"]
    assert array.tolist() == [2, 3, 4, 5] and not array.flags.writeable
    assert mapped_location(array) is not None


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "in/../../w.bin", "link.bin", "folder/w.bin"])
def test_external_data_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "w.bin").write_bytes(b"\0" * 16)
    os.symlink(tmp_path / "w.bin", home / "link.bin")
    os.symlink(tmp_path, home / "folder")
    (home / "m.onnx").write_bytes(external(location))
    assert "outside" in refusal(lambda: read_model(home / "m.onnx"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"offset": 4}, "has 16 bytes"),
        ({"offset": -4}, "has 16 bytes"),
        ({"length": 8}, "expected 16"),
        ({"offset": "x"}, "not a number"),
        ({"offset": 1 << 70}, "has 16 bytes"),
    ],
)
def test_external_data_must_be_there(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 16)
    (tmp_path / "m.onnx").write_bytes(external("w.bin", **more))
    assert said in refusal(lambda: read_model(tmp_path / "m.onnx"))


def test_external_data_that_are_no_file(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(external("none.bin"))
    assert "No such file" in refusal(lambda: read_model(tmp_path / "m.onnx"))
    os.mkfifo(tmp_path / "none.bin")
    assert "ordinary file" in refusal(lambda: read_model(tmp_path / "m.onnx"))
    assert "no folder" in refusal(lambda: read_model(external("none.bin")))


# --- sizes --------------------------------------------------------------------------------------------

BILLION = np.array([1000, 1000, 1000], np.int64)
ONE = np.array(1.0, np.float32)


@pytest.mark.parametrize(
    "broken",
    [
        node("ConstantOfShape", ["shape"], ["y"]),
        node("Expand", ["one", "shape"], ["y"]),
        node("Tile", ["cube", "shape"], ["y"]),
        node("Range", ["zero", "huge", "one"], ["y"]),
        node("Resize", ["cube", "", "", "shape"], ["y"]),
        node("Pad", ["cube", "margins"], ["y"]),
        node("BlackmanWindow", ["length"], ["y"]),
    ],
    ids=lambda each: each.op_type,
)
def test_a_billion_elements_are_refused_before_they_are_made(broken: Any) -> None:
    constants = {
        "shape": BILLION,
        "one": ONE,
        "zero": np.float32(0),
        "huge": np.float32(1e9),
        "cube": np.ones((1, 1, 1), np.float32),
        "margins": np.array([0, 0, 0, 1000, 1000, 1000], np.int64),
        "length": np.array(1 << 40, np.int64),
    }
    text = refusal(lambda: imported(model_of([broken], {}, ["y"], constants)))
    assert "elements" in text and "bytes" in text and broken.op_type in text


def test_a_result_larger_than_memory_is_refused() -> None:
    model = model_of([node("Expand", ["x", "shape"], ["y"])], {"x": (1,)}, ["y"], {"shape": np.array([1 << 50])})
    assert "memory" in refusal(lambda: imported(model))


@pytest.mark.parametrize("trips", [1 << 60, None])
def test_endless_loops_are_refused(trips: int | None) -> None:
    body = helper.make_graph(
        [node("Identity", ["c"], ["c1"]), node("Neg", ["v"], ["v1"])],
        "body",
        [
            helper.make_tensor_value_info("i", 7, ()),
            helper.make_tensor_value_info("c", 9, ()),
            helper.make_tensor_value_info("v", 1, (1,)),
        ],
        [helper.make_tensor_value_info("c1", 9, ()), helper.make_tensor_value_info("v1", 1, (1,))],
    )
    constants: dict[str, Any] = {"go": np.array(True), "start": np.ones(1, np.float32)}
    if trips is not None:
        constants["trips"] = np.array(trips)
    loop = node("Loop", ["trips" if trips is not None else "", "go", "start"], ["y"], body=body)
    assert "rounds" in refusal(lambda: imported(model_of([loop], {}, ["y"], constants)))


# --- inputs -------------------------------------------------------------------------------------------


def test_open_dimensions_are_named() -> None:
    model = relu_model()
    shape = model.graph.input[0].type.tensor_type.shape
    shape.dim[0].dim_param = "batch"
    shape.dim[1].dim_value = -1
    with pytest.raises(OpenDimensionError) as caught:
        imported(model)
    assert caught.value.names == ("batch", "x[1]")
    assert "x: float32 (batch, ?)" in str(caught.value)
    assert imported(model, {"x": (5, 6)}).values["y"].shape == (5, 6)


def test_names_settle_other_inputs() -> None:
    model = model_of([node("Add", ["a", "b"], ["y"])], {"a": ("n", 3), "b": ("n", 3)}, ["y"])
    assert imported(model, {"a": (4, 3)}).values["b"].shape == (4, 3)
    assert imported(model, dimensions={"n": 5}).values["y"].shape == (5, 3)
    assert "n = 4" in refusal(lambda: imported(model, {"a": (4, 3), "b": (5, 3)}))


def test_question_marks_are_unknown_extents_and_no_common_one() -> None:
    model = model_of([node("MatMul", ["a", "b"], ["y"])], {"a": ("?", "?"), "b": ("?", 4)}, ["y"])
    assert imported(model, {"a": (2, 3), "b": (3, 4)}).values["y"].shape == (2, 4)
    with pytest.raises(OpenDimensionError) as caught:
        imported(model, {"a": (2, 3)})
    assert caught.value.names == ("b[0]",)
    assert "no open dimension" in refusal(lambda: imported(model, {"a": (2, 3)}, dimensions={"?": 3}))


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"z": (1,)}, "no input"),
        ({"x": (2,)}, "expected (2, 3)"),
        ({"x": (2, -3)}, "no extent"),
        ({"x": (2, 3.0)}, "no extent"),
    ],
)
def test_shapes_must_fit(shapes: Any, said: str) -> None:
    assert said in refusal(lambda: imported(relu_model(), shapes))


def test_given_extents_replace_declared_extents_with_a_warning() -> None:
    with pytest.warns(DeclaredShapeWarning, match=r"input 'x': the shape \(2, 4\) is given and used, and \(2, 3\)"):
        assert imported(relu_model(), {"x": (2, 4)}).values["y"].shape == (2, 4)


def test_dimensions_and_values_must_fit() -> None:
    assert "no open dimension" in refusal(lambda: imported(relu_model(), dimensions={"batch": 1}))
    assert "float64" in refusal(lambda: imported(relu_model(), known={"x": np.zeros((2, 3))}))


def test_a_value_dependent_shape_names_the_input() -> None:
    model = model_of([node("Reshape", ["x", "s"], ["y"])], {"x": (2, 3), "s": (1,)}, ["y"], dtypes={"s": 7})
    with pytest.raises(ValueNeededError) as caught:
        imported(model)
    assert caught.value.inputs == ("s",)
    assert imported(model, known={"s": np.array([6])}).values["y"].shape == (6,)


def test_shapes_that_contradict_each_other_name_the_node() -> None:
    model = model_of([node("Add", ["a", "b"], ["y"], name="sum")], {"a": (2, 3), "b": (4,)}, ["y"])
    text = refusal(lambda: imported(model))
    assert "'sum'" in text and "(2, 3)" in text and "(4,)" in text


# --- mutations ----------------------------------------------------------------------------------------


def _rich_model() -> bytes:
    constants = {
        "w": np.ones((4, 2, 3, 3), np.float32),
        "shape": np.array([0, -1], np.int64),
        "starts": np.array([1]),
        "ends": np.array([9]),
    }
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], ["b"]),
        node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], ceil_mode=1),
        node("Reshape", ["c", "shape"], ["d"]),
        node("Slice", ["d", "starts", "ends"], ["e"]),
        node("Softmax", ["e"], ["f"], axis=-1),
        node("ReduceMean", ["f"], ["y"], axes=[1]),
    ]
    return bytes(model_of(nodes, {"x": (1, 2, 8, 8)}, ["y"], constants).SerializeToString())


RICH = _rich_model()


@settings(max_examples=examples(150))
@given(st.lists(st.tuples(st.integers(0, len(RICH) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_model_is_refused_or_accepted(changes: list[tuple[int, int]]) -> None:
    data = bytearray(RICH)
    for place, value in changes:
        data[place] = value
    try:
        imported(bytes(data), limits=ModelLimits(memory_bytes=1 << 28, folded_bytes=1 << 20))
    except SyclschedError as error:
        assert str(error)
