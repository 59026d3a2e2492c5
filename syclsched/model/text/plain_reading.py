# SPDX-License-Identifier: Apache-2.0
"""Reading of small JSON documents into dataclasses without pydantic.

Importing pydantic and making a validator takes a tenth of a second, several times as long as planning a small graph,
which reads a device profile. So a document whose values are exactly of their fields' types is read here; any other one,
or one of a type unknown here, is left to pydantic, which alone decides on refusals, and gives the reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, MaxLen, MinLen

#: Documents of more characters are read faster by pydantic.
MAX_PLAIN_LENGTH = 100_000

#: Integers up to this are floats, too.
_MOST_EXACT = 1 << 53

_Reader = Callable[[Any], Any]


class NotPlainError(Exception):
    """The document is for pydantic to read, or to refuse."""


def read_plainly(kind: Any, text: str | bytes) -> Any:
    """Return a dataclass from its JSON document; raise `NotPlainError` unless pydantic would accept it as it is."""
    try:
        given = text.decode() if isinstance(text, bytes) else text
        # Escapes can be halves of a character, which are no text.
        if len(given) > MAX_PLAIN_LENGTH or "\\u" in given:
            raise NotPlainError
        return _reader(kind)(json.loads(given, parse_constant=_refuse))
    except (ValueError, TypeError, RecursionError) as error:
        raise NotPlainError from error


def _refuse(_: object) -> Any:
    raise NotPlainError


@cache
def _reader(hint: Any) -> _Reader:
    """Return the function that reads a value of a type."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _bounded(_reader(inside[0]), inside[1:])
    if origin is Literal:
        return _literal(inside)
    if origin in (Union, UnionType):
        others = [each for each in inside if each is not NoneType]
        if len(others) != 1 or len(inside) != 2:
            raise NotPlainError
        reader = _reader(others[0])
        return lambda value: None if value is None else reader(value)
    if origin is tuple:
        return _tuple(inside)
    if origin is dict and inside[0] is not None:
        return _mapping(_reader(inside[0]), _reader(inside[1]))
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda value: hint(_exactly(str, value))
    if hint is float:
        return _float
    if hint in (str, int, bool, NoneType):
        return lambda value: _exactly(hint, value)
    raise NotPlainError


def _exactly(kind: type, value: Any) -> Any:
    return value if type(value) is kind else _refuse(value)


def _float(value: Any) -> float:
    if type(value) is int and abs(value) <= _MOST_EXACT:
        return float(value)
    return value if type(value) is float and math.isfinite(value) else _refuse(value)


def _literal(values: tuple[Any, ...]) -> _Reader:
    if not all(type(value) is str for value in values):
        raise NotPlainError
    return lambda value: value if type(value) is str and value in values else _refuse(value)


def _tuple(inside: tuple[Any, ...]) -> _Reader:
    if len(inside) == 2 and inside[1] is Ellipsis:
        each = _reader(inside[0])
        return lambda value: tuple(map(each, _exactly(list, value)))
    readers = tuple(map(_reader, inside))

    def read(value: Any) -> tuple[Any, ...]:
        return tuple([reader(one) for reader, one in zip(readers, _exactly(list, value), strict=True)])

    return read


def _mapping(key: _Reader, item: _Reader) -> _Reader:
    return lambda value: {key(name): item(each) for name, each in _exactly(dict, value).items()}


def _bounded(reader: _Reader, bounds: tuple[Any, ...]) -> _Reader:
    """Return a reader that also checks the bounds of a value."""
    if not all(type(bound) in (Ge, Gt, Le, MinLen, MaxLen) for bound in bounds):
        raise NotPlainError

    def read(value: Any) -> Any:
        found = reader(value)
        return found if all(_keeps(found, bound) for bound in bounds) else _refuse(value)

    return read


def _keeps(value: Any, bound: Any) -> bool:
    if isinstance(bound, Ge):
        return bool(value >= bound.ge)
    if isinstance(bound, Gt):
        return bool(value > bound.gt)
    if isinstance(bound, Le):
        return bool(value <= bound.le)
    return len(value) >= bound.min_length if isinstance(bound, MinLen) else len(value) <= bound.max_length


def _dataclass(kind: type[Any]) -> _Reader:
    hints = get_type_hints(kind, include_extras=True)
    if not all(each.init for each in fields(kind)):
        raise NotPlainError
    readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
    needed = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}

    def read(value: Any) -> Any:
        given = _exactly(dict, value)
        if not needed <= given.keys() <= readers.keys():
            raise NotPlainError
        return kind(**{name: readers[name](each) for name, each in given.items()})

    return read
