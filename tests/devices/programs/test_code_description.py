# SPDX-License-Identifier: Apache-2.0
"""Descriptions tell functions of the package's kernels apart by all that their code depends on."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest

from syclsched.devices.programs.code_description import described, sources_digest
from syclsched.kernels import nn
from syclsched.kernels.elementwise import AXPY, SCALE
from syclsched.kernels.linalg.gemm import GEMM
from syclsched.model.access import AccessMode
from syclsched.model.operation import Parameter, Signature


def as_a_kernel(function: Any) -> Any:
    """Return a function as if a module of the package's kernels defined it."""
    function.__module__ = "syclsched.kernels.made_up"
    return function


def closure(value: Any) -> Any:
    return as_a_kernel(lambda: value)


VALUES: list[Any] = [
    None, True, 1, 1.0, "1", b"1", 0.0, -0.0, (1, 2), [1, 2], (1, (2,)), ((1,), 2), {"a": 1}, {"a": 2},
    {"a": 1, "b": 2}, {"b": 2, "a": 1}, frozenset({1, 2}), frozenset({1, 3}), AccessMode.READ, AccessMode.WRITE,
    Parameter("x", AccessMode.READ), Parameter("x", AccessMode.WRITE), Parameter("y", AccessMode.READ),
    Signature({"x": (3,)}, {"x": "float32"}), Signature({"x": (3,)}, {"x": "float64"}),
    closure(1), closure(2), closure("1"), as_a_kernel(lambda: 1), as_a_kernel(lambda: 2), as_a_kernel(lambda x=1: x),
    as_a_kernel(lambda x=2: x), partial(closure(1), 3), partial(closure(1), 4), partial(closure(1), x=4),
    *(each.load for operation in (AXPY, SCALE, GEMM) for each in operation.implementations),
    nn.group_norm(2).implementation("numba-dpex").load, nn.group_norm(4).implementation("numba-dpex").load,
]  # fmt: skip


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
    [lambda: 1, closure(lambda: 1), partial(endless), object(), remembered, endless(), Path, os.environ, sys],
    ids=["lambda", "closure", "partial", "object", "cached", "endless", "class", "environment", "module"],
)
def test_what_may_change_unseen_has_no_description(value: Any) -> None:
    assert described(value) is None
    assert described(1, value) is None


def test_descriptions_are_equal_in_every_process() -> None:
    script = (
        "from syclsched.devices.programs.code_description import described\n"
        "from syclsched.kernels import nn\n"
        "print(described(nn.group_norm(2).implementation('numba-dpex').load))"
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
    assert said == {f"{described(nn.group_norm(2).implementation('numba-dpex').load)}\n"}


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
