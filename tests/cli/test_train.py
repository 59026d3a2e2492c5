# SPDX-License-Identifier: Apache-2.0
"""``syclsched train``."""

from __future__ import annotations

import _thread
import json
from functools import partial
from pathlib import Path
from pydoc import locate
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.commands import call

import syclsched
from syclsched.testing.training_models import convolutional, perceptron
from syclsched.training import SGD, AdamW
from syclsched.training.state_snapshots import StateSnapshots

pytestmark = pytest.mark.sycl


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(perceptron((8, 16, 4)).onnx, "net.onnx")
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 200)
    centres = random.standard_normal((4, 8)) * 3
    np.savez("data.npz", x=(centres[labels] + random.standard_normal((200, 8))).astype("float32"), y=labels)
    return tmp_path


def choose_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps have the same implementations in all calls, and so the same bits: measurements may choose others."""
    monkeypatch.setattr("syclsched.training.train", partial(syclsched.training.train, autotune=False))


def test_train(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["train", "net.onnx", "--data", "data.npz", "--learning-rate", "0.01", "--devices", "cpu"]
    found = call(
        capsys, *given, "--epochs", "3", "--test-part", "0.2", "--checkpoint", "run.ckpt", "--chart", "loss.svg"
    )
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    assert "% right" in lines[-1] and "samples/s" in lines[-1]
    assert "model written to net-trained.onnx" in found.err
    assert {"net-trained.onnx", "run.ckpt", "loss.svg"} <= {each.name for each in folder.iterdir()}
    again = call(
        capsys,
        *given,
        "--epochs",
        "4",
        "--test-part",
        "0.2",
        "--checkpoint",
        "run.ckpt",
        "--resume",
        "--output",
        "b.onnx",
    )
    assert again.code == 0, again.err
    assert again.out.startswith("epoch 4/4") and "continuing after 15 steps" in again.err


def test_groups_of_parameters(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    make = syclsched.training.train

    def noted(model: Any, loss: Any, optimizer: Any, **more: Any) -> Any:
        given.append(optimizer)
        return make(model, loss, optimizer, **more)

    monkeypatch.setattr("syclsched.training.train", noted)
    groups = ("--group", "*.bias:adamw,weight_decay=0", "--group", "layer0.*:sgd,learning_rate=0.5,nesterov=1")
    last = ("--optimizer", "adamw,weight_decay=0.2", "--learning-rate", "0.01")
    found = call(capsys, "train", "net.onnx", "--data", "data.npz", "--devices", "cpu", *groups, *last)
    assert found.code == 2 and "nesterov" in found.err
    found = call(
        capsys, "train", "net.onnx", "--data", "data.npz", "--devices", "cpu", *groups[:3], f"{groups[3]},momentum=0.9",
        *last,
    )  # fmt: skip
    assert found.code == 0, found.err
    assert given == [
        {
            "*.bias": AdamW(0.01, weight_decay=0.0),
            "layer0.*": SGD(0.5, momentum=0.9, nesterov=True),
            "*": AdamW(0.01, weight_decay=0.2),
        }
    ]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (("--group", "adam"), "Give PATTERN:NAME"),
        (("--group", "*.bais:adam"), "no trained parameter '*.bais'"),
        (("--group", "*.bias:adam", "--group", "*.bias:sgd"), "given twice"),
        (("--group", "*.bias:adan"), "Did you mean 'adam'"),
        (("--group", "*.bias:adam,weight_decai=1"), "Did you mean 'weight_decay'"),
        (("--optimizer", "adam,weight_decay"), "weight_decay is '', expected a number"),
    ],
)
def test_wrong_groups(folder: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], wrong: str) -> None:
    found = call(capsys, "train", "net.onnx", "--data", "data.npz", "--devices", "cpu", *given)
    assert found.code == 2 and wrong in " ".join(found.err.split()), found.err


def test_train_on_a_cluster(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed", reason="the package distributed is not installed")
    given = ["train", "net.onnx", "--data", "data.npz", "--batch", "90", "--split", "data"]
    found = call(capsys, *given, "--workers", "2")
    assert found.code == 0, found.err
    assert found.out.startswith("epoch 1/1: loss ") and (folder / "net-trained.onnx").exists()
    found = call(capsys, *given, "--workers", "2", "--devices", "cpu")
    assert found.code == 2 and "cluster" in found.err


@pytest.mark.parametrize(
    ("arrays", "wrong"),
    [
        ({"x": np.zeros((4, 8), "float32")}, "no array 'y'"),
        ({"z": np.zeros((4, 8), "float32"), "y": np.zeros(4, int)}, "no array 'x'"),
        ({"x": np.zeros((4, 8), "float32"), "y": np.zeros(3, int)}, "x has 4, y has 3"),
        ({"x": np.zeros((0, 8), "float32"), "y": np.zeros(0, int)}, "it has no samples"),
        ({"x": np.float32(1), "y": np.zeros(3, int)}, "'x' is a single number"),
    ],
)
def test_wrong_data(folder: Path, capsys: pytest.CaptureFixture[str], arrays: Any, wrong: str) -> None:
    np.savez("data.npz", **arrays)
    found = call(capsys, "train", "net.onnx", "--data", "data.npz", "--devices", "cpu")
    assert found.code == 2 and wrong in found.err
    assert not (folder / "net-trained.onnx").exists()


def test_a_loss_of_the_model_needs_no_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.load("net.onnx")
    scores = model.graph.output.pop()
    model.graph.node.append(helper.make_node("SoftmaxCrossEntropyLoss", [scores.name, "labels"], ["loss"]))
    model.graph.input.append(helper.make_tensor_value_info("labels", TensorProto.INT64, ["batch"]))
    model.graph.output.append(helper.make_tensor_value_info("loss", TensorProto.FLOAT, []))
    onnx.save(model, "whole.onnx")
    with np.load("data.npz") as data:
        np.savez("whole.npz", x=data["x"], labels=data["y"])
    given = ("--epochs", "2", "--devices", "cpu")
    found = call(capsys, "train", "whole.onnx", "--data", "whole.npz", "--loss", "model", *given)
    assert found.code == 0, found.err
    wanted = call(capsys, "train", "net.onnx", "--data", "data.npz", *given)
    losses = [[line.split()[3].rstrip(";") for line in each.out.splitlines()] for each in (found, wanted)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(("steps", "code"), [("3", 0), ("-1", 2)])
def test_snapshots(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any, steps: str, code: int) -> None:
    given: list[int | None] = []
    make = StateSnapshots.__init__

    def noted(self: StateSnapshots, every: int | None) -> None:
        given.append(every)
        make(self, every)

    monkeypatch.setattr(StateSnapshots, "__init__", noted)
    found = call(capsys, "train", "net.onnx", "--data", "data.npz", "--devices", "cpu", "--snapshots", steps)
    assert (found.code, given) == (code, [] if code else [int(steps)])


def test_resume_needs_a_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = call(capsys, "train", "net.onnx", "--data", "data.npz", "--resume")
    assert found.code == 2 and "--checkpoint" in found.err


def interrupt_after(monkeypatch: pytest.MonkeyPatch, place: str, calls: int) -> None:
    """Raise KeyboardInterrupt in a call of a function after ``count`` calls of it."""
    owner, name = place.rsplit(".", 1)
    do, left = getattr(locate(owner), name), [calls]

    def interrupted(*given: Any, **more: Any) -> Any:
        left[0] -= 1
        if left[0] == -1:
            _thread.interrupt_main()
        return do(*given, **more)

    monkeypatch.setattr(place, interrupted)


@pytest.mark.parametrize(
    ("place", "calls"),
    [
        ("syclsched.training.session.TrainingSession.step", 8),  # six of the first epoch
        ("syclsched.training.trainer.Trainer.evaluate", 0),
        ("syclsched.cli.commands.train._tested", 1),
        ("syclsched.training.trainer.write_checkpoint", 0),
    ],
)
def test_interrupted_training_resumes_with_the_same_bits(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, place: str, calls: int
) -> None:
    choose_no_kernels(monkeypatch)
    given = ["train", "net.onnx", "--data", "data.npz", "--devices", "cpu", "--epochs", "3"]
    whole = call(capsys, *given, "--output", "whole.onnx")
    assert whole.code == 0, whole.err
    with monkeypatch.context() as patched:
        interrupt_after(patched, place, calls)
        found = call(capsys, *given, "--checkpoint", "run.ckpt", "--chart", "loss.svg")
    assert found.code == 130 and "interrupted" in found.err
    assert {"net-trained.onnx", "run.ckpt", "loss.svg"} <= {each.name for each in folder.iterdir()}
    resumed = call(capsys, *given, "--checkpoint", "run.ckpt", "--resume", "--output", "resumed.onnx")
    assert resumed.code == 0, resumed.err
    assert Path("resumed.onnx").read_bytes() == Path("whole.onnx").read_bytes()
    assert Path("net-trained.onnx").read_bytes() != Path("whole.onnx").read_bytes()


def test_control_c_before_the_first_step_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_after(monkeypatch, "syclsched.training.session.batch_of", 0)
    found = call(
        capsys,
        "train",
        "net.onnx",
        "--data",
        "data.npz",
        "--devices",
        "cpu",
        "--checkpoint",
        "run.ckpt",
        "--chart",
        "a.svg",
    )
    assert found.code == 130 and "no step" in found.out
    assert {each.name for each in folder.iterdir()} == {"net.onnx", "data.npz"}


def test_a_full_disk_at_a_checkpoint_leaves_the_model(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    choose_no_kernels(monkeypatch)
    given = ["train", "net.onnx", "--data", "data.npz", "--devices", "cpu"]
    assert call(capsys, *given, "--output", "whole.onnx").code == 0
    monkeypatch.setattr("syclsched.training.checkpoints.write_atomically", full)
    found = call(capsys, *given, "--epochs", "3", "--checkpoint", "run.ckpt")
    assert found.code == 2 and "No space left" in found.err and "older" not in found.err
    assert Path("net-trained.onnx").read_bytes() == Path("whole.onnx").read_bytes()


def test_a_training_that_is_done_is_resumed_without_a_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["train", "net.onnx", "--data", "data.npz", "--devices", "cpu", "--checkpoint", "run.ckpt"]
    assert call(capsys, *given).code == 0
    found = call(capsys, *given, "--resume", "--chart", "loss.svg")
    assert found.code == 0, found.err
    assert not (folder / "loss.svg").exists()


def test_a_negative_seed_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = call(capsys, "train", "net.onnx", "--data", "data.npz", "--devices", "cpu", "--seed", "-1")
    assert found.code == 2 and "--seed" in found.err


def test_plans_of_steps_on_several_devices_report_the_split(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(perceptron((64, 1024, 1024, 4)).onnx, "wide.onnx")
    given = ["plan", "wide.onnx", "--train", "cross_entropy", "--shape", "samples=8192", "--platform", "a770,b580"]
    found = call(capsys, *given)
    assert found.code == 0, found.err
    first, *lines = found.out.splitlines()
    assert first.startswith("steps of 8192 samples: ") and first.endswith(", the shortest prediction")
    assert {line.split()[0] for line in lines[:4]} == {"single", "tasks", "data", "stages"}
    forced = call(capsys, *given, "--split", "stages")
    assert forced.code == 0 and forced.out.startswith("steps of 8192 samples: stages, as asked for")
    wrong = call(capsys, *given, "--split", "stage")
    assert wrong.code == 2 and "no way 'stage'" in wrong.err
    alone = call(capsys, *given[:-1], "a770")
    assert alone.code == 0 and alone.out.startswith("Plan of")


def test_plans_of_steps_store_activations_in_the_given_dtype(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(convolutional((8, 8), size=16, classes=4).onnx, "net.onnx")
    given = ["plan", "net.onnx", "--train", "cross_entropy", "--shape", "samples=512", "--platform", "a770", "--json"]
    peaks = []
    for kind in ("float32", "bfloat16"):
        found = call(capsys, *given, "--activations", kind)
        assert found.code == 0, found.err
        peaks.append(max(json.loads(found.out)["peak_bytes"].values()))
    assert peaks[1] < 0.9 * peaks[0]
    wrong = call(capsys, *given, "--activations", "int8")
    assert wrong.code == 2 and "activations is 'int8'" in wrong.err
    unused = call(capsys, "plan", "mlp", "--platform", "a770", "--activations", "bfloat16")
    assert unused.code == 0 and "--activations" in unused.err and "without --train" in unused.err


def test_training_on_several_devices_reports_the_step_split(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    halves = syclsched.discover("cpu", sub_devices=2)
    monkeypatch.setattr("syclsched.training.step_recipe.default_platform", lambda _: halves)
    found = call(capsys, "train", "net.onnx", "--data", "data.npz", "--batch", "60", "--split", "data")
    assert found.code == 0, found.err
    assert "steps of 60 samples: data, as asked for" in found.err


def test_activations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["train", "net.onnx", "--data", "data.npz", "--devices", "cpu", "--activations"]
    found = call(capsys, *given, "bfloat16")
    assert found.code == 0 and "epoch 1/1" in found.out, found.err
    found = call(capsys, *given, "float16")
    assert found.code == 2 and "float32 or bfloat16" in found.err
