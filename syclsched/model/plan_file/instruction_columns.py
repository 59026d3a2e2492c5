# SPDX-License-Identifier: Apache-2.0
"""Instructions in files: the columns of `syclsched.model.plan_file.columns`, made from tables and read into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import chain, pairwise
from typing import Any

import numpy as np

from syclsched.model.access import MODE_CODE, MODES
from syclsched.model.plan import Instruction
from syclsched.model.plan_file.columns import ColumnChecks
from syclsched.model.tables.distinct_codes import distinct
from syclsched.model.tables.instruction_table import InstructionTable, Texts, starts_of


def encode_table(table: InstructionTable) -> dict[str, Any]:
    """Return instructions as columns that can be written as JSON."""
    found: dict[str, Any] = {"id": table.id.tolist(), "kind": _coded(table.kind)}
    for name in ("task", "implementation"):
        column: Texts = getattr(table, name)
        if any(column.values[n] is not None for n in distinct(column.index, len(column.values))[0].tolist()):
            found[name] = _coded(column)
    if len(table.use_mode):
        modes = Texts([mode.value for mode in MODES], table.use_mode)
        found["uses"] = {
            "count": np.diff(table.use_starts).tolist(),
            "array": _coded(table.use_array),
            "space": _coded(table.use_space),
            "mode": _coded(modes),
        }
    if len(table.waits):
        waits = table.waits.tolist()
        found["waits"] = [waits[a:b] for a, b in pairwise(table.wait_starts.tolist())]
    for name in ("duration_s", "start_s", "finish_s", "nbytes", "again"):
        values = getattr(table, name)
        if (values != 0).any():
            found[name] = values.tolist()
    return found


def _coded(texts: Texts) -> dict[str, Any]:
    """Return a column of texts as its different values, in order of first use, and the index of each."""
    used, which = distinct(texts.index, len(texts.values))
    first = np.empty(len(used), np.int64)
    first[which[::-1]] = np.arange(len(which))[::-1]  # of equal indices, the last counts
    order = np.argsort(first)
    values = [texts.values[n] for n in used[order].tolist()]
    if len(values) == len(texts.index):
        return {"values": values}
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return {"values": values, "index": place[which].tolist()}


def decode_table(columns: Any, place: str, where: str, hint: str) -> InstructionTable:
    """Return the instructions of validated columns; raise `FormatError` if they do not fit together."""
    checks, count = ColumnChecks(where, hint), len(columns.id)
    found: dict[str, Any] = {}
    for each in fields(Instruction):
        held, here = getattr(columns, each.name), f"{place}.{each.name}"
        if held is not None:
            checks.check_length(held, count, here)
        if each.name == "uses":
            found |= _uses(held, count, here, checks)
        elif each.name == "waits":
            rows: Sequence[Sequence[int]] = ((),) * count if held is None else held
            found["wait_starts"] = starts_of(map(len, rows), count)
            found["waits"] = np.fromiter(chain.from_iterable(rows), np.int64)
        elif each.name in ("kind", "task", "implementation"):
            none = Texts((each.default,), np.zeros(count, np.int64))
            found[each.name] = none if held is None else _texts(held, here, checks)
        else:
            dtype = np.float64 if each.name.endswith("_s") else np.int64
            found[each.name] = np.zeros(count, dtype) if held is None else np.array(held, dtype)
    return InstructionTable(**found)


def _texts(held: Any, place: str, checks: ColumnChecks) -> Texts:
    index = checks.index(held, place)
    return Texts(held.values, np.arange(len(index)) if isinstance(index, range) else np.array(index, np.int64))


def _uses(held: Any, count: int, place: str, checks: ColumnChecks) -> dict[str, Any]:
    """Return the columns of the uses of all instructions."""
    if held is None:
        none, empty = np.zeros(count + 1, np.int64), Texts((), np.zeros(0, np.int64))
        return {"use_starts": none, "use_array": empty, "use_space": empty, "use_mode": empty.index}
    starts = starts_of(held.count, count)
    columns: dict[str, Texts] = {}
    for name in ("array", "space", "mode"):
        columns[name] = _texts(getattr(held, name), f"{place}.{name}", checks)
        checks.check_length(getattr(held, name), int(starts[-1]), f"{place}.{name}")
    modes = columns["mode"]
    code = np.array([MODE_CODE[id(mode)] for mode in modes.values], np.int64)
    return {
        "use_starts": starts,
        "use_array": columns["array"],
        "use_space": columns["space"],
        "use_mode": code[modes.index],
    }
