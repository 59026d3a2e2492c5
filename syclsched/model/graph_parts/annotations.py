# SPDX-License-Identifier: Apache-2.0
"""Annotations of array parameters: access mode, dtypes and shape, as in ``x: Read["float32", "rows", 3]``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.model.access import AccessMode
from syclsched.model.operation import Signature


@dataclass(frozen=True, slots=True)
class ArrayAnnotation:
    """An array parameter's access mode, its dtypes (none: any), and its shape (None: any), whose extents have names."""

    mode: AccessMode
    dtypes: tuple[str, ...] = ()
    shape: tuple[int | str, ...] | None = None


class _Annotation:
    """Base of the annotations, which type checkers take for an array."""

    mode: ClassVar[AccessMode]

    def __class_getitem__(cls, given: Any) -> ArrayAnnotation:
        dtypes, *extents = given if isinstance(given, tuple) else (given,)
        for extent in extents:
            if isinstance(extent, bool) or not isinstance(extent, (int, str)):
                raise ArgumentError(
                    f"{extent!r} is not an extent of {cls.__name__}[...]",
                    hint=f'Write a number or a name: {cls.__name__}["float32", "rows", 3]',
                )
        return ArrayAnnotation(cls.mode, _dtype_names(dtypes, cls.__name__), tuple(extents) or None)

    if TYPE_CHECKING:
        shape: tuple[int, ...]
        size: int
        ndim: int
        dtype: Any

        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...


class Read(_Annotation):
    """Annotation of an array parameter that a task only reads.

    Examples
    --------
    ``x: Read`` is any array, ``x: Read["float32"]`` one of that dtype, ``x: Read["float32", "rows", 3]`` one of two
    dimensions, of which the second has extent 3. Extents of one name must be equal in all arguments of a task; ``...``
    as the dtype means any.

    >>> import numpy as np
    >>> import syclsched
    >>> @syclsched.operation
    ... def norms(y: syclsched.Write["float32", "rows"], x: syclsched.Read["float32", "rows", 3]):
    ...     np.sqrt((x * x).sum(axis=1), out=y)
    >>> [parameter.mode.value for parameter in norms.parameters]
    ['write', 'read']
    """

    mode = AccessMode.READ


class Write(_Annotation):
    """Annotation of an array parameter that a task writes whole, without reading it before; see `Read`.

    Examples
    --------
    >>> import syclsched
    >>> @syclsched.operation
    ... def ones(y: syclsched.Write):
    ...     y[:] = 1
    >>> ones.parameters[0].mode.value
    'write'
    """

    mode = AccessMode.WRITE


class Update(_Annotation):
    """Annotation of an array parameter that a task reads and writes, or of which it writes a part; see `Read`.

    Examples
    --------
    >>> import syclsched
    >>> @syclsched.operation
    ... def clip(x: syclsched.Update, top: float):
    ...     x[x > top] = top
    >>> clip.parameters[0].mode.value
    'update'
    """

    mode = AccessMode.UPDATE


class Reduce(_Annotation):
    """Annotation of an array parameter that a task adds to, in any order; see `Read`.

    Examples
    --------
    >>> import syclsched
    >>> @syclsched.operation
    ... def add(total: syclsched.Reduce, x: syclsched.Read):
    ...     total += x.sum()
    >>> add.parameters[0].mode.value
    'reduce'
    """

    mode = AccessMode.REDUCE


def _dtype_names(given: Any, owner: str) -> tuple[str, ...]:
    if given is Ellipsis:
        return ()
    try:
        return tuple(np.dtype(each).name for each in (given if isinstance(given, (list, set)) else (given,)))
    except TypeError:
        raise ArgumentError(
            f"{given!r} is not a dtype of {owner}[...]",
            hint=f'Write {owner}["float32"], or {owner}[..., "rows"] for any',
        ) from None


def array_annotation(annotation: Any) -> ArrayAnnotation | None:
    """Return the annotation of an array, also within `typing.Annotated`; None for any other."""
    if isinstance(annotation, ArrayAnnotation):
        return annotation
    if isinstance(annotation, AccessMode):
        return ArrayAnnotation(annotation)
    if isinstance(annotation, type) and issubclass(annotation, _Annotation):
        return ArrayAnnotation(annotation.mode)
    found = map(array_annotation, getattr(annotation, "__metadata__", ()))
    return next((each for each in found if each is not None), None)


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function; those that are strings are evaluated where that is possible."""
    found = dict(inspect.get_annotations(function))
    for name, annotation in found.items():
        if isinstance(annotation, str):
            code = getattr(function, "__code__", None)
            cells = zip(code.co_freevars, function.__closure__ or (), strict=True) if code is not None else ()
            try:
                names = {free: cell.cell_contents for free, cell in cells}
                found[name] = eval(annotation, getattr(function, "__globals__", {}), names)
            except Exception:  # such as a name that is only imported for type checkers
                continue
    return found


def shape_error(annotations: Mapping[str, ArrayAnnotation], signature: Signature) -> str | None:
    """Return the error in the shapes of a task's arrays by their annotations, or None."""
    known: dict[str, tuple[int, str]] = {}
    for parameter, annotation in annotations.items():
        if annotation.shape is None or parameter not in signature.shapes:
            continue
        shape = signature.shapes[parameter]
        if len(shape) != len(annotation.shape):
            return f"{parameter} has shape {shape}, not {len(annotation.shape)} dimensions"
        for axis, (extent, wanted) in enumerate(zip(shape, annotation.shape, strict=True)):
            if isinstance(wanted, int):
                if extent != wanted:
                    return f"axis {axis} of {parameter} has extent {extent}, not {wanted}"
                continue
            first, where = known.setdefault(wanted, (extent, f"axis {axis} of {parameter}"))
            if extent != first:
                return f"{wanted} is {first} ({where}) and {extent} (axis {axis} of {parameter})"
    return None
