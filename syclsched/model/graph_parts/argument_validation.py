# SPDX-License-Identifier: Apache-2.0
"""Validation of a task's arguments against its operation's parameters when the task is added."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import numpy as np

from syclsched.errors import ArgumentError, UnknownArrayError, did_you_mean
from syclsched.model.access import Access, AccessMode, RowRange, row_range_name
from syclsched.model.constant import Constant
from syclsched.model.operation import Operation, Parameter, Scalar, Shape, Signature
from syclsched.model.task import ArrayRows, LogicalArray, ReshapedArray, Task
from syclsched.model.text.bulk_objects import opened_class
from syclsched.model.usm import USM_KINDS, UsmKind

#: Values that can be passed for a parameter.
Argument = LogicalArray | ArrayRows | ReshapedArray | Constant | Access | Scalar

#: Returns the declared array of a name, or raises; called with the name and the place for error messages.
Lookup = Callable[[str, str], LogicalArray]


#: Names that a misspelt element type is compared with.
_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
           "float64", "complex64", "complex128")  # fmt: skip
_NO_ROWS: Mapping[str, RowRange] = {}
_NO_CONSTANTS: Mapping[str, Constant] = {}
_NOT_RESHAPED: frozenset[str] = frozenset()

_INTEGERS: frozenset[type] = frozenset((int,))
_OPEN_ACCESS = opened_class(Access)

#: Signatures that are remembered of those that differ in scalars only.
_MAX_ALIKE = 1024


class _BoundArguments(NamedTuple):
    """The validated arguments of a task, as fields of `Task`."""

    accesses: tuple[Access, ...]
    arguments: Mapping[str, str]
    signature: Signature
    rows: Mapping[str, RowRange]
    constants: Mapping[str, Constant]
    reshaped: frozenset[str]


class ArgumentBinder:
    """Binds arguments to the parameters of one operation.

    Most tasks of a graph pass whole arrays, of shapes and dtypes that an earlier task of the operation has passed; what
    was validated for that task is used again.
    """

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._count = len(operation.parameters)
        self._arrays = [(p.name, p.mode) for p in operation.parameters if p.mode is not None]
        self._array_names = [name for name, _ in self._arrays]
        self._scalars = [p.name for p in operation.parameters if p.mode is None]
        self._defaults = {p.name: p.default for p in operation.parameters if p.default is not None}
        #: By shapes and dtypes of the arrays, then by scalars.
        self._signatures: dict[tuple[object, ...], dict[tuple[object, ...], Signature]] = {}

    def bind(
        self,
        given: Mapping[str, Argument],
        arrays: Mapping[str, LogicalArray],
        freed: Mapping[str, int],
        lookup: Lookup,
        task: str,
    ) -> _BoundArguments:
        """Return the validated arguments of a task, as `validate_arguments`; ``arrays`` are those declared."""
        if self._defaults:
            given = {**self._defaults, **given}
        found = self._bind_known(given, arrays)
        if found is not None and (not freed or freed.keys().isdisjoint(found[1].values())):
            return found
        bound = validate_arguments(self._operation, given, lookup, f"task {task!r} ({self._operation.name})")
        if not bound.rows and not bound.reshaped and not bound.constants:
            signature = bound.signature
            key = tuple(
                chain.from_iterable((signature.shapes[name], signature.dtypes[name]) for name in signature.shapes)
            )
            self._signatures.setdefault(key, {}).setdefault(_scalar_key(signature.scalars.values()), signature)
        return bound

    def _bind_known(self, given: Mapping[str, Argument], arrays: Mapping[str, LogicalArray]) -> _BoundArguments | None:
        """Return the arguments if they are whole arrays and plain numbers like those of an earlier task, else None."""
        if len(given) != self._count:
            return None
        touched: list[Access] = []
        names: list[str] = []
        key: list[object] = []
        scalars: dict[str, Scalar] = {}
        try:
            for name, mode in self._arrays:
                value: Any = given[name]
                if type(value) is LogicalArray:
                    array_name = value.name
                    if arrays[array_name] is not value:
                        return None
                    access = _OPEN_ACCESS(array_name, mode, None, None)
                    access.__class__ = Access
                elif type(value) is Access and value.mode is mode and value.rows is None and value.shape is None:
                    array_name, access = value.array, value
                    value = arrays[array_name]
                else:
                    return None
                touched.append(access)
                names.append(array_name)
                key += value.shape, value.dtype
            for name in self._scalars:
                value = given[name]
                if type(value) is not float and type(value) is not int:
                    return None
                scalars[name] = value
        except KeyError:  # of a missing argument, or of an array that is not declared
            return None
        if len(set(names)) < len(names):
            return None
        alike = self._signatures.get(tuple(key))
        signature = None if alike is None else self._signature(alike, scalars)
        if signature is None:
            return None
        arguments = dict(zip(self._array_names, names, strict=True))
        return _BoundArguments(tuple(touched), arguments, signature, _NO_ROWS, _NO_CONSTANTS, _NOT_RESHAPED)

    def _signature(self, alike: dict[tuple[object, ...], Signature], scalars: dict[str, Scalar]) -> Signature | None:
        """Return the signature with these scalars and the arrays of other signatures; None if it is refused."""
        key = _scalar_key(scalars.values())
        found = alike.get(key)
        if found is None:
            other = next(iter(alike.values()))
            found = Signature(other.shapes, other.dtypes, scalars)
            check = self._operation.check
            if check is not None and check(found) is not None:
                return None
            if len(alike) < _MAX_ALIKE:
                alike[key] = found
        return found


def _scalar_key(scalars: Iterable[Scalar]) -> tuple[object, ...]:
    """Return scalars as a key; 1 and 1.0 are different scalars to an operation."""
    values = tuple(scalars)
    return (values, *map(type, values)) if values else values


def validate_arguments(
    operation: Operation, given: Mapping[str, Argument], lookup: Lookup, where: str
) -> _BoundArguments:
    """Validate the arguments of a task, given by parameter name; ``where`` names the task in errors.

    Raise `ArgumentError` if a parameter is missing or unknown, rows do not exist, or a shape, dtype or access mode does
    not match, and `UnknownArrayError` if an array is not declared or has been freed.
    """
    known = {p.name for p in operation.parameters}
    for unknown in sorted(given.keys() - known):
        hint = f"{did_you_mean(unknown, known - given.keys())}It takes {', '.join(sorted(known))}"
        raise ArgumentError(f"unknown argument {unknown!r}", where=where, hint=hint)
    for missing in sorted(known - given.keys()):
        raise ArgumentError(f"argument {missing!r} is missing", where=where)
    accesses: dict[str, dict[RowRange | None, AccessMode]] = {}
    arguments: dict[str, str] = {}
    ranges: dict[str, RowRange] = {}
    shapes: dict[str, Shape] = {}
    dtypes: dict[str, str] = {}
    scalars: dict[str, Scalar] = {}
    constants: dict[str, Constant] = {}
    reshaped: list[str] = []
    for parameter in operation.parameters:
        value = given[parameter.name]
        if parameter.mode is None:
            scalars[parameter.name] = _scalar(value, parameter, where)
            continue
        if isinstance(value, Constant):
            constants[parameter.name] = _constant(value, parameter, where)
            shapes[parameter.name], dtypes[parameter.name] = value.shape, value.dtype
            continue
        array, rows, shape = _array(value, parameter, lookup, where)
        arguments[parameter.name] = array.name
        earlier = accesses.get(array.name)
        if earlier is None:
            accesses[array.name] = {rows: parameter.mode}
        else:
            _check_overlap(array.name, rows, parameter.mode, earlier, where)
            earlier[rows] = parameter.mode
        if shape is not None:
            shapes[parameter.name] = shape
            reshaped.append(parameter.name)
        elif rows is None:
            shapes[parameter.name] = array.shape
        else:
            ranges[parameter.name], shapes[parameter.name] = rows, _row_range_shape(array.shape, rows)
        dtypes[parameter.name] = array.dtype
    signature = Signature(shapes, dtypes, scalars, frozenset(constants))
    _check_signature(operation, signature, where)
    touched = tuple([Access(name, mode, rows) for name, each in accesses.items() for rows, mode in each.items()])
    return _BoundArguments(touched, arguments, signature, ranges, constants, frozenset(reshaped))


def declare_array(
    name: str,
    shape: Iterable[int] | None,
    dtype: Any,
    data: Any,
    *,
    temporary: bool,
    usm: UsmKind | None = None,
    donated: bool = False,
) -> LogicalArray:
    """Make the declaration of an array; ``data`` gives the shape and dtype that are None.

    Without data the default dtype is float64. Raise `ArgumentError` if shape and dtype are missing or invalid, or the
    kind of USM memory does not exist.
    """
    if data is None and usm is None and type(shape) is tuple and isinstance(dtype, str):
        known = _named(dtype)
        if known is not None and set(map(type, shape)) <= _INTEGERS and min(shape, default=0) >= 0:
            return LogicalArray(name, shape, known, temporary, donated=donated)
    where = f"array {name!r}"
    if usm is not None and usm not in USM_KINDS:
        raise ArgumentError(f"no USM memory is of kind {usm!r}", where=where, hint=f"There are {', '.join(USM_KINDS)}")
    if shape is None and data is None:
        raise ArgumentError("neither shape nor data is given", where=where)
    try:
        extent = tuple(int(n) for n in (data.shape if shape is None else shape))
        kind = np.dtype(dtype if dtype is not None else (data.dtype if data is not None else "float64"))
    except (TypeError, ValueError) as error:
        hint = did_you_mean(dtype, _DTYPES).rstrip() or None if isinstance(dtype, str) else None
        raise ArgumentError(f"shape {shape!r} or dtype {dtype!r} is not one", where=where, hint=hint) from error
    if any(n < 0 for n in extent) or kind.hasobject:
        raise ArgumentError(
            f"shape {extent} with dtype {kind.name} cannot lie in device memory",
            where=where,
            hint="Give non-negative extents and a numeric dtype",
        )
    return LogicalArray(name, extent, kind.name, temporary, usm, donated)


def _row_range_shape(shape: Shape, rows: RowRange | None) -> Shape:
    """Return the shape of a range of rows of an array; ``rows`` is None for all rows."""
    return shape if rows is None else (rows[1] - rows[0], *shape[1:])


def matches_signature(task: Task, parameter: str, array: LogicalArray) -> bool:
    """Return whether an array, or its rows that are passed, has the shape and dtype of a task's signature."""
    rows, signature = task.rows.get(parameter), task.signature
    if signature is None or (rows is not None and not (array.shape and 0 <= rows[0] < rows[1] <= array.shape[0])):
        return False
    shape = signature.shapes[parameter]
    if parameter in task.reshaped:
        fits = rows is None and math.prod(array.shape) == math.prod(shape)
    else:
        fits = _row_range_shape(array.shape, rows) == shape
    return fits and array.dtype == signature.dtypes[parameter]


