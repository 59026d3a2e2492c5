# SPDX-License-Identifier: Apache-2.0
"""Batches copied to a device while the previous step computes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.failed_steps import parameter_bits
from support.gpu_shape import OTHER_DEVICE
from support.opened import separate_cpu, two_memories, with_own_memory

import syclsched
from syclsched.errors import ExecutionError
from syclsched.execution.runner.input_copies import InputCopies
from syclsched.model.platform import Platform
from syclsched.testing import faults
from syclsched.testing.training_models import perceptron
from syclsched.training import Trainer, repeated_step
from syclsched.training.repeated_step import RepeatedStep
from syclsched.training.steps.step_network import TARGET

pytestmark = pytest.mark.sycl

MODEL = perceptron((16, 48, 32, 8))
BATCHES = [MODEL.batch(9 if seed == 5 else 24, seed) for seed in range(12)]


def trainer(platform: Platform, **more: Any) -> Trainer:
    given = {"autotune": False, "deterministic": True, "without": ["python"], "policy": "heft", "snapshots": 0, **more}
    return syclsched.train(MODEL.onnx, platform=platform, **given)


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Record actions in order: steps with the names of the preceding copies, and small copies."""
    done: list[tuple[str, Any]] = []
    copy, run = InputCopies.copy, RepeatedStep.run

    def copied(copies: InputCopies, values: Mapping[str, Any]) -> Any:
        found = copy(copies, values)
        done.append(("copied", None if found is None else frozenset(found)))
        return found

    def stepped(step: RepeatedStep, *given: Any) -> Any:
        done.append(("begun", frozenset(given[4] or ())))
        return run(step, *given)

    monkeypatch.setattr(repeated_step, "LEAST_S", 0.0)
    monkeypatch.setattr(InputCopies, "copy", copied)
    monkeypatch.setattr(RepeatedStep, "run", stepped)
    return done


def check_same_bits(platform: Platform, order: list[tuple[str, Any]]) -> None:
    with trainer(platform) as one, trainer(platform) as other:
        wanted = tuple(one.step(*each) for each in BATCHES)
        order.clear()
        assert other.fit(BATCHES, progress=False).losses == wanted
        assert parameter_bits(other) == parameter_bits(one)
        # Not the first two batches of a shape, nor the one of another shape.
        assert sum(len(each) == 2 for what, each in order if what == "begun") == 7


def test_results_have_the_same_bits(order: list[tuple[str, Any]]) -> None:
    check_same_bits(separate_cpu(), order)


@pytest.mark.other_device
@pytest.mark.gpu_shape
def test_results_have_the_same_bits_on_another_device(order: list[tuple[str, Any]]) -> None:
    platform = syclsched.discover(OTHER_DEVICE)
    check_same_bits(with_own_memory(platform, platform.compute_devices[0].space), order)


@pytest.mark.parametrize("given", [{"micro_batches": 2}, {"micro_batches": 3, "clip_norm": 0.5}])
def test_results_of_micro_batches_have_the_same_bits(order: list[tuple[str, Any]], given: dict[str, Any]) -> None:
    batches = [MODEL.batch(24, seed) for seed in range(5)]
    with trainer(separate_cpu(), **given) as one, trainer(separate_cpu(), **given) as other:
        wanted = tuple(one.step(*each) for each in batches)
        assert other.fit(batches, progress=False).losses == wanted
        assert parameter_bits(other) == parameter_bits(one)


@pytest.mark.parametrize("split", ["data", "stages"])
def test_results_of_several_devices_have_the_same_bits(order: list[tuple[str, Any]], split: str) -> None:
    platform, batches = two_memories(), [MODEL.batch(24, seed) for seed in range(5)]
    with trainer(platform, split=split) as one, trainer(platform, split=split) as other:
        wanted = tuple(one.step(*each) for each in batches)
        assert other.fit(batches, progress=False).losses == wanted
        assert parameter_bits(other) == parameter_bits(one)


def test_the_next_batch_is_copied_before_the_step_ends(
    order: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_copied = threading.Semaphore(0)
    copy, run = InputCopies.copy, RepeatedStep.run

    def copied(copies: InputCopies, values: Mapping[str, Any]) -> Any:
        found = copy(copies, values)
        is_copied.release()
        return found

    def stepped(step: RepeatedStep, *given: Any) -> Any:
        if given[2] in with_copies:
            ready.append(is_copied.acquire(timeout=60))  # it does not arrive if it waits for the end of this step
        return run(step, *given)

    ready: list[bool] = []
    batches = [MODEL.batch(24, seed) for seed in range(5)]
    with_copies = range(1, len(batches) - 1)  # the first step plans, the last has no next batch
    monkeypatch.setattr(InputCopies, "copy", copied)
    monkeypatch.setattr(RepeatedStep, "run", stepped)
    with trainer(separate_cpu()) as found:
        found.fit(batches, progress=False)
    assert ready == [True] * len(with_copies)


def test_where_the_host_reaches_the_memory_nothing_is_copied(order: list[tuple[str, Any]]) -> None:
    with trainer(syclsched.discover("cpu")) as found:
        found.fit(BATCHES, progress=False)
    assert {*order} == {("begun", frozenset())}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("the loader fails")])
def test_the_loader_may_end_early(order: list[tuple[str, Any]], error: BaseException) -> None:
    def batches() -> Iterator[Any]:
        yield from BATCHES[:4]
        raise error

    with trainer(separate_cpu()) as found:
        if isinstance(error, KeyboardInterrupt):
            assert found.fit(batches(), progress=False).interrupted
        else:
            with pytest.raises(OSError, match="the loader fails"):
                found.fit(batches(), progress=False)
        assert found.steps == 4
        found.step(*BATCHES[0])


def test_a_lost_device_fails_the_step_as_before(order: list[tuple[str, Any]]) -> None:
    with trainer(separate_cpu()) as found:
        found.fit(BATCHES[:4], progress=False)
        wanted = parameter_bits(found)
        with faults.inject(faults.lose("cpu", after=0)), pytest.raises(ExecutionError):
            found.fit(BATCHES[:4], progress=False)
        assert parameter_bits(found) == wanted
        found.fit(BATCHES[:4], progress=False)


def test_memory_of_unknown_size_is_used(order: list[tuple[str, Any]]) -> None:
    platform = separate_cpu()
    spaces = tuple(replace(each, capacity_bytes=0) if each.name == "cpu" else each for each in platform.spaces)
    with trainer(replace(platform, spaces=spaces)) as found:
        found.fit(BATCHES[:4], progress=False)
    assert ("copied", frozenset({"x", TARGET})) in order


def test_without_memory_for_copies_there_are_none(order: list[tuple[str, Any]]) -> None:
    with trainer(separate_cpu()) as found:
        found.step(*BATCHES[0])
        needed = found.plan.needed_bytes["cpu"]
    with trainer(separate_cpu(), memory_limit={"cpu": needed}) as limited, trainer(separate_cpu()) as other:
        losses = limited.fit(BATCHES[:4], progress=False).losses
        assert losses == tuple(other.step(*each) for each in BATCHES[:4])
    assert ("copied", frozenset({"x", TARGET})) not in order
