# SPDX-License-Identifier: Apache-2.0
"""Choice of the division of training steps, on described platforms."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from onnx import helper
from support.small_models import model_of

import syclsched
from syclsched.errors import ArgumentError
from syclsched.kernels import get
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Platform
from syclsched.testing.training_models import convolutional, perceptron
from syclsched.training.losses import MeanSquaredError, loss_of
from syclsched.training.optimisers import Adam
from syclsched.training.sources.trained_graph import trained_graph
from syclsched.training.sources.trained_model import trained_model
from syclsched.training.splitting import split_planner
from syclsched.training.splitting.split_planner import SplitPlanner
from syclsched.training.splitting.splits import SplitChoice
from syclsched.training.splitting.task_roles import layers_of, part_of
from syclsched.training.step_recipe import StepRecipe
from syclsched.training.steps.step_model import StepModel
from syclsched.training.steps.step_network import TARGET

SIZES = (784, 2048, 2048, 10)


def recipe_for(platform: Platform | None, model: Any = None, loss: str = "cross_entropy", **more: Any) -> StepRecipe:
    given = perceptron(SIZES).onnx if model is None else model
    return StepRecipe(trained_model(given), loss_of(loss), Adam(), platform=platform, **more)


def planner_of(recipe: StepRecipe) -> tuple[StepModel, SplitPlanner]:
    model = recipe.model("int64")
    found = recipe.divided(model)
    assert found is not None
    return model, replace(found, history=None)  # independent of refusals on this machine


@cache
def chosen(devices: str, samples: int = 8192, split: str = "auto", parts: tuple[float, ...] = (1.0,)) -> SplitChoice:
    recipe = recipe_for(syclsched.describe(devices), split=split, parts=parts)
    model, planner = planner_of(recipe)
    return planner.choose(model.full_shapes({"x": (samples, SIZES[0]), TARGET: (samples,)}))


def predicted(found: SplitChoice) -> dict[str, float]:
    return {each.kind: each.step_s for each in found.splits if each.step_s is not None}


def test_two_equal_devices_get_half_of_the_samples_each() -> None:
    found = chosen("max1550,max1550")
    assert found.best.kind == "data" and found.best.parts == (4096, 4096)
    times = predicted(found)
    assert times.keys() == {"single", "tasks", "data", "stages"}
    assert times["data"] < 0.8 * times["single"]
    text = found.text.splitlines()
    assert text[0] == "steps of 8192 samples: data, the shortest prediction"
    assert "4096 on max1550, 4096 on max1550.1; a replica of the parameters on each" in text[1] and len(text) == 5


def test_replicas_are_of_devices_of_one_kind_and_shorten_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipe_for(syclsched.describe("max1550,max1550"), split="data")
    model, planner = planner_of(recipe)
    shapes = model.full_shapes({"x": (8192, SIZES[0]), TARGET: (8192,)})
    best = planner.choose(shapes).best
    assert best.replicas == (1, 0) and best.stay["update of replica 1/layer0.weight"] == best.stay["part 0/dense0"]
    assert best.stay["update of layer0.weight"] == best.stay["part 1/dense0"]
    monkeypatch.setattr(split_planner, "_REPLICAS", 1)
    model, planner = planner_of(recipe)
    copied = planner.choose(shapes).best
    assert not copied.replicas and copied.step_s is not None and best.step_s is not None
    assert best.step_s < 0.95 * copied.step_s
    assert not chosen("a770,b580", split="data").best.replicas  # last bits may differ


def test_samples_are_split_by_device_speed() -> None:
    found = chosen("a770,b580")
    assert found.best.kind == "data"
    fewer, more = found.best.parts
    assert sum(found.best.parts) == 8192 and 1000 < fewer < more
    assert set(found.best.stay.values()) == {"a770", "b580"}
    updates = {device for task, device in found.best.stay.items() if task.startswith(("update", "sum of", "guard"))}
    parts = {part_of(task): device for task, device in found.best.stay.items() if part_of(task) is not None}
    assert updates == {parts[1]} and parts[0] != parts[1]


@pytest.mark.parametrize(("devices", "samples"), [("cpu,max1550", 512), ("max1550,max1550", 16), ("a770,b580", 16)])
def test_small_batches_stay_on_one_device(devices: str, samples: int) -> None:
    found = chosen(devices, samples)
    times = predicted(found)
    assert found.best.kind in ("single", "tasks")
    assert found.best.step_s is not None and found.best.step_s <= times["single"]


@pytest.mark.parametrize("devices", ["cpu,max1550", "max1550,max1550", "a770,b580", "a770,b580,max1100"])
@pytest.mark.parametrize("samples", [64, 2048])
def test_the_split_is_never_predicted_slower_than_one_device(devices: str, samples: int) -> None:
    found = chosen(devices, samples)
    assert found.best.step_s is not None
    assert found.best.step_s <= min(seconds for kind, seconds in predicted(found).items() if kind == "single")


def test_stages_are_consecutive_layers_on_every_device() -> None:
    found = chosen("max1550,max1550", 4096, "stages")
    assert found.best.kind == "stages" and found.why == "as asked for" and found.best.parts == (1.0,) * 4
    recipe = recipe_for(None, parts=found.best.parts)
    model = recipe.model("int64")
    shapes = model.full_shapes({"x": (4096, SIZES[0]), TARGET: (4096,)})
    nodes = [node.name for node in model.cut(shapes)[0].network.nodes]
    graph = model.specialised(shapes, carried=model.carried).graph
    layers = layers_of(graph, nodes)
    assert set(layers) == set(found.best.stay)
    ordered = sorted({*layers.values()})
    devices = [{found.best.stay[task] for task, own in layers.items() if own == layer} for layer in ordered]
    assert all(len(each) == 1 for each in devices)
    assert sum(a != b for a, b in pairwise(devices)) == 1
    for task, device in found.best.stay.items():  # the update of a layer is where its gradients are
        if task.startswith("update of layer0"):
            assert device == found.best.stay["part 0/dense0"]


def test_parts_that_the_user_wants_are_dealt_out() -> None:
    found = chosen("max1550,max1550", 4096, "data", (3.0, 1.0, 2.0))
    assert found.best.parts == (3.0, 1.0, 2.0)
    devices = {part_of(task): device for task, device in found.best.stay.items()}
    assert devices[0] != devices[1] == devices[2]


@pytest.mark.parametrize("parts", [(1.0,), (1.0, 1.0), (1.0, 3.0)])
def test_a_very_slow_device_gets_a_part_on_request(monkeypatch: pytest.MonkeyPatch, parts: tuple[float, ...]) -> None:
    seconds_on = split_planner._Choosing._seconds_on

    def slow(self: Any, device: str, graph: TaskGraph) -> float:
        return seconds_on(self, device, graph) * (1000 if device == "max1550.1" else 1)

    monkeypatch.setattr(split_planner._Choosing, "_seconds_on", slow)
    recipe = recipe_for(syclsched.describe("max1550,max1550"), split="data", parts=parts)
    model, planner = planner_of(recipe)
    found = planner.choose(model.full_shapes({"x": (64, SIZES[0]), TARGET: (64,)})).best
    assert {*found.stay.values()} == {"max1550", "max1550.1"}


def test_parts_need_a_second_device_that_can_do_all_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds_on = split_planner._Choosing._seconds_on

    def unable(self: Any, device: str, graph: TaskGraph) -> float:
        return float("inf") if device == "max1550" else seconds_on(self, device, graph)

    monkeypatch.setattr(split_planner._Choosing, "_seconds_on", unable)
    model, planner = planner_of(recipe_for(syclsched.describe("max1550,max1550"), split="data"))
    with pytest.raises(ArgumentError, match=r"no device but max1550\.1 can do all of the step"):
        planner.choose(model.full_shapes({"x": (64, SIZES[0]), TARGET: (64,)}))


def test_requested_splits_are_made_or_refused() -> None:
    assert chosen("max1550,max1550", 2048, "single").best.kind == "single"
    assert not chosen("max1550,max1550", 2048, "tasks").best.stay
    assert chosen("cpu,max1550", 512, "data").best.kind == "data"
    alone = chosen("max1550,max1550", 1, "data")
    assert alone.best.kind == "single"
    assert "single, as a batch of one sample has no parts" in alone.text
    assert chosen("max1550,max1550", 1, "data", (3.0, 1.0)).best.kind == "single"
    with pytest.raises(ArgumentError, match=r"split='stages': there is one device, max1550"):
        recipe = recipe_for(syclsched.describe("max1550"), split="stages")
        recipe.divided(recipe.model("int64"))
    with pytest.raises(ArgumentError, match="no way 'date' to divide steps"):
        recipe_for(None, split="date").check()
    one = recipe_for(syclsched.describe("max1550"))
    assert one.divided(one.model("int64")) is None
    heft = recipe_for(syclsched.describe("a770,b580"), options={"policy": "heft"})
    assert heft.divided(heft.model("int64")) is None


def refusals(model: Any, loss: str, shapes: dict[str, tuple[int, ...]], **more: Any) -> dict[str, str | None]:
    given, planner = planner_of(recipe_for(syclsched.describe("max1550,max1550"), model, loss, **more))
    found = planner.choose(given.full_shapes(shapes))
    return {each.kind: each.refused for each in found.splits}


def test_a_batch_of_dependent_samples_is_not_divided() -> None:
    model = convolutional((8, 8), 8).onnx
    shapes = {"x": (64, 3, 8, 8), TARGET: (64,)}
    found = refusals(model, "cross_entropy", shapes)
    for kind in ("data", "stages"):
        assert "across the samples of a batch: 'norm0" in (found[kind] or "")
    assert refusals(model, "cross_entropy", shapes, split="data")["data"] is None  # requested by the user


def test_a_loss_of_the_model_is_not_cut() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["d"]),
        helper.make_node("ReduceSumSquare", ["d"], ["y"], keepdims=0),
    ]
    model = model_of(nodes, {"x": (64, 3)}, ["y"], {"w": np.ones((3, 2), "float32")})
    found = refusals(model, "model", {"x": (64, 3), TARGET: (0,)})
    assert "'y' has no axis of samples" in (found["data"] or "")


def test_a_task_graph_is_not_cut() -> None:
    graph = TaskGraph("line")
    x, y = graph.array("x", (64, 32), "float32"), graph.array("y", (64, 8), "float32")
    w, b = graph.array("w", data=np.ones((32, 8), "float32")), graph.array("b", data=np.ones(8, "float32"))
    graph.kernel(get("dense"), y=y, x=x, w=w, b=b, activation=0)
    recipe = StepRecipe(trained_graph(graph), MeanSquaredError(), Adam(), platform=syclsched.describe("a770,b580"))
    step = recipe.model("float32")
    planner = recipe.divided(step)
    assert planner is not None
    found = planner.choose(step.full_shapes({"x": (64, 32), TARGET: (64, 8)}))
    refused = {each.kind: each.refused for each in found.splits if each.refused}
    assert refused.keys() == {"data", "stages"} and all(
        "task graph are fixed" in (each or "") for each in refused.values()
    )
