# SPDX-License-Identifier: Apache-2.0
"""Rows of equal dataclasses as columns, the form in which files hold many of them.

A column is a list of one field's values. A column of texts is an object of the different values (``values``) and the
index of each row's value (``index``, left out if no value occurs twice). A field that is a tuple of dataclasses is an
object of their number in each row (``count``) and of their own columns. A column of default values is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from enum import Enum
from functools import lru_cache
from itertools import accumulate, chain, count, pairwise, repeat
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from syclsched.errors import FormatError
from syclsched.model.profile import Count
from syclsched.model.text.bulk_objects import make_objects
from syclsched.model.text.json_serialisation import Serialisable

#: The key of the number of dataclasses in each row, beside the names of their fields.
_COUNT: Final = "count"

#: Numbers of combinations of texts stay below this.
_MAX_CODES: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class _Column:
    """Representation of a field of a row."""

    name: str
    hint: Any  # the field's type
    default: Any  # `MISSING` if it has none
    inner: type | None  # the dataclass, of a field that is a tuple of dataclasses
    is_text: bool
    is_enum: bool


def columns_type(row: type) -> type[Any]:
    """Return the dataclass of the columns of a row's dataclass, with the types of their values, for validation."""
    return _columns_type(row, nested=False)


@lru_cache(maxsize=64)
def _columns_type(row: type, *, nested: bool) -> type[Any]:
    required: list[Any] = [(_COUNT, tuple[Count, ...])] if nested else []
    optional: list[Any] = []
    for column in _layout(row):
        if column.inner is not None:
            held: Any = _columns_type(column.inner, nested=True)
        elif column.is_text:
            held = _coded_type(column.hint)
        else:
            hint = column.hint
            held = tuple[hint, ...]  # type: ignore[valid-type]
        if column.default is MISSING:
            required.append((column.name, held))
        else:
            optional.append((column.name, held | None, field(default=None)))
    name = f"{row.__name__}Columns"
    return make_dataclass(name, [*required, *optional], bases=(Serialisable,), frozen=True, slots=True)


def encode(rows: Sequence[Any], row: type) -> dict[str, Any]:
    """Return rows as columns that can be written as JSON."""
    found: dict[str, Any] = {}
    for column in _layout(row):
        values = list(map(attrgetter(column.name), rows))
        if column.default is not MISSING and values.count(column.default) == len(values):
            continue
        if column.inner is not None:
            flat = list(chain.from_iterable(values))
            found[column.name] = {_COUNT: list(map(len, values)), **encode(flat, column.inner)}
        elif column.is_text:
            # An enumeration's members are slow to hash.
            found[column.name] = _coded(map(attrgetter("_value_"), values) if column.is_enum else values)
        else:
            found[column.name] = values
    return found


def decode(columns: Any, row: type, place: str, where: str, hint: str) -> list[Any]:
    """Return the rows of validated columns; raise `FormatError`, which names ``place``, if they do not fit together."""
    layout = _layout(row)
    first = getattr(columns, layout[0].name)
    return _Decoder(where, hint).rows(columns, row, _length(first), place)


class ColumnChecks:
    """Checks that columns fit together; ``where`` names the file in errors."""

    def __init__(self, where: str, hint: str) -> None:
        self._where, self._hint = where, hint

    def check_length(self, held: Any, size: int, place: str) -> None:
        """Refuse a column that is not of some number of rows."""
        length = _length(held)
        if length != size:
            raise FormatError(
                f"at {place}: {length} values, where {size} are needed", where=self._where, hint=self._hint
            )

    def index(self, held: Any, place: str) -> Sequence[int]:
        """Return the indices of a column of texts; refuse those beyond its values."""
        if held.index is None:
            return range(len(held.values))
        index: Sequence[int] = held.index
        if index and max(index) >= len(held.values):
            wrong = next(n for n, each in enumerate(index) if each >= len(held.values))
            raise FormatError(
                f"at {place}.index.{wrong}: it is {index[wrong]}, and there are {len(held.values)} values",
                where=self._where,
                hint=self._hint,
            )
        return index


