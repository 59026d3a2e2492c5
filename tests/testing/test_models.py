# SPDX-License-Identifier: Apache-2.0
"""Models with seeded weights: equal numbers every time, and outputs with distinct numbers."""

import numpy as np
import pytest

from syclsched.errors import ArgumentError

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

from syclsched.testing.models import cached, encoder_model, light_model, sample_inputs  # noqa: E402


def small_encoder(**more):
    return encoder_model(layers=1, width=16, heads=2, vocabulary=11, positions=32, **more)


def test_weights_are_the_same_for_the_same_seed_only():
    one, same, other = (light_model("squeezenet", seed).SerializeToString() for seed in (0, 0, 1))
    assert one == same != other


def test_constant_weights_are_replaced_by_random_weights():
    model = light_model("shufflenet")
    assert [value.name for value in model.graph.input] == ["gpu_0/data_0"]
    assert not [node for node in model.graph.node if node.op_type == "ConstantOfShape"]
    onnx.checker.check_model(model)
    sizes = [np.std(onnx.numpy_helper.to_array(t)) for t in model.graph.initializer if t.data_type == 1]
    assert min(sizes) > 0.01 and max(sizes) < 1


def test_encoder_is_a_model_that_the_reference_runs():
    from onnx.reference import ReferenceEvaluator

    model = small_encoder()
    onnx.checker.check_model(model, full_check=True)
    shapes = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (2, 5))
    inputs = sample_inputs(model, shapes)
    assert inputs["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 1, 0]]
    hidden, pooled = ReferenceEvaluator(model).run(None, inputs)
    assert hidden.shape == (2, 5, 16) and pooled.shape == (2, 16)
    assert len(np.unique(hidden)) == hidden.size and 0.5 < hidden.std() < 2


def test_open_extents_must_be_given():
    with pytest.raises(ArgumentError, match="open"):
        sample_inputs(small_encoder())


@pytest.mark.parametrize("make", [lambda: light_model("resnet5"), lambda: encoder_model(width=16, heads=3)])
def test_unknown_or_invalid_models_are_refused(make):
    with pytest.raises(ArgumentError):
        make()


def test_models_are_written_once(tmp_path):
    path = cached("squeezenet", tmp_path / "models")
    before = path.stat().st_mtime_ns
    assert cached("squeezenet", tmp_path / "models").stat().st_mtime_ns == before
    assert [p.name for p in path.parent.iterdir()] == ["squeezenet-0.onnx"]
