# SPDX-License-Identifier: Apache-2.0
"""JSON serialisation of the model's dataclasses, validated by pydantic schemas. Pure."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from syclsched.errors import FormatError
from syclsched.model.text.plain_reading import MAX_PLAIN_LENGTH, NotPlainError, read_plainly

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")

#: Longer documents are refused before they are parsed; files of this project are far smaller.
MAX_TEXT_BYTES = 1 << 30

_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


class Serialisable:
    """Base of dataclasses in files: unknown keys, NaN and infinity are rejected when they are read."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "allow_inf_nan": False}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Return the cached validator of a dataclass; building one takes milliseconds."""
    from pydantic import TypeAdapter

    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def to_json(value: Any, *, indent: int | None = 1) -> str:
    """Return a frozen dataclass of the model as JSON text, indented by this many spaces per level, or on one line."""
    return _adapter(type(value)).dump_json(value, indent=indent).decode()


def jsonable(value: Any) -> Any:
    """Return a value of dataclasses, mappings and sequences as the mappings and lists of a JSON document."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)


def to_text(document: Any, *, indent: int | None = 1) -> str:
    """Return a JSON document as text, indented; lists without mappings are on one line each."""
    from pydantic_core import to_json

    if indent is None:
        return to_json(document).decode()
    return "".join(_lines(document, "\n", " " * indent, to_json))


def _lines(value: Any, newline: str, step: str, line: Callable[[Any], bytes]) -> Iterator[str]:
    """Yield a document in pieces; ``newline`` begins a line of the level that contains it."""
    inner = newline + step
    if isinstance(value, dict) and value:
        opening = "{"
        for key, held in value.items():
            yield f"{opening}{inner}{line(key).decode()}: "
            yield from _lines(held, inner, step, line)
            opening = ","
        yield newline + "}"
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        opening = "["
        for held in value:
            yield opening + inner
            yield from _lines(held, inner, step, line)
            opening = ","
        yield newline + "]"
    else:
        yield line(value).decode()


def from_json(kind: type[T], text: str | bytes, *, where: str, strict: bool = True) -> T:
    """Read a dataclass of the model from JSON text; ``where`` names the file in errors.

    Types and ranges are validated; NaN, infinity and unknown keys are rejected by `FormatError`, which names the place
    in the file. ``strict`` also rejects type conversions, such as of text to a number; it is off for formats with lax
    writers.
    """
    if len(text) > MAX_TEXT_BYTES:
        raise FormatError(f"larger than {MAX_TEXT_BYTES} bytes", where=where)
    if strict and kind not in _ADAPTERS and len(text) <= MAX_PLAIN_LENGTH:
        with contextlib.suppress(NotPlainError):
            return cast(T, read_plainly(kind, text))
    from pydantic import ValidationError

    try:
        return cast(T, _adapter(kind).validate_json(text, strict=strict))
    except ValidationError as error:
        raise FormatError(_explain(error), where=where, hint=f"Expected {_called(kind)}") from None


def _called(kind: type[Any]) -> str:
    """Return the name of a document in messages: its class's ``document_name``, else the class's name."""
    return getattr(kind, "document_name", f"a {kind.__name__}")


def _explain(error: ValidationError) -> str:
    details = error.errors(include_url=False)
    first = details[0]
    place = ".".join(str(part) for part in first["loc"]) or "the whole document"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    given = "" if first["type"] in ("missing", "json_invalid") else f", it is {_short(first['input'])}"
    return f"at {place}: {first['msg']}{given}{more}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
