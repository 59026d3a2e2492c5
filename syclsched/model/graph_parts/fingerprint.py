# SPDX-License-Identifier: Apache-2.0
"""Fingerprint of a task graph: a hash of everything that a plan depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from syclsched.model.access import Access
from syclsched.model.constant import Constant
from syclsched.model.task import LogicalArray, Task


def fingerprint(arrays: Iterable[LogicalArray], tasks: Iterable[Task], edges: Iterable[tuple[str, str]]) -> str:
    """Return a hash of everything that a plan depends on; of constants only identity, shape and dtype.

    It has 32 hexadecimal digits. Order and repetitions of explicit edges are irrelevant.
    """
    numbers: dict[Constant, int] = {}
    content = {
        "arrays": [[a.name, a.shape, a.dtype, a.temporary, *([a.usm] if a.usm else [])] for a in arrays],
        "tasks": [_task(task, numbers) for task in tasks],
        "edges": sorted(set(edges)),
    }
    return hashlib.sha256(json.dumps(content, default=repr).encode()).hexdigest()[:32]


def _task(task: Task, numbers: dict[Constant, int]) -> list[Any]:
    """Return the properties of a task that a plan depends on; constants are numbered in order of first use."""
    found: list[Any] = [
        task.name,
        task.kind,
        task.family,
        [_access(access) for access in task.accesses],
        sorted(task.arguments.items()),
        sorted(task.signature.scalars.items()) if task.signature else [],
    ]
    if task.rows:
        found.append(sorted(task.rows.items()))
    if task.constants:
        each = {name: (numbers.setdefault(c, len(numbers)), c.shape, c.dtype) for name, c in task.constants.items()}
        found.append({"constants": sorted(each.items())})
    if task.reshaped and task.signature is not None:
        found.append({"reshaped": [(name, task.signature.shapes[name]) for name in sorted(task.reshaped)]})
    return found


def _access(access: Access) -> list[Any]:
    found: list[Any] = [access.array, access.mode.value]
    return found if access.rows is None else [*found, *access.rows]
