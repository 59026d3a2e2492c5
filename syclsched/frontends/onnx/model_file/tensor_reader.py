# SPDX-License-Identifier: Apache-2.0
"""Conversion of ONNX tensors, in the model or in external files, to checked read-only NumPy arrays."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from syclsched.errors import ModelError
from syclsched.frontends.onnx.model_file.dtypes import (
    DTYPES,
    NARROW_FLOATS,
    NARROW_INTEGERS,
    element_type_name,
    numpy_dtype,
)
from syclsched.frontends.onnx.model_file.mapped_files import map_file
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits

Array = np.ndarray[Any, Any]

#: Field of TensorProto for each dtype, if the data are not raw.
_FIELDS = {
    **dict.fromkeys(("uint8", "int8", "uint16", "int16", "int32", "bool", "float16"), "int32_data"),
    "float32": "float_data",
    "float64": "double_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
}


def read_tensor(tensor: Any, where: str, folder: Path | None, limits: ModelLimits, raw: Any = None) -> Array:
    """Convert a TensorProto to an array."""
    dtype, shape = _tensor_type(tensor.data_type, tensor.dims, where, limits)
    if dtype.name in NARROW_FLOATS or dtype.name in NARROW_INTEGERS:
        return _read_narrow(tensor, dtype, shape, where, folder, raw)
    nbytes = math.prod(shape) * dtype.itemsize
    if tensor.data_location == 1:
        array = _external(tensor, dtype, shape, where, folder)
    elif raw is not None or tensor.HasField("raw_data"):
        raw = tensor.raw_data if raw is None else raw
        if len(raw) != nbytes:
            raise ModelError(f"{len(raw):,} bytes of data, expected {nbytes:,} for {dtype} {shape}", where=where)
        array = np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)
    else:
        numbers = getattr(tensor, _FIELDS[dtype.name])
        if len(numbers) != math.prod(shape):
            raise ModelError(f"{len(numbers):,} elements, expected {math.prod(shape):,} for shape {shape}", where=where)
        if dtype == np.float16:
            bits = np.array(numbers, np.int64).astype(np.uint16)
            array = bits.view(np.float16).reshape(shape)
        else:
            array = np.array(numbers, dtype if dtype.kind == "f" else None).astype(dtype).reshape(shape)
    if dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        array = array.view(np.uint8) != 0
    array.flags.writeable = False
    return array


def _read_narrow(
    tensor: Any, dtype: np.dtype[Any], shape: tuple[int, ...], where: str, folder: Path | None, raw: Any
) -> Array:
    """Convert a TensorProto of a type that NumPy lacks; of those of 2 and 4 bits, several are in a byte."""
    count = math.prod(shape)
    bits = NARROW_INTEGERS.get(dtype.name, 4 if dtype.name == "float4_e2m1fn" else 8 * dtype.itemsize)
    stored, expected = np.dtype(np.uint16 if bits == 16 else np.uint8), -(-count * bits // 8)
    if dtype.name.startswith("float6"):
        raise ModelError("stored elements of float6 are not supported", where=where, hint="Store them as float32")
    if tensor.data_location == 1:
        data = _external(tensor, np.dtype(np.uint8), (expected,), where, folder).tobytes()
    elif raw is not None or tensor.HasField("raw_data"):
        data = bytes(tensor.raw_data if raw is None else raw)
    else:
        data = np.array(tensor.int32_data, np.int64).astype(stored.newbyteorder("<")).tobytes()
    if len(data) != expected:
        raise ModelError(f"{len(data):,} bytes of data, expected {expected:,} for {dtype} {shape}", where=where)
    found: Any = np.frombuffer(data, stored.newbyteorder("<")).astype(stored, copy=False)
    if bits < 8:
        parts = [(found >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
        found = np.stack(parts, axis=1).reshape(-1)[:count].astype(np.uint8)
    if dtype.name in NARROW_INTEGERS:
        numbers = found.astype(np.int8)
        if dtype.name.startswith("int"):
            numbers = (numbers ^ (1 << (bits - 1))) - (1 << (bits - 1))
        array: Array = numbers.astype(dtype).reshape(shape)
    else:
        array = found.view(dtype).reshape(shape)
    array.flags.writeable = False
    return array


def read_sparse(tensor: Any, where: str, folder: Path | None, limits: ModelLimits) -> Array:
    """Convert a SparseTensorProto to a dense array; see `read_tensor`."""
    values = read_tensor(tensor.values, where, folder, limits)
    indices = read_tensor(tensor.indices, where, folder, limits)
    dtype, shape = _tensor_type(tensor.values.data_type, tensor.dims, where, limits)
    if math.prod(shape) * dtype.itemsize > limits.folded_bytes:
        raise ModelError(
            f"a sparse tensor of {math.prod(shape):,} elements, of which at most "
            f"{limits.folded_bytes // dtype.itemsize:,} are accepted",
            where=where,
        )
    if indices.ndim == 2 and indices.shape[1] == len(shape):
        bounds = np.array(shape)
        if indices.size and ((indices < 0) | (indices >= bounds)).any():
            raise ModelError("an index of a sparse tensor lies outside it", where=where)
        flat = np.ravel_multi_index(tuple(indices.T), shape) if len(shape) else np.zeros(0, np.int64)
    else:
        flat = indices.reshape(-1)
    if len(flat) != values.size or (len(flat) and (flat.min() < 0 or flat.max() >= math.prod(shape))):
        raise ModelError("the indices of a sparse tensor do not fit its values or its shape", where=where)
    array = np.zeros(shape, dtype)
    array.reshape(-1)[flat] = values.reshape(-1)
    array.flags.writeable = False
    return array


def _tensor_type(data_type: int, dims: Any, where: str, limits: ModelLimits) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the checked dtype and shape of a tensor."""
    if data_type not in DTYPES:
        raise ModelError(
            f"elements are of type {element_type_name(data_type)}, which is not supported",
            where=where,
            hint=f"Supported: {', '.join(DTYPES.values())}",
        )
    dtype, shape = numpy_dtype(DTYPES[data_type]), tuple(int(n) for n in dims)
    if any(n < 0 for n in shape):
        raise ModelError(f"an extent of shape {shape} is negative", where=where)
    if len(shape) > limits.dimensions:
        raise ModelError(f"{len(shape)} dimensions, at most {limits.dimensions} are supported", where=where)
    if math.prod(shape) * dtype.itemsize > limits.memory_bytes:
        raise ModelError(
            f"{dtype} {shape} is {math.prod(shape) * dtype.itemsize:,} bytes, more than the "
            f"{limits.memory_bytes:,} bytes there are",
            where=where,
        )
    return dtype, shape


