# SPDX-License-Identifier: Apache-2.0
"""Buckets of extents: few plans, and the results of ONNX Runtime for every extent."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
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
from support.repeatable import generator  # noqa: E402
from support.small_models import model_of  # noqa: E402

from syclsched.errors import ArgumentError  # noqa: E402
from syclsched.testing.models import encoder_model  # noqa: E402

pytestmark = pytest.mark.sycl

node = helper.make_node
RANDOM = generator(0)
WIDTH, HEADS = 8, 2


def x(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


INTEGERS = {"i0": 0, "i1": 1, "a0": [0], "a1": [1], "heads": [HEADS], "size": [WIDTH // HEADS], "width": [WIDTH]}
CONSTANTS: dict[str, Any] = {name: np.array(value) for name, value in INTEGERS.items()}
CONSTANTS |= {"pairs": np.array([-1, 2]), "w": x(WIDTH, WIDTH), "b": x(WIDTH), "wq": x(WIDTH, WIDTH)}
CONSTANTS |= {"kernels": x(4, 3, 3, 3), "last": x(4, 5), "half": np.array(0.5, np.float32), "places": x(64, WIDTH)}
CONSTANTS |= {"lstm_w": x(1, 12, WIDTH), "lstm_r": x(1, 12, 3)}


class Both:
    """A model compiled with buckets and in ONNX Runtime."""

    def __init__(
        self,
        nodes: Iterable[Any],
        inputs: Mapping[str, Any],
        outputs: list[str],
        buckets: Any,
        *,
        dtypes: Any = None,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        whole = {**CONSTANTS, **(constants or {})}
        model = model_of(list(nodes), inputs, outputs, whole, opset=18, dtypes=dtypes)
        self.session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        self.compiled = syclsched.compile(model, devices="cpu", autotune=False, buckets=buckets)

    def check(self, values: Mapping[str, Any], found: Mapping[str, Any] | None = None) -> None:
        found = self.compiled(dict(values)) if found is None else found
        for wanted, output in zip(self.session.run(None, dict(values)), self.session.get_outputs(), strict=True):
            assert found[output.name].shape == wanted.shape
            np.testing.assert_allclose(found[output.name], wanted, rtol=2e-4, atol=1e-5)

    def __enter__(self) -> Both:
        return self

    def __exit__(self, *_: Any) -> None:
        self.compiled.close()


PERCEPTRON = [
    node("Gemm", ["x", "w", "b"], ["h"]),
    node("Relu", ["h"], ["k"]),
    node("Softmax", ["k"], ["y"]),
    node("ReduceMean", ["y", "a0"], ["means"], keepdims=0),
    node("ReduceMax", ["h", "a0"], ["most"], keepdims=0),
]


@pytest.mark.parametrize(
    ("buckets", "plans"), [((1, 8, 32), 4), (8, 4), ("powers of two", 7)], ids=["listed", "multiples", "powers"]
)
def test_batches_of_any_size(buckets: Any, plans: int) -> None:
    sizes = (1, 2, 3, 5, 8, 7, 9, 20, 20, 1, 33)
    with (
        warnings.catch_warnings(),
        Both(PERCEPTRON, {"x": ("batch", WIDTH)}, ["y", "means", "most"], {"batch": buckets}) as both,
    ):
        warnings.simplefilter("error")
        for n in sizes:
            both.check({"x": x(n, WIDTH)})
        assert len(both.compiled.kept_shapes) == plans


def test_pictures_and_recurrent_networks_in_batches() -> None:
    pictures = [
        node("Conv", ["x", "kernels"], ["h"], pads=[1] * 4),
        node("Relu", ["h"], ["k"]),
        node("MaxPool", ["k"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["p"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("MatMul", ["f", "last"], ["y"]),
    ]
    with Both(pictures, {"x": (None, 3, 8, 8)}, ["y"], {"x[0]": 4}) as both:
        for n in (1, 3, 4, 7, 8):
            both.check({"x": x(n, 3, 8, 8)})
        assert len(both.compiled.kept_shapes) == 2
    recurrent = [node("LSTM", ["x", "lstm_w", "lstm_r"], ["all", "h", "c"], hidden_size=3)]
    with Both(recurrent, {"x": (6, "n", WIDTH)}, ["all", "h", "c"], {"n": 4}) as both:
        for n in (1, 3, 4):
            both.check({"x": x(6, n, WIDTH)})
        assert len(both.compiled.kept_shapes) == 1


def test_pictures_and_sounds_of_any_size() -> None:
    pictures = [
        node("Conv", ["x", "kernels"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["a", "four", "four", "four", "four"], ["n"]),
        node("LRN", ["n"], ["l"], size=3),
        node("InstanceNormalization", ["l", "four", "four"], ["i"]),
        node("GroupNormalization", ["i", "two_groups", "two_groups"], ["m"], num_groups=2),
        node("Relu", ["m"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[3, 3], pads=[1, 0, 0, 1]),
        node("AveragePool", ["p"], ["q"], kernel_shape=[2, 2], strides=[2, 1], pads=[1, 0, 0, 0]),
        node("Conv", ["q", "four_kernels"], ["c"], auto_pad="SAME_UPPER"),
        node("Add", ["c", "q"], ["s"]),
        node("ConvTranspose", ["s", "four_kernels"], ["y"], strides=[2, 2], output_padding=[1, 0], pads=[1, 0, 1, 0]),
        node("GlobalAveragePool", ["s"], ["mean"]),
        node("GlobalMaxPool", ["s"], ["most"]),
        node("AveragePool", ["p"], ["z"], kernel_shape=[3, 2], pads=[1, 1, 1, 1], count_include_pad=1),
    ]
    inputs, outputs = {"x": ("batch", 3, "height", "width")}, ["y", "z", "mean", "most"]
    with Both(pictures, inputs, outputs, {"batch": 2, "height": 8, "width": (12, 20)}) as both:
        for n, height, width in ((1, 8, 12), (1, 5, 9), (2, 7, 13), (1, 16, 20), (1, 11, 10)):
            both.check({"x": x(n, 3, height, width)})
        assert len(both.compiled.kept_shapes) == 4
    sounds = [
        node("Conv", ["x", "taps"], ["a"], pads=[2, 2], dilations=[2], strides=[2]),
        node("Transpose", ["a"], ["t"], perm=[0, 2, 1]),
        node("ReduceMean", ["t", "a1"], ["y"], keepdims=0),
    ]
    with Both(sounds, {"x": (1, 3, "time")}, ["t", "y"], {"time": 16}) as both:
        for n in (16, 3, 9, 31, 1):
            both.check({"x": x(1, 3, n)})
        assert len(both.compiled.kept_shapes) == 2


WINDOWS = {
    "kernel_shape": st.tuples(st.integers(1, 4), st.integers(1, 4)),
    "strides": st.tuples(st.integers(1, 3), st.integers(1, 3)),
}


def test_norms_of_pictures_of_any_size() -> None:
    nodes = [
        node("GlobalLpPool", ["x"], ["y"]),
        node("LpPool", ["x"], ["z"], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    ]
    with Both(nodes, {"x": (1, 3, "height", "width")}, ["y", "z"], {"height": 8, "width": 8}) as both:
        for height, width in ((3, 4), (5, 8), (8, 7)):
            both.check({"x": x(1, 3, height, width)})


@settings(max_examples=examples(8), deadline=None)
@given(
    st.fixed_dictionaries(WINDOWS),
    st.sampled_from(["SAME_UPPER", "SAME_LOWER", "ceil", "pads"]),
    st.integers(0, 1),
    st.lists(st.tuples(st.integers(4, 19), st.integers(4, 19)), min_size=1, max_size=4),
)
def test_windows_with_length_dependent_pads(
    windows: dict[str, tuple[int, int]], how: str, counted: int, sizes: list[tuple[int, int]]
) -> None:
    kernel = windows["kernel_shape"]
    windows = {**windows, "strides": tuple(map(min, windows["strides"], kernel))}
    pads = [min(n - 1, 1) for n in (*kernel, *kernel)]
    given: dict[str, Any] = dict(windows)
    given |= {"auto_pad": how} if how.startswith("SAME") else {"pads": pads}
    ceil = {"ceil_mode": 1} if how == "ceil" else {}
    nodes = [
        node("MaxPool", ["x"], ["most"], **given, **ceil),
        node("AveragePool", ["x"], ["mean"], **given, **ceil, count_include_pad=counted),
    ]
    outputs = ["most", "mean"]
    if not ceil:
        weights = node("Slice", ["kernels_of", "zeros", "extents"], ["w_of"])
        nodes += [weights, node("Conv", ["x", "w_of"], ["y"], **given), node("Add", ["y", "y"], ["twice_y"])]
        outputs.append("twice_y")
    constants = {"extents": np.array([2, 3, *kernel]), "zeros": np.zeros(4, np.int64)}
    inputs, buckets = {"x": ("batch", 3, "height", "width")}, {"height": 8, "width": 8}
    with Both(nodes, inputs, outputs, buckets, constants=constants) as both:
        for height, width in sizes:
            both.check({"x": x(1, 3, height, width)})


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
def test_pictures_of_any_size_that_are_resized(mode: str, coordinates: str) -> None:
    given = {"mode": mode, "coordinate_transformation_mode": coordinates}
    nodes = [
        node("Resize", ["x", "", "scales"], ["y"], **given),
        node("Resize", ["x", "", "", "sizes"], ["z"], **given, axes=[2, 3]),
        node("Resize", ["x", "", "twice_all"], ["u"], **given),
        node("Resize", ["x", "", "twice_all"], ["v"], **given),
        node("Add", ["u", "v"], ["w2"]),
    ]
    # With aligned corners, ONNX Runtime rounds the extent; ONNX specifies the product of extent and scale.
    scales = [1, 1, 3, 2] if coordinates == "align_corners" else [1, 1, 1.5, 0.6]
    constants = {"scales": np.array(scales, np.float32), "sizes": np.array([7, 10])}
    constants["twice_all"] = np.array([1, 1, 2, 1], np.float32)
    inputs, buckets = {"x": (1, 2, "height", "width")}, {"height": 8, "width": 8}
    with Both(nodes, inputs, ["y", "z", "w2"], buckets, constants=constants) as both:
        for height, width in ((3, 4), (5, 8), (8, 7)):
            both.check({"x": x(1, 2, height, width)})
        assert len(both.compiled.kept_shapes) == 1


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_recurrent_networks_over_any_number_of_steps(operator: str, direction: str) -> None:
    rows = {"RNN": 3, "GRU": 9, "LSTM": 12}[operator]
    parts = 2 if direction == "bidirectional" else 1
    constants = {"rows_w": x(parts, rows, WIDTH), "rows_r": x(parts, rows, 3)}
    outputs = ["all", "h", "c"][: 3 if operator == "LSTM" else 2]
    recurrent = node(operator, ["x", "rows_w", "rows_r"], outputs, hidden_size=3, direction=direction)
    inputs, buckets = {"x": ("steps", "n", WIDTH)}, {"n": 4, "steps": 8}
    with Both([recurrent], inputs, outputs, buckets, constants=constants) as both:
        for steps, n in ((1, 1), (5, 3), (8, 4)):
            both.check({"x": x(steps, n, WIDTH)})
        assert len(both.compiled.kept_shapes) == 1


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("buckets", [{"n": 4}, {"n": 4, "steps": 8}])
def test_a_batch_in_a_bucket_over_no_steps(operator: str, buckets: Any) -> None:
    """ONNX Runtime (1.32) ends the process for some of these."""
    rows = {"RNN": 3, "GRU": 9, "LSTM": 12}[operator]
    constants = {**CONSTANTS, "rows_w": x(2, rows, WIDTH), "rows_r": x(2, rows, 3)}
    outputs = ["all", "h", "c"][: 3 if operator == "LSTM" else 2]
    recurrent = node(operator, ["x", "rows_w", "rows_r"], outputs, hidden_size=3, direction="bidirectional")
    model = model_of([recurrent], {"x": ("steps", "n", WIDTH)}, outputs, constants, opset=18)
    with syclsched.compile(model, devices="cpu", autotune=False, buckets=buckets) as compiled:
        for n in (3, 5):
            found = compiled(x(0, n, WIDTH))
            assert found["all"].shape == (0, 2, n, 3)
            for name in outputs[1:]:
                np.testing.assert_array_equal(found[name], np.zeros((2, n, 3), np.float32))


def test_residuals_around_strides() -> None:
    nodes = [
        node("Conv", ["x", "kernels"], ["a"], auto_pad="SAME_UPPER", strides=[2, 2]),
        node("MaxPool", ["x"], ["p"], auto_pad="SAME_UPPER", strides=[2, 2], kernel_shape=[2, 2]),
        node("Conv", ["p", "points"], ["c"]),
        node("Add", ["a", "c"], ["y"]),
        node("GlobalAveragePool", ["y"], ["z"]),
    ]
    with Both(nodes, {"x": (1, 3, "height", 8)}, ["y", "z"], {"height": 8}) as both:
        for height in (1, 3, 4, 7, 8, 13):
            both.check({"x": x(1, 3, height, 8)})


def test_means_in_half_precision_with_overflowing_sums() -> None:
    nodes = [
        node("GlobalAveragePool", ["x"], ["mean"]),
        node("ReduceMean", ["x", "a1"], ["means"]),
        node("InstanceNormalization", ["x", "scales", "scales"], ["normal"]),
    ]
    constants = {"a1": np.array([1, 2]), "scales": np.ones(2, np.float16)}
    outputs = ["mean", "means", "normal"]
    model = model_of(nodes, {"x": (1, 2, "n")}, outputs, constants, opset=18, dtypes=dict.fromkeys(["x", *outputs], 10))
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with syclsched.compile(model, devices="cpu", autotune=False, buckets={"n": 1024}) as compiled:
        for n in (900, 1000):
            given = (500 + 400 * RANDOM.random((1, 2, n))).astype(np.float16)
            for name, wanted in zip(outputs, session.run(None, {"x": given}), strict=True):
                np.testing.assert_allclose(compiled(given)[name], wanted, rtol=2e-3, atol=4e-3)


def encoder() -> list[Any]:
    """Return the nodes of a layer with attention, as PyTorch exports it."""
    nodes = [
        *(node("MatMul", ["x", weights], [name]) for weights, name in (("w", "q"), ("wq", "k"), ("w", "v"))),
        node("Shape", ["x"], ["shape"]),
    ]
    for i in range(2):
        nodes += [node("Gather", ["shape", f"i{i}"], [f"n{i}"]), node("Unsqueeze", [f"n{i}", "a0"], [f"m{i}"])]
    nodes += [
        node("Concat", ["m0", "m1", "heads", "size"], ["parted"], axis=0),
        node("Concat", ["m0", "m1", "width"], ["joined"], axis=0),
    ]
    for name, order in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        nodes += [
            node("Reshape", [name, "parted"], [f"{name}4"]),
            node("Transpose", [f"{name}4"], [f"{name}t"], perm=order),
        ]
    return [
        *nodes,
        node("MatMul", ["qt", "kt"], ["products"]),
        node("Mul", ["products", "half"], ["scaled"]),
        node("Add", ["scaled", "mask"], ["scores"]),
        node("Softmax", ["scores"], ["shares"], axis=-1),
        node("MatMul", ["shares", "vt"], ["mixed"]),
        node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        node("Reshape", ["turned", "joined"], ["whole"]),
        node("Slice", ["places", "a0", "m1", "a0"], ["placed"]),
        node("Add", ["whole", "placed"], ["moved"]),
        node("Add", ["moved", "x"], ["sum"]),
        node("LayerNormalization", ["sum", "b"], ["y"], axis=-1),
        node("ReduceMean", ["y", "a1"], ["means"], keepdims=0),
        node("Gather", ["y", "i0"], ["first"], axis=1),
        node("Slice", ["y", "minus", "beyond", "a1"], ["last_one"]),
    ]


def joined() -> list[Any]:
    """Return the nodes of a layer over all tokens of a batch at once, as PyTorch exports ``view(-1, width)``."""
    return [
        node("Shape", ["x"], ["shape"]),
        node("Reshape", ["x", "rows"], ["flat"]),
        node("MatMul", ["flat", "w"], ["h"]),
        node("Relu", ["h"], ["k"]),
        node("Reshape", ["k", "shape"], ["y"]),
        node("Transpose", ["x"], ["turned"], perm=[2, 1, 0]),
        node("Flatten", ["turned"], ["z"]),
        node("Reshape", ["x", "list"], ["all"]),
        node("ReduceMax", ["all"], ["most"], keepdims=0),
        node("Add", ["flat", "k"], ["sum"]),
        node("ReduceMean", ["sum", "a0"], ["means"], keepdims=0),
    ]


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 40)), min_size=1, max_size=6))
def test_batches_of_texts_as_one_list_of_tokens(sizes: list[tuple[int, int]]) -> None:
    inputs, outputs = {"x": ("batch", "length", WIDTH)}, ["y", "z", "all", "most", "means"]
    with Both(joined(), inputs, outputs, {"batch": (4, 8), "length": 16}) as both:
        for size in sizes:
            both.check({"x": x(*size, WIDTH)})
        planned = {(4 if batch < 5 else 8, -(-length // 16)) for batch, length in sizes}
        assert len(both.compiled.kept_shapes) == len(planned)


CONSTANTS |= {"two_groups": x(2), "places_of": np.array([[-1]] * 8), "rows_of": np.array([[7], [-1], [0]])}
CONSTANTS |= {"kernels_of": x(2, 3, 4, 4), "points": x(4, 3, 1, 1)}
CONSTANTS |= {"four": np.abs(x(4)) + 0.5, "four_kernels": x(4, 4, 3, 3), "taps": x(5, 3, 3)}
CONSTANTS |= {"side": x(8, 2)}
CONSTANTS |= {"below": np.array([-(1 << 40)]), "back": np.array([-2]), "edges": np.array([0, 1, 0, 1])}


def grown() -> list[Any]:
    """Return the nodes of attention over a cache to which the keys and values of new tokens are appended."""
    return [
        node("MatMul", ["x", "w"], ["key"]),
        node("MatMul", ["x", "wq"], ["value"]),
        node("Concat", ["past_key", "key"], ["keys"], axis=1),
        node("Concat", ["past_value", "value"], ["values"], axis=1),
        node("Transpose", ["keys"], ["turned"], perm=[0, 2, 1]),
        node("MatMul", ["x", "turned"], ["products"]),
        node("Softmax", ["products"], ["shares"], axis=-1),
        node("MatMul", ["shares", "values"], ["y"]),
        node("ReduceMean", ["keys", "a1"], ["means"], keepdims=0),
        node("Slice", ["keys", "minus", "beyond", "a1"], ["last_one"]),
    ]


def test_caches_that_grow() -> None:
    inputs = {"x": (2, "new", WIDTH), "past_key": (2, "past", WIDTH), "past_value": (2, "past", WIDTH)}
    outputs = ["keys", "values", "y", "means", "last_one"]
    with Both(grown(), inputs, outputs, {"new": (1, 8), "past": 8}) as both:
        for new, past in ((5, 3), (1, 8), (1, 9), (8, 16), (3, 1), (1, 10)):
            both.check({"x": x(2, new, WIDTH), **{name: x(2, past, WIDTH) for name in ("past_key", "past_value")}})
        assert len(both.compiled.kept_shapes) == 4


CONSTANTS |= {"rows": np.array([-1, WIDTH]), "list": np.array([-1])}
CONSTANTS |= {"twice": np.array([1, 2]), "margins": np.array([1, 2, 0, 3]), "two": np.array([2])}
CONSTANTS |= {"wide": np.array([3, 1, 1]), "minus": np.array([-1]), "beyond": np.array([1 << 40])}
OUTPUTS = ["y", "means", "first", "last_one"]
ENCODED = {"x": ("batch", "length", WIDTH), "mask": ("batch", 1, 1, "length")}


def text(batch: int, length: int) -> dict[str, Any]:
    return {"x": x(batch, length, WIDTH), "mask": np.where(x(batch, 1, 1, length) < -0.5, -1e4, 0).astype(np.float32)}


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 40)), min_size=1, max_size=6))
def test_texts_of_any_length(sizes: list[tuple[int, int]]) -> None:
    with Both(encoder(), ENCODED, OUTPUTS, {"batch": (4, 8), "length": 16}) as both:
        for size in sizes:
            both.check(text(*size))
        planned = {(4 if batch < 5 else 8, -(-length // 16)) for batch, length in sizes}
        assert len(both.compiled.kept_shapes) == len(planned)


def test_an_encoder_like_bert_is_planned_once_a_bucket() -> None:
    model = encoder_model(1, 32, 4, vocabulary=50, positions=64)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    buckets = {"batch": (4,), "sequence": 16}
    with syclsched.compile(model, devices="cpu", autotune=False, buckets=buckets) as compiled:
        for batch, length in ((1, 3), (2, 16), (4, 9), (3, 20), (5, 20)):
            ids = RANDOM.integers(0, 50, (batch, length))
            mask = np.where(np.arange(length) < 1 + RANDOM.integers(0, length, (batch, 1)), 1, 0)
            values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            found = list(compiled(values).values())
            for got, wanted in zip(found, session.run(None, values), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        assert len(compiled.kept_shapes) == 3  # the bucket of 5 texts is another one


def test_padding_does_not_affect_the_results() -> None:
    with Both(encoder(), ENCODED, OUTPUTS, {"length": 16}) as both:
        both.check({name: np.full_like(value, np.nan) if name == "x" else value for name, value in text(1, 16).items()})
        both.check({name: value * 1e4 for name, value in text(1, 16).items()})
        both.check(text(1, 3))


def test_streams_and_starts() -> None:
    with Both(PERCEPTRON, {"x": ("batch", WIDTH)}, ["y"], {"batch": 8}) as both:
        values = [{"x": x(n, WIDTH)} for n in (3, 8, 1, 9)]
        for each, found in zip(values, both.compiled.stream(values), strict=True):
            both.check(each, found)
        made = len(both.compiled.kept_shapes)
        for each in values:
            both.check(each, {"y": both.compiled.start(each).result("y")})
        assert len(both.compiled.kept_shapes) == made
        assert len(both.compiled.times(x(5, WIDTH), repeat=1)) > 0


def test_a_model_is_planned_for_its_bucket_when_it_is_loaded() -> None:
    model = model_of(PERCEPTRON, {"x": ("batch", WIDTH)}, ["y"], CONSTANTS, opset=18)
    with syclsched.compile(model, devices="cpu", autotune=False, shapes={"batch": 3}, buckets={"batch": 8}) as compiled:
        compiled.load()
        assert compiled(x(5, WIDTH))["y"].shape == (5, WIDTH)
        assert [each["x"] for each in compiled.kept_shapes] == [(8, WIDTH)]


LENGTH = [node("Shape", ["x"], ["extents"]), node("Gather", ["extents", "a1"], ["n"])]


def test_positions_as_places_of_ones() -> None:
    nodes = [
        *LENGTH,
        node("ConstantOfShape", ["n"], ["ones"], value=helper.make_tensor("one", 7, [1], [1])),
        node("NonZero", ["ones"], ["line"]),
        node("Cast", ["line"], ["positions"], to=1),
        node("Mul", ["x", "positions"], ["y"]),
    ]
    with Both(nodes, {"x": ("batch", "length")}, ["y"], {"batch": 2, "length": 8}) as both:
        for n in (1, 3, 8, 5, 11):
            both.check({"x": x(3, n)})
        assert len(both.compiled.kept_shapes) == 2


@pytest.mark.parametrize(
    "last",
    [
        node("LpNormalization", ["x"], ["y"], axis=1),
        node("Hardmax", ["x"], ["y"], axis=1),
        node("CumSum", ["x", "i1"], ["y"]),
        node("Tile", ["x", "twice"], ["y"]),
        node("Pad", ["x", "margins"], ["y"]),
        node("Slice", ["x", "minus", "beyond", "a1"], ["y"]),
        node("Slice", ["x", "a1", "beyond", "a1", "two"], ["y"]),
        node("Slice", ["x", "minus", "below", "a1", "minus"], ["y"]),
        node("Slice", ["x", "beyond", "below", "a1", "back"], ["y"]),
        node("Concat", ["x", "x"], ["y"], axis=1),
        node("Concat", ["x", "side", "x"], ["y"], axis=1),
        node("Concat", ["side", "x"], ["y"], axis=-1),
        node("Concat", ["x", "x", "x"], ["y"], axis=0),
        node("MeanVarianceNormalization", ["x"], ["y"], axes=[0, 1]),
        node("ReduceL2", ["x"], ["y"]),
        node("ReduceLogSumExp", ["x", "a1"], ["y"]),
        node("LogSoftmax", ["x"], ["y"]),
        node("Transpose", ["x"], ["y"]),
        node("Expand", ["x", "wide"], ["y"]),
        node("Trilu", ["x"], ["y"]),
        node("CumSum", ["x", "i1"], ["y"], reverse=1),
        node("CumSum", ["x", "i1"], ["y"], reverse=1, exclusive=1),
        node("EyeLike", ["x"], ["y"], k=1),
        node("LayerNormalization", ["x", "half"], ["y"], axis=1),
        node("LayerNormalization", ["x", "half", "half"], ["y"], axis=0),
        node("GatherElements", ["x", "places_of"], ["y"], axis=1),
        node("GatherElements", ["x", "rows_of"], ["y"], axis=0),
        node("Reshape", ["x", "pairs"], ["y"]),
        node("Flatten", ["x"], ["y"], axis=0),
        node("Flatten", ["x"], ["y"], axis=2),
    ],
    ids=lambda each: each.op_type,
)
def test_operators_along_a_length(last: Any) -> None:
    with Both([last], {"x": (8, "length")}, ["y"], {"length": 8}) as both:
        for n in (1, 3, 6, 8, 11):
            both.check({"x": x(8, n)})


@pytest.mark.parametrize("count", [1, 2, 3])
def test_parts_of_a_length(count: int) -> None:
    names = [f"y{i}" for i in range(count)]
    with Both(
        [node("Split", ["x"], names, axis=1, num_outputs=count)], {"x": (3, "length")}, names, {"length": 8}
    ) as both:
        for n in (4, 5, 6, 8, 11):
            both.check({"x": x(3, n)})


def test_splits_with_length_dependent_sizes() -> None:
    nodes = [
        node("Shape", ["x"], ["n"], start=1),
        node("Div", ["n", "two"], ["left"]),
        node("Sub", ["n", "left"], ["right"]),
        node("Concat", ["left", "right"], ["sizes"], axis=0),
        node("Split", ["x", "sizes"], ["y", "z"], axis=1),
        node("Slice", ["x", "a1", "right", "a1"], ["u"]),
    ]
    with Both(nodes, {"x": (3, "length")}, ["y", "z", "u"], {"length": 8}) as both:
        for n in (1, 4, 5, 8, 11):
            both.check({"x": x(3, n)})


PICKED = {"places": {"axis": 1}, "rows": {"axis": 0}}


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5), st.sampled_from([*PICKED]))
def test_elements_picked_and_updated_by_indices_with_lengths(sizes: list[tuple[int, int]], name: str) -> None:
    axis = PICKED[name]["axis"]
    inputs = {"x": ("a", "b"), "at": ("a", "c") if axis else ("c", "b"), "v": ("a", "c") if axis else ("c", "b")}
    nodes = [node("GatherElements", ["x", "at"], ["y"], axis=axis)]
    outputs = ["y"]
    for reduction in ("none", "add", "max"):
        nodes.append(node("ScatterElements", ["x", "at", "v"], [reduction], axis=axis, reduction=reduction))
        outputs.append(reduction)
    with Both(nodes, inputs, outputs, dict.fromkeys("abc", 4), dtypes={"at": 7}) as both:
        for a, b in sizes:
            n = (a, b)[axis]
            c = RANDOM.integers(1, n + 1)
            shape = (a, c) if axis else (c, b)
            at = np.argsort(RANDOM.random((n, c * 0 + shape[1 - axis])), 0)[:c]  # each once
            at = (at.T if axis else at) - n * RANDOM.integers(0, 2, shape)
            both.check({"x": x(a, b), "at": at, "v": x(*shape)})


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5))
def test_rows_picked_and_updated_by_indices_with_lengths(sizes: list[tuple[int, int, int]]) -> None:
    nodes = [
        node("GatherND", ["x", "pairs_of"], ["y"]),
        node("GatherND", ["x", "singles"], ["z"]),
        node("ScatterND", ["x", "pairs_of", "v"], ["u"]),
        node("ScatterND", ["x", "singles", "w_of"], ["t"], reduction="add"),
    ]
    inputs = {"x": ("a", "b", 2), "pairs_of": ("c", 2), "v": ("c", 2), "singles": ("c", 1), "w_of": ("c", "b", 2)}
    dtypes = {"pairs_of": 7, "singles": 7}
    with Both(nodes, inputs, ["y", "z", "u", "t"], dict.fromkeys("abc", 4), dtypes=dtypes) as both:
        for a, b, c in sizes:
            c = min(c, a * b)
            places = RANDOM.permutation(a * b)[:c]
            pairs = np.stack([places // b, places % b], 1) - [a, b] * RANDOM.integers(0, 2, (c, 2))
            singles = RANDOM.integers(-a, a, (c, 1))
            both.check({"x": x(a, b, 2), "pairs_of": pairs, "v": x(c, 2), "singles": singles, "w_of": x(c, b, 2)})


def test_margins_that_repeat_elements_along_a_length() -> None:
    nodes = [node("Pad", ["x", "edges"], [mode], mode=mode) for mode in ("reflect", "edge", "wrap")]
    with Both(nodes, {"x": (8, "length")}, ["reflect", "edge", "wrap"], {"length": 8}) as both:
        for n in (2, 3, 6, 8, 11):
            both.check({"x": x(8, n)})


def test_inputs_that_do_not_fit_each_other_are_refused() -> None:
    with Both(encoder(), ENCODED, OUTPUTS, {"batch": 4, "length": 16}) as both:
        for batch, length in ((2, 5), (3, 4)):
            values = text(3, 5) | {"mask": text(batch, length)["mask"]}
            with pytest.raises(ArgumentError, match="mask"):
                both.compiled(values)
        both.check(text(3, 5))
