# SPDX-License-Identifier: Apache-2.0
"""Steps divided by samples whose devices have replicas of the parameters and of the optimiser's state."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.failed_steps import fail_each_submission, parameter_bits
from support.opened import two_memories, with_own_memory

import syclsched
from syclsched.devices.memory.resident_array import host_value
from syclsched.errors import ExecutionError, NotFiniteError
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.testing import faults
from syclsched.testing.training_models import convolutional, perceptron
from syclsched.training import Adam, Trainer
from syclsched.training.splitting import split_planner
from syclsched.training.splitting.split_planner import SplitPlanner
from syclsched.training.splitting.task_roles import replica_of
from syclsched.training.steps.step_network import PARITY

pytestmark = pytest.mark.sycl

MODEL = perceptron((16, 48, 32, 8))
SIZES = (24, 24, 9, 24)
Bits = tuple[list[float], dict[str, bytes]]


def far() -> Platform:
    """Return two devices as if the host could not reach their memories."""
    near = two_memories()
    return with_own_memory(with_own_memory(near, "other"), near.spaces[0].name)


def trainer(patch: pytest.MonkeyPatch, platform: Platform, model: Any = MODEL, *, copied: bool, **more: Any) -> Trainer:
    """Return a trainer for which replicas, or copies of the parameters in each step, are predicted to be faster."""

    def quick(_: object, graph: TaskGraph, __: object) -> float:
        return 2.0 if any(replica_of(task.name) for task in graph.tasks) == copied else 1.0

    patch.setattr(split_planner._Choosing, "_quick", quick)
    given = {
        "autotune": False,
        "deterministic": True,
        "without": ["python"],
        "policy": "heft",
        "snapshots": 0,
        "split": "data",
        **more,
    }
    return syclsched.train(model.onnx, platform=platform, optimizer=Adam(0.01), **given)


def copied_state(found: Trainer) -> set[str]:
    copies = (each for _, each in found.plan.instructions() if each.kind == "copy")
    return {use.array for each in copies for use in each.uses} & set(found.plan.residents)


def check_replicas(found: Trainer, count: int) -> None:
    """Check that all replicas have the same bits."""
    assert found.compiled is not None and found.compiled._state is not None
    held = {name: host_value(each).tobytes() for name, each in found.compiled._state._arrays.items()}
    replicas = [name for name in held if replica_of(name)]
    assert len(replicas) == count
    assert all(held[name] == held[name.partition("/")[2]] for name in replicas)


@pytest.mark.parametrize("more", [{}, {"clip_norm": 0.1}, {"activations": "bfloat16"}], ids=["plain", "clip", "narrow"])
@pytest.mark.parametrize("apart", [False, True])
def test_replicas_have_the_bits_of_copied_parameters(
    monkeypatch: pytest.MonkeyPatch, apart: bool, more: dict[str, Any]
) -> None:
    found: list[Bits] = []
    for copied in (True, False):
        with trainer(monkeypatch, far() if apart else two_memories(), copied=copied, **more) as each:
            losses = [each.step(*MODEL.batch(samples, seed)) for seed, samples in enumerate(SIZES)]
            found.append((losses, parameter_bits(each)))
            count = 3 * len(each.parameters)
            check_replicas(each, 0 if copied else count)
            state = set(each.parameters) if copied else {PARITY}
            assert copied_state(each) == state
            assert ("a replica of the parameters on each" in each.explanation) == (not copied)
            # They count as memory of the plan.
            one = sum(value.nbytes for value in each.parameters.values()) * 3
            held = sorted(each.plan.resident_bytes.values())
            assert held == ([one + 4] if copied else [one, one + 4])
    assert found[0] == found[1]


def test_running_moments_are_not_replicated(monkeypatch: pytest.MonkeyPatch) -> None:
    model = convolutional((4, 4), size=8, classes=4)
    found: list[Bits] = []
    for copied in (True, False):
        with trainer(monkeypatch, far(), model, copied=copied) as each:
            losses = [each.step(*model.batch(12, seed)) for seed in range(3)]
            found.append((losses, parameter_bits(each)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)


def test_parts_of_a_device_share_its_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[float]] = []
    for copied in (True, False):
        with trainer(monkeypatch, far(), copied=copied, micro_batches=(3, 2, 2, 1)) as each:
            found.append([each.step(*MODEL.batch(24, seed)) for seed in range(4)])
            check_replicas(each, 0 if copied else 3 * len(each.parameters))
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize("alone", [0, 1])  # one is the update of the parameters with replicas
def test_an_intermediate_plan_without_replicas_keeps_losses_equal(monkeypatch: pytest.MonkeyPatch, alone: int) -> None:
    platform, divide = far(), SplitPlanner.division
    names = [device.name for device in platform.compute_devices]

    def by_size(planner: SplitPlanner, shapes: Any) -> Any:
        parts, replicas, stay = divide(planner, shapes)
        return (parts, (), dict.fromkeys(stay, names[alone])) if shapes["x"][0] == 9 else (parts, replicas, stay)

    monkeypatch.setattr(SplitPlanner, "division", by_size)
    found: list[list[float]] = []
    for copied in (True, False):
        with trainer(monkeypatch, platform, copied=copied) as each:
            losses = []
            for seed, samples in enumerate((9, 24, 9, 24, 24, 9)):
                losses.append(each.step(*MODEL.batch(samples, seed)))
                check_replicas(each, 0 if copied or samples == 9 else 3 * len(each.parameters))
            found.append(losses)
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_checkpoints_are_read_from_one_replica_and_written_to_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    batches = [MODEL.batch(24, seed) for seed in range(4)]
    with trainer(monkeypatch, far(), copied=False) as first:
        for each in batches[:2]:
            first.step(*each)
        first.checkpoint(tmp_path / "run.ckpt")
        wanted = [first.step(*each) for each in batches[2:]]
        left = parameter_bits(first)
        first.restore(tmp_path / "run.ckpt")
        assert [first.step(*each) for each in batches[2:]] == wanted and parameter_bits(first) == left
        check_replicas(first, 3 * len(left))


def test_a_step_that_is_not_finite_changes_no_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = MODEL.batch(24, 0)
    with trainer(monkeypatch, far(), copied=False) as found, trainer(monkeypatch, far(), copied=False) as other:
        for each in (found, other):
            each.step(x, y)
        wrong = x.copy()
        wrong[0, 0] = np.inf  # of the first device's part
        with pytest.raises(NotFiniteError, match="nothing is updated"):
            found.step(wrong, y)
        check_replicas(found, 3 * len(found.parameters))
        assert found.step(x, y) == other.step(x, y) and parameter_bits(found) == parameter_bits(other)


def test_replicas_after_a_failed_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with trainer(monkeypatch, far(), copied=False) as found, trainer(monkeypatch, far(), copied=False) as other:

        def check() -> None:
            check_replicas(found, 3 * len(found.parameters))

        lost = fail_each_submission(found, other, MODEL.batch(8, 0), tmp_path, check, every=20)
    assert {*lost} == {False, True}


def test_a_snapshot_is_written_to_all_replicas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    batches, lost = [MODEL.batch(24, seed) for seed in range(3)], 0
    with trainer(monkeypatch, far(), copied=False, snapshots=1) as found:
        found.step(*batches[0])
        found.checkpoint(tmp_path / "first.ckpt")
        found.step(*batches[1])
        found.step(*batches[2])
        wanted = parameter_bits(found)
        for number in count(1):
            found.restore(tmp_path / "first.ckpt")
            found.step(*batches[1])
            with faults.inject(faults.fail_submission(number)) as seen:
                try:
                    found.step(*batches[2])
                except ExecutionError as error:
                    lost += "the state was lost" in str(error)
            if not seen.injected:
                break
            while found.steps < 3:
                found.step(*batches[found.steps])
            assert parameter_bits(found) == wanted
            check_replicas(found, 3 * len(found.parameters))
        assert lost
