# SPDX-License-Identifier: Apache-2.0
"""Results as arrays of other libraries: by DLPack, as columns of tables, or refused with the reason."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import syclsched
from syclsched.errors import ArgumentError
from syclsched.execution.memory.readback import converted_to
from syclsched.kernels import get

VALUE = np.arange(4.0)


class Tensor:
    """An array of a library that has from_dlpack."""

    def __init__(self, data: Any) -> None:
        self.data = np.from_dlpack(data)


class Namespaced:
    """An array as in the array API standard."""

    def __array_namespace__(self) -> Any:
        return np


class Column:
    """A column of a table, as in pandas."""

    def __init__(self, data: Any, index: Any = None, name: str = "") -> None:
        self.data, self.index, self.name = data, index, name

    def __len__(self) -> int:
        return len(self.data)

    def __bool__(self) -> bool:
        raise ValueError("the truth value of a column is ambiguous")


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("tensors")
    made.from_dlpack = Tensor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensors", made)
    monkeypatch.setattr(Tensor, "__module__", "tensors.core")


def test_a_library_shares_the_memory(library: None) -> None:
    assert np.shares_memory(converted_to(VALUE, Tensor(np.ones(2))).data, VALUE)
    assert converted_to(VALUE, np.ones(2)) is VALUE
    assert np.shares_memory(converted_to(VALUE, Namespaced()), VALUE)


def test_a_column_keeps_its_name_and_an_index_that_fits() -> None:
    made = converted_to(VALUE, Column([1, 2, 3, 4], index="abcd", name="speed"))
    assert (made.name, made.index, made.data is VALUE) == ("speed", "abcd", True)
    assert converted_to(VALUE, Column([1], index="a", name="speed")).index is None


@pytest.mark.parametrize("like", [3, [1.0], object()])
def test_non_arrays_are_refused_as_result_types(like: object) -> None:
    with pytest.raises(ArgumentError, match="can be made of the result"):
        converted_to(VALUE, like)


@pytest.mark.sycl
def test_results_of_runs_have_the_type_of_a_given_array(library: None) -> None:
    graph = syclsched.TaskGraph()
    x = graph.array("x", data=VALUE)
    graph.kernel(get("scale"), x=x, alpha=2.0)
    with syclsched.run(graph) as run:
        assert run.result(x, like=Tensor(np.ones(1))).data.tolist() == [0.0, 2.0, 4.0, 6.0]
        assert run.result(x, like=Column([1], name="x")).data.tolist() == [0.0, 2.0, 4.0, 6.0]
