# SPDX-License-Identifier: Apache-2.0
"""Batches of training data: their check against a model's inputs, and loading and copying ahead of the computation."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import numpy as np

from syclsched.devices.memory.resident_array import CopiedArray
from syclsched.errors import ArgumentError
from syclsched.frontends.onnx.model_file.dtypes import numpy_dtype
from syclsched.frontends.onnx.model_file.onnx_model import DeclaredValue

Array = np.ndarray[Any, Any]

#: Batches loaded ahead.
_AHEAD: Final = 2
#: Seconds that a loader may take to end after the last batch that is wanted.
_LOADER_EXIT_S: Final = 1.0

_LOGGER = logging.getLogger("syclsched")


def batch_of(x: Any, y: Any, inputs: Sequence[DeclaredValue], *, copy: bool = False) -> tuple[dict[str, Array], Array]:
    """Return a batch by input of the model in its dtypes, and the target; with ``copy``, in memory of its own.

    Raises `ArgumentError` if inputs are missing or unknown, or cannot be converted.
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
    dtypes = {each.name: numpy_dtype(each.dtype or "float32") for each in inputs}
    values = {name: _array(given[name], dtype, name, copy=copy) for name, dtype in dtypes.items()}
    return values, np.zeros((), np.float32) if y is None else _array(y, None, "y", copy=copy)


def _array(value: Any, dtype: np.dtype[Any] | None, where: str, *, copy: bool) -> Array:
    try:
        found = np.asarray(value)
        if dtype is not None and found.dtype != dtype:
            found = found.astype(dtype, casting="same_kind")
        elif copy:
            found = found.copy()
    except (TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"it is no array of {dtype or 'numbers'}: {error}", where=where) from error
    return np.ascontiguousarray(found) if found.ndim else found


#: A batch: its inputs in the model's order, the target, and those of them by name that a device has already.
Batch = tuple[tuple[Array, ...], Array, Mapping[str, CopiedArray] | None]


class BatchCopier(Protocol):
    """Copies batches to devices."""

    def __call__(self, x: tuple[Array, ...], y: Array) -> Mapping[str, CopiedArray] | None:
        """Return the parts of a batch that are on devices now; None if there are none."""


class LoadedBatches:
    """Batches that are loaded and converted ahead on a thread of its own, and copied to devices on another one.

    Those of a sequence stay as they are. Others are copied: a generator may yield the same arrays with other values.

    Iterate over it once, and `close` it. Errors of the loader are raised after the batches before.
    """

    def __init__(self, batches: Iterable[Any], inputs: Sequence[DeclaredValue], where: str) -> None:
        self._batches, self._inputs, self._where = batches, inputs, where
        self._loaded: queue.Queue[tuple[str, Any]] = queue.Queue(_AHEAD)
        self._stopped = threading.Event()
        self._loading = threading.Thread(target=self._load, name="syclsched batches", daemon=True)
        self._loading.start()
        #: Made when the first copy is requested, with its requests and answers.
        self._copying: threading.Thread | None = None
        self._asked: queue.SimpleQueue[BatchCopier | None] = queue.SimpleQueue()
        self._copied: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._is_asked = False

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches."""
        while True:
            kind, found = self._copied.get() if self._is_asked else self._loaded.get()
            self._is_asked = False
            if kind == "end":
                return
            if kind == "error":
                raise found
            yield found

    def copy_next(self, copy: BatchCopier) -> None:
        """Begin to copy the next batch to devices, as soon as it is loaded; the iteration waits for that."""
        if self._copying is None:
            self._copying = threading.Thread(target=self._copy, name="syclsched copies", daemon=True)
            self._copying.start()
        self._is_asked = True
        self._asked.put(copy)

    def close(self) -> None:
        """End the threads; a loader that waits for something does so later, with its next batch."""
        self._stopped.set()
        self._asked.put(None)
        self._loading.join(_LOADER_EXIT_S)
        if self._loading.is_alive():
            _LOGGER.warning("%s: the loader of batches has not ended yet; its next batch is dropped", self._where)
        if self._copying is not None:
            self._copying.join()

    def _put(self, kind: str, value: Any) -> bool:
        while not self._stopped.is_set():
            try:
                self._loaded.put((kind, value), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def _load(self) -> None:
        copy = not isinstance(self._batches, Sequence)
        try:
            for each in self._batches:
                if not isinstance(each, tuple | list) or len(each) != 2:
                    length = f" of {len(each)}" if isinstance(each, tuple | list) else ""
                    raise ArgumentError(
                        f"a batch is a pair of x and y, not a {type(each).__name__}{length}",
                        where=self._where,
                        hint="Give a list of pairs, [(x, y), ...], or yield them",
                    )
                values, target = batch_of(each[0], each[1], self._inputs, copy=copy)
                if not self._put("batch", (tuple(values.values()), target, None)):
                    return
        except BaseException as error:
            self._put("error", error)
        else:
            self._put("end", None)

    def _copy(self) -> None:
        while (copy := self._asked.get()) is not None:
            kind, found = self._take()
            if kind == "batch":
                try:
                    found = (*found[:2], copy(*found[:2]))
                except BaseException as error:
                    kind, found = "error", error
            self._copied.put((kind, found))

    def _take(self) -> tuple[str, Any]:
        while not self._stopped.is_set():
            with suppress(queue.Empty):
                return self._loaded.get(timeout=0.1)
        return "end", None
