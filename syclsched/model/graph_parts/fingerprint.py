# SPDX-License-Identifier: Apache-2.0
"""Fingerprint of a task graph: a hash of everything that a plan depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import Any

from syclsched.model.access import Access
from syclsched.model.constant import Constant
from syclsched.model.task import LogicalArray, Task

_ARRAY, _MODE = attrgetter("array"), attrgetter("mode")


def fingerprint(arrays: Iterable[LogicalArray], tasks: Iterable[Task], edges: Iterable[tuple[str, str]]) -> str:
    """Return a hash of everything that a plan depends on; of constants only identity, shape and dtype.

    It has 32 hexadecimal digits. Order and repetitions of explicit edges are irrelevant.
    """
    # The hash of a JSON document, whose text is assembled here: most tasks differ from others in names only.
    texts = _Texts()
    array_texts, task_texts = ", ".join(map(texts.array, arrays)), ", ".join(map(texts.task, tasks))
    document = f'{{"arrays": [{array_texts}], "tasks": [{task_texts}], "edges": {_dumped(sorted(set(edges)))}}}'
    return hashlib.sha256(document.encode()).hexdigest()[:32]


def _dumped(value: object) -> str:
    return json.dumps(value, default=repr)


class _Texts:
    """Arrays and tasks as JSON texts."""

    def __init__(self) -> None:
        self._constants: dict[Constant, int] = {}
        self._names: dict[str, str] = {}
        self._tails: dict[tuple[object, ...], str] = {}
        self._forms: dict[tuple[object, ...], tuple[str, list[str]]] = {}

    def array(self, array: LogicalArray) -> str:
        """Return an array."""
        name = self._names[array.name] = encode_basestring_ascii(array.name)
        key = (array.shape, array.dtype, array.temporary, array.usm, array.donated)
        tail = self._tails.get(key)
        if tail is None:
            more = [*([array.usm] if array.usm else []), *(["donated"] if array.donated else [])]
            tail = self._tails[key] = _dumped([array.shape, array.dtype, array.temporary, *more])[1:]
        return f"[{name}, {tail}"

    def task(self, task: Task) -> str:
        """Return the properties of a task that a plan depends on; constants are numbered in order of first use."""
        if task.rows or task.constants or task.reshaped:
            return _dumped(self._properties(task))
        each, accesses, arguments = self._names.__getitem__, task.accesses, task.arguments
        # Operation and signature live as long as the task.
        key = (id(task.operation), id(task.signature), task.kind, *map(id, map(_MODE, accesses)), *arguments)
        known = self._forms.get(key)
        if known is None:
            known = self._forms[key] = self._form(task), sorted(arguments)
        form, parameters = known
        passed = map(each, map(arguments.__getitem__, parameters))
        return form % (encode_basestring_ascii(task.name), *map(each, map(_ARRAY, accesses)), *passed)

    def _form(self, task: Task) -> str:
        """Return the text of a task of whole arrays with a place for each name."""
        found = self._properties(task)
        kept = [_dumped(each).replace("%", "%%") for each in found]
        kept[0] = "%s"
        kept[3] = "[" + ", ".join(f"[%s, {_dumped(a.mode.value)}]" for a in task.accesses) + "]"
        passed = [_dumped(name).replace("%", "%%") for name in sorted(task.arguments)]
        kept[4] = "[" + ", ".join(f"[{name}, %s]" for name in passed) + "]"
        return "[" + ", ".join(kept) + "]"

    def _properties(self, task: Task) -> list[Any]:
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
            each = {
                name: (self._constants.setdefault(c, len(self._constants)), c.shape, c.dtype)
                for name, c in task.constants.items()
            }
            found.append({"constants": sorted(each.items())})
        if task.reshaped and task.signature is not None:
            found.append({"reshaped": [(name, task.signature.shapes[name]) for name in sorted(task.reshaped)]})
        return found


def _access(access: Access) -> list[Any]:
    found: list[Any] = [access.array, access.mode.value]
    return found if access.rows is None else [*found, *access.rows]