def _external(tensor: Any, dtype: np.dtype[Any], shape: tuple[int, ...], where: str, folder: Path | None) -> Array:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ModelError(
            f"its data are in the file {location!r}, and a model given as bytes has no folder",
            where=where,
            hint="Give the model by its file's name",
        )
    path = _inside(folder, location, where)
    nbytes = math.prod(shape) * dtype.itemsize
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", nbytes))
    except ValueError:
        raise ModelError("offset or length of its external data is not a number", where=where) from None
    if length != nbytes:
        raise ModelError(f"{length:,} bytes of external data, expected {nbytes:,} for {dtype} {shape}", where=where)
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"its external data {location!r} cannot be read: {reason}", where=where) from None
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"its external data {location!r} are not an ordinary file", where=where)
    if offset < 0 or offset + nbytes > status.st_size:
        raise ModelError(
            f"bytes {offset:,} to {offset + nbytes:,} of {location!r} are its data, but the file has "
            f"{status.st_size:,} bytes",
            where=where,
        )
    if nbytes == 0:
        return np.empty(shape, dtype)
    try:
        found = np.frombuffer(map_file(path), dtype.newbyteorder("<"), math.prod(shape), offset)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"its external data {location!r} cannot be read: {reason}", where=where) from None
    return found.astype(dtype, copy=False).reshape(shape)


def _inside(folder: Path, location: str, where: str) -> Path:
    """Return a file's path with links resolved; raise `ModelError` if it is outside the folder."""
    refused = ModelError(
        f"its data are said to be in {location!r}, which is outside the model's folder",
        where=where,
        hint="External data must lie beside the model or below",
    )
    if not location or "\0" in location:
        raise ModelError(f"{location!r} is no name of a file with external data", where=where)
    if os.path.isabs(location) or ".." in Path(location).parts:
        raise refused
    home = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(home, location))
    if os.path.commonpath([home, path]) != home:
        raise refused
    return Path(path)
