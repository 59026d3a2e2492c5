# SPDX-License-Identifier: Apache-2.0
"""Training on the machines of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.cluster import Cluster, connect
from syclsched.errors import ArgumentError, ExecutionError, NotFiniteError
from syclsched.testing.training_models import perceptron
from syclsched.training.splitting.cluster_step import ClusterStep

pytestmark = pytest.mark.sycl

pytest.importorskip("distributed", reason="the package distributed is not installed")

MODEL = perceptron((8, 16, 4))
BATCHES = [MODEL.batch(24, seed) for seed in range(3)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect(workers=2) as made:
        yield made


@pytest.fixture(scope="module")
def wanted() -> list[float]:
    """Return the losses of training on one device."""
    with syclsched.train(MODEL.onnx, devices="cpu", autotune=False, without=["python"]) as found:
        return [found.step(*each) for each in BATCHES]


@pytest.mark.parametrize("split", ["single", "data", "stages"])
def test_training_on_machines_equals_training_on_one_device(
    cluster: Cluster, wanted: list[float], split: str, tmp_path: Path
) -> None:
    with syclsched.train(MODEL.onnx, cluster=cluster, split=split, policy="heft") as found:
        with pytest.raises(ExecutionError, match="there was no step yet"):
            _ = found.plan
        assert [found.step(*each) for each in BATCHES[:2]] == pytest.approx(wanted[:2], rel=1e-5)
        used = {each.device.partition("/")[0] for each in found.plan.schedule.assignments}
        assert len(used) == (1 if split == "single" else 2)
        found.checkpoint(tmp_path / "run.ckpt")
        third = found.step(*BATCHES[2])
        assert third == pytest.approx(wanted[2], rel=1e-5)
        found.restore(tmp_path / "run.ckpt")
        assert found.step(*BATCHES[2]) == third
        assert found.compiled is None and found.evaluate(BATCHES).accuracy is not None


def test_plans_stay_bound_for_the_last_shapes_only(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syclsched.training.step_recipe.ClusterStep", partial(ClusterStep, keep=2))
    sizes = (24, 12, 18, 18, 24)
    batches = [MODEL.batch(samples, seed) for seed, samples in enumerate(sizes)]
    with syclsched.train(MODEL.onnx, cluster=cluster, split="single", policy="heft") as found:
        losses = [found.step(*each) for each in batches]
        step = found._session.compiled
        assert isinstance(step, ClusterStep) and len(step._kept.all()) == 2
    with syclsched.train(MODEL.onnx, devices="cpu", autotune=False, without=["python"]) as alone:
        assert losses == pytest.approx([alone.step(*each) for each in batches], rel=1e-5)


def test_a_step_that_fails_changes_nothing(cluster: Cluster) -> None:
    with syclsched.train(MODEL.onnx, "mean_squared_error", cluster=cluster, split="data", policy="heft") as found:
        x = BATCHES[0][0]
        y = np.zeros((24, 4), np.float32)
        found.step(x, y)
        before = {name: value.tobytes() for name, value in found.parameters.items()}
        with pytest.raises(NotFiniteError):
            found.step(x, np.full_like(y, np.inf))
        assert {name: value.tobytes() for name, value in found.parameters.items()} == before


@pytest.mark.parametrize("more", [{"devices": "cpu"}, {"memory_limit": "1GiB"}])
def test_a_cluster_has_its_own_devices(cluster: Cluster, more: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="with a cluster, its machines are the devices"):
        syclsched.train(MODEL.onnx, cluster=cluster, **more)


def test_the_platform_of_a_cluster_is_not_that_of_this_machine(cluster: Cluster) -> None:
    with (
        syclsched.train(MODEL.onnx, platform=cluster.platform()) as found,
        pytest.raises(ArgumentError, match="platform is that of a cluster"),
    ):
        found.step(*BATCHES[0])
