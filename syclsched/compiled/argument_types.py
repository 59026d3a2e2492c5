# SPDX-License-Identifier: Apache-2.0
"""Types of arguments of compiled functions as plain data, which can be stored as JSON.

A number is its dtype's name, nothing is ``none``, an array is ``["array", dtype, dimensions, layout, writeable]`` and a
tuple ``["tuple", class, [types]]``. The dtype of a structure is ``["structure", item size, aligned, [[name, dtype,
offset]]]``, that of an array in it ``["items", dtype, shape]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def type_of(value: Any) -> Any:
    """Return the type of an argument."""
    import numpy as np  # not before it is needed: the doctor works where it is broken

    if value is None:
        return "none"
    if type(value) in (np.ndarray, np.recarray):
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return ["array", _dtype(value.dtype), value.ndim, layout, bool(flags.writeable)]
    if isinstance(value, np.generic):
        return value.dtype.name
    if isinstance(value, tuple):
        return ["tuple", _class_name(type(value)), [type_of(each) for each in value]]
    return {bool: "bool", int: "int64", float: "float64"}.get(type(value), f"other:{_class_name(type(value))}")


def types_of(value: Any) -> Iterator[Any]:
    """Yield the classes and dtypes of an argument: what a fingerprint has addresses of."""
    import numpy as np

    yield type(value)
    if isinstance(value, np.ndarray):
        yield value.dtype
    elif isinstance(value, tuple):
        for each in value:
            yield from types_of(each)


def _class_name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _dtype(dtype: np.dtype[Any]) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return ["items", _dtype(base), list(shape)]
    if dtype.names is None:
        return dtype.str
    fields = [[name, _dtype(dtype.fields[name][0]), dtype.fields[name][1]] for name in dtype.names]  # type: ignore[index]
    return ["structure", dtype.itemsize, bool(dtype.isalignedstruct), fields]
