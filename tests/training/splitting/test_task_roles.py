# SPDX-License-Identifier: Apache-2.0
"""Parts and layers of the tasks of a step."""

from __future__ import annotations

import pytest

from syclsched.testing.training_models import perceptron, transformer
from syclsched.training.losses import CrossEntropy
from syclsched.training.optimisers import Adam
from syclsched.training.sources.trained_model import trained_model
from syclsched.training.splitting.task_roles import layers_of, part_of, replica_of
from syclsched.training.step_recipe import StepRecipe
from syclsched.training.steps.step_network import TARGET


@pytest.mark.parametrize(
    ("task", "part"),
    [
        ("part 0/dense0", 0),
        ("gradient of part 12/dense0.1", 12),
        ("part 1/loss", 1),
        ("gradient of part 1/loss#2", 1),
        ("sum of gradients.2", None),
        ("update of part 1/weight", None),
        ("dense0", None),
    ],
)
def test_part(task: str, part: int | None) -> None:
    assert part_of(task) == part


@pytest.mark.parametrize(
    ("task", "replica"),
    [("update of replica 12/weight", 12), ("replica 1/sum of gradients.2", 1), ("update of weight", 0), ("guard", 0)],
)
def test_replica(task: str, replica: int) -> None:
    assert replica_of(task) == replica


@pytest.mark.parametrize("parts", [1, 3])
def test_tasks_of_a_layer_are_assigned_to_it(parts: int) -> None:
    model = perceptron((8, 16, 4)).onnx
    step = StepRecipe(trained_model(model), CrossEntropy(), Adam(), parts=(1.0,) * parts).model("int64")
    shapes = step.full_shapes({"x": (12, 8), TARGET: (12,)})
    nodes = [node.name for node in step.cut(shapes)[0].network.nodes]
    assert nodes == ["dense0", "relu0", "dense1"]
    found = layers_of(step.specialised(shapes, carried=step.carried).graph, nodes)
    for task, layer in found.items():
        for name, own in (("dense0", 0), ("relu0", 1), ("dense1", 2), ("loss", 2), ("update of layer1", 2)):
            if f"/{name}" in task or task.startswith((name, f"gradient of {name}")):
                assert layer == own, task
    assert found["update of layer0.weight"] == 0


def test_sums_within_a_part_belong_to_it() -> None:
    """Before, sums of gradients of activations, from residual connections, were copied to another device and back."""
    trained = trained_model(transformer(2, 16, 2, length=6).onnx)
    step = StepRecipe(trained, CrossEntropy(), Adam(), parts=(1, 1)).model("int64")
    graph = step.specialised(step.full_shapes({"x": (4, 6), TARGET: (4,)}), carried=step.carried).graph
    made = {each.array: task.name for task in graph.tasks for each in task.accesses if each.mode.writes}
    batched = {name for name, array in graph.arrays.items() if len(array.shape) > 1 and array.shape[0] in (2, 12)}
    assert len(batched) > 50
    assert not [task for name in batched & set(made) if part_of(task := made[name]) is None]
