# SPDX-License-Identifier: Apache-2.0
"""Models on text and maps, as from scikit-learn's exporters, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

from onnx import TensorProto, helper  # noqa: E402
from support.beside_runtime import session  # noqa: E402
from support.node_cases import differences  # noqa: E402

import syclsched  # noqa: E402
from syclsched.errors import ArgumentError, HostOperatorWarning, ModelError  # noqa: E402

pytestmark = pytest.mark.sycl

CITIES = np.array([["Bern", "a"], ["Oslo", "b"], ["Rome", "zz"]], object)
X = np.random.default_rng(3).standard_normal((3, 2)).astype(np.float32)
WORDS = np.array(["Hello world", "the quick  brown", "", "world of hello"], object)


def node(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    classical = {"OneHotEncoder", "LabelEncoder", "CategoryMapper", "DictVectorizer", "ArrayFeatureExtractor"}
    domain = "ai.onnx.ml" if operator in classical else "com.microsoft" if operator == "Tokenizer" else ""
    return helper.make_node(operator, inputs, outputs, name=f"{operator} {outputs[0]}", domain=domain, **attributes)


def tensor(name: str, array: Any) -> Any:
    array = np.asarray(array)
    if array.dtype.kind == "U":
        return helper.make_tensor(name, TensorProto.STRING, array.shape, [each.encode() for each in array.ravel()])
    return onnx.numpy_helper.from_array(array, name)


def declared(name: str, kind: int, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[str], constants: dict[str, Any] | None = None) -> Any:
    made = helper.make_model(
        helper.make_graph(
            nodes,
            "text",
            inputs,
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [tensor(*each) for each in (constants or {}).items()],
        ),
        opset_imports=[helper.make_opsetid(*each) for each in (("", 20), ("ai.onnx.ml", 3), ("com.microsoft", 1))],
        ir_version=9,
    )
    return onnx.shape_inference.infer_shapes(made)


def pipeline() -> Any:
    """Return a typical pipeline: one-hot columns and numbers, a linear layer, and labels of text."""
    weights = np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32)
    nodes = [
        node("OneHotEncoder", ["city"], ["hot"], cats_strings=["Bern", "Oslo", "b"]),
        node("Reshape", ["hot", "rows"], ["flat"]),
        node("Concat", ["flat", "x"], ["features"], axis=1),
        node("MatMul", ["features", "w"], ["scores"]),
        node("Softmax", ["scores"], ["probabilities"]),
        node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
        node("ArrayFeatureExtractor", ["labels", "best"], ["label"]),
    ]
    inputs = [declared("city", TensorProto.STRING, ["n", 2]), declared("x", TensorProto.FLOAT, ["n", 2])]
    constants = {"w": weights, "rows": np.array([-1, 6]), "labels": np.array(["low", "mid", "high"])}
    return model_of(nodes, inputs, ["label", "probabilities"], constants)


def check(model: Any, *values: Any) -> None:
    """Compare calls with ONNX Runtime."""
    want = session(model).run(None, dict(zip([each.name for each in model.graph.input], values, strict=True)))
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        for _ in range(2):
            got = compiled(*(values if not isinstance(values[0], dict) else [dict(zip(["d"], values, strict=True))]))
            assert list(got) == [each.name for each in model.graph.output]
            for (name, found), expected in zip(got.items(), want, strict=True):
                assert differences(found, expected) is None, (name, found, expected)


def test_a_pipeline_of_text_columns_equals_onnx_runtime() -> None:
    model = pipeline()
    check(model, CITIES, X)
    label, probabilities = session(model).run(None, {"city": CITIES, "x": X})
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        for given in ((CITIES, X), (CITIES.astype(str), X), (CITIES.tolist(), X.tolist())):
            assert compiled(*given)["label"].tolist() == label.tolist()
        assert compiled(city=CITIES[:1], x=X[:1])["label"].tolist() == label[:, :1].tolist()
        streamed = list(compiled.stream([(CITIES, X), (CITIES[:2], X[:2]), (CITIES[::-1], X[::-1].copy())]))
        assert [each["label"].tolist()[0] for each in streamed] == [
            label[0].tolist(), label[0, :2].tolist(), label[0, ::-1].tolist()
        ]  # fmt: skip
        np.testing.assert_allclose(streamed[2]["probabilities"], probabilities[::-1], rtol=1e-5)
        started = compiled.start(CITIES, X)
        assert started.result("label").tolist() == label.tolist()
        np.testing.assert_allclose(started.result("probabilities"), probabilities, rtol=1e-5)
        assert compiled.times(CITIES, X)
        assert [(each.name, each.dtype) for each in compiled.inputs] == [("city", "text"), ("x", "float32")]


def test_texts_in_a_bucket() -> None:
    model = pipeline()
    runtime = session(model)
    values = [(np.resize(CITIES, (n, 2)), np.resize(X, (n, 2))) for n in (1, 3, 4, 6, 2)]
    with syclsched.compile(model, devices="cpu", autotune=False, buckets={"n": 4}) as compiled:
        streamed = list(compiled.stream(values))
        for given, other in zip(values, streamed, strict=True):
            label, probabilities = runtime.run(None, {"city": given[0], "x": given[1]})
            run = compiled.start(*given)
            started = {name: run.result(name) for name in ("label", "probabilities")}
            for found in (compiled(*given), other, started):
                assert found["label"].tolist() == label.tolist()
                np.testing.assert_allclose(found["probabilities"], probabilities, rtol=1e-5)
        assert len(compiled.kept_shapes) == 2


def test_shapes_derived_from_text_inputs_are_known_before_a_call() -> None:
    with syclsched.compile(pipeline(), devices="cpu", autotune=False, shapes={"n": 5}) as compiled:
        compiled.load()
        assert dict(compiled.kept_shapes[0]) == {"x": (5, 2), "hot": (5, 2, 3)}
    loaded = syclsched.onnx.load(pipeline(), shapes={"city": (4, 2), "x": (4, 2)})
    assert len(loaded.graph.tasks) > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((np.ones((3, 2)), X), r"input 'city'.* float64 is given, and the model takes text.*astype\(str\)"),
        ((None, X), "input 'city'.*is None"),
        ((CITIES, None), "input 'x'.*is None"),
        (([["a", None]], X[:1]), r"input 'city'.*element 1 is None \(NoneType\).*Replace missing values"),
        (([["a", float("nan")]], X[:1]), r"element 1 is nan \(float\)"),
        ((CITIES[:, :1], X), r"input 'city'.*shape \(3, 1\)"),
        ((CITIES, CITIES), "input 'x'.*float32"),
        ((CITIES.astype("S4"), X), "takes text.*bytes decoded"),
    ],
)
def test_values_of_a_wrong_kind_are_refused_with_a_hint(given: Any, said: str) -> None:
    with (
        syclsched.compile(pipeline(), devices="cpu", autotune=False) as model,
        pytest.raises(ArgumentError, match=said),
    ):
        model(*given)


TEXT = TensorProto.STRING
KEYS = {"keys_strings": ["Bern", "Oslo", "b"]}
LOWER = {"case_change_action": "LOWER", "locale": "C"}
TOKENS = {"mark": 0, "mincharnum": 1, "pad_value": "#"}
GRAMS = {
    "mode": "TFIDF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 3],
    "ngram_indexes": [0, 1, 2, 3], "pool_strings": ["hello", "world", "quick", "hello", "world"],
    "weights": [1.0, 2.0, 0.5, 3.0],
}  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "outputs", "given"),
    [
        ([node("LabelEncoder", ["x"], ["y"], values_int64s=[3, 4, 5], default_int64=9, **KEYS)], ["y"], CITIES),
        ([node("LabelEncoder", ["x"], ["y"], values_floats=[3.0, 4.0, 5.0], **KEYS)], ["y"], CITIES),
        ([node("LabelEncoder", ["x"], ["y"], values_strings=["3", "4", "5"], **KEYS)], ["y"], CITIES),
        ([node("CategoryMapper", ["x"], ["y"], cats_strings=["a", "b"], cats_int64s=[3, 4])], ["y"], CITIES),
        ([node("StringNormalizer", ["x"], ["y"], stopwords=["hello WORLD"], **LOWER)], ["y"], WORDS),
        ([node("StringNormalizer", ["x"], ["y"], stopwords=["hello WORLD"], is_case_sensitive=1, **LOWER)], ["y"],
         WORDS),
        ([node("StringNormalizer", ["x"], ["y"], stopwords=WORDS.tolist(), **LOWER)], ["y"], WORDS),
        ([node("StringNormalizer", ["x"], ["y"], **LOWER)], ["y"], WORDS[None]),
        ([node("Tokenizer", ["x"], ["y"], separators=[" ", "l"], **{**TOKENS, "mark": 1, "mincharnum": 2})], ["y"],
         WORDS),
        ([node("Tokenizer", ["x"], ["y"], separators=[""], **TOKENS)], ["y"], WORDS),
        ([node("StringNormalizer", ["x"], ["lower"], **LOWER),
          node("Tokenizer", ["lower"], ["t"], tokenexp="[a-z]+", **TOKENS),
          node("TfIdfVectorizer", ["t"], ["f"], **GRAMS), node("ReduceSum", ["f"], ["y"], keepdims=0)], ["f", "y"],
         WORDS),
        ([node("StringSplit", ["x"], ["s", "n"], delimiter=" "), node("Neg", ["n"], ["y"])], ["s", "y"], WORDS[[0, 3]]),
        ([node("StringConcat", ["x", "x"], ["y"])], ["y"], WORDS),
        ([node("RegexFullMatch", ["x"], ["m"], pattern="[a-z ]+"), node("Not", ["m"], ["y"])], ["m", "y"], WORDS),
        ([node("Equal", ["x", "x"], ["e"]), node("Cast", ["e"], ["f"], to=1), node("Exp", ["f"], ["y"])], ["y"], WORDS),
        ([node("Transpose", ["x"], ["t"]), node("Identity", ["t"], ["y"]), node("Shape", ["y"], ["s"])], ["y", "s"],
         CITIES),
        ([node("Cast", ["x"], ["f"], to=1), node("Exp", ["f"], ["y"])], ["y"], np.array(["1.5", "-2", "0"], object)),
    ],
    ids=lambda each: f"{each[0].op_type}" if isinstance(each, list) and hasattr(each[0], "op_type") else "",
)  # fmt: skip
def test_operators_on_text_equal_onnx_runtime(nodes: Any, outputs: list[str], given: Any) -> None:
    check(model_of(nodes, [declared("x", TEXT, [1, None] if len(given) == 1 else [None] * given.ndim)], outputs), given)


def test_maps_become_rows() -> None:
    kind = helper.make_map_type_proto(TEXT, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    nodes = [node("DictVectorizer", ["d"], ["r"], string_vocabulary=["a", "b"]), node("Neg", ["r"], ["y"])]
    model = model_of(nodes, [helper.make_value_info("d", kind)], ["r", "y"])
    check(model, {"a": 1.5, "c": 2.0})
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        assert compiled({"b": 2.0})["y"].tolist() == [[0, -2]]
        with pytest.raises(ArgumentError, match=r"input 'd'.*takes a map.*Give a dict"):
            compiled(d=[1.0, 2.0])


def test_text_chosen_by_a_result_follows_the_devices() -> None:
    nodes = [node("ArgMax", ["x"], ["k"], axis=1, keepdims=0), node("Gather", ["t", "k"], ["y"])]
    inputs = [declared("x", TensorProto.FLOAT, ["n", 4]), declared("t", TEXT, [4])]
    check(model_of(nodes, inputs, ["y", "k"]), np.eye(3, 4, 1, dtype=np.float32), WORDS)


def test_numbers_computed_before_text_run_on_the_host() -> None:
    nodes = [
        node("ArgMax", ["x"], ["k"], axis=1, keepdims=0),
        node("Gather", ["t", "k"], ["chosen"]),
        node("LabelEncoder", ["chosen"], ["n"], keys_strings=WORDS[:2].tolist(), values_int64s=[4, 7]),
        node("Neg", ["n"], ["y"]),
    ]
    inputs = [declared("x", TensorProto.FLOAT, ["n", 4]), declared("t", TEXT, [4])]
    with pytest.warns(HostOperatorWarning, match="text is computed from the results of ArgMax"):
        check(model_of(nodes, inputs, ["y", "k"]), np.eye(3, 4, 1, dtype=np.float32), WORDS)


def test_an_unknown_category_is_an_error_if_the_model_requires_it() -> None:
    model = model_of(
        [node("OneHotEncoder", ["x"], ["y"], cats_strings=["a"], zeros=0)], [declared("x", TEXT, [2])], ["y"]
    )
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        assert compiled(["a", "a"])["y"].tolist() == [[1], [1]]
        with pytest.raises(ModelError, match=r"OneHotEncoder y.*'zz' is none of the categories 'a'"):
            compiled(["a", "zz"])


def test_text_weights_and_numbers_of_a_file_are_read(tmp_path: Path) -> None:
    """Large initialisers are views of the file: their indices change when those of text are left out."""
    weights = np.random.default_rng(2).standard_normal((3, 30_000)).astype(np.float32)
    nodes = [
        node("OneHotEncoder", ["x"], ["hot"], cats_strings=["a", "b", "c"]),
        node("MatMul", ["hot", "w"], ["m"]),
        node("Equal", ["x", "first"], ["same"]),
    ]
    constants = {"first": np.array(["a"]), "w": weights}
    path = tmp_path / "m.onnx"
    onnx.save(model_of(nodes, [declared("x", TEXT, [2])], ["m", "same"], constants), path)
    with syclsched.compile(path, devices="cpu", autotune=False) as compiled:
        got = compiled(["c", "a"])
        np.testing.assert_allclose(got["m"], weights[[2, 0]], rtol=1e-6)
        assert got["same"].tolist() == [False, True]


def test_models_on_text_are_not_trained() -> None:
    with pytest.raises(ModelError, match=r"computes on text or maps.*extract_model"):
        syclsched.train(pipeline(), devices="cpu")