def as_array(value: Any, where: str) -> Any:
    """Return a user's value as a NumPy array, or as it is in USM memory; without a copy where the host can read it.

    Arrays of other libraries are taken by DLPack, else by NumPy's protocols. Raise `ArgumentError` if their memory is
    beyond the host's reach.
    """
    if isinstance(value, np.ndarray) or hasattr(value, "__sycl_usm_array_interface__"):
        return value
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, TypeError, RuntimeError, ValueError) as error:
            raise ArgumentError(
                f"a {type(value).__module__}.{type(value).__name__} cannot be read by the host: {error}",
                where=where,
                hint="Copy it to the host first, for instance by tensor.detach().cpu()",
            ) from None
    return np.asarray(value)


def check_data(array: LogicalArray, data: Any) -> None:
    """Raise `ArgumentError` unless ``data`` has the shape and dtype of ``array``."""
    # Comparing dtypes takes a tenth of the time of comparing their names, which are the same in any byte order.
    same = data.dtype == _dtype(array.dtype) or np.dtype(data.dtype).name == array.dtype
    if not same or tuple(data.shape) != array.shape:
        raise ArgumentError(
            f"data of shape {tuple(data.shape)} and dtype {np.dtype(data.dtype).name} is given for an array "
            f"of shape {array.shape} and dtype {array.dtype}",
            where=f"array {array.name!r}",
        )


