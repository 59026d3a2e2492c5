# SPDX-License-Identifier: Apache-2.0
"""A graph run sequentially by its operations' host implementations: the reference for every plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from syclsched.kernels import get, names
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation

Array = np.ndarray[Any, np.dtype[Any]]


def run_on_host(graph: TaskGraph, skip: frozenset[str] = frozenset()) -> Mapping[str, Array]:
    """Return every array after the run; unwritten elements have arbitrary values. ``skip`` omits tasks."""
    values = {}
    for name, array in graph.arrays.items():
        rubbish = np.nan if array.dtype.startswith("float") else 77
        values[name] = np.array(graph.data[name]) if name in graph.data else np.full(array.shape, rubbish, array.dtype)
    for name in graph.order():
        task = graph.find_task(name)
        if task.operation is None or task.signature is None or name in skip:
            continue
        # Chunks have no implementations whose rounding depends on the number of rows; on integers there is no rounding.
        known = (*task.operation.implementations, *_of_the_library(task.operation.name))
        host = next(i for i in known if i.kind == "host")
        arguments: dict[str, Any] = {p: values[a] for p, a in task.arguments.items()}
        arguments |= {p: arguments[p][i:j] for p, (i, j) in task.rows.items()}
        arguments |= {p: arguments[p].reshape(task.signature.shapes[p]) for p in task.reshaped}
        arguments |= {p: constant.data for p, constant in task.constants.items()}
        host.load(task.signature)(**arguments, **task.signature.scalars)
    return values


def _of_the_library(operation: str) -> tuple[Implementation, ...]:
    return get(operation).implementations if operation in names() else ()
