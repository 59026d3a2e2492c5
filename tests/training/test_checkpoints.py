# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of training, and saved models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.small_training import SIZES, bits, blobs, trainer

from syclsched.errors import FormatError, StorageError
from syclsched.testing.training_models import perceptron

pytestmark = pytest.mark.sycl


def test_a_checkpoint_continues_with_the_same_bits(tmp_path: Path) -> None:
    batches = [blobs(16, seed) for seed in range(6)]
    with trainer() as whole:
        losses = [whole.step(*each) for each in batches]
        wanted = bits(whole.parameters)
    with trainer() as first:
        for each in batches[:3]:
            first.step(*each)
        first.checkpoint(tmp_path / "run.ckpt")
    with trainer() as second:
        second.restore(tmp_path / "run.ckpt")
        assert second.steps == 3
        assert [second.step(*each) for each in batches[3:]] == losses[3:]
        assert bits(second.parameters) == wanted
        second.restore(tmp_path / "run.ckpt")  # also after steps
        assert [second.step(*each) for each in batches[3:]] == losses[3:]


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.ckpt"
    with trainer() as found:
        found.step(*blobs(16))
        found.checkpoint(path)
        before = path.read_bytes()
        found.step(*blobs(16))

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.replace", full)
        with pytest.raises(StorageError, match="No space left"):
            found.checkpoint(path)
        with pytest.raises(StorageError, match="No space left"):
            found.save(tmp_path / "trained.onnx")
        monkeypatch.undo()
        assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == ["run.ckpt"]
        found.step(*blobs(16))


def test_a_wrong_checkpoint_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("nothing")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with trainer(perceptron((8, 5, 4)).onnx) as other:
        other.checkpoint(tmp_path / "smaller")
    with trainer(optimizer="sgd") as other:
        other.step(*blobs(16))
        other.checkpoint(tmp_path / "of sgd")
    with trainer() as found:
        before = bits(found.parameters)
        with pytest.raises(FormatError, match="another optimizer"):
            found.restore(tmp_path / "of sgd")
        with pytest.raises(StorageError):
            found.restore(tmp_path / "none")
        for name in ("text", "other.npz", "smaller"):
            with pytest.raises(FormatError):
                found.restore(tmp_path / name)
        assert bits(found.parameters) == before


def test_checkpoint_of_frozen_parameters(tmp_path: Path) -> None:
    path, saved, batch = tmp_path / "run.ckpt", tmp_path / "trained.onnx", blobs(16)
    with trainer() as found:
        found.step(*batch)
        found.checkpoint(path)
        found.save(saved)
        wanted = found.step(*batch)
    with trainer(frozen=["layer0.*"]) as found:
        before = bits(found.parameters)
        with pytest.raises(FormatError, match=r"'layer0.weight', which is no trained parameter here.*another value"):
            found.restore(path)
        assert bits(found.parameters) == before and found.steps == 0
    with trainer(saved, frozen=["layer0.*"]) as found:
        found.restore(path)
        assert found.steps == 1 and found.step(*batch) == wanted
        found.checkpoint(path)
    with trainer(perceptron((8, 16)).onnx) as found, pytest.raises(FormatError):
        found.restore(path)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_checkpoint_without_steps_begins_with_a_new_optimizer(tmp_path: Path, is_first: bool) -> None:
    """Also after a different kind of targets, for which the state was taken out of a compiled step."""
    (x, y), path = blobs(16), tmp_path / "run.ckpt"
    shares = np.eye(SIZES[-1], dtype="float32")[y]
    with trainer() as found:
        found.checkpoint(path)
        wanted = [found.step(x, y) for _ in range(3)]
        found.step(x, shares)
        if is_first:
            found.step(x, y)
        found.restore(path)
        assert [found.step(x, y) for _ in range(3)] == wanted


def test_a_model_is_saved_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    onnx.save(perceptron(SIZES).onnx, "net.onnx")
    with trainer("net.onnx") as found:
        monkeypatch.chdir(tmp_path / "other")
        found.save("trained.onnx")
    assert (tmp_path / "other" / "trained.onnx").exists()


def test_sparse_initialisers_are_saved_with_their_trained_values(tmp_path: Path) -> None:
    model, path = perceptron(SIZES).onnx, tmp_path / "trained.onnx"
    dense = model.graph.initializer[0]
    values, name = numpy_helper.to_array(dense).ravel(), dense.name
    kept = np.flatnonzero(abs(values) > 0.3)
    numbers = numpy_helper.from_array(values[kept], name), numpy_helper.from_array(kept)
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(*numbers, list(dense.dims)))
    model.graph.initializer.remove(dense)
    with trainer(model) as found:
        found.step(*blobs(16))
        found.save(path)
        wanted = found.parameters[name]
    saved = {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
    np.testing.assert_array_equal(saved[name], wanted)
