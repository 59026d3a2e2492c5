# SPDX-License-Identifier: Apache-2.0
"""Exponentials of non-positive numbers, in both languages, compared with double precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.vectors import WIDTH, on_vectors

from syclsched.devices.programs.python_kernels import own_compiler
from syclsched.kernels.vectors import exponential, straight_line

POWERS = on_vectors(
    ["y"],
    ["x"],
    (straight_line.opencl(exponential.power, "power", WIDTH), f"vstore{WIDTH}(power(vload{WIDTH}(i, x)), i, y);"),
    ["store_vector(y, i, vpower(load_vector(x, i)))"],
)


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("language", ["opencl-c", "python"])
def test_right_within_one_unit_in_the_last_place(run: Any, language: str) -> None:
    x = np.linspace(exponential.LEAST, 0, WIDTH << 12, dtype="float32")
    got = run(POWERS, language, {"y": np.zeros_like(x), "x": x})["y"]
    exact = np.exp(x.astype("float64"))
    assert np.max(np.abs(got - exact) / np.spacing(exact.astype("float32"))) < 1


@pytest.mark.sycl
@pytest.mark.parametrize("language", ["opencl-c", "python"])
def test_very_negative_numbers_give_0_and_nan_gives_nan(run: Any, language: str) -> None:
    x = np.zeros(WIDTH, "float32")
    x[:4] = -np.inf, -88, -1e30, -0.0
    # Payloads whose bits would be taken for an exponent.
    x[4:7] = np.array([0x7FC00001, 0xFFC000FF, 0x7F800001], "uint32").view("float32")
    got = run(POWERS, language, {"y": np.ones_like(x), "x": x})["y"]
    assert got[:4].tolist() == [0, 0, 0, 1]
    assert np.isnan(got[4:7]).all()
    assert (got[7:] == 1).all()


@pytest.mark.sycl
def test_registers_of_another_width_change_no_bit(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.linspace(exponential.LEAST, 0, WIDTH << 4, dtype="float32")
    python = POWERS.implementation("python")
    by_own = replace(python, load=lambda signature: replace(python.load(signature), compiler="own"))
    operation = replace(POWERS, implementations=(by_own,))
    found = []
    own_bits = own_compiler._vector_bits
    for bits in (128, None):  # none: those of the device
        monkeypatch.setattr(own_compiler, "_vector_bits", lambda device, bits=bits: bits or own_bits(device))
        found.append(run(operation, "python", {"y": np.zeros_like(x), "x": x})["y"].tobytes())
    assert found[0] == found[1]
    assert np.allclose(np.frombuffer(found[0], "float32"), np.exp(x))