@lru_cache(maxsize=256)
def _named(dtype: str) -> str | None:
    """Return the name of a dtype that arrays can have; None if it has to be looked at."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        return None
    return None if kind.hasobject else kind.name


@cache
def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(name)


def _constant(value: Constant, parameter: Parameter, where: str) -> Constant:
    """Return a constant argument; raise `ArgumentError` if the parameter is written."""
    if parameter.mode is not AccessMode.READ:
        assert parameter.mode is not None
        raise ArgumentError(
            f"argument {parameter.name!r} is a {parameter.mode.value} of the operation: it cannot be a constant",
            where=where,
            hint="Give an array of the graph",
        )
    return value


def _array(
    value: object, parameter: Parameter, lookup: Lookup, where: str
) -> tuple[LogicalArray, RowRange | None, Shape | None]:
    """Return the array passed for a parameter, its rows (None for all), and its shape if not its own."""
    shape = value.shape if isinstance(value, (Access, ReshapedArray)) else None
    if isinstance(value, Access):
        declared, rows = lookup(value.array, where), value.rows
        if value.mode is not parameter.mode:
            assert parameter.mode is not None
            raise ArgumentError(
                f"argument {parameter.name!r} is a {parameter.mode.value} of the operation, not a {value.mode.value}",
                where=where,
            )
    elif isinstance(value, (LogicalArray, ArrayRows, ReshapedArray)):
        whole = value if isinstance(value, LogicalArray) else value.array
        rows = value.rows if isinstance(value, ArrayRows) else None
        declared = lookup(whole.name, where)
        if whole is not declared and (whole.shape, whole.dtype) != (declared.shape, declared.dtype):
            raise UnknownArrayError(f"array {whole.name!r} belongs to another graph", where=where)
    else:
        raise ArgumentError(f"argument {parameter.name!r} must be an array of the graph, not {value!r}", where=where)
    where = f"{where}, argument {parameter.name!r}"
    if shape is not None:
        shape = _other_shape(shape, rows, declared, where)
    return declared, None if rows is None else validate_rows(rows, declared, where), shape


def _other_shape(shape: Shape, rows: RowRange | None, array: LogicalArray, where: str) -> Shape | None:
    """Return the shape under which a whole array is passed; None if it is the array's own."""
    if rows is not None:
        raise ArgumentError("rows of an array cannot be passed under another shape", where=where)
    if min(shape, default=0) < 0 or math.prod(shape) != math.prod(array.shape):
        raise ArgumentError(
            f"array {array.name!r} has shape {array.shape}: its elements cannot be seen as {shape}", where=where
        )
    return None if shape == array.shape else shape


