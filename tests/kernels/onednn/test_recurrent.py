# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers through oneDNN against formulas in double precision."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.operations import close
from support.recurrent_layers import RELU, TANH, Case, layers

from syclsched.kernels import nn

pytestmark = [pytest.mark.sycl, pytest.mark.instruction_sets]


@given(case=layers(plain=True, usual=True), packed=st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_layers(onednn: Any, case: Case, packed: bool) -> None:
    operation, arrays, wanted = case
    constants = ("w", "r") if packed else ()
    assert onednn.refused(operation, arrays, constants) is None
    for name, each in wanted.items():
        close(onednn(operation, arrays, constants, name), each, "float32", 10)


@given(case=layers())
@settings(max_examples=examples(40), deadline=None)
def test_layers_it_does_not_have_are_refused(onednn: Any, case: Case) -> None:
    operation, arrays, _ = case
    refused = onednn.refused(operation, arrays)
    if "lengths" in arrays or "p" in arrays:
        assert "peepholes" in str(refused)
    elif "clip" in operation.name:
        assert refused is not None


def test_activations_of_an_rnn() -> None:
    assert nn.recurrent("rnn", (TANH,)) is nn.recurrent("rnn", (TANH,), reverse=False)
    assert nn.recurrent("rnn", (RELU,)).name != nn.recurrent("rnn", (TANH,)).name
