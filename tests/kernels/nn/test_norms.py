# SPDX-License-Identifier: Apache-2.0
"""Normalisations and softmax, compared with formulas in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, last, numbers, on_host, quick, unwritten

from syclsched.errors import ArgumentError
from syclsched.kernels import nn
from syclsched.model.operation import Operation, Signature

Case = tuple[Operation, dict[str, np.ndarray], np.ndarray, str]
DTYPES = st.sampled_from(["float32", "float64"])
SHAPES = st.sampled_from([(1, 1), (3, 5), (2, 4, 33), (1, 6, 3, 70), (2, 12, 1, 2), (5, 128), (3, 300)])


def normal(x: Any, axes: Any, epsilon: float, *, centred: bool = True) -> np.ndarray:
    """Return x with mean 0 and variance 1; not centred, with mean square 1."""
    x = x.astype("float64")
    x = x - x.mean(axis=axes, keepdims=True) if centred else x
    return x / np.sqrt(np.square(x).mean(axis=axes, keepdims=True) + epsilon)


@st.composite
def layers(draw: st.DrawFn) -> Case:
    """A layer normalisation."""
    dtype, shape, bias, epsilon = draw(DTYPES), draw(SHAPES), draw(st.booleans()), draw(st.sampled_from([1e-5, 0.1]))
    axis, centred = draw(st.integers(-len(shape), len(shape) - 1)), draw(st.booleans())
    x = numbers(*shape, dtype=dtype) * 3 + 20
    scale, b = (numbers(*shape[axis:], dtype=dtype, seed=seed) for seed in (1, 2))
    wanted = normal(x, tuple(range(axis % len(shape), len(shape))), epsilon, centred=centred) * scale
    wanted = wanted + b if bias else wanted
    arrays = {"y": unwritten(shape, dtype), "x": x, "scale": scale} | ({"b": b} if bias else {})
    return nn.layer_norm(axis, epsilon, bias, centred), arrays, wanted, dtype


@st.composite
def groupings(draw: st.DrawFn) -> Case:
    """A group normalisation."""
    dtype, shape, epsilon, channels_last = (
        draw(DTYPES),
        draw(SHAPES),
        draw(st.sampled_from([1e-5, 0.1])),
        draw(st.booleans()),
    )
    channels = shape[1]
    groups = draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
    x = numbers(*shape, dtype=dtype) * 2 - 7
    scale, bias = (numbers(channels, dtype=dtype, seed=seed) for seed in (1, 2))
    parts = normal(x.reshape(shape[0], groups, -1), 2, epsilon).reshape(shape)
    wide = (-1, *[1] * (len(shape) - 2))
    wanted = parts * scale.reshape(wide) + bias.reshape(wide)
    activation = draw(st.sampled_from([(), (("relu",),)]))
    wanted = np.maximum(wanted, 0) if activation else wanted
    if channels_last:
        x, wanted = last(x), last(wanted)
    operation = nn.group_norm(groups, epsilon, channels_last, activation)
    return operation, {"y": unwritten(wanted.shape, dtype), "x": x, "scale": scale, "bias": bias}, wanted, dtype


@st.composite
def batches(draw: st.DrawFn) -> Case:
    """A batch normalisation."""
    dtype, shape, channels_last = draw(DTYPES), draw(SHAPES), draw(st.booleans())
    activation = draw(st.sampled_from([(), (("relu",),), (("leaky_relu", 0.25),)]))
    x = numbers(*shape, dtype=dtype)
    names = ("scale", "bias", "mean", "variance")
    given_ = {name: numbers(shape[1], dtype=dtype, seed=seed) for seed, name in enumerate(names, 1)}
    given_["variance"] = np.abs(given_["variance"])
    wide = {k: v.reshape(-1, *[1] * (len(shape) - 2)).astype("float64") for k, v in given_.items()}
    wanted = (x - wide["mean"]) / np.sqrt(wide["variance"] + 1e-3) * wide["scale"] + wide["bias"]
    if activation:
        wanted = np.where(wanted < 0, 0.25 * (activation != (("relu",),)) * wanted, wanted)
    if channels_last:
        x, wanted = last(x), last(wanted)
    operation = nn.batch_norm(1e-3, channels_last, activation)
    return operation, {"y": unwritten(wanted.shape, dtype), "x": x, **given_}, wanted, dtype


@st.composite
def softmaxes(draw: st.DrawFn) -> Case:
    """A softmax or its logarithm."""
    dtype, shape, log = draw(DTYPES), draw(SHAPES), draw(st.booleans())
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    x = numbers(*shape, dtype=dtype) * 9 + 800  # exp(800) would overflow
    exact = np.exp(x.astype("float64") - x.max(axis=axis, keepdims=True))
    wanted = exact / exact.sum(axis=axis, keepdims=True)
    wanted = (
        x.astype("float64") - x.max(axis=axis, keepdims=True) - np.log(exact.sum(axis=axis, keepdims=True))
        if log
        else wanted
    )
    return nn.softmax_over(axis, log), {"y": unwritten(shape, dtype), "x": x}, wanted, dtype


KINDS = {"layer": layers(), "group": groupings(), "batch": batches(), "softmax": softmaxes()}
OPERATIONS = {
    "layer": nn.layer_norm(),
    "group": nn.group_norm(1),
    "batch": nn.batch_norm(),
    "softmax": nn.softmax_over(),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_host_results_equal_the_definition(kind: str, data: st.DataObject) -> None:
    operation, arrays, wanted, dtype = data.draw(KINDS[kind])
    close(on_host(operation, arrays), wanted, dtype, 10)


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize(("kind", "name"), [(k, n) for k, o in OPERATIONS.items() for n in quick(o)])
@given(data=st.data())
@settings(max_examples=examples(8), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_device_results_equal_the_definition(run: Any, kind: str, name: str, data: st.DataObject) -> None:
    operation, arrays, wanted, dtype = data.draw(KINDS[kind])
    close(run(operation, name, arrays)["y"], wanted, dtype, 10)


@pytest.mark.sycl
@pytest.mark.parametrize("kind", OPERATIONS)
@given(data=st.data())
@settings(max_examples=2, deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_python_kernel_results_equal_the_definition(run: Any, kind: str, data: st.DataObject) -> None:
    operation, arrays, wanted, dtype = data.draw(KINDS[kind])
    close(run(operation, "python", arrays)["y"], wanted, dtype, 10)


LANGUAGES = ["opencl-c", "python"]
#: Lines of whole vectors and of parts; more rows than work-items; blocks of channels that overlap.
SHAPED: dict[str, list[tuple[Operation, tuple[int, ...]]]] = {
    "softmax": [
        (nn.softmax_over(-1), (700, 213)),
        (nn.softmax_over(-1, log=True), (3, 16)),
        (nn.softmax_over(1), (2, 37, 150)),
        (nn.softmax_over(0, log=True), (5, 67)),
        (nn.softmax_over(1), (3, 4, 5)),
    ],
    "layer": [(nn.layer_norm(-1, 1e-5, True), (6, 213)), (nn.layer_norm(1, 1e-5, False), (70, 2, 40))],
    "group": [
        (nn.group_norm(10, 1e-5, True, (("elu", 0.5), ("sigmoid",))), (3, 3, 5, 80)),
        (nn.group_norm(70, 1e-5, True, (("gelu",),)), (2, 9, 70)),
        (nn.group_norm(16, 1e-5, True), (1, 75, 48)),
        (nn.group_norm(128, 1e-5, True), (17, 7, 9, 128)),
        (nn.group_norm(3, 1e-5, True), (2, 4, 384)),
        (nn.group_norm(5, 1e-5, True, (("relu",),)), (2, 4, 35)),
        (nn.group_norm(2, 1e-5, False, (("hard_sigmoid", 0.2, 0.5),)), (2, 6, 5, 11)),
    ],
    "batch": [
        (nn.batch_norm(1e-3, True, (("hard_swish",),)), (2, 9, 5, 70)),
        (nn.batch_norm(1e-3, False, (("clip", -0.5, 0.5), ("softplus",))), (3, 4, 8, 9)),
    ],
}


@pytest.mark.sycl
@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("kind", SHAPED)
def test_lines_in_vectors(run: Any, queue: Any, kind: str, name: str) -> None:
    for operation, shape in SHAPED[kind] if queue.sycl_device.device_type.name == "cpu" else SHAPED[kind][:1]:
        per_channel = shape[1:] if "layer_norm 1 " in operation.name else shape[-1:]
        if kind in ("group", "batch") and " last" not in operation.name:
            per_channel = shape[1:2]
        arrays = {"y": unwritten(shape, "float32"), "x": numbers(*shape) * 3 + 5}
        others = [each.name for each in operation.arrays if each.name not in arrays]
        arrays |= {each: np.abs(numbers(*per_channel, seed=n)) for n, each in enumerate(others, 1)}
        close(run(operation, name, arrays)["y"], on_host(operation, arrays), "float32", 10)


@pytest.mark.sycl
@pytest.mark.parametrize("name", LANGUAGES)
def test_moments_of_drifting_values_with_a_large_mean(run: Any, name: str) -> None:
    """Moments of several pixels are merged: neither a large mean nor a drift may lose precision."""
    x = numbers(1, 100, 64) + 3000 + np.linspace(0, 50, 100, dtype="float32")[:, None]
    arrays = {"y": unwritten(x.shape, "float32"), "x": x.astype("float32")}
    arrays |= {each: numbers(64, seed=n) for n, each in enumerate(("scale", "bias"), 1)}
    for groups in (64, 16):
        exact = arrays["x"].astype("float64").reshape(1, 100, groups, -1)
        exact = normal(exact, (1, 3), 1e-5).reshape(x.shape) * arrays["scale"] + arrays["bias"]
        close(run(nn.group_norm(groups, channels_last=True), name, arrays)["y"], exact, "float32", 10)


@pytest.mark.sycl
@pytest.mark.parametrize("name", LANGUAGES)
def test_softmax_of_masked_values_and_nan(run: Any, name: str) -> None:
    for axis, shape in ((1, (4, 69)), (0, (69, 34))):
        x = np.moveaxis(numbers(*shape) * 40, axis, -1)
        x[0, 3:] = -np.inf
        # A NaN whose payload would become an exponent in a power assembled from bits.
        x[1, 7] = np.array(0x7FC00001, "uint32").view("float32")
        x[2] = -np.inf
        x = np.ascontiguousarray(np.moveaxis(x, -1, axis))
        operation, arrays = nn.softmax_over(axis), {"y": unwritten(shape, "float32"), "x": x}
        got, wanted = run(operation, name, arrays)["y"], on_host(operation, arrays)
        close(got, wanted, "float32", 10)
        assert np.isnan(np.moveaxis(got, axis, -1)[1:3]).all()
        assert (np.moveaxis(got, axis, -1)[0, 3:] == 0).all()


@pytest.mark.sycl
@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("log", [False, True])
def test_softmax_of_columns_with_changing_or_huge_maximum(run: Any, name: str, log: bool) -> None:
    # Columns of several work-items, the last of which overlap; rows in blocks, and single ones.
    x = np.linspace(-400, 400, 19, dtype="float32")[:, None] * np.linspace(-1, 1, 2105, dtype="float32")
    x = x + np.linspace(0, 3, 2105, dtype="float32")
    x[:, 5] += 70000
    x[:, 2100] = np.linspace(-1.5e38, 1.5e38, 19)
    x[:, 2104] = -1e6
    operation = nn.softmax_over(1, log)
    arrays = {"y": unwritten((2, *x.shape), "float32"), "x": np.stack([x, -x])}
    got, wanted = run(operation, name, arrays)["y"], on_host(operation, arrays)
    np.testing.assert_allclose(got, wanted, rtol=3e-5, atol=1e-6 if log else 1e-30)


def test_softmax_of_infinite_values_equals_numpy() -> None:
    x = np.array([[-np.inf, 0.0], [-np.inf, -np.inf], [np.nan, 1.0]], "float32")
    got = on_host(nn.softmax_over(), {"y": unwritten((3, 2), "float32"), "x": x})
    np.testing.assert_array_equal(got, [[0, 1], [np.nan, np.nan], [np.nan, np.nan]])


@pytest.mark.parametrize(
    "operation", [nn.softmax_over(1), nn.layer_norm(1), nn.group_norm(2), nn.batch_norm()], ids=lambda o: o.name
)
def test_empty_inputs_give_empty_results(operation: Operation) -> None:
    arrays = {"y": unwritten((0, 4), "float32")}
    arrays |= {p.name: numbers(*((0, 4) if p.name == "x" else (4,))) for p in operation.arrays if p.name != "y"}
    assert on_host(operation, arrays).size == 0


def test_shapes_that_do_not_fit_are_refused() -> None:
    def told(operation: Operation, **shapes: tuple[int, ...]) -> str:
        assert operation.check is not None
        return str(operation.check(Signature(shapes, dict.fromkeys(shapes, "float32"))))

    assert "no axis 2" in told(nn.softmax_over(2), y=(2, 3), x=(2, 3))
    assert "keeps the shape" in told(nn.softmax_over(), y=(2, 3), x=(3, 2))
    assert "scale of x" in told(nn.layer_norm(), y=(2, 3), x=(2, 3), scale=(2,))
    assert "into 2 groups" in told(nn.group_norm(2), y=(2, 3), x=(2, 3), scale=(3,), bias=(3,))
    with pytest.raises(ArgumentError, match="at least one group"):
        nn.group_norm(0)


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize(
    ("operation", "shape"),
    [
        (nn.lrn(channels_last=True), (3, 2, 40)),
        (nn.lrn(channels_last=True), (3, 5, 3)),
        (nn.batch_norm(channels_last=True, activation=(("sigmoid",),)), (3, 9, 3)),
        (nn.group_norm(8, channels_last=True), (3, 4, 80)),
        (nn.softmax_over(1), (3, 9, 5)),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_images_have_the_same_bits_alone(run: Any, operation: Operation, shape: tuple[int, ...]) -> None:
    arrays = {each.name: np.abs(numbers(*shape[-1:], seed=n)) for n, each in enumerate(operation.arrays)}
    arrays |= {"y": unwritten(shape, "float32"), "x": numbers(*shape) * 3}
    together = run(operation, "opencl-c", arrays)["y"]
    for image in range(shape[0]):
        alone = arrays | {name: arrays[name][image : image + 1] for name in ("y", "x")}
        np.testing.assert_array_equal(run(operation, "opencl-c", alone)["y"][0], together[image])
