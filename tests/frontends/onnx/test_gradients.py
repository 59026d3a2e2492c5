# SPDX-License-Identifier: Apache-2.0
"""Gradients of a small network whose weights change from run to run, on devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_shape import OTHER_DEVICE
from support.host_evaluation import evaluate
from support.networks import Builder
from support.opened import live_on
from support.running import plan_by

from syclsched.errors import ModelError
from syclsched.execution import bind, execute
from syclsched.frontends.onnx.lowering import lower
from syclsched.frontends.onnx.network import Value
from syclsched.frontends.onnx.rewrites import rewrite
from syclsched.frontends.onnx.shapes import infer


@pytest.mark.sycl
@pytest.mark.parametrize(
    ("device", "implementation"),
    [("cpu", "onednn"), ("cpu", "opencl-c"), (OTHER_DEVICE, "opencl-c"), ("host", "numpy")],
)
def test_gradients_of_weights_that_change(device: str, implementation: str, request: pytest.FixtureRequest) -> None:
    if implementation == "onednn":
        request.getfixturevalue("onednn_on_cpu")
    platform, live = live_on(None)
    if device not in {each.name for each in platform.devices}:
        pytest.skip(f"no device {device!r} here")
    made = Builder()
    network = made.network(*made.training_step())
    lowered = lower(rewrite(network).network)
    lanes = {name: number % 2 for number, name in enumerate(lowered.graph.order())}

    def place(name: str) -> tuple[str, int, str]:
        operation = lowered.graph.find_task(name).operation
        assert operation is not None
        if device == "host":
            return device, 0, "numpy"
        return device, lanes[name], implementation if operation.name.startswith("conv") else "opencl-c"

    plan = plan_by(lowered.graph, platform, place)
    with bind(plan, lowered.graph, live) as runner:
        for seed in range(3):
            given = made.given(seed)
            wanted = evaluate(network, given)
            inputs = {lowered.inputs[name]: value for name, value in given.items()}
            agree(runner(inputs), {lowered.outputs[name]: value for name, value in wanted.items()})
    with execute(plan, lowered.graph, live, inputs=inputs) as run:
        agree(
            {lowered.outputs[name]: run.result(lowered.outputs[name]) for name in wanted},
            {lowered.outputs[name]: value for name, value in wanted.items()},
        )


def agree(got: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5 * np.abs(value).max())


def test_shapes_that_do_not_fit_are_refused() -> None:
    window = {"strides": (1,), "pads": (0, 0), "dilations": (1,), "kernel": (2,), "channels_last": False}
    x, dy = Value("x", (1, 4, 5), "float32"), Value("dy", (1, 6, 4), "float32")
    assert infer("conv_weights", [x, dy], {**window, "groups": 2}) == (((6, 2, 2), "float32"),)
    with pytest.raises(ModelError, match="4 groups do not fit 4 channels"):
        infer("conv_weights", [x, dy], {**window, "groups": 4})
    with pytest.raises(ModelError, match=r"gradient \(1, 6, 4\) does not fit the result \(1, 6, 5\)"):
        infer("conv_weights", [x, dy], {**window, "groups": 2, "pads": (1, 0)})
    pool = {**window, "mode": "max", "count_include_pad": False}
    assert infer("pool_gradient", [x, Value("dy", (1, 4, 4), "float32")], pool) == (((1, 4, 5), "float32"),)
    with pytest.raises(ModelError, match="does not fit the result"):
        infer("pool_gradient", [x, dy], pool)
