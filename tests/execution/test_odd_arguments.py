# SPDX-License-Identifier: Apache-2.0
"""Arrays without elements, without dimensions and of every dtype, also as constants and reshaped, in every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.opened import live_on
from support.running import plan_on
from support.starting import live_called, start

import syclsched
from syclsched.errors import SyclschedError
from syclsched.execution import Safeguards, bind, execute
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, Launch, OpenCLSource, Operation, Parameter, Signature, Work

pytestmark = [pytest.mark.sycl, pytest.mark.usefixtures("compiled_policies")]

DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
)  # fmt: skip
_OPENCL = {
    "bool": "uchar",
    "uint8": "uchar",
    "int8": "char",
    "float16": "half",
    "float32": "float",
    "float64": "double",
}


def _source(signature: Signature) -> OpenCLSource:
    dtype = signature.dtypes["y"]
    bits = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[np.dtype(dtype).itemsize]
    code = (
        f"__kernel void pick(__global {bits} *y, __global const {bits} *x, __global const {bits} *w) {{"
        " size_t i = get_global_id(0); y[i] = i % 2 ? x[i] : w[i]; }"
    )
    return OpenCLSource(code, "pick")


def _pick(y: Any, x: Any, w: Any) -> None:
    odd = np.arange(y.size).reshape(y.shape) % 2 == 1
    y[...] = np.where(odd, x, w)


def _elements(signature: Signature, _: object) -> Launch:
    return Launch((int(np.prod(signature.shapes["y"])),))


#: y = x at odd indices, w at even ones: the bits of any dtype.
PICK = Operation(
    "pick",
    (
        Parameter("y", AccessMode.WRITE),
        Parameter("x", AccessMode.READ, like="y"),
        Parameter("w", AccessMode.READ, like="y"),
    ),
    (Implementation("opencl-c", "opencl-c", _source, _elements), Implementation("host", "host", lambda _: _pick)),
    lambda _: Work(1.0, 1.0, "int32"),
)


def replayed(graph: TaskGraph, inputs: dict[str, Any]) -> Any:
    platform, live = live_on(None)
    with bind(plan_on(graph, platform, "cpu"), graph, live) as runner:
        assert runner.replayed
        runner(inputs)
        return runner(inputs)["y"]


def dispatched(graph: TaskGraph, inputs: dict[str, Any]) -> Any:
    platform, live = live_on(None)
    with execute(plan_on(graph, platform, "cpu"), graph, live, inputs) as run:
        return run.result("y")


def stepped(graph: TaskGraph, inputs: dict[str, Any]) -> Any:
    platform, live = live_on(None)
    with execute(plan_on(graph, platform, "cpu"), graph, live, inputs, safeguards=Safeguards(True, True)) as run:
        return run.result("y")


def on_host(graph: TaskGraph, inputs: dict[str, Any]) -> Any:
    platform, live = live_on(None)
    hosted = TaskGraph()
    for array in graph.arrays.values():
        hosted.array(array.name, array.shape, array.dtype)
    arrays = hosted.arrays
    for task in graph.tasks:
        seen = task.signature.shapes  # type: ignore[union-attr]
        y, x = (arrays[task.arguments[name]].reshaped(seen[name]) for name in "yx")
        hosted.host(_pick, name=task.name, y=y.write(), x=x.read(), w=task.constants["w"])
    with execute(plan_on(hosted, platform, "cpu"), hosted, live, inputs) as run:
        return run.result("y")


def decided(graph: TaskGraph, inputs: dict[str, Any]) -> Any:
    with start(graph, live_called("cpu"), "eager", inputs) as run:
        return run.result("y")


ENGINES = (replayed, dispatched, stepped, on_host, decided)


def graph_of(shape: tuple[int, ...], seen: tuple[int, ...], dtype: str) -> tuple[TaskGraph, dict[str, Any], Any]:
    random = np.random.default_rng(7)
    x, w = (random.integers(0, 2, shape) if dtype == "bool" else random.integers(0, 99, shape) for _ in "xw")
    x, w = x.astype(dtype), np.asarray(w).astype(dtype).reshape(seen)
    graph = TaskGraph("odd")
    a, b, y = (
        graph.array("x", shape, dtype),
        graph.array("b", shape, dtype, temporary=True),
        graph.array("y", shape, dtype),
    )
    constant = syclsched.constant(w)
    graph.kernel(PICK, name="first", y=b.reshaped(seen), x=a.reshaped(seen), w=constant)
    graph.kernel(PICK, name="second", y=y.reshaped(seen), x=b.reshaped(seen), w=constant)
    odd = np.arange(x.size).reshape(shape) % 2 == 1
    return graph, {"x": x}, np.where(odd, x, w.reshape(shape))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        ((), ()),
        ((), (1, 1)),
        ((1,), ()),
        ((0,), (0,)),
        ((3, 0), (0, 5)),
        ((2, 0, 4), (0,)),
        ((6,), (3, 2)),
        ((2, 3), (6,)),
    ],
)
def test_shapes(engine: Callable[..., Any], shape: tuple[int, ...], seen: tuple[int, ...]) -> None:
    graph, inputs, expected = graph_of(shape, seen, "float32")
    found = engine(graph, inputs)
    assert found.shape == shape
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(engine: Callable[..., Any], dtype: str) -> None:
    if dtype == "float16" and "fp16" not in live_on(None)[0].device("cpu").aspects:
        pytest.skip("the CPU device has no half precision")
    graph, inputs, expected = graph_of((5, 3), (15,), dtype)
    found = engine(graph, inputs)
    assert found.dtype == dtype
    assert np.array_equal(found, expected)


def test_half_precision_is_refused_where_a_device_has_none() -> None:
    platform, _ = live_on(None)
    lacking = [d.name for d in platform.compute_devices if "fp16" not in d.aspects]
    if not lacking:
        pytest.skip("all devices here have half precision")
    only = [d for d in platform.devices if d.name in lacking or d.is_host]
    operation = replace(PICK, implementations=PICK.implementations[:1])
    alone = TaskGraph()
    x, y = alone.array("x", (4,), "float16"), alone.array("y", (4,), "float16")
    alone.kernel(operation, x=x, y=y, w=syclsched.constant(np.zeros(4, "float16")))
    with pytest.raises(SyclschedError, match="fp16"):
        syclsched.plan(alone, replace(platform, devices=tuple(only)))


def test_a_scalar_of_half_precision_is_passed_by_value() -> None:
    platform, live = live_on(None)
    if "fp16" not in platform.device("cpu").aspects:
        pytest.skip("the CPU device has no half precision")
    code = (
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
        "__kernel void scale(__global half *y, half a) { y[get_global_id(0)] *= a; }"
    )
    scale = Operation(
        "scale",
        (Parameter("y", AccessMode.UPDATE), Parameter("a", like="y")),
        (Implementation("opencl-c", "opencl-c", lambda _: OpenCLSource(code, "scale"), _elements),),
        lambda _: Work(1.0, 1.0, "float16"),
    )
    graph = TaskGraph()
    graph.kernel(scale, y=graph.array("y", (3,), "float16"), a=2.5)
    with execute(plan_on(graph, platform, "cpu"), graph, live, {"y": np.array([1, 2, 4], "float16")}) as run:
        assert np.array_equal(run.result("y"), np.array([2.5, 5, 10], "float16"))
