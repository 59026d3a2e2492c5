# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers by oneDNN, compared with formulas in double precision."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import UNCHECKED, close, numbers, unwritten
from support.recurrent_layers import RELU, SIGMOID, TANH, Case, layers

from syclsched.kernels import nn
from syclsched.kernels.onednn.operations import recurrent

pytestmark = [pytest.mark.sycl, pytest.mark.instruction_sets]


@pytest.fixture
def small_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let oneDNN accept constant weights of any size."""
    monkeypatch.setattr(recurrent, "_SMALL_BYTES", 0)


@pytest.mark.usefixtures("small_too")
@given(case=layers(plain=True, usual=True), packed=st.booleans())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=UNCHECKED)
def test_layers(onednn: Any, case: Case, packed: bool) -> None:
    operation, arrays, wanted = case
    constants = ("w", "r") if packed else ()
    assert onednn.refused(operation, arrays, constants) is None
    for name, each in wanted.items():
        close(onednn(operation, arrays, constants, name), each, "float32", 10)


@pytest.mark.parametrize(("hidden", "taken"), [(64, False), (320, True)])
def test_small_constant_weights_use_kernels(onednn: Any, hidden: int, taken: bool) -> None:
    operation = nn.recurrent("gru", (SIGMOID, TANH))
    arrays = {
        "y": unwritten((2, 1, hidden), "float32"),
        "x": numbers(2, 1, 8),
        "w": numbers(8, 3 * hidden),
        "r": numbers(hidden, 3 * hidden),
        "b": numbers(3 * hidden),
    }
    assert (onednn.refused(operation, arrays, ("w", "r")) is None) == taken
    assert onednn.refused(operation, arrays) is None


@given(case=layers())
@settings(max_examples=examples(40), deadline=None)
def test_unsupported_layers_are_refused(onednn: Any, case: Case) -> None:
    operation, arrays, _ = case
    refused = onednn.refused(operation, arrays)
    if {"lengths", "p", "sum0"} & arrays.keys():
        assert "peepholes" in str(refused)
    elif "clip" in operation.name:
        assert refused is not None


def test_activations_of_an_rnn() -> None:
    assert nn.recurrent("rnn", (TANH,)) is nn.recurrent("rnn", (TANH,), reverse=False)
    assert nn.recurrent("rnn", (RELU,)).name != nn.recurrent("rnn", (TANH,)).name
