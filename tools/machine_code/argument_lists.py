# SPDX-License-Identifier: Apache-2.0
"""The argument types for which the build makes machine code: ``argument_types.json``, and numba's types for them.

`syclsched.compiled.argument_types` defines the notation of types. The file has types of tuples and structures once,
in a list; elsewhere it has their indices in this list.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np

LIST = Path(__file__).with_name("argument_types.json")


def dtype_from(data: Any) -> np.dtype[Any]:
    """Return the dtype of a description."""
    if isinstance(data, str):
        return np.dtype(data)
    if data[0] == "items":
        return np.dtype((dtype_from(data[1]), tuple(data[2])))
    _, size, aligned, fields = data
    parts = {
        "names": [name for name, _, _ in fields],
        "formats": [dtype_from(each) for _, each, _ in fields],
        "offsets": [offset for _, _, offset in fields],
        "itemsize": size,
    }
    return np.dtype(parts, align=aligned)  # type: ignore[call-overload, no-any-return]


def numba_type(data: Any) -> Any:
    """Return numba's type for a type of an argument."""
    from numba.core import types
    from numba.np.numpy_support import from_dtype

    from syclsched.compiled.tuple_references import tuple_type

    if data == "none":
        return types.none
    if isinstance(data, str):
        return from_dtype(np.dtype(data))
    if data[0] == "array":
        _, dtype, dimensions, layout, writeable = data
        return types.Array(from_dtype(dtype_from(dtype)), dimensions, layout, readonly=not writeable)
    module, _, name = data[1].partition(":")
    kind = importlib.import_module(module)
    for part in name.split("."):
        kind = getattr(kind, part)
    return tuple_type(kind, [numba_type(each) for each in data[2]])


def event_loops() -> list[Any]:
    """Return the event loops of dynamic policies: of each rule of the package, and the one that calls other rules."""
    from syclsched.execution.dynamic.compiled.called_rule import call_rule
    from syclsched.execution.dynamic.compiled.compiled_loop import loop_of
    from syclsched.scheduling.dynamic.policies import DYNAMIC_POLICIES, Hybrid
    from syclsched.scheduling.dynamic.rule_policy import RulePolicy

    kinds = [*map(type, DYNAMIC_POLICIES), Hybrid]
    rules = [kind.rule for kind in kinds if issubclass(kind, RulePolicy)]
    return [loop_of(rule) for rule in (*rules, call_rule)]


def annealing_loops() -> list[Any]:
    """Return the search's annealing loops, one for each evaluator."""
    from syclsched.scheduling.search.constrained.moves import anneal as constrained
    from syclsched.scheduling.search.incremental.moves import anneal as incremental
    from syclsched.scheduling.search.queued.moves import anneal as queued

    return [constrained, incremental, queued]


def read_list() -> dict[str, list[list[Any]]]:
    """Return the argument types to build for, by function name."""
    content = json.loads(LIST.read_text(encoding="utf-8"))
    shared = content["shared"]

    def expanded(data: Any) -> Any:
        if isinstance(data, int):
            return expanded(shared[data])
        if not isinstance(data, list):
            return data
        head, *rest = data
        # Numbers represent shared types only where a type is expected.
        if head == "array":
            return [head, expanded(rest[0]), *rest[1:]]
        return [head, rest[0], [expanded(each) for each in rest[1]]] if head == "tuple" else data

    return {
        name: [[expanded(each) for each in arguments] for arguments in variants]
        for name, variants in content["functions"].items()
    }


def write_list(functions: dict[str, list[list[Any]]]) -> None:
    """Store the argument types to build for; types of tuples and structures are stored once."""
    places: dict[str, int] = {}
    shared: list[Any] = []

    def place(data: Any) -> int:
        key = json.dumps(data)
        if key not in places:
            places[key] = len(shared)
            shared.append(data)
        return places[key]

    def compact(data: Any) -> Any:
        if not isinstance(data, list):
            return data
        if data[0] == "array":
            return place([data[0], place(data[1]) if isinstance(data[1], list) else data[1], *data[2:]])
        return place([data[0], data[1], [compact(each) for each in data[2]]])

    compacted = {
        name: [[compact(each) for each in arguments] for arguments in variants]
        for name, variants in sorted(functions.items())
    }
    lines = ",\n".join(f"  {json.dumps(each)}" for each in shared)
    entries = ",\n".join(f"  {json.dumps(name)}: {json.dumps(variants)}" for name, variants in compacted.items())
    text = f'{{\n "shared": [\n{lines}\n ],\n "functions": {{\n{entries}\n }}\n}}\n'
    LIST.write_text(text, encoding="utf-8")
