# SPDX-License-Identifier: Apache-2.0
"""Models called with many shapes in one process: programs of dropped plans are released, and few are compiled again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from onnx import helper
from support.opencl_programs import Retained, retained_programs
from support.small_models import model_of

import syclsched
from syclsched.devices.programs import joined_launches, launch_chains, programs, task_compiler
from syclsched.devices.programs.bounded_cache import BoundedCache
from syclsched.onnx import CompiledModel

pytestmark = pytest.mark.sycl


@pytest.fixture
def retained() -> Iterator[Retained]:
    with retained_programs() as found:
        yield found


@pytest.fixture
def few_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the caches be small."""
    monkeypatch.setattr(programs, "_PROGRAMS", BoundedCache(2, lambda built: built.program_id))
    monkeypatch.setattr(task_compiler, "_EXECUTABLES", BoundedCache(2))
    for module, name in ((joined_launches, "_joined_kernel"), (launch_chains, "_kernel")):
        monkeypatch.setattr(module, name, lru_cache(maxsize=2)(getattr(module, name).__wrapped__))


def model(factor: float, *, keep: int) -> CompiledModel:
    """Return a convolution of 3 x 3, whose kernels contain their extents, with equal weights, and a rectifier."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["sums"]), helper.make_node("Relu", ["sums"], ["y"])]
    weights = np.full((2, 1, 3, 3), factor, np.float32)
    made = model_of(nodes, {"x": (1, 1, 3, "width")}, ["y"], {"w": weights})
    return syclsched.compile(made, devices="cpu", keep=keep)


def check(compiled: CompiledModel, width: int, factor: float) -> None:
    x = np.linspace(0, 1, 3 * width, dtype="float32").reshape(1, 1, 3, width)
    sums = factor * np.lib.stride_tricks.sliding_window_view(x.sum(2), 3, axis=-1).sum(-1)[:, :, None]
    np.testing.assert_allclose(compiled(x)["y"], np.repeat(sums, 2, axis=1), rtol=1e-5)


@pytest.mark.usefixtures("few_kept")
def test_programs_of_dropped_plans_are_released(retained: Retained) -> None:
    with model(1.25, keep=1) as compiled:
        for width in range(20, 32):
            check(compiled, width, 1.25)
        assert len(retained) >= 12  # each shape has a program of its own
        assert retained.live <= 8  # of the caches above, and of one plan
        check(compiled, 20, 1.25)
    assert retained.live <= 6


def test_shapes_of_several_models_are_compiled_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs, "_PROGRAMS", BoundedCache(programs.PROGRAMS_KEPT, lambda built: built.program_id))
    models = {factor: model(factor, keep=2) for factor in (1.5, 1.75)}
    made: list[Any] = []
    for _ in range(2):
        for width in range(60, 67):
            for factor, compiled in models.items():
                check(compiled, width, factor)
        made.append(programs.program_count())
    assert made[0] == made[1]
    for compiled in models.values():
        compiled.close()
