# SPDX-License-Identifier: Apache-2.0
"""Calls of host functions as tasks: arguments in place of which arrays are passed, and the array of the result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.model.access import Access, AccessMode
from syclsched.model.constant import Constant
from syclsched.model.graph_parts.annotations import annotations_of, array_annotation
from syclsched.model.operation import Operation
from syclsched.model.task import ArrayRows, LogicalArray, ReshapedArray

#: Arguments for which a task passes a NumPy array.
_ARRAYS = (LogicalArray, ArrayRows, ReshapedArray, Constant, Access, np.ndarray)


@dataclass(frozen=True, slots=True)
class _Placeholder:
    """The place of an array in the arguments of a call: the name under which the task passes it."""

    name: str


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call of a function whose array arguments are known when the task runs.

    Parameters
    ----------
    function : callable
        The function.
    positional, keywords : tuple and mapping
        Its arguments, with placeholders for arrays.
    arrays : mapping
        The arrays by the name of their placeholder: arrays of the graph, accesses, constants or values.
    modes : mapping
        Access modes by annotation, of those that have one.
    """

    function: Callable[..., Any]
    positional: tuple[Any, ...]
    keywords: Mapping[str, Any]
    arrays: Mapping[str, Any]
    modes: Mapping[str, AccessMode]

    @classmethod
    def of(cls, function: Callable[..., Any], positional: tuple[Any, ...], keywords: Mapping[str, Any]) -> HostCall:
        """Return the call with these arguments.

        Raises
        ------
        ArgumentError
            If the function does not take them.
        """
        if not callable(function) or isinstance(function, Operation):
            raise ArgumentError(f"submit takes a function and its arguments, not {function!r}")
        names = _bound_names(function, positional, keywords)
        annotations = {name: array_annotation(found) for name, found in annotations_of(function).items()}
        arrays: dict[str, Any] = {}
        modes: dict[str, AccessMode] = {}

        def placed(value: Any, name: str) -> Any:
            if isinstance(value, (list, tuple)) and any(True for _ in _arrays_in(value)):
                return type(value)([placed(each, f"{name}_{index}") for index, each in enumerate(value)])
            if not isinstance(value, _ARRAYS):
                return value
            arrays[name] = value
            annotation = annotations.get(name)
            if annotation is not None:
                modes[name] = annotation.mode
            return _Placeholder(name)

        return cls(
            function,
            tuple(placed(value, name) for value, name in zip(positional, names, strict=True)),
            {name: placed(value, name) for name, value in keywords.items()},
            arrays,
            modes,
        )

    def returning(self, result: str) -> Callable[..., Any]:
        """Return a function of the arrays by name that stores what the function returns in the array ``result``."""
        function, positional, keywords = self.function, self.positional, self.keywords
        names = [given.name for given in positional if isinstance(given, _Placeholder)]
        is_plain = not keywords and len(names) == len(positional)  # all arguments are arrays, and need no look

        @_named(self.function)
        def call(**arrays: Any) -> None:
            out = arrays.pop(result)
            if is_plain:
                value = np.asarray(function(*[arrays[name] for name in names]))
            else:
                value = np.asarray(self._call(arrays))
            if value.shape != out.shape or not (
                value.dtype == out.dtype or np.can_cast(value.dtype, out.dtype, "same_kind")
            ):
                raise ArgumentError(
                    f"{label_of(self.function)} returned {value.dtype.name} of shape {value.shape}, declared is "
                    f"{out.dtype.name} of shape {out.shape}",
                    hint="Declare the result: submit(..., shape=..., dtype=...), or like= an array",
                )
            out[...] = value

        return call

    def _call(self, arrays: Mapping[str, Any]) -> Any:
        def value(given: Any) -> Any:
            if isinstance(given, _Placeholder):
                return arrays[given.name]
            return type(given)(map(value, given)) if type(given) in (list, tuple) else given

        keywords = {name: value(given) for name, given in self.keywords.items()}
        return self.function(*map(value, self.positional), **keywords)


def declared_result(
    function: Callable[..., Any], shape: Any, dtype: Any, like: LogicalArray | None
) -> tuple[tuple[int, ...], Any]:
    """Return shape and dtype of the array for a function's result: as given, else as annotated, else one number."""
    annotation = annotations_of(function).get("return")
    array = array_annotation(annotation)
    if like is not None:
        shape, dtype = (like.shape if shape is None else shape), (like.dtype if dtype is None else dtype)
    if array is not None:
        dtype = array.dtypes[0] if dtype is None and array.dtypes else dtype
        if shape is None:
            if array.shape is None or any(isinstance(extent, str) for extent in array.shape):
                raise ArgumentError(
                    f"the annotation of what {label_of(function)} returns does not say the shape",
                    hint="Give it: submit(..., shape=...), or like= an array",
                )
            shape = array.shape
    elif isinstance(annotation, type) and (issubclass(annotation, np.generic) or annotation in (int, float, bool)):
        dtype = annotation if dtype is None else dtype
    shape = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    return shape, "float64" if dtype is None else dtype


def check_names(function: Callable[..., Any], names: Mapping[str, Any], where: str) -> None:
    """Raise an error if a function does not take arguments of these names."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # functions in C need not say
        return
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise ArgumentError(
            f"{label_of(function)}{signature} does not take arguments of the names {', '.join(names)}: {error}",
            where=where,
            hint="Call the arguments as the function's parameters are called",
        ) from None


def _bound_names(
    function: Callable[..., Any], positional: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return a name for each positional argument: that of its parameter, numbered for ``*args``."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # functions in C need not say
        return tuple(f"argument_{index}" for index in range(len(positional)))
    try:
        signature.bind(*positional, **keywords)
    except TypeError as error:
        raise ArgumentError(f"{label_of(function)}{signature} does not take these arguments: {error}") from None
    named: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            named += [f"{parameter.name}_{index}" for index in range(len(positional) - len(named))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            named.append(parameter.name)
    return tuple(named[: len(positional)])


def _arrays_in(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _arrays_in(each)
    elif isinstance(value, _ARRAYS):
        yield value


def _named(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give the name of one function to another, which stands for it in measurements, too."""

    def give(call: Callable[..., Any]) -> Callable[..., Any]:
        call.__name__ = label_of(function)
        call.__wrapped__ = function  # type: ignore[attr-defined]
        return call

    return give


def label_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the one that a partial function calls."""
    inner = getattr(function, "func", function)
    return str(getattr(function, "__name__", getattr(inner, "__name__", "host"))).strip("<>")
