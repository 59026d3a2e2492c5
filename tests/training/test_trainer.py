# SPDX-License-Identifier: Apache-2.0
"""Training through the public functions, on the CPU device."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from support.failed_steps import fail_each_submission
from support.small_models import model_of
from support.small_training import SIZES, bits, blobs, trainer

import syclsched
from syclsched.errors import ArgumentError, NotFiniteError, PolicyError, TaskFailedError
from syclsched.model.platform import HOST
from syclsched.testing import faults
from syclsched.testing.training_models import convolutional, perceptron
from syclsched.training import SGD, Adam, CrossEntropy
from syclsched.training.session import TrainingSession

pytestmark = pytest.mark.sycl


def test_fitting_lowers_the_loss_and_the_model_is_right(tmp_path: Path) -> None:
    batches = [blobs(32, seed) for seed in range(10)]
    steps: list[tuple[int, float]] = []
    with trainer(optimizer=Adam(0.01)) as found:
        record = found.fit(batches, epochs=6, progress=False, after_step=lambda *each: steps.append(each))
        test = found.evaluate([blobs(100, 50), blobs(57, 51)])
        found.save(tmp_path / "trained.onnx")
        x, _ = blobs(20, 60)
        own = found.predict(x)["dense1"]
    assert len(record.losses) == 60 and [step for step, _ in steps] == list(range(1, 61))
    assert len(record.epochs) == 6 and record.epochs[-1] < 0.3 * record.epochs[0] and not record.interrupted
    assert record.samples_per_s > 0
    assert test.accuracy is not None and test.accuracy > 0.95 and test.loss < 0.3
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(tmp_path / "trained.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(own, session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)


def test_a_step_is_that_of_the_formula() -> None:
    x, y = np.float32([[1, 2], [3, -1]]), np.float32([[1], [0]])
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (2, 2)}, ["y"], {"w": np.float32([[1], [2]])}
    )
    with trainer(model, "mean_squared_error", SGD(0.1)) as found:
        loss = found.step(x, y)
        weights = found.parameters["w"]
    error = x @ np.float32([[1], [2]]) - y
    assert loss == pytest.approx(float((error**2).mean()))
    np.testing.assert_allclose(weights, np.float32([[1], [2]]) - 0.1 * x.T @ error, rtol=1e-5)


def test_micro_batches_give_the_gradient_of_the_whole_batch() -> None:
    x, y = blobs(30)
    y[3:9] = -100  # not counted
    found = {}
    for parts in (1, 3, (0.7, 0.3)):
        with trainer(optimizer=SGD(0.5), micro_batches=parts) as each:
            found[parts] = [each.step(x, y) for _ in range(3)], each.parameters
    losses, weights = found[1]
    for other, values in (found[3], found[0.7, 0.3]):
        np.testing.assert_allclose(other, losses, rtol=1e-5)
        for name, value in values.items():
            np.testing.assert_allclose(value, weights[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("given", [{"micro_batches": 2}, {"micro_batches": (0.7, 0.3)}, {"memory_limit": 100}], ids=str)
@pytest.mark.parametrize("operator", ["Mul", "Gather"])
def test_input_of_fixed_extent_is_not_split(operator: str, given: Any) -> None:
    random = np.random.default_rng(0)
    factors = "table" if operator == "Mul" else "picked"
    nodes = [helper.make_node("Gather", ["table", "place"], ["picked"])] if operator == "Gather" else []
    nodes += [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Mul", ["h", factors], ["y"])]
    shapes = {"x": ("n", 4), "table": (6,) if operator == "Mul" else (6, 1), "place": ("n",)}
    declared = {name: shape for name, shape in shapes.items() if any(name in node.input for node in nodes)}
    weights = {"w": random.standard_normal((4, 6)).astype("float32")}
    model = model_of(nodes, declared, ["y"], weights)
    for each in model.graph.input:
        if each.name == "place":
            each.type.tensor_type.elem_type = onnx.TensorProto.INT64
    target = random.standard_normal((6, 6)).astype("float32")
    batch: dict[str, Any] = {
        "x": random.standard_normal((6, 4)).astype("float32"),
        "table": random.standard_normal(shapes["table"]).astype("float32"),
        "place": np.array([5, 5, 4, 3, 2, 5]),
    }
    batch = {name: value for name, value in batch.items() if name in declared}
    with (
        trainer(model, "mean_squared_error", SGD(0.1), **given) as found,
        trainer(model, "mean_squared_error", SGD(0.1), micro_batches=1) as whole,
    ):
        assert [found.step(batch, target) for _ in range(3)] == pytest.approx(
            [whole.step(batch, target) for _ in range(3)], rel=1e-5
        )


def test_batches_of_several_sizes_share_the_state() -> None:
    with trainer(optimizer="sgd") as found, trainer(optimizer="sgd") as again:
        for count in (32, 7, 32, 7):
            assert found.step(*blobs(count, count)) == pytest.approx(again.step(*blobs(count, count)), rel=1e-6)
        assert found.compiled is not None and len(found.compiled.kept_shapes) == 2
        assert bits(found.parameters) == bits(again.parameters)


def test_gradients_are_clipped_by_their_norm() -> None:
    x, y = blobs(16)
    with trainer(optimizer=SGD(1.0), clip_norm=1e-3) as found:
        before = found.parameters
        found.step(x, y)
        after = found.parameters
    moved = np.sqrt(sum(((after[name] - before[name]) ** 2).sum() for name in before))
    assert moved == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_step_that_is_not_finite_changes_nothing(where: str) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["p"], name="product"),
        helper.make_node("Sqrt", ["p"], ["y"], name="root"),
    ]
    model = model_of(nodes, {"x": ("n", 2)}, ["y"], {"w": np.float32([1, 1])})
    good, zero = np.float32([[1, 2]]), np.float32([[1, -1 if where == "loss" else 0]])
    with trainer(model, "mean_absolute_error", Adam()) as found:
        found.step(good, np.float32([[0, 0]]))
        before = bits(found.parameters)
        with pytest.raises(NotFiniteError, match=r"root.*step 2"):
            found.step(zero, np.float32([[0, 0]]))
        assert bits(found.parameters) == before and found.steps == 1
        found.step(good, np.float32([[0, 0]]))


def test_frozen_parameters_stay(tmp_path: Path) -> None:
    with trainer(frozen=["layer0.*"]) as found:
        assert set(found.parameters) == {"layer1.weight", "layer1.bias"}
        found.step(*blobs(16))
        found.save(tmp_path / "trained.onnx")
    saved = {
        each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(tmp_path / "trained.onnx").graph.initializer
    }
    weights = perceptron(SIZES).weights
    assert (saved["layer0.weight"] == weights["layer0.weight"]).all()
    assert (saved["layer1.weight"] != weights["layer1.weight"]).any()


def test_running_moments_follow_the_batches() -> None:
    weights = {
        "s": np.ones(3, "float32"),
        "b": np.zeros(3, "float32"),
        "m": np.zeros(3, "float32"),
        "v": np.ones(3, "float32"),
    }
    nodes = [helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], momentum=0.75)]
    model = model_of(nodes, {"x": ("n", 3)}, ["y"], weights)
    x = np.random.default_rng(0).standard_normal((64, 3)).astype("float32") * 2 + 1
    with trainer(model, "mean_squared_error", SGD(0.0)) as found:
        found.step(x, np.zeros_like(x))
        made = found.predict(x)["y"]
    mean, variance = 0.25 * x.mean(0), 0.75 + 0.25 * x.var(0)
    np.testing.assert_allclose(made, (x - mean) / np.sqrt(variance + 1e-5), rtol=1e-4, atol=1e-5)


def test_a_model_exported_for_training_predicts_and_is_saved_as_in_inference(tmp_path: Path) -> None:
    """Also within a branch, and where other nodes read the running moments."""
    x, random = np.float32([[1, 2], [3, 5]]), np.random.default_rng(0)
    weights = {name: random.uniform(1, 2, 2).astype("float32") for name in ("s", "b", "m", "v", "w", "z")}

    def model(training: bool) -> Any:
        mode = {"training_mode": 1} if training else {}
        inside = helper.make_graph(
            [helper.make_node("Dropout", ["h", "ratio", "mode"], ["kept"])],
            "branch",
            [],
            [helper.make_tensor_value_info("kept", onnx.TensorProto.FLOAT, None)],
        )
        other = helper.make_graph([helper.make_node("Neg", ["h"], ["kept"])], "other", [], inside.output)
        nodes = [
            helper.make_node("BatchNormalization", ["x", *"sbmv"], ["h", *(["", "nv"] if training else [])], **mode),
            helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
            helper.make_node("Greater", ["top", "ratio"], ["is_large"]),
            helper.make_node("If", ["is_large"], ["d"], then_branch=inside, else_branch=other),
            helper.make_node("Dropout", ["d", "ratio", "mode"], ["e"]),
            helper.make_node("Mul", ["e", "w"], ["f"]),
            helper.make_node("Add", ["f", "nv" if training else "v"], ["y"]),
        ]
        constants = {**weights, "ratio": np.float32(0.5), "mode": np.array(training)}
        return model_of(nodes, {"x": ("n", 2)}, ["y"], constants)

    with trainer(model(True), "mean_squared_error", SGD(0.0)) as found, trainer(model(False), "model") as other:
        np.testing.assert_allclose(found.predict(x)["y"], other.predict(x)["y"], rtol=1e-6)
        losses = [found.step(x, x) for _ in range(3)]
        assert len(set(losses)) > 1
        predicted = found.predict(x)["y"]
        assert found.evaluate([(x, x)]).loss == pytest.approx(float(((predicted - x) ** 2).mean()))
        found.save(tmp_path / "trained.onnx")
    with syclsched.compile(tmp_path / "trained.onnx", devices="cpu", autotune=False, without=["python"]) as saved:
        for _ in range(2):
            np.testing.assert_allclose(saved(x)["y"], predicted, rtol=1e-6)
    assert "mode" not in {each.name for each in onnx.load(tmp_path / "trained.onnx").graph.initializer}


@pytest.mark.parametrize("operator", ["If", "Scan"])
def test_dropout_and_batch_normalisation_within_a_branch_or_a_loop(operator: str) -> None:
    declared = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("h", "kept")]
    inside = [
        helper.make_node("BatchNormalization", ["h", *"sbmv"], ["n"]),
        helper.make_node("Mul", ["n", "w"], ["o"]),
        helper.make_node("Dropout", ["o", "ratio"], ["kept"]),
    ]
    body = helper.make_graph(inside, "body", declared[:1] if operator == "Scan" else [], declared[1:])
    other = helper.make_graph([helper.make_node("Neg", ["h"], ["kept"])], "other", [], declared[1:])
    nodes = {
        "If": [
            helper.make_node("Identity", ["x"], ["h"]),
            helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
            helper.make_node("Greater", ["top", "ratio"], ["is_large"]),
            helper.make_node("If", ["is_large"], ["y"], then_branch=body, else_branch=other),
        ],
        "Scan": [
            helper.make_node("Unsqueeze", ["x", "zero"], ["turns"]),
            helper.make_node("Scan", ["turns"], ["y"], body=body, num_scan_inputs=1),
        ],
    }
    weights = {name: np.ones(8, "float32") for name in ("s", "v", "w")} | {
        name: np.zeros(8, "float32") for name in "bm"
    }
    constants = {**weights, "ratio": np.float32(0.5), "zero": np.int64([0])}
    model = model_of(nodes[operator], {"x": ("n", 8)}, ["y"], constants)
    x = np.random.default_rng(0).standard_normal((16, 8)).astype("float32") + 1
    target = np.zeros((16, 8) if operator == "If" else (1, 16, 8), "float32")
    with trainer(model, "mean_squared_error", SGD(0.0)) as found:
        losses = [found.step(x, target) for _ in range(3)]
        made = found.predict(x)["y"]
        assert set(found.parameters) == {"s", "b", "w"}
    assert len(set(losses)) == 3 and losses == pytest.approx([2, 2, 2], rel=0.3)  # the kept elements are doubled
    kept = 0.9**3
    mean, variance = (1 - kept) * x.mean(0), kept + (1 - kept) * x.var(0)
    wanted = (x - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(made.reshape(wanted.shape), wanted, rtol=1e-3, atol=1e-4)


def test_results_with_half_of_the_memory_have_the_same_bits() -> None:
    model = convolutional((8, 8, 8, 8), size=16, classes=SIZES[-1])
    batches = [model.batch(16, seed) for seed in range(3)]
    with trainer(model.onnx) as whole:
        wanted = [whole.step(*each) for each in batches]
        left = bits(whole.parameters)
        peak = whole.plan.peak_bytes["cpu"]
        donated = whole.plan.residents
    with trainer(model.onnx, memory_limit=peak // 2) as limited:
        assert [limited.step(*each) for each in batches] == wanted
        assert bits(limited.parameters) == left
        assert limited.plan.peak_bytes["cpu"] <= peak // 2
        assert limited.plan.counters.copies > whole.plan.counters.copies or limited.plan.counters.recomputed
        # Parameters stay in place, and the memory is laid out once for all steps.
        assert limited.plan.residents == donated
        assert limited.compiled is not None
        with syclsched.bind(limited.compiled.graph, plan=limited.plan) as runner:
            assert runner.replayed


@pytest.mark.parametrize("share", [0.7, 0.5, 0.1])
def test_memory_below_the_state_gives_the_same_bits(share: float) -> None:
    """Before, the host executed the tasks that did not fit, by NumPy, in 4 to 8 times the time."""
    model = perceptron((64, 128, 128, 8))
    batches = [model.batch(16, seed) for seed in range(3)]
    with trainer(model.onnx) as whole:
        wanted = [whole.step(*each) for each in batches]
        left, residents = bits(whole.parameters), whole.plan.residents
        limit = int(share * whole.plan.peak_bytes["cpu"])
    with trainer(model.onnx, memory_limit=limit) as limited:
        assert [limited.step(*each) for each in batches] == wanted
        assert bits(limited.parameters) == left
        plan = limited.plan
        assert plan.needed_bytes["cpu"] <= limit
        assert plan.residents.keys() == residents.keys() and HOST in plan.residents.values()
        copied = {i.uses[0].array for _, i in plan.instructions() if i.kind == "copy"}
        assert not copied & plan.residents.keys()
        assert {each.device for each in plan.schedule.assignments} == {"cpu"}


def test_dropout_drops_by_seed_and_step() -> None:
    nodes = [helper.make_node("Dropout", ["w", "ratio"], ["d"]), helper.make_node("Add", ["x", "d"], ["y"])]
    w = np.random.default_rng(0).uniform(0.5, 1.5, 4000).astype("float32")
    constants = {"w": w, "ratio": np.float32(0.25)}
    model = model_of(nodes, {"x": (4000,)}, ["y"], constants)
    zero = np.zeros(4000, "float32")
    found = []
    for seed in (1, 1, 2):
        with trainer(model, "mean_absolute_error", SGD(0.0), seed=seed) as each:
            found.append([each.step(zero, zero) for _ in range(3)])
    assert found[0] == found[1] != found[2] and len(set(found[0])) == 3
    assert np.mean(found) == pytest.approx(w.mean(), abs=0.03)  # the kept elements are scaled up


def test_dropout_of_micro_batches_equals_that_of_the_batch() -> None:
    nodes = [helper.make_node("Dropout", ["x", "ratio"], ["d"]), helper.make_node("Mul", ["d", "w"], ["y"])]
    model = model_of(nodes, {"x": ("n", 50)}, ["y"], {"w": np.ones(50, "float32"), "ratio": np.float32(0.5)})
    x = np.random.default_rng(0).uniform(0.5, 1.5, (12, 50)).astype("float32")
    found = []
    for parts in (1, 3, (0.75, 0.25)):
        with trainer(model, "mean_squared_error", SGD(1.0), micro_batches=parts) as each:
            found.append((each.step(x, np.zeros_like(x)), each.parameters["w"]))
    for loss, weights in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5)
        np.testing.assert_allclose(weights, found[0][1], rtol=1e-5)


@pytest.mark.parametrize(
    ("x", "y", "wrong"),
    [
        (np.zeros((4, 8)), [0, 1, 2, 4], "label 4 is out of range.*0 to 3"),
        (np.zeros((4, 8)), [0, 1, -1, 3], "label -1 is out of range"),
        (np.zeros((4, 8)), [0, 1], r"integer labels of the shape \(4,\)"),
        (np.zeros((4, 8)), np.zeros((4, 3), "float32"), "the target is float32 of shape"),
        (np.zeros((4, 9)), [0, 1, 2, 3], "shape"),
        ({"z": np.zeros((4, 8))}, [0, 1, 2, 3], "no value is given for 'x'"),
        ((np.zeros((4, 8)), 1), [0, 1, 2, 3], "2 inputs are given, and the model takes 1"),
        (np.zeros((4, 8)), ["a"] * 4, "target is of"),
        (np.zeros((4, 8)), np.zeros(4), r"Give integer labels of the shape \(4,\), or probabilities"),
        (np.zeros((4, 8)), None, r"target is missing.*Give integer labels of the shape \(4,\), or probabilities"),
        (np.zeros((0, 8)), np.zeros(0, int), "no samples"),
        (np.zeros((4, 8)), [-100] * 4, "no sample counts in step 1"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(x: Any, y: Any, wrong: str) -> None:
    x = {k: v.astype("float32") for k, v in x.items()} if isinstance(x, dict) else x
    with trainer() as found, pytest.raises(syclsched.SyclschedError, match=wrong):
        found.step(x, y)


def test_a_class_axis_that_the_prediction_has_not_is_refused() -> None:
    with trainer(loss=CrossEntropy(axis=2)) as found, pytest.raises(ArgumentError, match="axis of classes is 2"):
        found.step(*blobs(4))


def test_ignored_samples_do_not_count_in_an_evaluation() -> None:
    x, y = blobs(8)
    with trainer() as found:
        assert found.evaluate([(x, y), (x, np.full(8, -100))]) == found.evaluate([(x, y)])
        with pytest.raises(ArgumentError, match="no sample counts"):
            found.evaluate([(x, np.full(8, -100))])


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"loss": "crossentropy"}, "Did you mean 'cross_entropy'"),
        ({"loss": 5}, "the loss is 5"),
        ({"optimizer": Adam}, "the optimizer is .*Adam"),
        ({"optimizer": "adan"}, "Did you mean 'adam'"),
        ({"parameters": ["nothing"]}, "no initialiser 'nothing'"),
        ({"frozen": ["*"]}, "nothing to train"),
        ({"output": "z"}, "no output 'z'"),
        ({"clip_norm": -1}, "clip_norm is -1"),
        ({"clip_norm": "1"}, "clip_norm is '1'"),
        ({"micro_batches": 0}, "micro_batches is 0"),
        ({"micro_batches": 2.5}, "micro_batches is 2.5, expected a whole number"),
        ({"micro_batches": "2"}, "micro_batches is '2', expected a whole number"),
        ({"micro_batches": (1, -1)}, "expected a whole number, or shares, which are positive numbers"),
        ({"seed": 0.5}, "seed is 0.5, expected a whole number"),
        ({"snapshots": 1.5}, "snapshots is 1.5, expected steps"),
        ({"snapshots": "1"}, "snapshots is '1', expected steps"),
        ({"optimizer": SGD(-1.0)}, "learning rate of step 1 is -1"),
        ({"policy": "hft"}, "no policy 'hft'. Did you mean 'heft'"),
        ({"without": ["onednm"]}, "no implementation is called 'onednm'"),
        ({"without": "onednn"}, "without: 'onednn' is one text"),
        ({"progress": 3}, "progress: expected a function"),
    ],
)
def test_wrong_settings_are_refused_at_once(given: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ArgumentError if "policy" not in given else PolicyError, match=wrong):
        trainer(**given)


def test_named_parameters_must_be_trainable() -> None:
    nodes = [helper.make_node("Gather", ["w", "i"], ["g"]), helper.make_node("Add", ["x", "g"], ["y"])]
    constants = {"w": np.ones((3, 2), "float32"), "i": np.array([0, 2]), "unread": np.ones(3, "float32")}
    model = model_of(nodes, {"x": (2, 2)}, ["y"], constants)
    with pytest.raises(ArgumentError, match="'i' is of int64"):
        trainer(model, parameters=["i"])
    zero = np.zeros((2, 2), "float32")
    with (
        trainer(model, "mean_squared_error", parameters=["w", "unread"]) as found,
        pytest.raises(ArgumentError, match="'unread' is read by nothing"),
    ):
        found.step(zero, zero)


def test_a_step_keeps_the_order_and_unread_values_of_parameters(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    constants = {"w": np.ones((3, 2), "float32"), "unread": np.ones(3, "float32")}
    model, zero = model_of(nodes, {"x": (2, 3)}, ["y"], constants), np.zeros((2, 2), "float32")
    with trainer(model, "mean_squared_error") as found:
        text, before = repr(found), found.parameters
        found.step(np.ones((2, 3), "float32"), zero)
        after = found.parameters
        assert list(before) == list(after) == ["w", "unread"]
        assert repr(found) == text.replace("0 steps", "1 steps")
        assert np.array_equal(after["unread"], before["unread"]) and not np.array_equal(after["w"], before["w"])
        found.checkpoint(tmp_path / "held")
        found.restore(tmp_path / "held")
    with trainer(model, "mean_squared_error") as other:
        other.restore(tmp_path / "held")
        assert all(np.array_equal(value, after[name]) for name, value in other.parameters.items())


def test_a_node_without_gradient_is_named() -> None:
    nodes = [helper.make_node("Det", ["w"], ["y"], name="determinant")]
    model = model_of(nodes, {"x": (1,)}, ["y"], {"w": np.eye(3, dtype="float32")})
    with (
        trainer(model, "mean_squared_error") as found,
        pytest.raises(syclsched.SyclschedError, match=r"determinant.*has no gradient"),
    ):
        found.step(np.zeros(1, "float32"), np.float32(0))


def test_an_error_of_the_loader_is_raised_after_the_last_step() -> None:
    def broken() -> Iterator[Any]:
        yield blobs(16, 0)
        yield blobs(16, 1)
        raise OSError("the disk is gone")

    with trainer() as found, trainer() as other:
        with pytest.raises(OSError, match="the disk is gone"):
            found.fit(broken(), progress=False)
        other.fit([blobs(16, 0), blobs(16, 1)], progress=False)
        assert found.steps == 2 and bits(found.parameters) == bits(other.parameters)


def test_control_c_ends_fitting_after_a_step() -> None:
    def interrupt(step: int, loss: float) -> None:
        if step == 3:
            _thread.interrupt_main()

    batches = [blobs(16, seed) for seed in range(5)]
    with trainer() as found, trainer() as other:
        record = found.fit(batches, epochs=4, progress=False, after_step=interrupt)
        assert record.interrupted and found.steps in (3, 4) and len(record.losses) == found.steps
        for each in batches[: found.steps]:
            other.step(*each)
        assert bits(found.parameters) == bits(other.parameters)


@pytest.mark.parametrize("at", [0, 2])
def test_the_loss_of_a_step_that_control_c_ends_is_recorded(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    count, told = TrainingSession._finished, []

    def interrupted(self: TrainingSession, *given: Any) -> float:
        if 0 < at == self.steps:
            signal.raise_signal(signal.SIGINT)
        loss = count(self, *given)
        if at == 0:  # in the first step, which is planned, Ctrl-C is not deferred
            signal.raise_signal(signal.SIGINT)
        return loss

    batches = [blobs(16, seed) for seed in range(5)]
    with trainer() as found, trainer() as other:
        losses = [other.step(*each) for each in batches]
        monkeypatch.setattr(TrainingSession, "_finished", interrupted)
        record = found.fit(batches, progress=False, after_step=lambda *each: told.append(each))
    assert record.interrupted and list(record.losses) == losses[: at + 1]
    assert told == list(enumerate(losses[: at + 1], 1))


def test_interrupt_before_first_run_keeps_parameters() -> None:
    def interrupt(_: int, __: int, step: str) -> None:
        if step and not ended:
            ended.append(step)
            raise KeyboardInterrupt

    ended: list[str] = []
    with trainer(progress=interrupt) as found, trainer() as other:
        before = bits(found.parameters)
        record = found.fit([blobs(16)], progress=False)
        assert ended and record.interrupted and not record.losses
        assert bits(found.parameters) == before
        assert found.step(*blobs(16)) == other.step(*blobs(16))


def test_one_pass_data_is_refused_for_several_epochs() -> None:
    with trainer() as found:
        with pytest.raises(ArgumentError, match="only once"):
            found.fit((blobs(16) for _ in range(3)), epochs=2, progress=False)
        with pytest.raises(ArgumentError, match="no batches"):
            found.fit([], progress=False)
        with pytest.raises(ArgumentError, match="a pair of x and y"):
            found.fit([np.zeros(3)], progress=False)
        for epochs in (0, 1.0, "1"):
            with pytest.raises(ArgumentError, match=r"epochs is .*, expected a whole number"):
                found.fit([blobs(16)], epochs=epochs, progress=False)  # type: ignore[arg-type]


def test_after_a_failed_task_the_last_step_is_kept_or_all_is_lost(tmp_path: Path) -> None:
    with trainer() as found, trainer() as other:
        begun = fail_each_submission(found, other, blobs(16), tmp_path)
    assert {*begun} == {False, True}


def test_sub_devices_share_a_batch() -> None:
    x, y = blobs(64)
    platform = syclsched.discover("cpu", sub_devices=2)
    given = {"platform": platform, "autotune": False, "without": ["python"], "micro_batches": 2}
    with syclsched.train(perceptron(SIZES).onnx, **given) as found, trainer(micro_batches=2) as other:
        ours, theirs = ([each.step(x, y) for _ in range(4)] for each in (found, other))
    assert ours == pytest.approx(theirs, rel=1e-5)


def test_a_dispatched_step_with_library_calls_survives_refusals(tmp_path: Path) -> None:
    """After a refusal the rest is submitted from Python, with oneDNN's host tasks among it."""
    model = convolutional((8, 8, 8, 8), size=16, classes=SIZES[-1])
    batch = model.batch(16, 0)
    with trainer(model.onnx) as whole:
        whole.step(*batch)
        needed = whole.plan.needed_bytes["cpu"]
    with trainer(model.onnx, memory_limit=needed * 3 // 10) as limited, trainer(model.onnx) as other:
        limited.step(*batch)
        other.step(*batch)
        assert limited.compiled is not None
        with syclsched.bind(limited.compiled.graph, plan=limited.plan) as runner:
            assert not runner.replayed
        assert not all(fail_each_submission(limited, other, batch, tmp_path, every=11))


def test_a_step_that_fails_before_the_update_keeps_the_last_step() -> None:
    model = convolutional((4, 4), size=8, classes=SIZES[-1])
    batch, failed = model.batch(8, 0), set()
    with trainer(model.onnx, trace=True) as found:  # of which each task is submitted by itself
        found.step(*batch)
        wanted = bits(found.parameters)
        for number in count(50):  # those of running moments come late
            with faults.inject(faults.fail_submission(number)), pytest.raises(TaskFailedError) as caught:
                found.step(*batch)
            failed.add(caught.value.task)
            if str(caught.value.task).startswith("update of"):
                break
            assert bits(found.parameters) == wanted
    assert {"norm0.2", "norm0.3", "norm1.2", "norm1.3", "begin of update"} <= failed
