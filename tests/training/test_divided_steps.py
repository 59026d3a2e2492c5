# SPDX-License-Identifier: Apache-2.0
"""Training steps divided among several devices of this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_shape import OTHER_DEVICE
from support.opened import two_memories

import syclsched
from syclsched.errors import ArgumentError
from syclsched.model.platform import Platform
from syclsched.testing.training_models import TrainingModel, perceptron, recurrent, transformer
from syclsched.training import SGD, Trainer
from syclsched.training.splitting import split_trial

pytestmark = pytest.mark.sycl

WAYS = ("single", "tasks", "data", "stages")


def trainer(model: TrainingModel, platform: Platform, split: str = "auto", **more: Any) -> Trainer:
    given = {"autotune": False, "deterministic": True, "without": ["python"], "policy": "heft", **more}
    return syclsched.train(model.onnx, optimizer=SGD(0.1), platform=platform, split=split, **given)


def trained(model: TrainingModel, platform: Platform, split: str, **more: Any) -> tuple[list[float], dict[str, bytes]]:
    with trainer(model, platform, split, **more) as found:
        losses = [found.step(*model.batch(samples, seed)) for seed, samples in enumerate((24, 24))]
        assert f"steps of 24 samples: {split}, as asked for" in found.explanation
        return losses, {name: value.tobytes() for name, value in found.parameters.items()}


def check_alike(found: dict[str, tuple[list[float], dict[str, bytes]]]) -> None:
    wanted_losses, wanted = found["single"]
    for losses, weights in found.values():
        assert losses == pytest.approx(wanted_losses, rel=1e-5)
        for name, value in weights.items():
            own, other = (np.frombuffer(made, "float32") for made in (value, wanted[name]))
            np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("memories", [1, 2])
def test_all_splits_train_alike_and_repeat_bitwise(memories: int) -> None:
    model = perceptron((16, 48, 32, 8))
    platform = two_memories() if memories == 2 else syclsched.discover("cpu", sub_devices=2)
    found = {split: trained(model, platform, split) for split in WAYS}
    check_alike(found)
    for split in ("data", "stages"):
        assert trained(model, platform, split) == found[split]


def test_networks_with_recurrence_and_attention_are_divided() -> None:
    platform = two_memories()
    for model, split in (
        (recurrent(4, 8, steps=2), "data"),
        (transformer(1, 16, 2, length=6, vocabulary=20), "stages"),
    ):
        check_alike({each: trained(model, platform, each) for each in ("single", split)})


def test_batches_of_two_sizes_are_divided_each_by_itself() -> None:
    model, platform = perceptron((16, 48, 32, 8)), two_memories()
    with trainer(model, platform, "data") as found, trainer(model, platform, "single") as alone:
        for samples in (24, 9, 24):
            batch = model.batch(samples, samples)
            assert found.step(*batch) == pytest.approx(alone.step(*batch), rel=1e-5)
        assert "steps of 9 samples: data" in found.explanation


@pytest.mark.parametrize("memories", [1, 2])
def test_last_batch_of_fewer_samples_than_devices(memories: int) -> None:
    model = perceptron((16, 48, 32, 8))
    platform = two_memories() if memories == 2 else syclsched.discover("cpu", sub_devices=2)
    with trainer(model, platform, "data") as found, trainer(model, platform, "single") as alone:
        for samples in (24, 2, 1, 24, 1):
            batch = model.batch(samples, samples)
            assert found.step(*batch) == pytest.approx(alone.step(*batch), rel=1e-5)
        assert "steps of 1 sample: single, as a batch of one sample has no parts" in found.explanation
        for name, value in alone.parameters.items():
            np.testing.assert_allclose(found.parameters[name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.other_device
def test_the_emulator_and_the_cpu_share_a_batch() -> None:
    model = perceptron((8, 16, 4))
    platform = syclsched.discover(f"cpu,{OTHER_DEVICE}")
    found = {split: trained(model, platform, split) for split in ("single", "data", "stages")}
    for split in ("data", "stages"):
        assert found[split][0] == pytest.approx(found["single"][0], rel=1e-5)
        assert trained(model, platform, split) == found[split]


def test_parts_are_placed_according_to_the_split() -> None:
    model, platform = perceptron((16, 48, 32, 8)), syclsched.discover("cpu", sub_devices=2)
    with trainer(model, platform, "data") as found:
        found.step(*model.batch(32))
        placed = {each.task: each.device for each in found.plan.schedule.assignments}
        assert "16 on cpu.0, 16 on cpu.1; summed on cpu.1" in found.explanation
    assert {device for task, device in placed.items() if "part 0/" in task} == {"cpu.0"}
    assert {device for task, device in placed.items() if "part 0/" not in task} == {"cpu.1"}


def test_a_checkpoint_of_divided_steps_continues_on_one_device(tmp_path: Any) -> None:
    model, platform = perceptron((16, 48, 32, 8)), two_memories()
    with trainer(model, platform, "data") as whole:
        losses = [whole.step(*model.batch(24, seed)) for seed in range(4)]
    with trainer(model, platform, "data") as first:
        assert [first.step(*model.batch(24, seed)) for seed in range(2)] == losses[:2]
        first.checkpoint(tmp_path / "run.ckpt")
    with trainer(model, syclsched.discover("cpu")) as second:
        second.restore(tmp_path / "run.ckpt")
        assert [second.step(*model.batch(24, seed)) for seed in (2, 3)] == pytest.approx(losses[2:], rel=1e-5)
        assert second.explanation.startswith("on cpu: ")


def test_one_device_cannot_be_shared() -> None:
    model = perceptron((8, 16, 4))
    with (
        trainer(model, syclsched.discover("cpu"), "data") as found,
        pytest.raises(ArgumentError, match="there is one device, cpu"),
    ):
        found.step(*model.batch(8))


@pytest.mark.parametrize("divided_s", [0.5, 2.0])
def test_divided_steps_that_are_measured_slower_run_on_one_device(
    monkeypatch: pytest.MonkeyPatch, divided_s: float
) -> None:
    """The comparison has no effect on the training."""
    model, platform = perceptron((32, 256, 256, 10)), syclsched.discover("cpu", sub_devices=2)
    ran: list[object] = []

    def times(runs: Any) -> list[list[float]]:
        ran.extend(run() for run in runs)
        return [[1.0] * 8, [divided_s] * 8]

    monkeypatch.setattr(split_trial, "time_alternating", times)
    monkeypatch.setattr("syclsched.onnx.tuning.plan_comparison.is_disturbed", lambda _: False)
    monkeypatch.setattr("syclsched.training.splitting.split_planner.trial_key", lambda *_: f"test {divided_s}")
    batches = [model.batch(4096, seed) for seed in range(2)]
    with trainer(model, platform, autotune=True, deterministic=False, policy="auto") as found:
        losses = [found.step(*each) for each in batches]
        explained, used = found.explanation, {each.device for each in found.plan.schedule.assignments}
    assert len(ran) == 2
    if divided_s < 1.0:
        assert "measured: 0.50 times the time on cpu.0" in explained and len(used) == 2
    else:
        assert "single, as data was measured: 2.00 times the time on cpu.0" in explained and used == {"cpu.0"}
    with trainer(model, platform, "single") as alone:
        assert losses == pytest.approx([alone.step(*each) for each in batches], rel=1e-4)
