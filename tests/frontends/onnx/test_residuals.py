# SPDX-License-Identifier: Apache-2.0
"""Residuals added in place on devices: one memory for a chain of blocks, and equal results."""

from __future__ import annotations

from functools import cache
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from support.gpu_shape import OTHER_DEVICE

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import helper, numpy_helper  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.networks import Builder  # noqa: E402
from support.opened import live_on  # noqa: E402
from support.running import plan_by  # noqa: E402

import syclsched  # noqa: E402
from syclsched.execution import bind, execute  # noqa: E402
from syclsched.frontends.onnx.lowering import LoweredNetwork, lower  # noqa: E402
from syclsched.frontends.onnx.network import Network  # noqa: E402
from syclsched.frontends.onnx.rewrites import DEFAULT_PASSES, rewrite  # noqa: E402
from syclsched.model.access import AccessMode  # noqa: E402
from syclsched.model.graph import TaskGraph  # noqa: E402
from syclsched.model.plan import Plan  # noqa: E402
from syclsched.model.recipe import Cut  # noqa: E402
from syclsched.rewrites.chunking import cut  # noqa: E402
from syclsched.testing import faults  # noqa: E402

BLOCKS, CHANNELS, SIZE = 3, 20, 9
WITHOUT = tuple(name for name in DEFAULT_PASSES if name != "in_place")
DEADLINE_S = 120.0


@cache
def blocks() -> tuple[Network, dict[str, Any], Any]:
    """Return a chain of residual blocks, its inputs, and its expected result."""
    made = Builder()
    x = made.conv(made.input("x", (2, 3, SIZE, SIZE)), CHANNELS)
    for _ in range(BLOCKS):
        branch = made.conv(made.elementwise(("relu", 0), made.conv(x, CHANNELS, kernel=1)), CHANNELS)
        x = made.elementwise(("relu", ("add", 0, 1)), x, branch)
    network = made.network(made.pool(x, "average"))
    given = made.given()
    return network, given, evaluate(network, given)[network.outputs[0]]


def lowered(passes: tuple[str, ...] = DEFAULT_PASSES) -> LoweredNetwork:
    return lower(rewrite(blocks()[0], passes=passes).network)


def updates(graph: TaskGraph) -> list[str]:
    """Return the arrays that tasks update, in order."""
    return [a.array for task in graph.tasks for a in task.accesses if a.mode is AccessMode.UPDATE]


def placed(graph: TaskGraph, devices: list[str], implementation: str) -> Plan:
    """Plan tasks round robin over devices; convolutions with the given implementation, others with a common one."""
    platform, _ = live_on(None)
    places = dict(zip(graph.order(), cycle(devices), strict=False))

    def place(name: str) -> tuple[str, int, str]:
        operation = graph.find_task(name).operation
        assert operation is not None
        device = places[name]
        fitting = [each.name for each in operation.implementations if (each.kind == "host") == (device == "host")]
        wanted = implementation if operation.name.startswith("conv") else "opencl-c"
        return device, 0, wanted if wanted in fitting else fitting[0]

    return plan_by(graph, platform, place)


def close(got: Any) -> None:
    wanted = blocks()[2]
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


def there(device: str) -> None:
    if device not in {each.name for each in live_on(None)[0].devices}:
        pytest.skip(f"no device {device!r} here")


def test_a_chain_of_blocks_is_one_array() -> None:
    made = lowered()
    assert len(updates(made.graph)) == BLOCKS and len(set(updates(made.graph))) == 1
    assert not updates(lowered(WITHOUT).graph)
    assert len(lowered(WITHOUT).graph.arrays) == len(made.graph.arrays) + BLOCKS
    assert set(made.origins) == {task.name for task in made.graph.tasks}


@pytest.mark.sycl
@pytest.mark.parametrize(
    ("devices", "implementation"),
    [
        (["cpu"], "onednn"),
        (["cpu"], "opencl-c"),
        (["cpu"], "python"),
        ([OTHER_DEVICE], "opencl-c"),
        (["cpu", OTHER_DEVICE], "opencl-c"),
        ([OTHER_DEVICE, "cpu", "cpu"], "opencl-c"),
        (["host"], "numpy"),
    ],
)
def test_every_device_adds_once(devices: list[str], implementation: str, request: pytest.FixtureRequest) -> None:
    if implementation == "onednn":
        request.getfixturevalue("onednn_on_cpu")
    for device in devices:
        there(device)
    made, given = lowered(), blocks()[1]
    plan = placed(made.graph, devices, implementation)
    inputs = {made.inputs[name]: value for name, value in given.items()}
    with bind(plan, made.graph, live_on(None)[1]) as runner:
        for _ in range(3):
            run = runner.run(inputs)
            run.wait(DEADLINE_S)
            close(run.result(made.outputs[blocks()[0].outputs[0]]))


