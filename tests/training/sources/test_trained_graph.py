# SPDX-License-Identifier: Apache-2.0
"""Training of task graphs through the public functions, on the CPU device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.small_training import bits
from support.training_steps import HostStep

import syclsched
from syclsched import TaskGraph
from syclsched.errors import ArgumentError, FormatError, GradientError, NotFiniteError, StorageError
from syclsched.kernels import get
from syclsched.kernels.nn.convolution.conv import conv
from syclsched.kernels.nn.product.matmul import matmul
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.kernels.tensor.reductions.reduce import reduce
from syclsched.testing.training_models import perceptron
from syclsched.training import SGD, Adam, Trainer

pytestmark = pytest.mark.sycl


@syclsched.operation
def softsign(item, y, x):
    i, j = item.get_id(0), item.get_id(1)
    y[i, j] = x[i, j] / (1 + abs(x[i, j]))


@softsign.gradient
def softsign(dy, x):
    return dy / (1 + abs(x)) ** 2


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def network(squash: Any = softsign, samples: int = 16) -> TaskGraph:
    """Return a classifier whose hidden layer has a user-defined operation."""
    graph = TaskGraph("classifier")
    x = graph.array("x", (samples, 6), "float32")
    w, b = graph.array("w", data=numbers(6, 8)), graph.array("b", data=numbers(8, seed=1))
    v, c = graph.array("v", data=numbers(8, 3, seed=2)), graph.array("c", data=numbers(3, seed=3))
    h = graph.array("h", (samples, 8), "float32", temporary=True)
    s = graph.array("s", (samples, 8), "float32", temporary=True)
    scores = graph.array("scores", (samples, 3), "float32")
    graph.kernel(get("dense"), y=h, x=x, w=w, b=b, activation=0)
    graph.kernel(squash, name="squash", y=s, x=h)
    graph.kernel(get("dense"), y=scores, x=s, w=v, b=c, activation=0)
    return graph


def batch(seed: int, samples: int = 16) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, samples)
    return (3 * np.eye(3, 6)[labels] + random.standard_normal((samples, 6))).astype("float32"), labels


def trainer(
    graph: TaskGraph | None = None, loss: Any = "cross_entropy", optimizer: Any = "adam", **more: Any
) -> Trainer:
    return syclsched.train(
        network() if graph is None else graph, loss, optimizer, devices="cpu", autotune=False, **more
    )


def test_fitting_evaluation_and_prediction_of_a_graph(tmp_path: Path) -> None:
    batches = [batch(seed) for seed in range(20)]
    with trainer(optimizer=Adam(0.01)) as found:
        record = found.fit(batches, epochs=4, progress=False)
        assert record.epochs[-1] < 0.3 * record.epochs[0]
        assert (found.evaluate(batches).accuracy or 0) > 0.9
        made = found.predict(batches[0][0])
        found.save(tmp_path / "trained.npz")
        with pytest.raises(ArgumentError, match=r"written as \.npz"):
            found.save(tmp_path / "trained.onnx")
        with pytest.raises(StorageError):
            found.save(tmp_path / "none" / "trained.npz")
        saved = {name: value.copy() for name, value in np.load(tmp_path / "trained.npz").items()}
        assert bits(saved) == bits(found.parameters)
    assert set(made) == {"scores"}
    # The graph itself computes the same with these parameters.
    platform = syclsched.discover("cpu")
    with syclsched.run(network(), platform, inputs={"x": batches[0][0], **saved}, calibrate=False) as run:
        np.testing.assert_allclose(run.result("scores"), made["scores"], rtol=1e-4, atol=1e-5)


def test_a_graph_trains_as_the_same_model_does() -> None:
    model = perceptron((6, 8, 3))
    graph = TaskGraph("perceptron")
    x, h, scores = (graph.array(name, (16, n), "float32") for name, n in (("x", 6), ("h", 8), ("scores", 3)))
    held = {name: graph.array(name, data=value) for name, value in model.weights.items()}
    for layer, (given, made, activation) in enumerate(((x, h, (("relu",),)), (h, scores, ()))):
        product = matmul(transpose_b=True, bias=True, activation=activation)
        weight, bias = held[f"layer{layer}.weight"], held[f"layer{layer}.bias"]
        graph.kernel(product, y=made, a=given, b=weight, c=bias)
    with trainer(graph) as ours, syclsched.train(model.onnx, devices="cpu", autotune=False) as theirs:
        for seed in range(5):
            assert ours.step(*batch(seed)) == pytest.approx(theirs.step(*batch(seed)), rel=1e-5)
        for name, value in theirs.parameters.items():
            np.testing.assert_allclose(ours.parameters[name], value, rtol=1e-4, atol=1e-5)


def test_a_checkpoint_continues_with_the_same_bits(tmp_path: Path) -> None:
    with trainer() as whole:
        losses = [whole.step(*batch(seed)) for seed in range(6)]
        wanted = bits(whole.parameters)
    with trainer() as first:
        for seed in range(3):
            first.step(*batch(seed))
        first.checkpoint(tmp_path / "run.ckpt")
    with trainer() as second:
        second.restore(tmp_path / "run.ckpt")
        assert [second.step(*batch(seed)) for seed in range(3, 6)] == losses[3:]
        assert bits(second.parameters) == wanted
    with trainer(network(), parameters=["w"]) as other:
        other.checkpoint(tmp_path / "run.ckpt")
    with trainer() as second, pytest.raises(FormatError, match="belongs to another model"):
        second.restore(tmp_path / "run.ckpt")


def test_frozen_arrays_stay_and_parameters_are_named_by_patterns() -> None:
    with trainer(frozen=["w", "b"]) as found:
        assert set(found.parameters) == {"v", "c"}
    with trainer(parameters="v") as found:
        found.step(*batch(0))
        assert set(found.parameters) == {"v"}


def test_arrays_in_double_precision_and_a_loss_of_the_graph() -> None:
    graph = TaskGraph("distance")
    w, x, y = graph.array("w", data=np.zeros(3)), graph.array("x", (3,)), graph.array("y", (3,))
    loss = graph.array("loss", ())
    graph.kernel(get("copy"), y=y, x=x)
    graph.kernel(get("axpy"), y=y, x=w, alpha=-1.0)
    graph.kernel(squared, total=loss, x=y)
    with trainer(graph, "model", SGD(0.25)) as found:
        given = np.array([1.0, 2.0, 3.0])
        assert [found.step(given), found.step(given)] == pytest.approx([14, 3.5])
        assert found.evaluate([(given, None)]).loss == pytest.approx(0.875)
        np.testing.assert_allclose(found.parameters["w"], 0.75 * given)


def test_images_with_an_operation_of_our_own_between_convolutions() -> None:
    @syclsched.operation
    def weighted(y: syclsched.Write, x: syclsched.Read) -> None:
        y[...] = x * np.arange(1, 9, dtype=x.dtype).reshape(1, 8, 1, 1)

    weighted = weighted.gradient(lambda dy: dy * np.arange(1, 9).reshape(1, 8, 1, 1))
    graph, shape = TaskGraph("images"), (2, 8, 6, 6)
    x, y = graph.array("x", shape, "float32"), graph.array("y", (2, 8), "float32")
    weights = [graph.array(f"w{i}", data=numbers(8, 8, 3, 3, seed=i) / 5) for i in range(2)]
    a, s, c = (graph.array(name, shape, "float32") for name in "asc")
    padded = conv(2, pads=[1, 1, 1, 1], activation=(("relu",),))
    graph.kernel(padded, y=a, x=x, w=weights[0])
    graph.kernel(weighted, y=s, x=a)
    graph.kernel(padded, y=c, x=s, w=weights[1])
    graph.kernel(reduce("mean", (2, 3)), y=y, x=c)
    samples, target = numbers(*shape, seed=5), numbers(2, 8, seed=6)
    wanted = HostStep(graph, target, {"x": samples}).gradients()
    with trainer(graph, "mean_squared_error", SGD(1.0)) as found:
        before = found.parameters
        found.step(samples, target)
        after = found.parameters
    for name, gradient in wanted.items():
        np.testing.assert_allclose(before[name] - after[name], gradient, rtol=1e-3, atol=1e-5)


@syclsched.operation
def squared(total: syclsched.Write, x: syclsched.Read) -> None:
    total[...] = (x**2).sum()


@squared.gradient
def squared(dtotal, x):
    return 2 * dtotal * x


def test_values_of_other_byte_orders_and_scalars() -> None:
    dpt = pytest.importorskip("dpctl.tensor")
    graph = TaskGraph("held")
    w = graph.array("w", data=dpt.asarray(np.float32([1, 2, 3])))
    c = graph.array("c", data=np.arange(3, dtype=">f4"))
    t = graph.array("t", data=np.array(2.0, "float32"))
    y = graph.array("y", (3,), "float32")
    graph.kernel(elementwise(("add", ("mul", 0, 1), 2), 3), y=y, x0=w, x1=t, x2=c)
    with trainer(graph, "mean_squared_error", SGD(0.5), parameters=["w", "t"]) as found:
        assert found.step((), np.zeros(3, "float32")) == pytest.approx((4 + 25 + 64) / 3)
        assert found.parameters["t"] == pytest.approx(2 - (2 + 10 + 24) / 3)
        np.testing.assert_allclose(found.parameters["w"], [1 - 4 / 3, 2 - 10 / 3, 3 - 16 / 3], rtol=1e-5)


def test_a_graph_without_inputs_is_fitted() -> None:
    graph = TaskGraph("means")
    w, y = graph.array("w", data=np.zeros(3, "float32")), graph.array("y", (3,), "float32")
    graph.copy(w, y)
    target = np.float32([1, 2, 3])
    with trainer(graph, "mean_squared_error", SGD(0.75)) as found:
        record = found.fit([((), target)], epochs=30, progress=False)
        np.testing.assert_allclose(found.parameters["w"], target, rtol=1e-5)
        assert len(record.losses) == 30 and record.losses[-1] < 1e-9


def test_in_place_update_keeps_value_for_gradient() -> None:
    @syclsched.operation
    def cube(item, x: syclsched.Update):
        i = item.get_id(0)
        x[i] = x[i] * x[i] * x[i]

    cube = cube.gradient(lambda dx, x: 3 * x**2 * dx)
    graph = TaskGraph("cubes")
    w, y = graph.array("w", data=np.float32([1, 2, -0.5])), graph.array("y", (3,), "float32")
    graph.copy(w, y)
    graph.kernel(cube, x=y)
    graph.kernel(cube, x=y)
    with trainer(graph, "mean_squared_error", SGD(1.0)) as found:
        assert found.step((), np.zeros(3, "float32")) == pytest.approx(
            np.mean(np.float64([1, 2, -0.5]) ** 18), rel=1e-5
        )
        moved = np.float64([1, 2, -0.5]) - found.parameters["w"]
    np.testing.assert_allclose(moved, 18 * np.float64([1, 2, -0.5]) ** 17 / 3, rtol=1e-4)


def test_a_status_that_reports_a_failure_fails_the_step() -> None:
    graph = TaskGraph("factor")
    w, a = graph.array("w", data=-np.eye(3)), graph.array("a", (3, 3))
    graph.copy(w, a)
    graph.kernel(get("potrf"), name="factor", a=a, status=graph.array("status", (1,), "int32"))
    with (
        trainer(graph, "mean_squared_error") as found,
        pytest.raises(syclsched.SyclschedError, match="not positive definite"),
    ):
        found.step((), np.zeros((3, 3)))


def test_a_number_that_is_not_finite_names_the_task() -> None:
    @syclsched.operation
    def root(item, y, x):
        i, j = item.get_id(0), item.get_id(1)
        y[i, j] = x[i, j] ** 0.5

    root = root.gradient(lambda dy, y: dy * 0.5 / y)
    with trainer(network(root)) as found:
        before = bits(found.parameters)
        with pytest.raises(NotFiniteError, match=r"squash.*step 1"):
            found.step(*batch(0))
        assert bits(found.parameters) == before


def test_operation_without_gradient_is_named() -> None:
    @syclsched.operation
    def bare(item, y, x):
        i, j = item.get_id(0), item.get_id(1)
        y[i, j] = x[i, j]

    with trainer(network(bare)) as found, pytest.raises(GradientError, match=r"'squash'.*'bare' has no gradient"):
        found.step(*batch(0))
    with trainer(network(bare), parameters=["v"]) as found:
        found.step(*batch(0))
    graph = network()
    doubled = graph.array("doubled", (16, 3), "float32")
    graph.host(lambda x, y: np.multiply(x, 2, y), name="host", x=graph.arrays["scores"].read(), y=doubled.write())
    with trainer(graph) as found, pytest.raises(GradientError, match=r"'host'.*has no gradient"):
        found.step(*batch(0))


def _written(graph: TaskGraph) -> dict[str, Any]:
    graph.kernel(get("scale"), name="halve", x=graph.arrays["c"], alpha=0.5)
    return {"parameters": ["c"]}


def _unread(graph: TaskGraph) -> dict[str, Any]:
    graph.array("unread", data=numbers(3))
    return {"parameters": ["w", "unread"]}


def _integer(graph: TaskGraph) -> dict[str, Any]:
    graph.array("counts", data=np.arange(3))
    return {"parameters": ["counts"]}


def _two_results(graph: TaskGraph) -> dict[str, Any]:
    graph.copy(graph.arrays["h"], graph.array("copy of h", (16, 8), "float32"))
    return {}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (_written, "'c' is written by task 'halve', and cannot be trained"),
        (_integer, "'counts' is of int64, and cannot be trained"),
        (_two_results, "2 floating-point arrays are results.*one of scores, copy of h"),
        (lambda graph: {"parameters": ["z"]}, "no array with initial data 'z'"),
        (lambda graph: {"parameters": ["x"]}, "'x' has no initial value"),
        (lambda graph: {"frozen": ["*"]}, "nothing to train"),
        (lambda graph: {"output": "x"}, "no task writes an array 'x'"),
        (lambda graph: {"micro_batches": 2}, "shapes of a task graph are fixed"),
        (lambda graph: {"shapes": {"x": (3, 6)}}, "shapes of a task graph are fixed"),
    ],
)
def test_wrong_settings_are_refused_at_once(change: Callable[[TaskGraph], dict[str, Any]], wrong: str) -> None:
    graph = network()
    with pytest.raises(ArgumentError, match=wrong):
        trainer(graph, **change(graph))
    with pytest.raises(ArgumentError, match="has no tasks"):
        trainer(TaskGraph("empty"))


def test_a_named_parameter_that_nothing_reads_is_refused() -> None:
    graph = network()
    with trainer(graph, **_unread(graph)) as found, pytest.raises(ArgumentError, match="'unread' is read by nothing"):
        found.step(*batch(0))
    with trainer(graph) as found:
        before = found.parameters
        found.step(*batch(0))
        assert np.array_equal(found.parameters["unread"], before["unread"])


def test_a_batch_of_another_size_is_refused() -> None:
    with trainer() as found, pytest.raises(ArgumentError, match=r"shape \(7, 6\), and the model wants \(16, 6\)"):
        found.step(*batch(0, samples=7))
