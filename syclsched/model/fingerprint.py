# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a task graph: what a plan is made for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from syclsched.model.access import Access
from syclsched.model.constant import Constant
from syclsched.model.task import LogicalArray, Task


def fingerprint(arrays: Iterable[LogicalArray], tasks: Iterable[Task], edges: Iterable[tuple[str, str]]) -> str:
    """Return a hash of everything a plan depends on: of constants which are the same and what they look like.

    Parameters
    ----------
    arrays : iterable of LogicalArray
        In order of declaration.
    tasks : iterable of Task
        In order of submission.
    edges : iterable of (str, str)
        Explicit ones; their order and repetitions mean nothing.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    numbers: dict[Constant, int] = {}
    content = {
        "arrays": [[a.name, a.shape, a.dtype, a.temporary, *([a.usm] if a.usm else [])] for a in arrays],
        "tasks": [_task(task, numbers) for task in tasks],
        "edges": sorted(set(edges)),
    }
    return hashlib.sha256(json.dumps(content, default=repr).encode()).hexdigest()[:32]


def _task(task: Task, numbers: dict[Constant, int]) -> list[Any]:
    """Return what a plan depends on of a task; constants are numbered as they come."""
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
