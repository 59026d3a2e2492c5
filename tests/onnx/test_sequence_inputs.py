# SPDX-License-Identifier: Apache-2.0
"""Models with sequences or optional values as inputs or outputs, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import TensorProto, helper  # noqa: E402
from support.beside_runtime import session  # noqa: E402
from support.node_cases import differences  # noqa: E402

import syclsched  # noqa: E402
from syclsched.errors import ArgumentError, OpenDimensionError  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node
FLOAT = TensorProto.FLOAT
A, B = np.ones((2, 3), np.float32), np.full((1, 3), 2, np.float32)


def value(name: str, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, FLOAT, shape)


def sequence(name: str, shape: Any = None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_sequence_value_info(name, kind, shape)


def optional(name: str, shape: Any = None) -> Any:
    return helper.make_value_info(name, helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, shape)))


def compiled_model(nodes: list[Any], inputs: list[Any], outputs: list[Any], **more: Any) -> tuple[Any, Any]:
    graph = helper.make_graph(nodes, "small", inputs, outputs)
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=9)
    return model, syclsched.compile(model, devices="cpu", autotune=False, **more)


def joining(**more: Any) -> tuple[Any, Any]:
    nodes = [
        node("ConcatFromSequence", ["q"], ["y"], axis=0),
        node("SequenceLength", ["q"], ["n"]),
        node("SequenceInsert", ["q", "y"], ["longer"]),
    ]
    count = helper.make_tensor_value_info("n", TensorProto.INT64, [])
    return compiled_model(nodes, [sequence("q", ["rows", 3])], [value("y"), count, sequence("longer")], **more)


def test_sequences_are_lists_of_arrays() -> None:
    model, compiled = joining()
    runtime = session(model)
    with compiled:
        for given in ([A, B], [B, A], [A], [A, B, A], [A, B]):
            want = runtime.run(None, {"q": given})
            got = compiled(given)
            assert list(got) == ["y", "n", "longer"]
            for found, expected in zip(got.values(), want, strict=True):
                assert differences(found, expected) is None
        assert len(compiled.kept_shapes) == 4
        assert [each["n"] for each in compiled.stream([([A],), ([A, B],), {"q": [B, B]}])] == [1, 2, 2]
        assert "q: sequence of float32 [rows x 3]" in str(compiled)


def test_an_empty_sequence_is_one_of_no_elements() -> None:
    nodes = [node("SequenceInsert", ["q", "x"], ["r"]), node("SequenceLength", ["r"], ["n"])]
    count = helper.make_tensor_value_info("n", TensorProto.INT64, [])
    model, compiled = compiled_model(nodes, [sequence("q"), value("x", [3])], [sequence("r"), count])
    with compiled:
        for given in ([], [A], []):
            got, want = compiled(given, A[0]), session(model).run(None, {"q": given, "x": A[0]})
            assert differences(got["r"], want[0]) is None and got["n"] == want[1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (A, "input 'q'.*a ndarray is given, and the model takes a sequence.*Give a list of arrays"),
        (None, "input 'q'.*is None.*Give a list of arrays"),
        ([A, None], r"input 'q\[1\]'.*is None"),
        ([A, A.astype(np.int64)], r"input 'q\[1\]'.*its dtype is int64.*astype\('float32'\)"),
        ([A[:, :2]], r"input 'q\[0\]'.*shape \(2, 2\)"),
    ],
)
def test_wrong_sequences_are_refused_with_the_element(given: Any, said: str) -> None:
    _, compiled = joining()
    with compiled, pytest.raises(ArgumentError, match=said):
        compiled(given)


def test_shapes_of_elements_are_given_by_their_names() -> None:
    _, compiled = joining(shapes={"q[0]": (1, 3), "q[1]": (2, 3)})
    with compiled:
        compiled.load()
        assert dict(compiled.kept_shapes[0]) == {"q[0]": (1, 3), "q[1]": (2, 3)}
    _, compiled = joining()
    with compiled, pytest.raises(OpenDimensionError, match=r"q\[0\]"):
        compiled.load()


def test_optional_values_may_be_left_out() -> None:
    yes = helper.make_graph(
        [node("OptionalGetElement", ["o"], ["e"]), node("Add", ["e", "x"], ["sum"])], "yes", [], [value("sum")]
    )
    no = helper.make_graph([node("Identity", ["x"], ["same"])], "no", [], [value("same")])
    nodes = [
        node("OptionalHasElement", ["o"], ["has"]),
        node("If", ["has"], ["y"], then_branch=yes, else_branch=no),
    ]
    has = helper.make_tensor_value_info("has", TensorProto.BOOL, [])
    model, compiled = compiled_model(nodes, [value("x", ["n"]), optional("o", ["n"])], [value("y"), has])
    x = np.arange(3, dtype=np.float32)
    with compiled:
        for given in (None, x, None):
            y, has_one = session(model).run(None, {"x": x, "o": given})
            got = compiled(x, given)
            assert got["y"].tolist() == y.tolist() and got["has"] == has_one
        assert compiled(x)["y"].tolist() == x.tolist()
        with pytest.raises(ArgumentError, match=r"input 'x'.*is None"):
            compiled(None, x)


def test_sequences_of_text_become_numbers() -> None:
    nodes = [
        node("SequenceLength", ["q"], ["n"]),
        node("ConcatFromSequence", ["q"], ["all"], axis=0),
        node("LabelEncoder", ["all"], ["k"], domain="ai.onnx.ml", keys_strings=["a", "b"], values_int64s=[4, 5]),
        node("Add", ["k", "n"], ["y"]),
    ]
    model, compiled = compiled_model(
        nodes,
        [sequence("q", kind=TensorProto.STRING)],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
    )
    given = [np.array(["a", "b"], object), np.array(["zz"], object)]
    with compiled:
        assert compiled(given)["y"].tolist() == session(model).run(None, {"q": given})[0].tolist() == [6, 7, 1]
        with pytest.raises(ArgumentError, match=r"input 'q\[1\]'.*takes text"):
            compiled([given[0], np.ones(2)])


def test_optional_inputs_in_a_bucket() -> None:
    yes = helper.make_graph(
        [node("OptionalGetElement", ["o"], ["there"]), node("Add", ["there", "x"], ["sum"])], "yes", [], [value("sum")]
    )
    no = helper.make_graph([node("Neg", ["x"], ["negative"])], "no", [], [value("negative")])
    nodes = [
        node("OptionalHasElement", ["o"], ["has"]),
        node("If", ["has"], ["z"], then_branch=yes, else_branch=no),
        node("Softmax", ["z"], ["y"], axis=0),
    ]
    inputs = [value("x", ["rows", 3]), optional("o", ["rows", 3])]
    _, compiled = compiled_model(nodes, inputs, [value("y")], buckets={"rows": 4})
    rows = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    with compiled:
        for n in (1, 3, 4, 7, 2):
            for o in (None, np.ones((n, 3), np.float32)):
                x = rows[:n]
                z = np.exp(-x if o is None else o + x)
                np.testing.assert_allclose(compiled(x, o)["y"], z / z.sum(0), rtol=1e-5)
        assert len(compiled.kept_shapes) == 4
        with pytest.raises(ArgumentError, match="'o'"):
            compiled(rows[:3], rows[:2])


def test_sequences_have_no_buckets() -> None:
    inputs = [sequence("q", ["rows", 3]), value("x", ["n", 3])]
    nodes = [node("ConcatFromSequence", ["q"], ["y"], axis=0), node("Softmax", ["x"], ["z"], axis=0)]
    with pytest.raises(ArgumentError, match=r"'rows' is an extent of the sequence 'q'.* n$"):
        compiled_model(nodes, inputs, [value("y"), value("z")], buckets={"rows": 4})
    _, compiled = compiled_model(nodes, inputs, [value("y"), value("z")], buckets={"n": 4})
    with compiled:
        for n in (1, 3, 4):
            x = np.ones((n, 3), np.float32)
            found = compiled([A, B], x)
            assert found["y"].shape == (3, 3)
            np.testing.assert_allclose(found["z"], x / n, rtol=1e-5)
        assert len(compiled.kept_shapes) == 1
