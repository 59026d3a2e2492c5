# SPDX-License-Identifier: Apache-2.0
"""Reader of ONNX models: converts a path, bytes or a ModelProto to a checked `Model`."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from syclsched.errors import ModelError, RuntimeMissingError, StorageError
from syclsched.frontends.onnx.model_file.function_inlining import inline_functions
from syclsched.frontends.onnx.model_file.graph_reader import read_graph
from syclsched.frontends.onnx.model_file.inlined_size import check_inlined_size
from syclsched.frontends.onnx.model_file.mapped_files import map_file
from syclsched.frontends.onnx.model_file.model_limits import ModelLimits
from syclsched.frontends.onnx.model_file.onnx_model import Model
from syclsched.frontends.onnx.model_file.raw_data_extraction import MIN_EXTRACTED_BYTES, extract_raw_data
from syclsched.frontends.onnx.model_file.tensor_reader import read_tensor
from syclsched.frontends.onnx.model_file.text_partition import partition

#: Supported versions of ONNX's own operators; the installed package onnx may have fewer.
OPSETS: Final = range(7, 29)
#: Largest protobuf message.
_MESSAGE_BYTES = (1 << 31) - 1
#: Beginning of the text that Git has in place of a large file that was not fetched.
_LFS_POINTER: Final = b"version https://git-lfs."
#: Version of the format since which an initialiser of an input is a default value; before, every constant was an input.
_DEFAULTS_IR: Final = 4


def read_model(source: str | os.PathLike[str] | bytes | Any, *, limits: ModelLimits | None = None) -> Model:
    """Read and check an ONNX model; nothing in it is executed."""
    limits = limits or ModelLimits()
    onnx = _import_onnx()
    folder: Path | None = None
    raw: Mapping[int, memoryview] = {}
    if isinstance(source, onnx.ModelProto):
        proto, where = source, "model"
    elif isinstance(source, bytes | bytearray | memoryview):
        where = "model"
        proto, raw = _parse(onnx, memoryview(bytes(source)), where)
    elif isinstance(source, str | os.PathLike):
        path = Path(os.fspath(source))
        where = str(path)
        proto, raw = _parse(onnx, _read(path, limits), where)
        folder = path.resolve().parent
    else:
        raise ModelError(
            f"a model is given as a path, bytes or an onnx.ModelProto, not as {type(source).__name__}",
            where="model",
            hint="Export a module of PyTorch to a file with torch.onnx.export",
        )
    opsets = _opsets(onnx, proto, where)
    has_defaults = proto.ir_version >= _DEFAULTS_IR
    if proto.functions:
        check_inlined_size(proto, where, limits.nodes)
        proto = inline_functions(onnx, _with_raw_data(proto, raw), where)
        raw = {}
        opsets = _opsets(onnx, proto, where)
    name = proto.graph.name or (Path(where).stem if folder is not None else "") or "model"
    producer = f"{proto.producer_name} {proto.producer_version}".strip()
    tensors = proto.graph.initializer
    split = partition(
        onnx,
        proto.graph,
        opsets,
        where,
        array=lambda number: read_tensor(tensors[number], where, folder, limits, raw.get(number)),
    )
    if split is None:
        graph = read_graph(
            onnx, proto.graph, opsets, where=where, folder=folder, limits=limits, raw=raw, has_defaults=has_defaults
        )
        return Model(name=name, where=where, opsets=opsets, graph=graph, producer=producer)
    left = {number: raw[old] for number, old in enumerate(split.kept) if old in raw}
    graph = read_graph(
        onnx,
        split.rest,
        opsets,
        where=where,
        folder=folder,
        limits=limits,
        raw=left,
        is_part=True,
        has_defaults=has_defaults,
    )
    return Model(name=name, where=where, opsets=opsets, graph=graph, producer=producer, host=split.host)


def _import_onnx() -> Any:
    """Import and return the package ``onnx``; raise `RuntimeMissingError` if that fails."""
    try:
        import onnx
        import onnx.defs
        import onnx.numpy_helper
    except ImportError as error:
        raise RuntimeMissingError(
            f"the package onnx cannot be imported: {error}", hint="pip install 'syclsched[onnx]'"
        ) from error
    return onnx


def _read(path: Path, limits: ModelLimits) -> memoryview:
    try:
        status = os.stat(path)
        _check_size(status.st_size, str(path), limits)
        if stat.S_ISREG(status.st_mode) and status.st_size >= MIN_EXTRACTED_BYTES:
            data = memoryview(map_file(path))
        else:
            with open(path, "rb") as file:
                # A pipe reports no size; reading one byte more than allowed shows whether it is too large.
                data = memoryview(file.read(min(_MESSAGE_BYTES, limits.memory_bytes) + 1))
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise StorageError(f"cannot be read: {reason}", where=str(path), hint="Check the name") from error
    _check_size(len(data), str(path), limits)
    return data


def _check_size(size: int, where: str, limits: ModelLimits) -> None:
    if size > limits.memory_bytes:
        raise ModelError(
            f"{size:,} bytes, more than the {limits.memory_bytes:,} bytes of memory there are", where=where
        )
    if size > _MESSAGE_BYTES:
        raise ModelError(
            f"{size:,} bytes, more than a protobuf message can have ({_MESSAGE_BYTES:,})",
            where=where,
            hint="Save its weights as external data",
        )


def _parse(onnx: Any, data: memoryview, where: str) -> tuple[Any, Mapping[int, memoryview]]:
    """Return the ModelProto, and the raw data that were not copied, by initialiser number."""
    found = extract_raw_data(data)
    parsed, raw = (bytes(data), {}) if found is None else found
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(parsed)
    except Exception as error:  # protobuf's DecodeError is not a public name of every version
        raise ModelError(
            f"it is no ONNX model, or one that was cut short: {len(data):,} bytes that protobuf cannot decode",
            where=where,
            hint=_damage_hint(data),
        ) from error
    if not proto.HasField("graph") or not proto.ir_version:
        what = "it is empty" if not data else "it is no ONNX model: there is no graph in it"
        raise ModelError(what, where=where, hint=_damage_hint(data))
    return proto, raw


def _damage_hint(data: memoryview) -> str:
    if bytes(data[: len(_LFS_POINTER)]) == _LFS_POINTER:
        return "It is a pointer of Git LFS: fetch the model with git lfs pull"
    return "Check that the file was downloaded or copied to its end, and is a model"


def _with_raw_data(proto: Any, raw: Mapping[int, memoryview]) -> Any:
    """Put the extracted raw data back into a ModelProto."""
    for number, data in raw.items():
        proto.graph.initializer[number].raw_data = bytes(data)
    return proto


def _opsets(onnx: Any, proto: Any, where: str) -> dict[str, int]:
    found = {"" if item.domain == "ai.onnx" else item.domain: int(item.version) for item in proto.opset_import}
    used = _domains(proto.graph)
    if "" not in found and "" in used:
        raise ModelError("it does not say which version of ONNX's operators it uses (opset_import)", where=where)
    version = found.get("")
    if version is not None and "" in used and version not in OPSETS:
        newer = version > OPSETS.stop - 1
        raise ModelError(
            f"it uses opset {version}, supported are {OPSETS.start} to {OPSETS.stop - 1}",
            where=where,
            hint="Export it with a lower opset_version, or convert it with onnx.version_converter"
            if newer
            else "Export it with a newer opset_version, or convert it with onnx.version_converter",
        )
    known = onnx.defs.onnx_opset_version()
    if version is not None and "" in used and version > known:
        raise ModelError(
            f"it uses opset {version}, and the package onnx {onnx.__version__} knows those up to {known}",
            where=where,
            hint="Install a newer onnx, or export it with a lower opset_version",
        )
    return found


def _domains(graph: Any) -> set[str]:
    return {"" if node.domain == "ai.onnx" else node.domain for node in graph.node}
