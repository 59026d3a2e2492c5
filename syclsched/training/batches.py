# SPDX-License-Identifier: Apache-2.0
"""Batches of training data: their check against a model's inputs, and loading ahead of the computation."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.model_file.dtypes import numpy_dtype
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue

Array = np.ndarray[Any, Any]

#: Batches loaded ahead.
_AHEAD: Final = 2


def batch_of(x: Any, y: Any, inputs: Sequence[DeclaredValue]) -> tuple[dict[str, Array], Array]:
    """Return a batch by input of the model in its dtypes, and the target.

    Raises
    ------
    ArgumentError
        If inputs are missing or unknown, or cannot be converted.
    """
    names = [each.name for each in inputs]
    if isinstance(x, Mapping):
        given = dict(x)
    else:
        parts = x if isinstance(x, tuple) else (x,)
        if len(parts) > len(names):
            raise ArgumentError(
                f"{len(parts)} inputs are given, and the model takes {len(names)}",
                where="x",
                hint=f"They are {', '.join(names)}",
            )
        given = dict(zip(names, parts, strict=False))
    missing, unknown = [name for name in names if name not in given], [str(name) for name in given if name not in names]
    if missing or unknown:
        raise ArgumentError(
            f"no value is given for {missing[0]!r}" if missing else f"the model has no input {unknown[0]!r}",
            where="x",
            hint=f"Its inputs are {', '.join(names)}",
        )
    values = {each.name: _array(given[each.name], numpy_dtype(each.dtype or "float32"), each.name) for each in inputs}
    return values, np.zeros((), np.float32) if y is None else _array(y, None, "y")


def _array(value: Any, dtype: np.dtype[Any] | None, where: str) -> Array:
    try:
        found = np.asarray(value)
        if dtype is not None and found.dtype != dtype:
            found = found.astype(dtype, casting="same_kind")
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"it is no array of {dtype or 'numbers'}: {error}", where=where) from error
    return np.ascontiguousarray(found) if found.ndim else found


def ahead(
    batches: Iterable[Any], inputs: Sequence[DeclaredValue], where: str
) -> Iterator[tuple[dict[str, Array], Array]]:
    """Yield what `batch_of` makes of pairs of x and y, those to come on a thread of their own; its errors come here."""
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(_AHEAD)
    stopped = threading.Event()

    def put(kind: str, value: Any) -> bool:
        while not stopped.is_set():
            try:
                waiting.put((kind, value), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def load() -> None:
        try:
            for each in batches:
                if not isinstance(each, tuple | list) or len(each) != 2:
                    raise ArgumentError(
                        f"a batch is a pair of x and y, not a {type(each).__name__}", where=where, hint="Yield (x, y)"
                    )
                if not put("batch", batch_of(each[0], each[1], inputs)):
                    return
        except BaseException as error:
            put("error", error)
        else:
            put("end", None)

    thread = threading.Thread(target=load, name="syclsched batches", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stopped.set()
        thread.join()
