# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and cancellation while the host runs the iterations of a loop: it ends between two of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.errors import RunCancelledError
from syclsched.frontends.onnx.loops.host_program import HostProgram
from syclsched.onnx.loop_plans import PlannedBody

onnx = pytest.importorskip("onnx", reason="the models are ONNX models")

from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

pytestmark = pytest.mark.sycl

WIDTH, ROUNDS = 192, 20_000  # too large a body for a kernel
VALUE = TensorProto.FLOAT, [WIDTH, WIDTH]


def info(name: str, kind: int = VALUE[0], shape: Any = VALUE[1]) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def loop(nodes: list[Any], trips: str, source: str, target: str, tag: str) -> Any:
    """Return a loop that makes ``a`` and a tag into ``b`` and this tag by nodes."""
    nodes = [*nodes, helper.make_node("Identity", [f"go{tag}"], [f"on{tag}"])]
    inputs = [info(f"i{tag}", TensorProto.INT64, []), info(f"go{tag}", TensorProto.BOOL, []), info(f"a{tag}")]
    body = helper.make_graph(nodes, tag, inputs, [info(f"on{tag}", TensorProto.BOOL, []), info(f"b{tag}")])
    return helper.make_node("Loop", [trips, "", source], [target], body=body)


def model(kind: str) -> Any:
    """Return a model of one loop; or of one in another, which may need the number of its results."""
    product = loop(
        [helper.make_node("MatMul", ["a0", "w"], ["b0"])], "trips", "x" if kind == "one" else "a1", "b1", "0"
    )
    whole = product
    if kind == "nested":
        whole = loop([product], "outer", "x", "y", "1")
    elif kind == "by reference":
        inner = product.attribute[0].g
        inner.output.append(info("each"))
        inner.node.append(helper.make_node("Neg", ["b0"], ["each"]))
        product.input[0] = "outer"
        product.output[:] = ["last", "all"]
        parts = (
            helper.make_node("ReduceMax", ["all"], ["most"], keepdims=0),
            helper.make_node("Max", ["last", "most"], ["b1"]),
        )
        whole = loop([product, *parts], "trips", "x", "y", "1")
    inputs = [info("x"), info("w"), info("trips", TensorProto.INT64, []), info("outer", TensorProto.INT64, [])]
    graph = helper.make_graph([whole], "loops", inputs, [info("b1" if kind == "one" else "y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Rounds:
    """Counts the rounds of loops' bodies, and calls a function in one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.at, self.call = 0, 0, lambda: None
        for kind in (PlannedBody, HostProgram, ReferenceEvaluator):
            monkeypatch.setattr(kind, "run", self.counted(kind.run))

    def counted(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def counted_run(program: Any, *given: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self.at:
                self.call()
            return run(program, *given, **named)

        return counted_run


@pytest.mark.filterwarnings("ignore::syclsched.errors.HostOperatorWarning")
@pytest.mark.parametrize("kind", ["one", "nested", "by reference"])
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_loop_on_the_host_ends_between_rounds(kind: str, is_cancelled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C waited for the end of the loop."""
    rounds = Rounds(monkeypatch)
    x, w = np.full((WIDTH, WIDTH), 0.5, np.float32), np.eye(WIDTH, dtype=np.float32)
    with syclsched.compile(model(kind), devices="cpu", autotune=False) as compiled:
        few, many, outer = np.int64(2), np.int64(ROUNDS), np.int64(2)
        np.testing.assert_array_equal(next(iter(compiled(x, w, few, outer).values())), x)
        rounds.count, rounds.at = 0, 5
        if is_cancelled:
            run = compiled.start(x, w, many, outer)
            rounds.call = run.cancel
            with pytest.raises(RunCancelledError):
                run.wait()
        else:
            rounds.call = lambda: os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                compiled(x, w, many, outer)
        assert rounds.count < ROUNDS
        assert ("by reference" in str(compiled.report)) == (kind == "by reference")
        for _ in range(3):
            np.testing.assert_array_equal(next(iter(compiled(x, w, few, outer).values())), x)
