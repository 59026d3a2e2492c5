# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from support.host_evaluation import evaluate

from syclsched.frontends.onnx.importing import import_model
from syclsched.frontends.onnx.model_file.model_reader import read_model
from syclsched.frontends.onnx.network import Network
from syclsched.frontends.onnx.rewrites import rewrite
from syclsched.testing.models import encoder_model, light_model, sample_inputs

#: Nodes that remain as tasks after all rewrites.
TASKS = {
    "squeezenet": {"conv": 26, "concat": 8, "pool": 4, "softmax": 1, "transpose": 1},
    "shufflenet": {"conv": 49, "transpose": 17, "pool": 5, "concat": 3, "matmul": 1, "softmax": 1},
    "resnet50": {"conv": 53, "pool": 2, "transpose": 1, "matmul": 1, "softmax": 1},
    "densenet121": {"conv": 121, "join": 58, "pool": 5, "elementwise": 4, "transpose": 1},
    "inception_v2": {"conv": 69, "pool": 13, "concat": 10, "transpose": 1, "matmul": 1, "softmax": 1},
}


def tasks(network: Network) -> dict[str, int]:
    return dict(Counter(node.kind for node in network.nodes if node.kind != "reshape"))


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "resnet50", "densenet121", "inception_v2"])
def test_well_known_networks_become_the_expected_library_tasks(name: str) -> None:
    model = light_model(name)
    network = import_model(read_model(model), {})
    done = rewrite(network)
    assert tasks(done.network) == TASKS[name]
    assert not rewrite(done.network).changes
    if name in ("squeezenet", "shufflenet"):
        given = sample_inputs(model)
        before, after = evaluate(network, given), evaluate(done.network, given)
        for output in network.outputs:
            np.testing.assert_allclose(after[output], before[output], rtol=1e-4, atol=1e-6)


def test_an_encoder_becomes_products_normalisations_and_softmax() -> None:
    model = encoder_model(2, 64, 4, vocabulary=100)
    shapes = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (2, 7))
    network = import_model(read_model(model), shapes)
    done = rewrite(network)
    assert tasks(done.network) == {
        "matmul": 17,
        "layer_norm": 5,
        "softmax": 2,
        "gather": 3,
        "elementwise": 2,
    }
    given = sample_inputs(model, shapes)
    before, after = evaluate(network, given), evaluate(done.network, given)
    for output in network.outputs:
        np.testing.assert_allclose(after[output], before[output], rtol=1e-4, atol=1e-5)
