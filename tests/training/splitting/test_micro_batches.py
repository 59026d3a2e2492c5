# SPDX-License-Identifier: Apache-2.0
"""Choice of micro-batches where a device's memory is too small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from support.small_models import model_of

import syclsched
from syclsched.testing.training_models import convolutional, perceptron, transformer
from syclsched.training.losses import loss_of
from syclsched.training.optimisers import SGD, Adam
from syclsched.training.sources.trained_model import TrainedModel, trained_model
from syclsched.training.splitting.micro_batches import MicroBatchChoice, MicroBatchPlanner
from syclsched.training.step_recipe import StepRecipe
from syclsched.training.steps.step_network import TARGET

PLATFORM = syclsched.describe("max1550")
#: Its activations take most of the memory.
MODEL = transformer(layers=1)
SAMPLES = 64


def planner_of(model: Any = MODEL, limit: str | None = None, **more: Any) -> MicroBatchPlanner | None:
    options: Any = {"deterministic": True, **({} if limit is None else {"memory_limit": limit})}
    given = {"platform": PLATFORM, "may_cut": True, **more}
    recipe = StepRecipe(trained_model(model.onnx), loss_of("cross_entropy"), Adam(), options=options, **given)
    step = recipe.model("int64")
    found = recipe.divided(step)
    assert found is None or (isinstance(found, MicroBatchPlanner) and step.divide == found.division)
    return found


def chosen(limit: str | None, samples: int = SAMPLES, model: Any = MODEL) -> MicroBatchChoice | None:
    found = planner_of(model, limit)
    assert found is not None
    shapes = found.make((1.0,)).full_shapes({"x": (samples, *model.input_shape), TARGET: (samples,)})
    choice = found.choose(shapes)
    assert found.last is choice
    assert found.division(shapes) == ((1.0,) * (1 if choice is None else choice.count), (), {})
    return choice


@pytest.mark.parametrize("limit", [None, "2 GB"])
def test_with_enough_memory_a_batch_stays_whole(limit: str | None) -> None:
    assert chosen(limit) is None


@pytest.mark.parametrize("autotune", [True, False])
def test_memory_of_minimal_filtering_counts_if_plans_may_use_it(autotune: bool) -> None:
    weights = {f"w{i}": np.zeros((64, 64, 3, 3), "float32") for i in range(3)}
    nodes = [helper.make_node("Conv", [x, f"w{i}"], [f"y{i}"], pads=[1] * 4) for i, x in enumerate(["x", "y0", "y1"])]
    nodes.append(helper.make_node("Flatten", ["y2"], ["y"]))
    model = model_of(nodes, {"x": ("n", 64, 16, 16)}, ["y"], weights)
    options: Any = {"memory_limit": "4 MB", "autotune": autotune}
    cpu = syclsched.describe("cpu")
    recipe = StepRecipe(
        trained_model(model), loss_of("cross_entropy"), SGD(), options=options, platform=cpu, may_cut=True
    )
    planner = recipe.divided(recipe.model("int64"))
    assert isinstance(planner, MicroBatchPlanner)
    choice = planner.choose(planner.make((1.0,)).full_shapes({"x": (8, 64, 16, 16), TARGET: (8,)}))
    # Transformed filters and sums do not fit beside the activations.
    assert (choice is not None) == autotune


def test_the_parameters_are_copied_once_for_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, copies = TrainedModel.values, []

    def values(self: TrainedModel) -> Any:
        copies.append(1)
        assert usual.fget is not None
        return usual.fget(self)

    monkeypatch.setattr(TrainedModel, "values", property(values))
    assert chosen(None) is None
    assert len(copies) == 1


def test_with_less_memory_there_are_more_parts() -> None:
    counts = []
    for limit in ("12 MB", "6 MB"):
        found = chosen(limit)
        assert found is not None
        counts.append(found.count)
        text = found.text.splitlines()
        what = f"{found.count} micro-batches, the shortest prediction within the memory"
        assert text[0] == f"steps of {SAMPLES} samples: {what}"
        assert [int(line.split()[0]) for line in text[1:]] == list(found.outcomes)
        assert set(found.outcomes) >= {1, found.count}
    assert 1 < counts[0] <= counts[1] <= 8


def test_micro_batches_are_whole_samples() -> None:
    found = chosen("1 MB", 3)
    assert found is not None and set(found.outcomes) <= {1, 2}
    found = chosen("1 MB", 32, convolutional((8, 8, 8, 8), size=16))
    assert found is not None and found.count == 1 and set(found.outcomes) == {1}
    assert "the whole batch at once, as it computes across the samples of a batch: 'norm0" in found.text


def test_the_choice_of_the_user_is_kept() -> None:
    assert planner_of(may_cut=False) is None
    assert planner_of(parts=(1.0, 1.0), may_cut=False) is None


@pytest.mark.sycl
def test_steps_take_the_parts_that_were_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(planner: MicroBatchPlanner, shapes: Any) -> MicroBatchChoice:
        found = planner._known[0] = MicroBatchChoice(4, 16, {1: "2 s", 4: "1 s"})
        return found

    monkeypatch.setattr(MicroBatchPlanner, "choose", choose)
    model = perceptron((8, 16, 4))
    given: Any = {"optimizer": SGD(0.5), "devices": "cpu", "autotune": False, "without": ["python"]}
    batches = [model.batch(16, seed) for seed in range(3)]
    with (
        syclsched.train(model.onnx, **given) as cut,
        syclsched.train(model.onnx, micro_batches=4, **given) as asked,
        syclsched.train(model.onnx, micro_batches=1, **given) as whole,
    ):
        assert [cut.step(*each) for each in batches] == [asked.step(*each) for each in batches]
        whole.step(*batches[0])
        assert len(whole.plan.tasks) < len(cut.plan.tasks) == len(asked.plan.tasks)
        assert cut.explanation.startswith("steps of 16 samples: 4 micro-batches, the shortest prediction")
        assert "micro" not in asked.explanation and "micro" not in whole.explanation
