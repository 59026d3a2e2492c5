# SPDX-License-Identifier: Apache-2.0
"""Gradients of users' own operations, compared with central differences in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.training_steps import HostStep, check_graph

import syclsched
from syclsched import Read, Reduce, Update, Write
from syclsched.errors import GradientError
from syclsched.kernels import get
from syclsched.operations import DefinedOperation


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


@syclsched.operation
def softsign(y: Write, x: Read) -> None:
    y[...] = x / (1 + abs(x))


@softsign.gradient
def softsign(dy, x):  # type: ignore[no-redef]
    return dy / (1 + abs(x)) ** 2


@syclsched.operation
def softsign_backward(dx: Write, dy: Read, x: Read) -> None:
    dx[...] = dy / (1 + abs(x)) ** 2


@syclsched.operation
def mix(out: Write, a: Read, b: Read, share: float) -> None:
    out[...] = np.cos(a) + share * a * b


@mix.gradient
def mix(dout, a, b, share):  # type: ignore[no-redef]
    return dout * (share * b - np.sin(a)), dout * share * a


@syclsched.operation
def polar(radius: Write, angle: Write, x: Read, y: Read) -> None:
    radius[...], angle[...] = np.hypot(x, y), np.arctan2(y, x)


@polar.gradient
def polar(dradius, dangle, x, y, radius):  # type: ignore[no-redef]
    squared = radius**2
    return dradius * x / radius - dangle * y / squared, dradius * y / radius + dangle * x / squared


@syclsched.operation
def decay(state: Update, rate: Read) -> None:
    state *= np.exp(-(rate**2))


@decay.gradient
def decay(dstate, new_state, rate):  # type: ignore[no-redef]
    return dstate * np.exp(-(rate**2)), np.sum(dstate * new_state * -2 * rate, axis=0)


@syclsched.operation
def total(sums: Reduce, x: Read) -> None:
    sums += (x**2).sum(axis=0)


@total.gradient
def total(dsums, x):  # type: ignore[no-redef]
    return dsums, 2 * x * dsums


def test_a_kernel_like_operation_within_a_network() -> None:
    graph = syclsched.TaskGraph("network")
    x, w, v = graph.array("x", (5, 3)), graph.array("w", data=numbers(3, 4)), graph.array("v", data=numbers(4, 2))
    h, s, y = graph.array("h", (5, 4)), graph.array("s", (5, 4)), graph.array("y", (5, 2))
    graph.kernel(get("gemm"), c=h, a=x, b=w)
    graph.kernel(softsign, y=s, x=h)
    graph.kernel(get("gemm"), c=y, a=s, b=v)
    check_graph(graph, inputs={"x": numbers(5, 3, seed=5)})


def test_a_gradient_may_be_another_operation() -> None:
    own = softsign.gradient(lambda dy, x: softsign_backward(dx=np.empty_like(x), dy=dy, x=x))
    found = []
    for operation in (own, softsign):
        graph = syclsched.TaskGraph("chain")
        w, y = graph.array("w", data=numbers(3, 4)), graph.array("y", (3, 4))
        graph.kernel(operation, y=y, x=w)
        check_graph(graph)
        found.append(HostStep(graph, numbers(3, 4, seed=1)))
    kinds = [[node.attributes.get("operation") for node in each.network.nodes] for each in found]
    assert softsign_backward in kinds[0] and softsign_backward not in kinds[1]
    np.testing.assert_allclose(found[0].gradients()["w"], found[1].gradients()["w"], rtol=1e-12)


def test_numbers_and_several_inputs() -> None:
    graph = syclsched.TaskGraph("mixed")
    a, b, out = (
        graph.array("a", data=numbers(3, 4)),
        graph.array("b", data=numbers(3, 4, seed=1)),
        graph.array("o", (3, 4)),
    )
    graph.kernel(mix, out=out, a=a, b=b, share=0.25)
    check_graph(graph)
    check_graph(graph, parameters=["b"])


@pytest.mark.parametrize("output", ["radius", "angle", "both"])
def test_several_results_of_which_some_are_used(output: str) -> None:
    graph = syclsched.TaskGraph("polar")
    x, y = graph.array("x", data=numbers(3, 4) + 3), graph.array("y", data=numbers(3, 4, seed=1))
    radius, angle, both = graph.array("radius", (3, 4)), graph.array("angle", (3, 4)), graph.array("both", (3, 4))
    graph.kernel(polar, radius=radius, angle=angle, x=x, y=y)
    graph.kernel(get("add"), z=both, x=radius, y=angle)
    check_graph(graph, output=output)


def test_arrays_that_are_updated_and_broadcast() -> None:
    graph = syclsched.TaskGraph("decay")
    w, rate, state = (
        graph.array("w", data=numbers(3, 4)),
        graph.array("rate", data=numbers(4, seed=1)),
        graph.array("s", (3, 4)),
    )
    graph.kernel(get("copy"), y=state, x=w)
    graph.kernel(decay, state=state, rate=rate)
    graph.kernel(get("axpy"), y=state, x=w, alpha=0.5)
    graph.kernel(decay, state=state, rate=rate)
    check_graph(graph)


def test_arrays_that_are_accumulated() -> None:
    graph = syclsched.TaskGraph("total")
    w, v, sums = (
        graph.array("w", data=numbers(3, 4)),
        graph.array("v", data=numbers(2, 4, seed=1)),
        graph.array("sums", (4,)),
    )
    graph.kernel(get("fill"), x=sums, value=1.0)
    graph.kernel(total, sums=sums, x=w)
    graph.kernel(total, sums=sums, x=v)
    check_graph(graph)


def chain(operation: DefinedOperation, dtype: str = "float64") -> syclsched.TaskGraph:
    graph = syclsched.TaskGraph("chain")
    w, y = graph.array("w", data=numbers(3, 4).astype(dtype)), graph.array("y", (3, 4), dtype)
    graph.kernel(operation, name="squash", y=y, x=w)
    return graph


@syclsched.operation
def bare(y: Write, x: Read) -> None:
    y[...] = x


def broken(dy: Any) -> Any:
    return {}["nothing"]


@pytest.mark.parametrize(
    ("operation", "wrong"),
    [
        (bare, "node bare 'squash': operation 'bare' has no gradient. Make it one with a gradient"),
        (bare.gradient(broken), "squash.*its gradient raises KeyError: 'nothing'"),
        (bare.gradient(lambda dy: np.sort(dy)), "squash.*its gradient fails: gradients do not have np.sort"),
        (
            bare.gradient(lambda dy: (dy, dy)),
            "squash.*returns 2 of 1 values. Return a gradient, or None, for",
        ),
        (bare.gradient(lambda dy: dy[0]), r"squash.*its gradient of 'x' is float64 of shape \(4,\), expected"),
        (bare.gradient(lambda dy: dy.astype("float32")), "squash.*its gradient of 'x' is float32"),
        (bare.gradient(lambda dy: "dy"), "squash.*returns 'dy' for 'x'"),
    ],
)
def test_operations_without_gradient_are_named(operation: Any, wrong: str) -> None:
    with pytest.raises(GradientError, match=wrong):
        HostStep(chain(operation), numbers(3, 4))


def test_numbers_and_none_are_gradients_too() -> None:
    def gradient(function: Callable[..., Any]) -> Any:
        step = HostStep(chain(bare.gradient(function)), numbers(3, 4))
        return step.gradients().get("w")

    assert (gradient(lambda dy: 2.5) == 2.5).all()
    np.testing.assert_allclose(gradient(lambda dy: np.arange(4.0)), np.arange(12.0).reshape(3, 4) % 4, atol=1e-12)
    graph = chain(bare.gradient(lambda dy: None))
    z = graph.array("z", (3, 4))
    graph.kernel(get("add"), z=z, x=graph.arrays["y"], y=graph.arrays["w"])
    own = HostStep(graph, numbers(3, 4)).gradients()["w"]
    plain = 2 * (2 * numbers(3, 4) - numbers(3, 4)) / 12
    np.testing.assert_allclose(own, plain, rtol=1e-12)


def test_integers_have_no_gradient() -> None:
    @syclsched.operation
    def picked(y: Write, x: Read, places: Read[np.int64]) -> None:
        y[...] = x[places]

    picked = picked.gradient(lambda dy: (np.concatenate([dy, dy[:1]], 0) * 0.0 + 1.0, None))
    graph = syclsched.TaskGraph("picked")
    w, y = graph.array("w", data=numbers(4)), graph.array("y", (3,))
    graph.kernel(picked, y=y, x=w, places=syclsched.constant(np.array([0, 1, 1])))
    assert set(HostStep(graph, numbers(3)).gradients()) == {"w"}
