# SPDX-License-Identifier: Apache-2.0
"""Large weights mapped from the model's file: equal values, no memory of their own, an error if the file changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the models are ONNX models")

from onnx import ModelProto, TensorProto, helper, numpy_helper
from support.small_models import imported, model_of

from syclsched.errors import ModelError, StorageError
from syclsched.frontends.onnx.model_file.mapped_files import mapped_location
from syclsched.frontends.onnx.model_file.model_reader import read_model
from syclsched.frontends.onnx.model_file.raw_data_extraction import MIN_EXTRACTED_BYTES, extract_raw_data
from syclsched.frontends.onnx.model_file.shared_constants import shared_constant

SIZE = 200
WEIGHTS = {name: np.random.default_rng(n).random((SIZE, SIZE), np.float32) for n, name in enumerate(("a", "bb", "c"))}


def product() -> ModelProto:
    """Return x @ a @ bb @ c + d: three large weights, and a small one."""
    nodes = [
        helper.make_node("MatMul", [x, w], [y]) for x, w, y in (("x", "a", "p"), ("p", "bb", "q"), ("q", "c", "r"))
    ]
    constants = {**WEIGHTS, "d": np.ones(SIZE, np.float32)}
    return model_of([*nodes, helper.make_node("Add", ["r", "d"], ["y"])], {"x": (1, SIZE)}, ["y"], constants)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "m.onnx"
    found.write_bytes(product().SerializeToString())
    return found


def test_only_large_weights_are_views_of_the_file(path: Path) -> None:
    found = read_model(path).graph.initialisers
    for name, value in WEIGHTS.items():
        assert np.array_equal(found[name], value) and not found[name].flags.writeable
        _, offset = mapped_location(found[name])
        assert path.read_bytes()[offset : offset + value.nbytes] == value.tobytes()
    assert mapped_location(found["d"]) is None and (found["d"] == 1).all()


def test_file_of_many_weights_is_opened_once(path: Path) -> None:
    def opened() -> int:
        return sum(os.path.realpath(f"/proc/self/fd/{each}") == str(path) for each in os.listdir("/proc/self/fd"))

    first, second = read_model(path), read_model(path)
    files = {mapped_location(m.graph.initialisers[name])[0] for m in (first, second) for name in WEIGHTS}
    assert len(files) == 1 and opened() <= 2  # the mapped file, and the buffers that read it
    del files, first, second
    assert opened() == 0


def test_mapped_constants_hold_no_memory_and_are_shared_by_imports(path: Path) -> None:
    model = read_model(path)
    first, again = (imported_constants(model) for _ in range(2))
    for name, value in WEIGHTS.items():
        one = first[name]
        assert one is again[name] and one.host_bytes == 0
        held = one.data
        assert np.array_equal(held, value) and held.flags.aligned and not held.flags.writeable
        assert mapped_location(held) is None and held is one.data and one.host_bytes == value.nbytes
        del held
        assert one.host_bytes == 0
        part = one.part((3, 9))
        assert np.array_equal(part.data, value[3:9])
        assert part.host_bytes == one.host_bytes == 0
        assert np.array_equal(one.reshaped((SIZE * SIZE,)).data, value.reshape(-1))


def imported_constants(model: Any) -> dict[str, Any]:
    from syclsched.frontends.onnx.importing import import_model

    constants = import_model(model).constants
    return {name: shared_constant(constants[name], name) for name in WEIGHTS}


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_gone_or_has_a_successor_is_still_read(path: Path, how: str) -> None:
    constants = imported_constants(read_model(path))
    if how == "deleted":
        path.unlink()
    else:
        other = path.with_suffix(".new")
        other.write_bytes(b"other")
        other.rename(path)
    for name, value in WEIGHTS.items():
        assert np.array_equal(constants[name].data, value)


@pytest.mark.parametrize("how", ["written to", "cut short", "cut short, and the time set back"])
def test_a_file_that_was_changed_is_an_error_and_no_crash(path: Path, how: str) -> None:
    model = read_model(path)
    constants = imported_constants(model)
    status = os.stat(path)
    with open(path, "r+b") as file:
        if how == "written to":
            file.seek(status.st_size // 2)
            file.write(b"\0" * 8)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # timestamps of files are coarse
        else:
            file.truncate(10)
    if how == "cut short, and the time set back":
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for name in WEIGHTS:
        with pytest.raises(StorageError, match=r"m\.onnx: the file was changed"):
            _ = constants[name].data


def padded(count: int) -> bytes:
    model = product()
    model.producer_name = "p" * count
    return model.SerializeToString()


def test_unaligned_numbers_in_bytes_are_returned_aligned() -> None:
    for pad in range(4):
        constants = imported_constants(read_model(padded(pad)))
        for name, value in WEIGHTS.items():
            assert np.array_equal(constants[name].data, value) and constants[name].data.flags.aligned


# --- which initialisers are mapped ------------------------------------------------------------------


def put_back(found: Any) -> ModelProto:
    proto = ModelProto.FromString(found[0])
    for number, raw in found[1].items():
        proto.graph.initializer[number].raw_data = bytes(raw)
    return proto


def test_extracted_data_and_the_rest_form_the_model() -> None:
    model = product()
    found = extract_raw_data(memoryview(model.SerializeToString()))
    assert put_back(found) == model
    assert len(found[0]) < MIN_EXTRACTED_BYTES and sorted(found[1]) == [0, 1, 2]


def test_fields_around_raw_data_are_kept(tmp_path: Path) -> None:
    model = product()
    model.graph.initializer[1].doc_string = "before or behind"
    model.graph.doc_string = "of the graph"
    model.doc_string = "of the model"
    assert put_back(extract_raw_data(memoryview(model.SerializeToString()))) == model


def test_damaged_models_are_refused_as_before() -> None:
    whole = product().SerializeToString()
    random = np.random.default_rng(7)
    ends = [*range(64), *random.integers(64, len(whole), 60)]
    damaged = [whole[:end] for end in ends]
    for _ in range(200):
        changed = bytearray(whole)
        changed[int(random.integers(0, 120))] = int(random.integers(0, 256))
        damaged.append(bytes(changed))
    for each in damaged:
        found = extract_raw_data(memoryview(each))
        try:
            plain = ModelProto.FromString(each)
        except Exception:
            with pytest.raises(ModelError):
                read_model(each)
            continue
        if found is not None:
            assert put_back(found).SerializeToString() == plain.SerializeToString()


def field(number: int, content: bytes) -> bytes:
    """Return a message's field in protobuf's encoding."""
    size, head = len(content), bytearray([number << 3 | 2])
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes([*head, size]) + content


def test_repeated_raw_data_are_read_by_protobuf() -> None:
    model = product()
    tensor = model.graph.initializer[0].SerializeToString()
    twice = TensorProto(raw_data=b"\1" * model.graph.initializer[0].ByteSize()).SerializeToString()
    assert extract_raw_data(memoryview(field(7, field(5, tensor)))) is not None
    assert extract_raw_data(memoryview(field(7, field(5, tensor + twice)))) is None
    merged = model.SerializeToString() + ModelProto(graph={"doc_string": "more"}).SerializeToString()
    assert extract_raw_data(memoryview(merged)) is None
    assert read_model(merged).graph.initialisers["a"].tobytes() == WEIGHTS["a"].tobytes()


def test_a_wrong_size_of_extracted_data_is_refused(path: Path) -> None:
    model = product()
    model.graph.initializer[1].dims[0] += 1
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"160,000 bytes of data, expected 160,800"):
        read_model(path)


def test_functions_are_inlined_with_their_weights(path: Path) -> None:
    model = product()
    inner = helper.make_function(
        "own", "Twice", ["u"], ["v"], [helper.make_node("Add", ["u", "u"], ["v"])], [helper.make_opsetid("", 17)]
    )
    model.functions.append(inner)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node.append(helper.make_node("Twice", ["y"], ["z"], domain="own"))
    path.write_bytes(model.SerializeToString())
    found = read_model(path).graph.initialisers
    assert all(np.array_equal(found[name], value) for name, value in WEIGHTS.items())


def test_a_network_of_mapped_weights_has_equal_results(path: Path) -> None:
    from support.host_evaluation import evaluate

    x = {"x": np.ones((1, SIZE), np.float32)}
    of_file, of_proto = imported(path), imported(product())
    assert np.array_equal(evaluate(of_file, x)["y"], evaluate(of_proto, x)["y"])


def test_sparse_and_typed_weights_are_read_as_before(path: Path) -> None:
    model = product()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.float_data.extend(WEIGHTS["a"].reshape(-1).tolist())
    path.write_bytes(model.SerializeToString())
    found = read_model(path).graph.initialisers["a"]
    assert np.array_equal(found, WEIGHTS["a"]) and mapped_location(found) is None
    assert numpy_helper.to_array(tensor).shape == found.shape
