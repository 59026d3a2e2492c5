# SPDX-License-Identifier: Apache-2.0
"""Kernels that read a caller's arrays in place, wherever these are in the host's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.guarded_arrays import guarded

import syclsched
from syclsched.devices.submission import native_run
from syclsched.devices.submission.command_maker import CommandMaker
from syclsched.devices.submission.native_run import InPlaceCommands, NativeRun
from syclsched.execution.replay import input_commands

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

pytestmark = pytest.mark.sycl

ROWS, COLUMNS = 37, 61


@pytest.fixture(autouse=True)
def _small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_commands, "LEAST_READ_IN_PLACE", 0)


@pytest.fixture
def omitted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many copies of inputs each compiled call omits."""
    found: list[int] = []
    own = NativeRun.own

    def noted(self: NativeRun, commands: InPlaceCommands) -> None:
        found.append(len(commands._omitted))
        own(self, commands)

    monkeypatch.setattr(NativeRun, "own", noted)
    return found


def model(nodes: list[Any], inputs: dict[str, tuple[int, ...]], output: tuple[int, ...]) -> Any:
    given = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
    y = onnx.helper.make_tensor_value_info("y", 1, output)
    weights = np.random.default_rng(0).standard_normal((COLUMNS, 24)).astype(np.float32)
    held = [onnx.numpy_helper.from_array(weights, "w")] if any("w" in node.input for node in nodes) else []
    graph = onnx.helper.make_graph(nodes, "in place", given, [y], held)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])


def node(kind: str, *inputs: str, **attributes: Any) -> list[Any]:
    return [onnx.helper.make_node(kind, inputs, ["y"], **attributes)]


MATRIX, TURNED = (ROWS, COLUMNS), (COLUMNS, ROWS)
MODELS: dict[str, tuple[Any, int]] = {
    "two inputs of one kernel": (model(node("Sub", "a", "b"), {"a": MATRIX, "b": MATRIX}, MATRIX), 2),
    "transposition": (model(node("Transpose", "a"), {"a": MATRIX}, TURNED), 1),
    "product": (model(node("MatMul", "a", "w"), {"a": MATRIX}, (ROWS, 24)), 1),
    "softmax": (model(node("Softmax", "a"), {"a": MATRIX}, MATRIX), 1),
    "two readers": (
        model(
            [
                onnx.helper.make_node("Softmax", ["a"], ["s"]),
                *(onnx.helper.make_node("MatMul", [each, "w"], [f"m{each}"]) for each in "as"),
                onnx.helper.make_node("Add", ["ma", "ms"], ["y"]),
            ],
            {"a": MATRIX},
            (ROWS, 24),
        ),
        0,
    ),
}


def values(made: Any, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    shapes = {each.name: [d.dim_value for d in each.type.tensor_type.shape.dim] for each in made.graph.input}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def wanted(made: Any, given: dict[str, Any]) -> Any:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(made).run(None, given)[0]


def compiled(made: Any) -> syclsched.CompiledModel:
    return syclsched.compile(made, devices="cpu", autotune=False, without=["onednn"])


@pytest.mark.parametrize("short_ns", [0, 10**12], ids=["by a thread", "by the caller"])
@pytest.mark.parametrize("name", MODELS)
def test_arrays_anywhere_are_read_and_nothing_beyond_them(
    name: str, short_ns: int, omitted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_run, "SHORT_NS", short_ns)
    made, count = MODELS[name]
    with compiled(made) as kernels:
        for seed in range(8):  # the ways of a run are tried
            given = {each: guarded(value, at_end=seed % 2 == 0) for each, value in values(made, seed).items()}
            np.testing.assert_allclose(kernels(given)["y"], wanted(made, given), rtol=1e-4, atol=1e-5)
            assert all(np.array_equal(given[each], value) for each, value in values(made, seed).items())
    assert omitted == [count]


def test_arrays_of_which_a_device_reads_none_are_copied(omitted: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[int] = []

    def refusing(self: CommandMaker) -> Callable[[int, int], int]:
        return lambda moved, to: refused.append(to) or -50

    made, _ = MODELS["transposition"]
    monkeypatch.setattr(CommandMaker, "_argument_mover", refusing)
    with compiled(made) as kernels:
        for seed in range(4):
            given = values(made, seed)
            np.testing.assert_array_equal(kernels(given)["y"], given["a"].T)
    assert omitted == [0] and refused


def test_an_interrupted_call_reads_its_own_inputs_to_the_end(
    omitted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = MODELS["two inputs of one kernel"]
    with compiled(made) as kernels:
        for seed in range(3):
            kernels(values(made, seed))

        def interrupted(self: NativeRun, targets: Any, seconds: float) -> int:
            raise KeyboardInterrupt

        for seed in range(5):
            with monkeypatch.context() as patch:
                patch.setattr(NativeRun, "run_blocking", interrupted)
                patch.setattr(NativeRun, "run_briefly", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    kernels(values(made, seed))
            given = values(made, seed + 50)
            np.testing.assert_allclose(kernels(given)["y"], given["a"] - given["b"], rtol=1e-6)
    assert omitted[0] == 2


@pytest.mark.parametrize(("nbytes", "count"), [(4 * ROWS * COLUMNS, 1), (4 * ROWS * COLUMNS + 1, 0)])
def test_small_arrays_are_copied(omitted: list[int], monkeypatch: pytest.MonkeyPatch, nbytes: int, count: int) -> None:
    monkeypatch.setattr(input_commands, "LEAST_READ_IN_PLACE", nbytes)
    made, _ = MODELS["transposition"]
    with compiled(made) as kernels:
        for seed in range(3):
            given = values(made, seed)
            np.testing.assert_array_equal(kernels(given)["y"], given["a"].T)
    assert omitted == [count]
