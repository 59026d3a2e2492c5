# SPDX-License-Identifier: Apache-2.0
"""Element types that NumPy lacks (bfloat16, float8, int4 and others): storage, moves, conversions and arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="the package ml_dtypes is not installed")

from onnx import TensorProto, helper  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402
from support.small_models import imported, model_of  # noqa: E402

import syclsched  # noqa: E402
from syclsched.errors import ModelError  # noqa: E402
from syclsched.frontends.onnx.model_file.dtypes import (  # noqa: E402
    NARROW_FLOATS,
    NARROW_INTEGERS,
    NUMBERS,
    carrier,
    numpy_dtype,
)

node = helper.make_node
OPSET = onnx.defs.onnx_opset_version()
#: The types that the installed onnx supports.
KNOWN = [name for name in (*NARROW_FLOATS, *NARROW_INTEGERS) if NUMBERS[name] in TensorProto.DataType.values()]
STORED = [name for name in KNOWN if not name.startswith("float6")]


def needing(*names: str) -> list[str]:
    """Return those of some types that Cast supports in the installed onnx."""
    (schema,) = [each for each in onnx.defs.get_schema("Cast", OPSET).type_constraints if each.type_param_str == "T2"]
    allowed = {text.removeprefix("tensor(").rstrip(")").upper() for text in schema.allowed_type_strs}
    return [name for name in names if TensorProto.DataType.Name(NUMBERS[name]) in allowed]


def numbers() -> np.ndarray[Any, Any]:
    """Return numbers of all magnitudes, ties between neighbours, and special values."""
    random = np.random.default_rng(3)
    sizes = np.exp2(random.uniform(-140, 127, 3000)) * random.choice([-1, 1], 3000)
    small = random.uniform(-500, 500, 2000)
    ties = (random.integers(-512, 512, 2000) + 0.5) * np.exp2(random.integers(-20, 20, 2000))
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 3.4e38, 448, 464, 480, 57344, 61440, 65536, 240, 248]
    return np.concatenate([sizes, small, ties, special]).astype(np.float32)


@pytest.mark.parametrize("element", needing(*(name for name in KNOWN if name in NARROW_FLOATS)))
@pytest.mark.parametrize("saturate", [0, 1])
def test_casts_round_as_ml_dtypes_does(element: str, saturate: int) -> None:
    flags = {} if element in ("bfloat16", "float4_e2m1fn") else {"saturate": saturate}
    x, dtype = numbers(), numpy_dtype(element)
    model = model_of(
        [node("Cast", ["x"], ["y"], to=NUMBERS[element], **flags), node("Cast", ["y"], ["z"], to=1)],
        {"x": x.shape},
        ["z"],
        opset=OPSET,
    )
    (got,) = evaluate(imported(model), {"x": x}).values()
    most = float(ml_dtypes.finfo(dtype).max)
    cut = element != "bfloat16" and (saturate or NARROW_FLOATS[element].beyond is None)
    want = (np.clip(x, -most, most) if cut else x).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(got[~np.isnan(x)], want[~np.isnan(x)])


@pytest.mark.parametrize("element", STORED)
@pytest.mark.parametrize("raw", [True, False])
def test_stored_elements_are_read_and_moved_without_rounding(element: str, raw: bool) -> None:
    dtype = numpy_dtype(element)
    low, high = (-2, 2) if element in ("int2", "int4") else (0, 4)
    values = np.random.default_rng(1).integers(low, high, (3, 5)).astype(np.float32).astype(dtype)
    bits = NARROW_INTEGERS.get(element, 4 if element == "float4_e2m1fn" else 8 * dtype.itemsize)
    codes = values.reshape(-1).view(np.uint16 if bits == 16 else np.uint8) & ((1 << bits) - 1)
    if bits < 8:
        per = 8 // bits
        padded = np.pad(codes, (0, -codes.size % per)).reshape(-1, per)
        codes = (padded << (np.arange(per) * bits)).sum(axis=1).astype(np.uint8)
    tensor = TensorProto(name="w", data_type=NUMBERS[element], dims=values.shape)
    if raw:
        tensor.raw_data = codes.tobytes()
    else:
        tensor.int32_data.extend(codes.tolist())
    nodes = [
        node("Transpose", ["w"], ["a"]),
        node("Reshape", ["a", "shape"], ["b"]),
        node("Identity", ["b"], ["y"]),
    ]
    model = model_of(nodes, {}, ["y"], {"shape": np.array([15])}, opset=OPSET, dtypes={"y": NUMBERS[element]})
    model.graph.initializer.append(tensor)
    network = imported(model)
    (got,) = evaluate(network, {}).values()
    assert got.dtype == dtype and network.values["y"].dtype == carrier(element)
    np.testing.assert_array_equal(got.astype(np.float32), values.T.reshape(15).astype(np.float32))


def test_stored_elements_must_be_all_there() -> None:
    model = model_of([node("Identity", ["w"], ["y"])], {}, ["y"], opset=OPSET, dtypes={"y": TensorProto.INT4})
    model.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.INT4, dims=[5], raw_data=b"ab"))
    with pytest.raises(ModelError, match=r"2 bytes of data, expected 3 for int4 \(5,\)"):
        imported(model)


@pytest.mark.sycl
def test_bfloat16_model_computes_in_float32() -> None:
    dtype, random = numpy_dtype("bfloat16"), np.random.default_rng(2)
    x, w = random.standard_normal((4, 8)).astype(dtype), random.standard_normal((8, 3)).astype(dtype)
    model = model_of(
        [node("MatMul", ["x", "w"], ["p"]), node("Relu", ["p"], ["y"])],
        {"x": ("n", 8)},
        ["y"],
        opset=OPSET,
        dtypes={"x": TensorProto.BFLOAT16, "y": TensorProto.BFLOAT16},
    )
    stored = w.view(np.uint16).tobytes()
    model.graph.initializer.append(TensorProto(name="w", data_type=16, dims=w.shape, raw_data=stored))
    want = np.maximum(x.astype(np.float32) @ w.astype(np.float32), 0).astype(dtype)
    with syclsched.compile(model, devices="cpu", autotune=False) as compiled:
        for _ in range(3):  # the third call would be a cached one
            got = compiled(x)["y"]
            assert got.dtype == dtype
            np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2**-7)


def test_bits_of_narrow_elements_are_refused() -> None:
    pytest.importorskip("onnx.reference.ops.op_bitcast", reason="the package onnx has no BitCast")
    cast = node("BitCast", ["x"], ["y"], name="bits7", to=TensorProto.UINT16)
    model = model_of([cast], {"x": (2,)}, ["y"], opset=OPSET, dtypes={"x": 16, "y": TensorProto.UINT16})
    with pytest.raises(ModelError, match=r"'bits7'.*bits of bfloat16"):
        imported(model)


@pytest.mark.parametrize("operator", ["Loop", "If"])
def test_values_of_bodies_are_rounded(operator: str) -> None:
    kind = NUMBERS["bfloat16"]
    value = lambda name, shape=(2,), of=kind: helper.make_tensor_value_info(name, of, shape)  # noqa: E731
    weights = [helper.make_tensor("w", kind, (2,), [1.013, 1.03])]
    if operator == "Loop":
        step = [node("Mul", ["h", "w"], ["h1"]), node("Identity", ["c"], ["d"])]
        body = helper.make_graph(
            step, "body", [value("i", (), 7), value("c", (), 9), value("h")], [value("d", (), 9), value("h1")]
        )
        nodes = [node("Loop", ["n", "", "x"], ["y"], body=body)]
    else:
        branches = [
            helper.make_graph(
                [node("Mul", ["x", "w"], [f"y{i}"])] if i else [node("Add", ["x", "w"], ["y0"])],
                "b",
                [],
                [value(f"y{i}")],
            )
            for i in range(2)
        ]
        nodes = [
            node("Cast", ["x"], ["f"], to=1),
            node("ReduceSum", ["f"], ["s"], keepdims=0),
            node("Greater", ["s", "zero"], ["c"]),
            node("If", ["c"], ["z"], then_branch=branches[1], else_branch=branches[0]),
            node("Mul", ["z", "w"], ["y"]),
        ]
    constants = [helper.make_tensor("n", 7, (), [20]), helper.make_tensor("zero", 1, (), [0.0])]
    made = helper.make_graph(nodes, "g", [value("x")], [value("y")], [*weights, *constants])
    made = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    x = np.array([1.0, 1.1], np.float32).astype(numpy_dtype("bfloat16"))
    w = np.array([1.013, 1.03], np.float32).astype(x.dtype)
    wanted = x * w * w  # the branch of a positive sum
    if operator == "Loop":
        wanted = x
        for _ in range(20):
            wanted = wanted * w
    got = evaluate(imported(made), {"x": x.astype(np.float32)})["y"]
    assert got.dtype == x.dtype
    assert np.array_equal(got.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("operator", ["Loop", "Scan"])
@pytest.mark.parametrize("rounds", [0, 2, 6])
def test_scan_outputs_have_the_shape_of_their_elements(operator: str, rounds: int) -> None:
    """Without a round the shape was (0,)."""
    kind = NUMBERS["bfloat16"]
    value = lambda name, shape=None, of=kind: helper.make_tensor_value_info(name, of, shape)  # noqa: E731
    if operator == "Loop":
        step = [node("Mul", ["h", "w"], ["h1"]), node("Add", ["h1", "x"], ["each"]), node("Identity", ["c"], ["d"])]
        inputs, outputs = [value("i", (), 7), value("c", (), 9), value("h")], [value("d", (), 9)]
        body = helper.make_graph(step, "body", inputs, [*outputs, value("h1"), value("each")])
        nodes = [node("Loop", ["n", "", "x"], ["last", "y"], body=body)]
    else:
        step = [node("Mul", ["s", "s"], ["p"]), node("Mul", ["p", "s"], ["each"])]
        body = helper.make_graph(step, "body", [value("s")], [value("each")])
        nodes = [node("Scan", ["z"], ["y"], body=body, num_scan_inputs=1, scan_output_axes=[1])]
        nodes.append(node("Identity", ["x"], ["last"]))
    weights = [helper.make_tensor("w", kind, (2,), [1.013, 1.03]), helper.make_tensor("n", 7, (), [rounds])]
    given = [value("x", (2,)), value("z", (rounds, 2))]
    graph = helper.make_graph(nodes, "g", given, [value("last"), value("y")], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    dtype = numpy_dtype("bfloat16")
    x = np.array([1.0, 1.1], np.float32).astype(dtype)
    z = np.random.default_rng(0).random((rounds, 2)).astype(dtype)
    w = np.array([1.013, 1.03], np.float32).astype(dtype)
    last, each = x, []
    for index in range(rounds):
        if operator == "Loop":
            last = last * w
            each.append(last + x)
        else:
            each.append(z[index] * z[index] * z[index])
    wanted = (
        np.stack(each, int(operator == "Scan")) if each else np.zeros((0, 2) if operator == "Loop" else (2, 0), dtype)
    )
    found = evaluate(imported(made), {"x": x.astype(np.float32), "z": z.astype(np.float32)})
    for name, right in (("last", last), ("y", wanted)):
        assert (found[name].shape, found[name].dtype) == (right.shape, dtype)
        assert np.array_equal(found[name].astype(np.float32), right.astype(np.float32))
