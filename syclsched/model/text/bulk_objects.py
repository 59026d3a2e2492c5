# SPDX-License-Identifier: Apache-2.0
"""Creation of many objects of frozen dataclasses at once, from columns, with the garbage collector paused."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, make_dataclass
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

#: Above the first number, new objects skip the young generations; after the second, a full collection runs.
_MANY_OBJECTS, _MOST_OLD_OBJECTS = 5_000, 1_000_000
_made_old = 0


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pause cyclic garbage collection: a plan is many small objects without cycles, all of which survive.

    If many objects were made, they then go straight to the oldest generation instead of being traversed at once. That
    resets the collector's own count towards a full collection, so cycles made between plans would never be freed: so a
    full collection runs after a given number of such objects.
    """
    global _made_old
    enabled = gc.isenabled()
    gc.disable()
    before = gc.get_count()[0]
    try:
        yield
    finally:
        if enabled:
            made = gc.get_count()[0] - before
            # Unfreezing would also release objects that other code froze, which are counted one by one.
            if made > _MANY_OBJECTS and gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
                _made_old += made
            gc.enable()
            if _made_old > _MOST_OLD_OBJECTS:
                _made_old = 0
                gc.collect()


def make_objects(kind: type[T], count: int, columns: Mapping[str, Iterable[object]]) -> list[T]:
    """Return many objects of a frozen dataclass with slots.

    Equivalent to calling its ``__init__``, without a call per field.
    """
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    if columns.keys() != set(names):
        raise TypeError(f"a column for each field of {kind.__name__} is needed")
    opened = opened_class(kind)  # type: ignore[arg-type]
    with paused_collection():
        made: list[Any] = [opened(*row) for row in zip(*(columns[name] for name in names), strict=True)]
        for each in made:
            each.__class__ = kind
    if len(made) != count:
        raise TypeError(f"{count} values are needed for each field of {kind.__name__}")
    return made


@cache
def opened_class(kind: type[Any]) -> Any:
    """Return a class with the same fields and layout that is not frozen, so that its fields are set directly.

    An object of it becomes one of the frozen class by ``made.__class__ = kind``.
    """
    names = [(f.name, Any) for f in fields(kind)]
    return make_dataclass(f"Open{kind.__name__}", names, bases=kind.__bases__, slots=True, eq=False)
