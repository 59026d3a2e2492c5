# SPDX-License-Identifier: Apache-2.0
"""Compilation of tasks, with their constants prepared by one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from syclsched.execution.core import compilation_batch
from syclsched.execution.core.compilation_batch import CompilationBatch


def test_constants_are_prepared_while_libraries_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_force: list[int] = []

    @contextmanager
    def at_most(threads: int) -> Iterator[None]:
        in_force.append(threads)
        yield
        in_force.pop()

    def bind(made: Any, *_: Any) -> Any:
        return made, *in_force

    batch = CompilationBatch()
    batch._wanted["key"] = ("piece", SimpleNamespace(constants={}), "cpu")  # type: ignore[assignment]
    monkeypatch.setattr(compilation_batch, "compile_tasks", lambda *_: ["made"])
    monkeypatch.setattr(compilation_batch, "LIBRARY_THREADS", SimpleNamespace(at_most=at_most))
    assert batch.compiled(SimpleNamespace(bind=bind)) == {"key": ("made", 1)}  # type: ignore[arg-type, comparison-overlap]
