# SPDX-License-Identifier: Apache-2.0
"""Writing of trained models: the ONNX model as it was given, with new values of its initialisers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from syclsched.atomic_write import write_atomically
from syclsched.errors import StorageError

Array = np.ndarray[Any, Any]


def save_model(source: Any, values: Mapping[str, Array], path: str | os.PathLike[str]) -> None:
    """Write a model with given values of its initialisers, whole or not at all.

    Raises `StorageError` if the file cannot be written, or would be too large for ONNX without external data.
    """
    import onnx
    from onnx import numpy_helper

    where = str(path)
    try:
        if isinstance(source, bytes):
            model = onnx.load_from_string(source)
        elif isinstance(source, str | os.PathLike):
            model = onnx.load(os.fspath(source))
        else:
            model = onnx.ModelProto()
            model.CopyFrom(source)
    except OSError as error:
        raise StorageError(f"the model cannot be read again: {error.strerror or error}", where=str(source)) from error
    for tensor in model.graph.initializer:
        if tensor.name in values:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(values[tensor.name]), tensor.name))
    for sparse in [each for each in model.graph.sparse_initializer if each.values.name in values]:
        tensor = numpy_helper.from_array(np.ascontiguousarray(values[sparse.values.name]), sparse.values.name)
        model.graph.initializer.append(tensor)
        model.graph.sparse_initializer.remove(sparse)
    try:
        content = model.SerializeToString()
    except ValueError as error:
        raise StorageError("the model exceeds the 2 GiB of an ONNX file", where=where) from error
    try:
        write_atomically(Path(path), content, lasting=True)
    except OSError as error:
        raise StorageError(f"the model cannot be written: {error.strerror or error}", where=where) from error
