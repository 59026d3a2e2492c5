# SPDX-License-Identifier: Apache-2.0
"""Activations: NumPy's implementations compared with ONNX's, the others with NumPy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.onnx_nodes import node
from support.operations import close, on_host, unwritten

from syclsched.errors import ArgumentError
from syclsched.kernels import nn
from syclsched.kernels.nn import activation as act
from syclsched.kernels.nn import activation_numba

X = np.concatenate([np.linspace(-12, 12, 97), [0.0, -0.0, 1e-6, -1e-6, 80, -80]])

#: Operation name -> ONNX operator.
ONNX: dict[tuple[str | float, ...], tuple[str, dict[str, Any]]] = {
    ("relu",): ("Relu", {}),
    ("leaky_relu", 0.3): ("LeakyRelu", {"alpha": 0.3}),
    ("thresholded_relu", 2.0): ("ThresholdedRelu", {"alpha": 2.0}),
    ("elu", 1.5): ("Elu", {"alpha": 1.5}),
    ("celu", 1.5): ("Celu", {"alpha": 1.5}),
    ("selu",): ("Selu", {}),
    ("sigmoid",): ("Sigmoid", {}),
    ("tanh",): ("Tanh", {}),
    ("gelu",): ("Gelu", {}),
    ("gelu_tanh",): ("Gelu", {"approximate": "tanh"}),
    ("hard_sigmoid", 0.3, 0.4): ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    ("hard_swish",): ("HardSwish", {}),
    ("softplus",): ("Softplus", {}),
    ("softsign",): ("Softsign", {}),
    ("mish",): ("Mish", {}),
    ("erf",): ("Erf", {}),
    ("abs",): ("Abs", {}),
    ("neg",): ("Neg", {}),
}


@pytest.mark.parametrize("step", ONNX, ids=str)
def test_numpy_activations_equal_those_of_onnx(step: tuple[str | float, ...]) -> None:
    kind, attributes = ONNX[step]
    x = X[np.abs(X) < 20].astype("float32")
    got = act.numpy(act.checked((step,)), x.astype("float64"))
    close(got, node(kind, x, **attributes), "float32")


def inputs(name: str, dtype: str) -> np.ndarray:
    x = X[np.abs(X) < 20] if name in ("exp", "square") else X
    return (np.abs(x) + 0.1 if name in ("log", "sqrt", "reciprocal") else x).astype(dtype)


@pytest.mark.sycl
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_opencl_activations_equal_those_of_numpy(run: Any, dtype: str) -> None:
    for name in sorted(act.STEPS):
        x = inputs(name, dtype)
        operation = nn.batch_norm(0.0, activation=((name,), ("shift", 0.5)))
        one, zero = np.ones(x.size, dtype), np.zeros(x.size, dtype)
        arrays = {
            "y": unwritten((1, x.size), dtype),
            "x": x[None],
            "scale": one,
            "bias": zero,
            "mean": zero,
            "variance": one,
        }
        wanted = act.numpy(act.checked(((name,),)), x.astype("float64")) + 0.5
        close(on_host(operation, arrays)[0], wanted, dtype)
        close(run(operation, "opencl-c", arrays)["y"][0], wanted, dtype)


@pytest.mark.sycl
def test_activations_keep_nan(run: Any) -> None:
    for name in sorted(act.STEPS):
        operation = nn.batch_norm(0.0, activation=((name,),))
        nan, one, zero = np.full((1, 1), np.nan, "float32"), np.ones(1, "float32"), np.zeros(1, "float32")
        arrays = {"y": one[None], "x": nan, "scale": one, "bias": zero, "mean": zero, "variance": one}
        assert np.isnan(on_host(operation, arrays)).all(), name
        assert np.isnan(run(operation, "opencl-c", arrays)["y"]).all(), name


def test_steps_are_done_in_order() -> None:
    activation = act.checked((("scale", 2.0), ("clip", 0.0, 3.0), ("neg",)))
    np.testing.assert_array_equal(act.numpy(activation, np.array([-1.0, 1.0, 2.0])), [0, -2, -3])
    assert act.label(activation) == "scale(2)+clip(0,3)+neg"
    assert act.cost(activation) == 4


def test_unknown_activations_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"'swish'"):
        act.checked((("swish",),))


@pytest.mark.parametrize("name", sorted(act.STEPS))
def test_numba_dpex_is_given_the_same_formulas(name: str) -> None:
    activation = act.checked(((name,),))
    text = "def step(v):\n" + activation_numba.applied(activation, "    ") + "    return v\n"
    known = {"math": math, "real": np.float64, "inf": np.inf}
    exec(text, known)
    x = np.array([0.25, 0.5, 1.0, 2.0, 7.5] if name in ("log", "sqrt") else [-4.0, -1.5, -0.25, 0.5, 2.0, 7.5])
    np.testing.assert_allclose([known["step"](each) for each in x], act.numpy(activation, x), rtol=1e-12, atol=1e-12)
