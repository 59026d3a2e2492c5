# SPDX-License-Identifier: Apache-2.0
"""``syclsched train``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.commands import call

from syclsched.testing.training_models import perceptron

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


@pytest.mark.parametrize(
    ("arrays", "wrong"),
    [
        ({"x": np.zeros((4, 8), "float32")}, "no array 'y'"),
        ({"z": np.zeros((4, 8), "float32"), "y": np.zeros(4, int)}, "no array 'x'"),
        ({"x": np.zeros((4, 8), "float32"), "y": np.zeros(3, int)}, "x has 4, y has 3"),
    ],
)
def test_wrong_data(folder: Path, capsys: pytest.CaptureFixture[str], arrays: Any, wrong: str) -> None:
    np.savez("data.npz", **arrays)
    found = call(capsys, "train", "net.onnx", "--data", "data.npz", "--devices", "cpu")
    assert found.code == 2 and wrong in found.err
    assert not (folder / "net-trained.onnx").exists()


def test_resume_needs_a_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = call(capsys, "train", "net.onnx", "--data", "data.npz", "--resume")
    assert found.code == 2 and "--checkpoint" in found.err


def test_activations(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["train", "net.onnx", "--data", "data.npz", "--devices", "cpu", "--activations"]
    found = call(capsys, *given, "bfloat16")
    assert found.code == 0 and "epoch 1/1" in found.out, found.err
    found = call(capsys, *given, "float16")
    assert found.code == 2 and "float32 or bfloat16" in found.err
