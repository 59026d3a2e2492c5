# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a task graph: what a plan is made for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from syclsched.model.access import Access
from syclsched.model.task import LogicalArray, Task


def fingerprint(arrays: Iterable[LogicalArray], tasks: Iterable[Task], edges: Iterable[tuple[str, str]]) -> str:
    """Return a hash of everything a plan depends on.

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
    content = {
        "arrays": [[a.name, a.shape, a.dtype, a.temporary] for a in arrays],
        "tasks": [_task(task) for task in tasks],
        "edges": sorted(set(edges)),
    }
    return hashlib.sha256(json.dumps(content, default=repr).encode()).hexdigest()[:32]


def _task(task: Task) -> list[Any]:
    found = [
        task.name,
        task.kind,
        task.family,
        [_access(access) for access in task.accesses],
        sorted(task.arguments.items()),
        sorted(task.signature.scalars.items()) if task.signature else [],
    ]
    return [*found, sorted(task.rows.items())] if task.rows else found


def _access(access: Access) -> list[Any]:
    found: list[Any] = [access.array, access.mode.value]
    return found if access.rows is None else [*found, *access.rows]