def validate_rows(rows: RowRange, array: LogicalArray, where: str) -> RowRange | None:
    """Validate a range of rows; return None if it covers the whole array.

    Raise `ArgumentError` if it is not a range, is empty or exceeds the array; ``where`` names the task or argument.
    """
    start, stop = rows = _range(rows, array, where)
    extent = array.shape[0] if array.shape else 0
    if not 0 <= start <= extent or not 0 <= stop <= extent:
        raise ArgumentError(
            f"{row_range_name(array.name, rows)} is beyond the array, which has {extent} rows",
            where=where,
            hint="Ranges are not cut short as in NumPy: give one within the array",
        )
    if rows == (0, extent):
        return None
    if start >= stop:
        raise ArgumentError(
            f"{row_range_name(array.name, rows)} has no rows",
            where=where,
            hint="Leave the task out where there is nothing to do",
        )
    return rows


def _range(rows: Any, array: LogicalArray, where: str) -> RowRange:
    """Return a user's pair as a range of rows."""
    try:
        start, stop = rows
        if isinstance(start, (bool, np.bool_)) or isinstance(stop, (bool, np.bool_)):
            raise TypeError("truth values are not numbers of rows")
        return operator.index(start), operator.index(stop)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{rows!r} is not a range of rows of array {array.name!r}",
            where=where,
            hint="Give two whole numbers: the first row, and one past the last",
        ) from error


def _check_overlap(
    array: str, rows: RowRange | None, mode: AccessMode, before: Mapping[RowRange | None, AccessMode], where: str
) -> None:
    """Raise `ArgumentError` if rows passed twice to one task are written through one of the two."""
    for taken, earlier in before.items():
        if not (mode.writes or earlier.writes):
            continue
        both = rows or taken
        if rows is not None and taken is not None:
            both = max(rows[0], taken[0]), min(rows[1], taken[1])
            if both[0] >= both[1]:
                continue
        what = f"array {array!r} is" if both is None else f"rows {row_range_name(array, both)} are"
        raise ArgumentError(
            f"{what} passed twice, and one of the two is written",
            where=where,
            hint="Use an operation with a single update parameter, or copy the array first",
        )


def _scalar(value: object, parameter: Parameter, where: str) -> Scalar:
    if isinstance(value, (bool, int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    raise ArgumentError(f"argument {parameter.name!r} must be a number, not {value!r}", where=where)


def _check_signature(operation: Operation, signature: Signature, where: str) -> None:
    """Raise `ArgumentError` if shapes, dtypes or scalars do not fit the operation."""

    def refuse(what: str) -> NoReturn:
        raise ArgumentError(what, where=where)

    for parameter in operation.arrays:
        shape, dtype = signature.shapes[parameter.name], signature.dtypes[parameter.name]
        if parameter.ndim is not None and len(shape) != parameter.ndim:
            refuse(f"argument {parameter.name!r} must have {parameter.ndim} dimensions, its shape is {shape}")
        if parameter.dtypes and dtype not in parameter.dtypes:
            refuse(f"argument {parameter.name!r} must be {' or '.join(parameter.dtypes)}, it is {dtype}")
        if parameter.like is not None and dtype != signature.dtypes[parameter.like]:
            other = signature.dtypes[parameter.like]
            refuse(f"argument {parameter.name!r} must have the dtype of {parameter.like!r} ({other}), it is {dtype}")
    wrong = operation.check(signature) if operation.check is not None else None
    if wrong is not None:
        refuse(wrong)
