# SPDX-License-Identifier: Apache-2.0
"""Descriptions of kernel functions: equal if and only if all that the code depends on is equal."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syclsched import kernel_api
from syclsched.devices.programs.python_kernels.code_description import described, sources_digest
from syclsched.kernel_compiler.python_kernel import device_func
from syclsched.kernels import nn
from syclsched.kernels.dense import _dense_numba
from syclsched.kernels.stencil import HEAT_STEP
from syclsched.kernels.vectors import vector_functions
from syclsched.model.access import AccessMode
from syclsched.model.operation import Operation, Parameter, Signature

CONSTANT = 3


def closure(value: Any) -> Any:
    return lambda: value


def recursive(n: int) -> int:
    return recursive(n - 1) if n else CONSTANT


def kernel_of(operation: Operation) -> Any:
    """Return the function of an operation's Python kernel, for single precision."""
    names = [parameter.name for parameter in operation.arrays]
    signature = Signature(dict.fromkeys(names, (4, 4)), dict.fromkeys(names, "float32"))
    return operation.implementation("python").load(signature).function


VALUES: list[Any] = [
    None, True, 1, 1.0, "1", b"1", 0.0, -0.0, (1, 2), [1, 2], (1, (2,)), ((1,), 2), {"a": 1}, {"a": 2},
    {"a": 1, "b": 2}, {"b": 2, "a": 1}, frozenset({1, 2}), frozenset({1, 3}), AccessMode.READ, AccessMode.WRITE,
    Parameter("x", AccessMode.READ), Parameter("x", AccessMode.WRITE), Parameter("y", AccessMode.READ),
    Signature({"x": (3,)}, {"x": "float32"}), Signature({"x": (3,)}, {"x": "float64"}),
    closure(1), closure(2), closure("1"), lambda: 1, lambda: 2, lambda x=1: x, lambda x=2: x,
    partial(closure(1), 3), partial(closure(1), 4), partial(closure(1), x=4), closure(closure(1)), closure(closure(2)),
    lambda x: math.sin(x), lambda x: math.cos(x), lambda x: np.sin(x), lambda x: kernel_api.AtomicRef(x, 0),
    lambda x: vector_functions.LANES + x, lambda x: vector_functions.vexp(x), closure(np.float32), closure(np.float64),
    closure(np.arange(3)), closure(np.arange(4)), closure(np.float32(1)), recursive, device_func(lambda x: x + 1),
    device_func(lambda x: x + 2), closure(device_func(lambda x: x + 1)),
    *(kernel_of(operation) for operation in (HEAT_STEP, nn.group_norm(2), nn.group_norm(4))),
]  # fmt: skip


def test_changed_global_changes_the_description(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def scaled(x: Any) -> Any:
        return vector_functions.vexp(x) * CONSTANT

    seen = [described(scaled)]
    monkeypatch.setattr(sys.modules[__name__], "CONSTANT", 4)
    seen.append(described(scaled))
    monkeypatch.setattr(vector_functions, "vexp", lambda x: x)
    seen.append(described(scaled))
    monkeypatch.setattr(vector_functions, "vlog", None)  # the variable is not used
    assert described(scaled) == seen[-1]
    assert None not in seen
    assert len(set(seen)) == 3


def test_different_values_are_described_differently() -> None:
    texts = [described(each) for each in VALUES]
    assert None not in texts
    assert len(set(texts)) == len(texts)
    assert [described(each) for each in VALUES] == texts


def test_pieces_of_one_value_are_not_taken_for_another() -> None:
    assert described("a", "b") != described("a;str:'b'")
    assert described(("a",), "b") != described(("a", "b"))


@lru_cache
def remembered() -> int:
    return 1


def endless() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    "value",
    [closure(object()), lambda: os.environ, object(), remembered, endless(), Path, os.environ, sys, lambda: sys],
    ids=["closure", "global", "object", "cached", "endless", "class", "environment", "module", "whole module"],
)
def test_values_that_may_change_unnoticed_have_no_description(value: Any) -> None:
    assert described(value) is None
    assert described(1, value) is None


def test_descriptions_are_equal_in_every_process() -> None:
    script = (
        "from syclsched.devices.programs.python_kernels.code_description import described\n"
        "from syclsched.kernels.dense import _dense_numba\n"
        "print(described(_dense_numba('float32').function))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert said == {f"{described(_dense_numba('float32').function)}\n"}


def test_a_changed_or_renamed_source_changes_the_digest(tmp_path: Path) -> None:
    def digest() -> str:
        sources_digest.cache_clear()
        return sources_digest(tmp_path)

    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "inner" / "b.py").write_text("y = 1\n")
    (tmp_path / "notes.txt").write_text("not a source")
    seen = [digest()]
    (tmp_path / "inner" / "b.py").write_text("y = 2\n")
    seen.append(digest())
    (tmp_path / "inner" / "b.py").rename(tmp_path / "inner" / "c.py")
    seen.append(digest())
    (tmp_path / "notes.txt").write_text("still not a source")
    assert digest() == seen[-1]
    assert len(set(seen)) == 3
