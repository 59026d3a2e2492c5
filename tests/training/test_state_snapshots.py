# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a training's state in host memory, for the loss of a device."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.failed_steps import parameter_bits
from support.gpu_shape import OTHER_DEVICE
from support.opened import separate_cpu, two_memories, with_own_memory

import syclsched
from syclsched.devices.memory import usm_memory
from syclsched.errors import ArgumentError, ExecutionError, MemoryLimitError
from syclsched.model.platform import Platform
from syclsched.testing import faults
from syclsched.testing.training_models import perceptron
from syclsched.training import Trainer, state_snapshots
from syclsched.training.state_snapshots import Snapshot, StateSnapshots
from syclsched.training.steps.step_network import PARITY

pytestmark = pytest.mark.sycl

MODEL = perceptron((16, 48, 32, 8))
BATCHES = [MODEL.batch(24, seed) for seed in range(6)]


def trainer(platform: Platform, **more: Any) -> Trainer:
    given = {"autotune": False, "deterministic": True, "without": ["python"], "policy": "heft", **more}
    return syclsched.train(MODEL.onnx, platform=platform, **given)


def of_steps(platform: Platform, **more: Any) -> list[dict[str, bytes]]:
    """Return the parameters after each number of steps."""
    with trainer(platform, snapshots=0, **more) as found:
        made = [parameter_bits(found)]
        for each in BATCHES:
            found.step(*each)
            made.append(parameter_bits(found))
    return made


def lose(*_: object) -> None:
    raise RuntimeError("device lost")


def test_a_step_that_fails_in_the_update_leaves_a_step_before(tmp_path: Path) -> None:
    wanted, losses = of_steps(separate_cpu()), set[int]()
    with trainer(separate_cpu(), snapshots=2) as found:
        found.step(*BATCHES[0])
        found.checkpoint(tmp_path / "first.ckpt")
        for number in count(1):
            found.restore(tmp_path / "first.ckpt")
            for each in BATCHES[1:4]:
                found.step(*each)
            with faults.inject(faults.fail_submission(number)) as seen:
                try:
                    found.step(*BATCHES[4])
                except ExecutionError as error:
                    if "the state was lost" in str(error):
                        losses.add(found.steps)
                        assert f"those after {found.steps} steps again" in str(error)
            if not seen.injected:
                break
            assert parameter_bits(found) == wanted[found.steps]
            found.step(*BATCHES[found.steps])
            assert parameter_bits(found) == wanted[found.steps]
    # Those after four steps, if a copy was incomplete, so that another was made at once.
    assert losses and losses <= {1, 3, 4}


def test_a_negative_number_of_steps_is_refused() -> None:
    with pytest.raises(ArgumentError, match="snapshots is -1"):
        trainer(separate_cpu(), snapshots=-1)


def test_the_state_of_a_lost_device_can_be_read_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = of_steps(separate_cpu())
    with trainer(separate_cpu(), snapshots=1) as found:
        for each in BATCHES[:3]:
            found.step(*each)
        with monkeypatch.context() as patched, faults.inject(faults.lose("cpu", after=10)):
            patched.setattr(usm_memory, "read_into", lose)
            patched.setattr(usm_memory, "write_from", lose)
            with pytest.raises(ExecutionError, match="step 4 failed, and the state was lost"):
                found.step(*BATCHES[3])
            left = found.steps
            assert left >= 2 and parameter_bits(found) == wanted[left]
            found.checkpoint(tmp_path / "left.ckpt")
            found.save(tmp_path / "left.onnx")
            with pytest.raises((ExecutionError, MemoryLimitError)):
                found.step(*BATCHES[left])
            assert parameter_bits(found) == wanted[left] and found.steps == left
        # The device works again.
        found.step(*BATCHES[left])
        assert parameter_bits(found) == wanted[left + 1]
    with trainer(separate_cpu()) as other:
        other.restore(tmp_path / "left.ckpt")
        assert other.steps == left and parameter_bits(other) == wanted[left]
        other.step(*BATCHES[left])
        assert parameter_bits(other) == wanted[left + 1]


