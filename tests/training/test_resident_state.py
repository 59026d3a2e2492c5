# SPDX-License-Identifier: Apache-2.0
"""Parameters and the optimiser's state in device memory that the host cannot reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.failed_steps import fail_each_submission
from support.gpu_shape import OTHER_DEVICE
from support.opened import separate_cpu, two_memories, with_own_memory
from support.small_training import bits

import syclsched
from syclsched.devices.memory import usm_memory
from syclsched.errors import ExecutionError, NotFiniteError
from syclsched.model.plan import Plan
from syclsched.model.platform import Platform
from syclsched.planning.memory import zero_copy
from syclsched.testing import faults
from syclsched.testing.training_models import convolutional, perceptron
from syclsched.training import SGD, Trainer
from syclsched.training.splitting import split_planner
from syclsched.training.splitting.split_planner import SplitPlanner
from syclsched.training.steps.step_network import PARITY

pytestmark = pytest.mark.sycl

MODEL = perceptron((16, 48, 32, 8))
SIZES = (24, 24, 9, 24)


def trainer(platform: Platform, model: Any = MODEL, **more: Any) -> Trainer:
    given = {"autotune": False, "deterministic": True, "without": ["python"], "policy": "heft", "snapshots": 0, **more}
    return syclsched.train(model.onnx, platform=platform, **given)


def copied(plan: Plan) -> set[str]:
    return {use.array for _, each in plan.instructions() if each.kind == "copy" for use in each.uses}


@pytest.mark.parametrize("model", [MODEL, convolutional((4, 4), size=8, classes=4)])
def test_steps_copy_no_state_and_give_the_same_bits(model: Any) -> None:
    with trainer(syclsched.discover("cpu"), model) as near, trainer(separate_cpu(), model) as far:
        for seed, samples in enumerate(SIZES):
            batch = model.batch(samples, seed)
            assert far.step(*batch) == near.step(*batch)
            state = set(far.plan.residents)
            assert len(state) > 3 * len(near.parameters) and not copied(far.plan) & state
            assert {each.kind for each in far.plan.memory if each.resident} == {"device"}
        assert bits(far.parameters) == bits(near.parameters)
        # They count as memory of the plan beside its peak.
        plan = far.plan
        held = sum(each.nbytes for each in plan.arrays if each.name in state)
        assert plan.resident_bytes == {"cpu": held} and plan.needed_bytes["cpu"] >= held + plan.peak_bytes["cpu"]


def test_a_step_reads_and_writes_nothing_but_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with trainer(separate_cpu()) as found:
        found.step(*MODEL.batch(24, 0))
        wanted = bits(found.parameters)

        def refused(*_: object) -> None:
            raise AssertionError("the state is copied")

        with monkeypatch.context() as patched:
            patched.setattr(usm_memory, "read_into", refused)
            patched.setattr(usm_memory, "write_from", refused)
            for seed in range(3):
                found.step(*MODEL.batch(24, seed))
        assert bits(found.parameters) != wanted


def test_checkpoints_go_from_one_kind_of_memory_to_another(tmp_path: Path) -> None:
    batches = [MODEL.batch(24, seed) for seed in range(4)]
    with trainer(syclsched.discover("cpu")) as near:
        for each in batches[:2]:
            near.step(*each)
        near.checkpoint(tmp_path / "run.ckpt")
        wanted = [near.step(*each) for each in batches[2:]]
        predicted = near.predict(batches[0][0])
        with trainer(separate_cpu()) as far:
            far.step(*batches[3])
            far.restore(tmp_path / "run.ckpt")
            assert [far.step(*each) for each in batches[2:]] == wanted
            assert bits(far.predict(batches[0][0])) == bits(predicted)
            far.save(tmp_path / "far.onnx")
        near.save(tmp_path / "near.onnx")
    assert (tmp_path / "far.onnx").read_bytes() == (tmp_path / "near.onnx").read_bytes()


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    x, y = MODEL.batch(24, 0)
    with trainer(separate_cpu()) as found:
        found.step(x, y)
        wanted = bits(found.parameters)
        with pytest.raises(NotFiniteError, match="nothing is updated"):
            found.step(np.full_like(x, np.nan), y)
        assert bits(found.parameters) == wanted
        found.step(x, y)


@pytest.mark.parametrize("kept", ["all", "all but the parity"])
def test_after_a_failed_task_the_last_step_is_kept_or_all_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    if kept == "all but the parity":
        donated = zero_copy.donated_inputs
        monkeypatch.setattr(zero_copy, "donated_inputs", lambda graph: donated(graph) - {PARITY})
    with trainer(separate_cpu()) as found, trainer(separate_cpu()) as other:
        begun = fail_each_submission(found, other, MODEL.batch(8, 0), tmp_path)
        missing = len(found.plan.residents) - 3 * len(found.parameters) - 1
        assert missing == (0 if kept == "all" else -1)
    # If it is unknown whether an update had begun, it is assumed.
    assert {*begun} == ({True} if kept == "all but the parity" else {False, True})


@pytest.mark.parametrize("after", [0, 5, 10])
def test_device_lost_before_update_leaves_last_step(after: int) -> None:
    batch = MODEL.batch(24, 0)
    with trainer(separate_cpu()) as found:
        found.step(*batch)
        wanted = bits(found.parameters)
        with faults.inject(faults.lose("cpu", after=after)), pytest.raises(ExecutionError):
            found.step(*batch)
        assert found.steps == 1 and bits(found.parameters) == wanted
        found.step(*batch)


def test_memory_lost_with_its_device_raises_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = MODEL.batch(24, 0)

    def lost(*_: object) -> None:
        raise RuntimeError("device lost")

    with trainer(separate_cpu()) as found:
        found.step(*batch)
        found.checkpoint(tmp_path / "run.ckpt")
        wanted = found.step(*batch)
        with monkeypatch.context() as patched:
            patched.setattr(usm_memory, "read_into", lost)
            with faults.inject(faults.fail_submission(1)), pytest.raises(ExecutionError):
                found.step(*batch)
        with pytest.raises(ExecutionError, match="restore"):
            _ = found.parameters
        found.restore(tmp_path / "run.ckpt")
        assert found.step(*batch) == wanted


def test_results_with_half_of_the_memory_have_the_same_bits() -> None:
    batches = [MODEL.batch(256, seed) for seed in range(3)]
    with trainer(separate_cpu()) as whole:
        wanted = [whole.step(*each) for each in batches]
        left, needed, held = bits(whole.parameters), whole.plan.needed_bytes["cpu"], whole.plan.resident_bytes["cpu"]
    for limit in (held + (needed - held) * 2 // 3, held - 1, held // 4):
        with trainer(separate_cpu(), memory_limit={"cpu": limit}) as limited:
            losses = [limited.step(*each) for each in batches]
            assert limited.plan.needed_bytes["cpu"] <= limit
            # If the memory is too small for all of them, or it is predicted to be faster, some are in host memory, and
            # the host updates those that do not fit.
            are_all_near = limited.plan.resident_bytes.get("cpu", 0) == held
            assert limit > held or not are_all_near
            if are_all_near:
                assert losses == wanted and bits(limited.parameters) == left
            assert losses == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("split", ["single", "data", "stages"])
def test_each_device_has_the_state_that_it_updates(monkeypatch: pytest.MonkeyPatch, split: str) -> None:
    monkeypatch.setattr(split_planner, "_REPLICAS", 1)
    near = two_memories()
    far = with_own_memory(with_own_memory(near, "other"), near.spaces[0].name)
    found = []
    for platform in (near, far):
        with trainer(platform, split=split, optimizer=SGD(0.1, momentum=0.9)) as each:
            losses = [each.step(*MODEL.batch(samples, seed)) for seed, samples in enumerate(SIZES)]
            found.append((losses, bits(each.parameters)))
            plan = each.plan
            assert len(plan.residents) == 2 * len(each.parameters) + 1
            homes = {name: space for name, space in plan.residents.items() if name.startswith("layer")}
            assert len({*homes.values()}) == (2 if split == "stages" else 1)
            spaces = {platform.device(a.device).space for a in plan.schedule.assignments}
            assert len(spaces) == (1 if split == "single" else 2)
            # Other devices read copies of parameters; the rest of the state is not copied.
            assert not any("(" in name for name in copied(plan) & set(plan.residents))
    assert found[0] == found[1]


@pytest.mark.parametrize("apart", [(True, True), (True, False), (False, True)])
def test_plans_for_other_memory_move_the_state(monkeypatch: pytest.MonkeyPatch, apart: tuple[bool, bool]) -> None:
    platform = two_memories()
    for device, is_apart in zip(platform.compute_devices, apart, strict=True):
        platform = with_own_memory(platform, device.space) if is_apart else platform
    names, divide = [device.name for device in platform.compute_devices], SplitPlanner.division

    def by_size(planner: SplitPlanner, shapes: Any) -> Any:
        parts, replicas, stay = divide(planner, shapes)
        return parts, replicas, dict.fromkeys(stay, names[shapes["x"][0] == 9])

    monkeypatch.setattr(SplitPlanner, "division", by_size)
    with trainer(platform, split="single") as found, trainer(syclsched.discover("cpu")) as alone:
        for seed, samples in enumerate((24, 9, 24, 9, 9, 24, 24)):
            batch = MODEL.batch(samples, seed)
            assert found.step(*batch) == pytest.approx(alone.step(*batch), rel=1e-5)
            space = platform.device(names[samples == 9]).space
            assert {*found.plan.residents.values()} == {space} and not copied(found.plan) & set(found.plan.residents)


@pytest.mark.other_device
@pytest.mark.gpu_shape
def test_another_device_keeps_the_state() -> None:
    model = perceptron((8, 16, 4))
    with trainer(syclsched.discover(OTHER_DEVICE), model) as far, trainer(syclsched.discover("cpu"), model) as near:
        for seed in range(3):
            batch = model.batch(16, seed)
            assert far.step(*batch) == pytest.approx(near.step(*batch), rel=1e-5)
            assert not copied(far.plan) & set(far.plan.residents)
        assert len(far.plan.residents) == 3 * len(far.parameters) + 1
