# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers, every implementation, compared with formulas in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from support.examples import examples
from support.operations import NO_SHRINKING, UNCHECKED, close, described, numbers, on_host, unwritten
from support.recurrent_layers import SIGMOID, TANH, Case, layers

from syclsched.devices.programs.joined_launches import joined_source
from syclsched.errors import ArgumentError
from syclsched.kernels import nn
from syclsched.kernels.nn.recurrence.recurrent import CELLS
from syclsched.model.operation import DeviceLimits, Signature


@given(layers())
@settings(max_examples=examples(100), deadline=None)
def test_the_host_follows_the_formulas(case: Case) -> None:
    operation, arrays, wanted = case
    found = {name: each.copy() for name, each in arrays.items()}
    operation.implementation("numpy").load(described(operation, found))(**found)
    for name, each in wanted.items():
        close(found[name], each, str(arrays["y"].dtype), 10)


@pytest.mark.sycl
@given(case=layers())
@settings(max_examples=examples(25), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_groups_follow_the_formulas(run: Any, case: Case) -> None:
    operation, arrays, wanted = case
    found = run(operation, "opencl-c-groups", arrays)
    for each, value in wanted.items():
        close(found[each], value, str(arrays["y"].dtype), 10)


@pytest.mark.sycl
@given(case=layers(plain=True, lengths=True))
@settings(max_examples=examples(25), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_vectors_follow_the_formulas(run: Any, case: Case) -> None:
    operation, arrays, wanted = case
    found = run(operation, "opencl-c", arrays, ("w", "r"))
    for each, value in wanted.items():
        close(found[each], value, str(arrays["y"].dtype), 10)


@pytest.mark.sycl
@given(case=layers(peepholes=False))
@settings(max_examples=examples(25), deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
def test_blocks_follow_the_formulas(run: Any, case: Case) -> None:
    operation, arrays, wanted = case
    found = run(operation, "opencl-c-blocks", arrays)
    for each, value in wanted.items():
        close(found[each], value, str(arrays["y"].dtype), 10)


@pytest.mark.sycl
@pytest.mark.parametrize("cell", [*CELLS])
@pytest.mark.parametrize("name", ["opencl-c", "opencl-c-blocks", "opencl-c-groups"])
def test_many_steps_of_many_hidden_units(run: Any, name: str, cell: str) -> None:
    gates, biases, functions = CELLS[cell]
    activations = (TANH,) if cell == "rnn" else (SIGMOID, TANH, TANH)[:functions]
    hidden, features = 300, 40
    arrays = {
        "y": unwritten((70, 2, hidden), "float32"),
        "x": numbers(70, 2, features),
        "w": numbers(features, gates * hidden) / 8,
        "r": numbers(hidden, gates * hidden) / 32,
        "b": numbers(biases * hidden) / 8,
    }
    operation = nn.recurrent(cell, activations)
    close(run(operation, name, arrays, ("w", "r"))["y"], on_host(operation, arrays), "float32", 20)


@pytest.mark.sycl
@pytest.mark.parametrize("cell", [*CELLS])
@pytest.mark.parametrize("hidden", [1, 2, 9, 17])
def test_few_hidden_units(run: Any, cell: str, hidden: int) -> None:
    """Before, with fewer units than a vector has, up to 16, work-groups used the states of an earlier step."""
    gates, biases, functions = CELLS[cell]
    arrays = {
        "y": unwritten((40, 3, hidden), "float32"),
        "x": numbers(40, 3, 5),
        "w": numbers(5, gates * hidden),
        "r": numbers(hidden, gates * hidden) / np.float32(hidden**0.5),  # with greater ones errors grow step by step
        "b": numbers(biases * hidden),
    }
    operation = nn.recurrent(cell, (TANH,) if cell == "rnn" else (SIGMOID, TANH, TANH)[:functions])
    for name in ("opencl-c-groups", "opencl-c", "opencl-c-blocks"):
        close(run(operation, name, arrays, ("w", "r"))["y"], on_host(operation, arrays), "float32", 20)


@pytest.mark.sycl
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_empty_batch_with_lengths_is_computed(run: Any, dtype: str) -> None:
    arrays = {
        "y": unwritten((3, 0, 8), dtype),
        "h": unwritten((0, 8), dtype),
        "x": np.zeros((3, 0, 5), dtype),
        "w": np.zeros((5, 8), dtype),
        "r": np.zeros((8, 8), dtype),
        "b": np.zeros(8, dtype),
        "lengths": np.zeros(0, np.int64),
    }
    found = run(nn.recurrent("rnn", (TANH,), last=True, lengths=True), "opencl-c-groups", arrays)
    assert found["y"].shape == (3, 0, 8)


@pytest.mark.parametrize("cell", [*CELLS])
def test_both_directions_have_the_same_code(cell: str) -> None:
    """Equal code lets their launches be joined."""
    gates, biases, functions = CELLS[cell]
    shapes = {"y": (9, 1, 16), "x": (9, 1, 4), "w": (4, gates * 16), "r": (16, gates * 16), "b": (biases * 16,)}
    called = Signature(shapes, dict.fromkeys(shapes, "float32"), {}, frozenset("wrb"))
    activations = (TANH,) if cell == "rnn" else (SIGMOID, TANH, TANH)[:functions]
    ways = [nn.recurrent(cell, activations, reverse=reverse).implementation("opencl-c") for reverse in (False, True)]
    forward, backward = (way.load(called).of(DeviceLimits(64, 2, 1 << 15)) for way in ways)
    assert forward == backward
    assert joined_source(forward, 2) is not None


def test_wrong_shapes_are_refused() -> None:
    operation = nn.recurrent("lstm", (SIGMOID, TANH, TANH))
    arrays = {
        "y": (3, 2, 4),
        "x": (3, 2, 5),
        "w": (5, 16),
        "r": (4, 16),
        "b": (16,),
    }
    for name, shape in (("y", (3, 2, 5)), ("w", (4, 16)), ("b", (32,)), ("r", (4, 12)), ("x", (3, 2))):
        made = {each: np.zeros(value, "float32") for each, value in {**arrays, name: shape}.items()}
        with pytest.raises(AssertionError, match=r"is|are"):
            described(operation, made)
    with pytest.raises(ArgumentError, match="no activation 'sine'"):
        nn.recurrent("rnn", ((("sine",),),))
    with pytest.raises(ArgumentError, match=r"no cell 'elman'"):
        nn.recurrent("elman", (TANH,))
    with pytest.raises(ArgumentError, match="3 activations, not 1"):
        nn.recurrent("lstm", (TANH,))
