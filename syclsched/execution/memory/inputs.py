# SPDX-License-Identifier: Apache-2.0
"""Validation of the user's input arrays, and their conversion to NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from syclsched.devices.memory.resident_array import InputValue, ResidentArray
from syclsched.errors import ArgumentError, UnknownArrayError
from syclsched.model.graph import TaskGraph
from syclsched.model.graph_parts.argument_validation import as_array, check_data
from syclsched.model.plan import Plan
from syclsched.model.task import JoinedArray, LogicalArray
from syclsched.oneapi.dpctl_interface import usm_arrays

NumpyArray = np.ndarray[Any, np.dtype[Any]]


def needed_inputs(plan: Plan) -> tuple[str, ...]:
    """Return the names of the input arrays of a plan."""
    return tuple(a.name for a in plan.arrays if a.is_input and a.rows is None)


def gather_inputs(
    plan: Plan,
    graph: TaskGraph,
    inputs: Mapping[str, Any] | None,
    declared: Mapping[str, LogicalArray] | None = None,
    needed: tuple[str, ...] | None = None,
) -> dict[str, InputValue]:
    """Return checked values of all input arrays, and of other arrays for which a value was passed."""
    declared, joined = graph.arrays if declared is None else declared, graph.joined
    given = dict(graph.data)
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ArgumentError(
            f"a {type(inputs).__name__} is given for them", where="inputs", hint='Give them by name: {"x": array}'
        )
    for name, value in (inputs or {}).items():
        for whole in joined.get(name, ()):
            given.update(_rows(whole, value, declared))
        if name not in declared and name in joined:
            continue
        if name not in declared:
            raise UnknownArrayError(
                f"a value is given for array {name!r}, which is not declared in graph {graph.name!r}",
                where="inputs",
                hint=f"Its inputs are {', '.join(_as_declared(graph, graph.inputs())) or 'none'}",
            )
        given[name] = value
    needed = needed_inputs(plan) if needed is None else needed
    absent = [name for name in needed if name not in given]
    if absent:
        missing = _as_declared(graph, absent)
        raise ArgumentError(
            f"no value is given for {', '.join(missing[:5])}",
            where=f"graph {graph.name!r}",
            hint="Give it with graph.array(name, data=...) or inputs={name: ...}",
        )
    found = {}
    for name, value in given.items():
        is_there = isinstance(value, ResidentArray)
        data = value if is_there else as_array(value, f"array {name!r}")
        check_data(declared[name], data)
        found[name] = data if is_there else to_numpy(data)
    return found


def _as_declared(graph: TaskGraph, names: Iterable[str]) -> list[str]:
    """Return the user's names of arrays: for a part, the name of the whole array."""
    whole = {part: name for name, joined in graph.joined.items() for each in joined for part in each.parts}
    return list(dict.fromkeys(whole.get(name, name) for name in names))


def _rows(joined: JoinedArray, value: Any, declared: Mapping[str, LogicalArray]) -> dict[str, Any]:
    """Return the value of each part of an array held in parts, as views of its rows."""
    data = as_array(value, f"array {joined.whole.name!r}")
    check_data(joined.whole, data)
    ends = list(accumulate((declared[part].shape[0] for part in joined.parts), initial=0))
    return {part: data[start:stop] for part, (start, stop) in zip(joined.parts, pairwise(ends), strict=True)}


def to_numpy(data: Any) -> NumpyArray:
    """Return an array as a C-contiguous NumPy array in native byte order; copy only if needed."""
    if hasattr(data, "__sycl_usm_array_interface__"):
        data = _on_host(data.get_array() if hasattr(data, "get_array") else data)
    # ascontiguousarray makes 0-d arrays 1-d.
    array = np.asarray(data)
    if not array.dtype.isnative:  # devices cannot read it
        array = array.astype(array.dtype.newbyteorder("="))
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _on_host(data: Any) -> NumpyArray:
    """Wait for a `usm_ndarray`'s queue, and return it as a NumPy array; without a copy if the host can read it."""
    if data.usm_type == "device" or not data.flags.c_contiguous or not data.size:
        copied: NumpyArray = usm_arrays().asnumpy(data)
        return copied
    data.sycl_queue.wait()
    start = data._pointer - data.usm_data._pointer
    raw: NumpyArray = np.asarray(data.usm_data)
    view: NumpyArray = raw[start : start + data.nbytes].view(data.dtype).reshape(data.shape)
    return view