@pytest.mark.sycl
@pytest.mark.parametrize("devices", [["cpu"], ["cpu", OTHER_DEVICE]])
@pytest.mark.parametrize("done", [False, True])
def test_retries_start_from_the_original_residual(devices: list[str], done: bool) -> None:
    for device in devices:
        there(device)
    made, given = lowered(), blocks()[1]
    plan, live = placed(made.graph, devices, "opencl-c"), live_on(None)[1]
    inputs = {made.inputs[name]: value for name, value in given.items()}
    result = made.outputs[blocks()[0].outputs[0]]
    with faults.inject() as seen, execute(plan, made.graph, live, inputs=inputs) as run:
        run.wait(DEADLINE_S)
        wanted = run.result(result)
    close(wanted)
    for number in range(1, seen.passed("submission") + 1):
        for fault in (faults.fail_submission(number), faults.fail_on_device(number, done=done)):
            with (
                faults.inject(fault) as seen,
                execute(plan, made.graph, live, inputs=inputs, recover=True) as run,
            ):
                run.wait(DEADLINE_S)
                np.testing.assert_array_equal(run.result(result, timeout=DEADLINE_S), wanted)
                assert len(seen.injected) == len(run.recoveries) == 1


@cache
def model() -> bytes:
    """Return the same chain as an ONNX model, for any number of images."""
    network = blocks()[0]
    nodes, constants = [], dict(network.constants)
    for each in network.nodes:
        inputs, outputs = [str(name) for name in each.inputs], [str(name) for name in each.outputs]
        if each.kind == "conv":
            pads = {"pads": list(each.attributes["pads"])}
            nodes.append(helper.make_node("Conv", inputs, outputs, name=each.name, **pads))
        elif each.kind == "pool":
            window = {"kernel_shape": list(each.attributes["kernel"]), "strides": list(each.attributes["strides"])}
            nodes.append(helper.make_node("AveragePool", inputs, outputs, name=each.name, **window))
        elif len(inputs) == 1:
            nodes.append(helper.make_node("Relu", inputs, outputs, name=each.name))
        else:
            nodes.append(helper.make_node("Add", inputs, [f"{each.name} sum"], name=f"{each.name} add"))
            nodes.append(helper.make_node("Relu", [f"{each.name} sum"], outputs, name=each.name))
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "blocks",
        [helper.make_tensor_value_info("x", kind, ("images", 3, SIZE, SIZE))],
        [helper.make_tensor_value_info(network.outputs[0], kind, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


@pytest.mark.sycl
def test_models_are_tuned_called_and_streamed_with_it_as_without(monkeypatch: Any, tmp_path: Any) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # nothing has been timed yet
    (output,), given = blocks()[0].outputs, blocks()[1]["x"]
    with (
        syclsched.compile(model(), devices="cpu") as one,
        syclsched.compile(model(), devices="cpu", rewrites=WITHOUT) as two,
    ):
        close(one(given)[output])
        np.testing.assert_allclose(two(given)[output], one(given)[output], rtol=1e-5, atol=1e-6)
        assert "residual is added in place: 3" in str(one.report)
        assert "in_place" not in str(two.report)
        assert one.peak_bytes < two.peak_bytes
        batches = [given * (n + 1) for n in range(6)]
        found = [each[output] for each in one.stream(batches, in_flight=3)]
        for batch, got in zip(batches, found, strict=True):
            np.testing.assert_array_equal(got, one(batch)[output])


@pytest.mark.sycl
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_a_limit_on_memory_changes_no_answer(share: float) -> None:
    (output,), given = blocks()[0].outputs, blocks()[1]["x"]
    with syclsched.compile(model(), devices="cpu", autotune=False) as free:
        free(given)
        limit = int((free.peak_bytes + sum(free.plan.constant_bytes.values())) * share)
    with syclsched.compile(model(), devices="cpu", autotune=False, memory_limit={"cpu": limit}) as short:
        close(short(given)[output])


@pytest.mark.sycl
def test_chunks_of_a_batch_add_in_place_each_by_itself() -> None:
    there(OTHER_DEVICE)
    made = lowered()
    convolutions = [name for name in made.graph.order() if made.graph.find_task(name).family.startswith("conv")][1:]
    found = cut(made.graph, [Cut(tuple(convolutions), (1, 1))])
    assert len(updates(found.graph)) == 2 * BLOCKS and len(set(updates(found.graph))) == 2
    plan = placed(found.graph, ["cpu", OTHER_DEVICE], "opencl-c")
    inputs = {made.inputs["x"]: blocks()[1]["x"]}
    with execute(plan, found.graph, live_on(None)[1], inputs=inputs) as run:
        close(run.result(made.outputs[blocks()[0].outputs[0]], timeout=DEADLINE_S))