class _Decoder(ColumnChecks):
    def rows(self, columns: Any, row: type, size: int, place: str) -> list[Any]:
        layout = _layout(row)
        if all(column.is_text and column.default is MISSING for column in layout):
            return self._equal_rows(columns, row, size, place)
        found: dict[str, Iterable[Any]] = {}
        for column in layout:
            held, here = getattr(columns, column.name), f"{place}.{column.name}"
            if held is None:
                found[column.name] = repeat(column.default, size)
                continue
            self.check_length(held, size, here)
            if column.inner is not None:
                found[column.name] = self._nested(held, column.inner, here)
            elif column.is_text:
                found[column.name] = map(held.values.__getitem__, self.index(held, here))
            else:
                found[column.name] = held
        return make_objects(row, size, found)

    def _nested(self, held: Any, row: type, place: str) -> list[tuple[Any, ...]]:
        """Return the tuples of rows of a nested column."""
        bounds = list(accumulate(held.count, initial=0))
        inner: list[Any] = self.rows(held, row, bounds[-1], place)
        return [tuple(inner[a:b]) for a, b in pairwise(bounds)]

    def _equal_rows(self, columns: Any, row: type, size: int, place: str) -> list[Any]:
        """Return rows of texts; equal ones are one object."""
        code, span = np.zeros(1, np.int64), 1
        texts: dict[str, tuple[Sequence[str], Sequence[int]]] = {}
        for column in _layout(row):
            held, here = getattr(columns, column.name), f"{place}.{column.name}"
            values, index = held.values, self.index(held, here)
            self.check_length(held, size, here)
            if span * len(values) >= _MAX_CODES:
                code, span = np.unique(code, return_inverse=True)[1], size
            code, span = code * len(values) + np.array(index, np.int64), span * len(values)
            texts[column.name] = (values, index)
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        different = {name: [values[index[n]] for n in first.tolist()] for name, (values, index) in texts.items()}
        return list(map(make_objects(row, len(first), different).__getitem__, which.tolist()))


def _length(held: Any) -> int:
    """Return the number of rows of a column."""
    if isinstance(held, tuple):
        return len(held)
    if hasattr(held, _COUNT):
        return len(held.count)
    return len(held.values if held.index is None else held.index)


def _coded(values: Iterable[Any]) -> Mapping[str, Any]:
    """Return a column of texts as its different values and the index of each."""
    given = list(values)
    code = dict(zip(dict.fromkeys(given), count(), strict=False))
    if len(code) == len(given):
        return {"values": given}
    return {"values": list(code), "index": list(map(code.__getitem__, given))}


@lru_cache(maxsize=64)
def _coded_type(hint: Any) -> type[Any]:
    members: list[Any] = [
        ("values", tuple[hint, ...]),
        ("index", tuple[Count, ...] | None, field(default=None)),
    ]
    return make_dataclass("Texts", members, bases=(Serialisable,), frozen=True, slots=True)


@lru_cache(maxsize=64)
def _layout(row: Any) -> tuple[_Column, ...]:
    """Return how the fields of a row's dataclass are held."""
    hints = get_type_hints(row, include_extras=True)
    return tuple([_column(each, hints[each.name]) for each in fields(row)])


def _column(each: Any, hint: Any) -> _Column:
    default = each.default if each.default_factory is MISSING else each.default_factory()
    kinds = _kinds(hint)
    inner = None
    if get_origin(hint) is tuple and is_dataclass(held := get_args(hint)[0]) and isinstance(held, type):
        inner = held
    is_text = bool(kinds) and all(kind is str or issubclass(kind, (str, Enum)) for kind in kinds)
    is_enum = any(issubclass(kind, Enum) for kind in kinds)
    return _Column(each.name, hint, default, inner, is_text, is_enum)


def _kinds(hint: Any) -> tuple[type, ...]:
    """Return the classes of a type's values, without None."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _kinds(inside[0])
    if origin is Literal:
        return tuple({type(value) for value in inside})
    if origin in (Union, UnionType):
        return tuple([kind for each in inside if each is not type(None) for kind in _kinds(each)])
    return (origin or hint,)
