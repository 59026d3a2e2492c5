# SPDX-License-Identifier: Apache-2.0
"""Host memory of a compiled model's weights: released once devices have them, and restored when needed."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.gpu_shape import OTHER_DEVICE
from support.onednn_calls import needs_onednn

import syclsched
from syclsched.devices.memory import constant_uploads as uploads
from syclsched.errors import StorageError
from syclsched.model.constant import Constant
from syclsched.testing import faults

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

from onnx import helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from syclsched.onnx.weight_eviction import LEAST_BYTES, EvictableConstants  # noqa: E402

pytestmark = pytest.mark.sycl

CHANNELS, EDGE = 64, 6


def model(batch: int | str) -> Any:
    """Return a convolution and a normalisation, which are merged, and a product whose weights stay unchanged."""
    random = np.random.default_rng(5)
    weights = {
        "w": random.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 24,
        "scale": random.random(CHANNELS) + 0.5,
        "shift": random.random(CHANNELS),
        "mean": random.random(CHANNELS),
        "variance": random.random(CHANNELS) + 0.5,
        "m": random.standard_normal((CHANNELS, 300)) / 8,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], name="conv"),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"], name="norm"),
        helper.make_node("GlobalAveragePool", ["n"], ["g"], name="pool"),
        helper.make_node("Flatten", ["g"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "m"], ["y"], name="product"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", 1, (batch, CHANNELS, EDGE, EDGE))],
        [helper.make_tensor_value_info("y", 1, (batch, 300))],
        [numpy_helper.from_array(each.astype(np.float32), name) for name, each in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(params=[1, "batch"], ids=["one size", "any size"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    found = tmp_path / "m.onnx"
    found.write_bytes(model(request.param).SerializeToString())
    return found


@pytest.fixture
def open_path(tmp_path: Path) -> Path:
    found = tmp_path / "m.onnx"
    found.write_bytes(model("batch").SerializeToString())
    return found


def given(batch: int = 1) -> np.ndarray:
    return np.random.default_rng(batch).random((batch, CHANNELS, EDGE, EDGE), np.float32)


def check(compiled: Any, path: Path, batch: int = 1) -> None:
    expected = ReferenceEvaluator(model("batch")).run(None, {"x": given(batch)})[0]
    np.testing.assert_allclose(compiled(given(batch))["y"], expected, atol=2e-5)


def large(compiled: Any) -> list[Constant]:
    found = [each for each in compiled.graph.constants if each.nbytes >= LEAST_BYTES]
    assert len(found) == 2  # the computed weights of the convolution, and the read ones of the product
    return found


def held(compiled: Any) -> int:
    gc.collect()
    return sum(each.host_bytes for each in large(compiled))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Any]]]:
    """Yield references to the values of evicted constants."""
    found: list[weakref.ref[Any]] = []
    evict = Constant.evict

    def noted(self: Constant, read: Any) -> None:
        found.append(weakref.ref(self._array.base))
        evict(self, read)

    monkeypatch.setattr(Constant, "evict", noted)
    yield found


@needs_onednn
@pytest.mark.parametrize("devices", ["cpu", OTHER_DEVICE])
def test_a_ready_model_holds_no_weights_in_host_memory(
    path: Path, devices: str, computed: list[weakref.ref[Any]]
) -> None:
    with syclsched.compile(path, devices=devices, autotune=False) as compiled:
        check(compiled, path)
        assert held(compiled) == 0
        assert len(computed) == 1 and computed[0]() is None
        check(compiled, path)


def test_other_sizes_are_right_and_hold_no_weights_either(open_path: Path) -> None:
    with syclsched.compile(open_path, devices="cpu", autotune=False, keep=2) as compiled:
        for batch in (1, 3, 2, 5, 1):
            check(compiled, open_path, batch)
            assert held(compiled) == 0
        found = [outputs["y"].shape for outputs in compiled.stream([given(2), given(2), given(4)])]
        assert found == [(2, 300), (2, 300), (4, 300)] and held(compiled) == 0


@pytest.mark.other_device
def test_evicted_weights_are_restored_on_demand(path: Path) -> None:
    loaded = syclsched.onnx.load(path, shapes={"x": (1, CHANNELS, EDGE, EDGE)})
    before = {each.name: each.data.copy() for each in loaded.graph.constants}
    with syclsched.compile(loaded, devices="cpu", autotune=False) as compiled:
        check(compiled, path)
        graph = compiled.graph
        assert held(compiled) == 0
        for devices in ("cpu", OTHER_DEVICE):
            with syclsched.compile(loaded, devices=devices, autotune=False, without=["onednn"]) as other:
                check(other, path)
            assert held(compiled) == 0
        after = {each.name: each.data for each in graph.constants}
        assert all(np.array_equal(after[name], value) for name, value in before.items())
        given_to, made_by = compiled._current().specialised.inputs["x"], compiled._current().specialised.outputs["y"]
        run = syclsched.run(graph, syclsched.discover("cpu"), inputs={given_to: given()}, calibrate=False)
        np.testing.assert_allclose(run.result(made_by), compiled(given())["y"], atol=2e-5)


@pytest.mark.other_device
def test_a_device_that_is_lost_costs_no_weights(path: Path) -> None:
    platform = syclsched.discover(where=lambda device: True)  # with the emulator
    with syclsched.compile(path, platform, autotune=False) as compiled:
        check(compiled, path)
        assert held(compiled) == 0
        lost = compiled.plan.schedule.assignments[0].device  # measured times decide whether it is the only one
        with faults.inject(faults.lose(lost)) as seen:
            check(compiled, path)
            assert seen.injected
        check(compiled, path)


def test_parts_of_evicted_weights_are_correct() -> None:
    value = np.arange(1 << 18, dtype=np.float32).reshape(512, 512)
    whole = Constant(value.copy())
    early = whole.part((3, 200))
    asked = []

    def again(digests: Any) -> dict[str, Any]:
        asked.append(set(digests))
        return {whole.digest: value.copy()}

    assert whole.digest
    evictable = EvictableConstants(again)
    evictable.evict([whole])
    late = whole.part((7, 9))
    assert whole.host_bytes == early.host_bytes == late.host_bytes == 0
    assert (late.shape, late.nbytes) == ((2, 512), 4096) and not asked
    assert np.array_equal(late.data, value[7:9]) and np.array_equal(early.data, value[3:200])
    assert asked == [{whole.digest}]  # one copy: the restored value is shared
    assert whole.is_host_resident and np.array_equal(whole.data, value)
    evictable.evict([whole])
    assert whole.host_bytes == 0 and np.array_equal(whole.reshaped((1 << 18,)).data, value.reshape(-1))


def test_restored_weights_that_differ_are_refused() -> None:
    whole = Constant(np.ones(LEAST_BYTES, np.uint8), "w")
    assert whole.digest
    EvictableConstants(lambda digests: {}).evict([whole])
    with pytest.raises(StorageError, match="'w' recomputed from the model differ"):
        _ = whole.data


def test_small_or_undigested_constants_are_not_evicted() -> None:
    small, read = Constant(np.ones(4)), Constant(np.ones(LEAST_BYTES))
    assert small.digest
    EvictableConstants(lambda digests: {}).evict([small, read])
    assert small.is_host_resident and read.is_host_resident


def test_a_changed_file_is_reported_and_bound_plans_continue(open_path: Path) -> None:
    with syclsched.compile(open_path, devices="cpu", autotune=False) as compiled:
        check(compiled, open_path)
        with open(open_path, "r+b") as file:
            file.truncate(1000)
        os.utime(open_path, ns=(0, 0))
        check(compiled, open_path)
        with pytest.raises(StorageError, match=r"m\.onnx: the file was changed since it was read"):
            compiled(given(2))
        check(compiled, open_path)


def test_a_file_that_is_gone_is_no_matter(open_path: Path) -> None:
    with syclsched.compile(open_path, devices="cpu", autotune=False) as compiled:
        check(compiled, open_path)
        open_path.unlink()
        check(compiled, open_path, 2)


@pytest.mark.parametrize("given_as", ["bytes", "ModelProto"])
@pytest.mark.parametrize("batch", [1, "batch"])
def test_models_in_memory_are_right_and_unchanged(given_as: str, batch: int | str) -> None:
    proto = model(batch)
    source = proto if given_as == "ModelProto" else proto.SerializeToString()
    before = proto.SerializeToString()
    with syclsched.compile(source, devices="cpu", autotune=False) as compiled:
        check(compiled, Path())
        if batch == "batch":
            check(compiled, Path(), 3)
    assert proto.SerializeToString() == before and source in (proto, before)


def test_uploads_of_discarded_variants_are_freed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syclsched.onnx.model_build._MUCH_BYTES", 0)
    with syclsched.compile(path, devices="cpu") as compiled:
        check(compiled, path)
        gc.collect()
        bound = compiled._current()
        used = sum(bound.runner.constant_bytes.values())
        mine = {each.number for each in compiled.graph.constants}
        there = sum(each.nbytes for key, each in list(uploads._found.items()) if set(key[0]) & mine)
        assert there == used > 0