@pytest.mark.parametrize("is_limited", [False, True])
def test_training_continues_without_a_lost_device(monkeypatch: pytest.MonkeyPatch, is_limited: bool) -> None:
    near = two_memories()
    platform = with_own_memory(with_own_memory(near, "other"), near.spaces[0].name)
    names = [device.name for device in platform.compute_devices]
    limit = {"memory_limit": dict.fromkeys(names, "64 MiB")} if is_limited else {}
    with trainer(platform, snapshots=1, split="single", **limit) as found:
        for each in BATCHES[:3]:
            found.step(*each)
        (used,) = {each.device for each in found.plan.schedule.assignments if each.device != "host"}
        with faults.inject(faults.lose(used)):
            with monkeypatch.context() as patched:
                patched.setattr(usm_memory, "read_into", lose)
                patched.setattr(usm_memory, "write_from", lose)
                with pytest.raises(ExecutionError, match=f"without {used}"):
                    found.step(*BATCHES[3])
            left = found.steps
            loss = found.step(*BATCHES[left])
            assert found.steps == left + 1
            assert used not in {each.device for each in found.plan.schedule.assignments}
    with trainer(platform, split="single") as other:
        assert [other.step(*each) for each in BATCHES[: left + 1]][-1] == pytest.approx(loss, rel=1e-5)


class LateCopies:
    """Copies in order, each of which is made only when it is waited for."""

    def __init__(self) -> None:
        self._begun: list[Callable[[], None]] = []

    def start_reading(self, target: Any, memory: Any, *_: Any) -> Any:
        self._begun.append(lambda: usm_memory.read_into(target, memory))
        return self

    @property
    def execution_status(self) -> Any:
        return SimpleNamespace(name="submitted" if self._begun else "complete")

    def wait(self) -> None:
        while self._begun:
            self._begun.pop(0)()


@pytest.mark.parametrize("ends", [False, True])
def test_a_copy_that_an_update_overtakes_is_not_taken(monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    wanted, copies, end = of_steps(separate_cpu()), LateCopies(), StateSnapshots._end

    def late(*given: Any) -> None:
        if ends:  # after the update, before the next check
            copies.wait()
        end(*given)

    monkeypatch.setattr(usm_memory, "start_reading", copies.start_reading)
    monkeypatch.setattr(StateSnapshots, "_end", late)
    with trainer(separate_cpu(), snapshots=1) as found:
        for steps, copied in enumerate((0, 1, 1, 3, 4), 1):
            found.step(*BATCHES[steps - 1])
            last = found._session.snapshots.last
            # The first is waited for; so are later ones, at once, after one that a step overtook.
            assert last is not None and last.steps == copied
            assert {name: last.values[name].tobytes() for name in wanted[0]} == wanted[copied]


def test_nothing_is_copied_where_the_host_reaches_the_memory() -> None:
    with trainer(syclsched.discover("cpu"), snapshots=1) as found:
        for each in BATCHES:
            found.step(*each)
        assert found._session.snapshots._memory == [{}, {}]


class SteppedClock:
    """A clock that steps and copies set."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter


class Whole:
    """A state that is always consistent."""

    steps_done = 0

    def memory(self) -> dict[str, Any]:
        return {PARITY: object.__new__(state_snapshots.ResidentArray)}

    def is_whole(self, _: Any) -> bool:
        return True


@pytest.mark.parametrize("hidden,least", [(0.0, 24), (0.5, 45), (1.0, 170)])
def test_copies_take_two_percent_of_the_time(monkeypatch: pytest.MonkeyPatch, hidden: float, least: int) -> None:
    clock, state, snapshots, begun = SteppedClock(), Whole(), StateSnapshots(None), []
    monkeypatch.setattr(state_snapshots, "time", clock)
    whole_s, is_copied = 0.3, [False]

    def submitted(self: StateSnapshots, *_: Any) -> Snapshot:
        begun.append(state.steps_done)
        self._events = (SimpleNamespace(wait=lambda: None, execution_status=SimpleNamespace(name="complete")),)
        is_copied[0] = bool(self._whole_s) and not self._waits
        clock.now += 0.0 if is_copied[0] else whole_s
        return Snapshot(state.steps_done, {})

    monkeypatch.setattr(StateSnapshots, "_submitted", submitted)

    def step() -> None:
        clock.now += 1.0 + (whole_s * (1 - hidden) if is_copied[0] else 0.0)
        is_copied[0] = False

    snapshots.keep(0, {})
    for number in range(400):
        snapshots.call(step, state, state, is_new=number == 0)  # type: ignore[arg-type]
        state.steps_done += 1
    assert 1 - 400 / clock.now <= 0.021
    assert len(begun) >= least and begun[0] == 2


@pytest.mark.other_device
@pytest.mark.gpu_shape
def test_another_devices_state_is_copied_while_it_computes() -> None:
    platform = syclsched.discover(OTHER_DEVICE)
    with trainer(with_own_memory(platform, platform.compute_devices[0].space), snapshots=1) as found:
        made = [parameter_bits(found)]
        for each in BATCHES:
            found.step(*each)
            made.append(parameter_bits(found))
            last = found._session.snapshots.last
            assert last is not None
            assert {name: last.values[name].tobytes() for name in made[0]} == made[last.steps]
        assert last.steps >= len(BATCHES) - 2
