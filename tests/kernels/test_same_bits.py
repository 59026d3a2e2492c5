# SPDX-License-Identifier: Apache-2.0
"""Shipped Python kernels: equal bits by the package's compiler and by numba-dpex, where both are installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.compilers import needs_numba_dpex
from support.operations import NO_SHRINKING, UNCHECKED, numbers, unwritten

from syclsched import kernels
from syclsched.kernel_compiler.python_kernel import PythonKernel
from syclsched.kernels import nn
from syclsched.kernels.tensor.concat import concat
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.kernels.tensor.gather import gather, gather_elements, gather_nd
from syclsched.kernels.tensor.pad import pad
from syclsched.kernels.tensor.reductions.arg import arg
from syclsched.kernels.tensor.reductions.reduce import MODES, reduce
from syclsched.kernels.tensor.reductions.scan import scan_sum
from syclsched.kernels.tensor.reductions.topk import topk
from syclsched.kernels.tensor.scatter import scatter_elements, scatter_nd
from syclsched.kernels.tensor.strided_slice import slice_of
from syclsched.kernels.tensor.transpose import transpose
from syclsched.kernels.tensor.writing.expression import OPERATORS
from syclsched.model.operation import DeviceLimits, Implementation, Operation, Signature, Tailored

pytestmark = [pytest.mark.sycl, pytest.mark.one_case_in(5), needs_numba_dpex]

Arrays = dict[str, np.ndarray]
#: An operation with arrays for it, and scalars.
Call = tuple[Operation, Arrays, dict[str, float]]
RANDOM = settings(max_examples=1, deadline=None, phases=NO_SHRINKING, suppress_health_check=UNCHECKED)
NAME = "python"


@pytest.fixture(scope="module", params=["cpu"])
def queue() -> Any:
    """An in-order queue of the CPU device."""
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    return dpctl.SyclQueue("cpu", property="in_order")


def by(operation: Operation, compiler: Any) -> Operation:
    """Return an operation whose Python kernel is compiled by one compiler."""

    def chosen(made: Any) -> Any:
        if isinstance(made, Tailored):
            return Tailored(lambda limits: chosen(made.of(limits)))
        assert isinstance(made, PythonKernel)
        return replace(made, compiler=compiler)

    def changed(given_: Implementation) -> Implementation:
        return replace(given_, load=lambda signature: chosen(given_.load(signature)))

    return replace(operation, implementations=(changed(operation.implementation(NAME)),))


def assert_same_bits(run: Any, call: Call, ulps: int = 0) -> None:
    """Run a call by both compilers, and compare all arrays after it."""
    operation, arrays, scalars = call
    signature = Signature(
        {p.name: arrays[p.name].shape for p in operation.arrays},
        {p.name: arrays[p.name].dtype.name for p in operation.arrays},
        scalars,
    )
    refuses = operation.implementation(NAME).requires.refuses
    if refuses is not None and refuses(signature) is not None:
        pytest.skip(f"the kernel is not for this: {refuses(signature)}")
    ours, theirs = (run(by(operation, compiler), NAME, arrays, **scalars) for compiler in ("own", "numba-dpex"))
    for name, got in ours.items():
        if ulps and got.dtype.kind == "f":
            np.testing.assert_array_max_ulp(got, theirs[name], ulps)
        else:
            assert got.tobytes() == theirs[name].tobytes(), (name, got, theirs[name])


# --- the registered operations ------------------------------------------------------------------------


def registered(name: str, m: int, n: int, k: int, dtype: str) -> Call:
    """Return a call of a registered operation with valid extents."""
    operation = kernels.get(name)
    rows = {"potrf": (m, m), "trsm": (m, n), "syrk": (m, m), "gemm": (m, n), "dense": (m, n)}.get(name, (m, n))
    shapes = {
        "potrf": {"a": (m, m), "status": (1,)},
        "trsm": {"a": (m, n), "l": (n, n)},
        "syrk": {"c": (m, m), "a": (m, k)},
        "gemm": {"c": (m, n), "a": (m, k), "b": (n, k)},
        "dense": {"y": (m, n), "x": (m, k), "w": (k, n), "b": (n,)},
    }.get(name, {p.name: rows for p in operation.arrays})
    names = [p.name for p in operation.arrays]
    assert sorted(names) == sorted(shapes), (names, shapes)
    arrays = {each: numbers(*shapes[each], dtype=dtype, seed=i) for i, each in enumerate(names) if each != "status"}
    if "status" in names:
        arrays["status"] = unwritten((1,), "int32")
        arrays["a"] = arrays["a"] @ arrays["a"].T + np.eye(m, dtype=dtype)
    if name == "trsm":
        arrays["l"] = arrays["l"] + n * np.eye(n, dtype=dtype)
    scalars = {p.name: 1 if p.like is None else 0.25 for p in operation.parameters if not p.is_array}
    if name == "gemm":
        scalars |= {"trans_a": 0, "trans_b": 1}
    return operation, arrays, scalars


@pytest.mark.parametrize("name", kernels.names())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(m=st.integers(1, 40), n=st.integers(1, 40), k=st.integers(1, 20))
@RANDOM
def test_registered_operations(run: Any, name: str, dtype: str, m: int, n: int, k: int) -> None:
    assert_same_bits(run, registered(name, m, n, k, dtype))


# --- operations of models -----------------------------------------------------------------------------


def of_one(operation: Operation, shape: tuple[int, ...], to: tuple[int, ...]) -> Callable[[str], Call]:
    """Return calls of an operation with one input."""
    return lambda dtype: (operation, {"y": unwritten(to, dtype), "x": numbers(*shape, dtype=dtype) * 3}, {})


def indexed(
    operation: Operation, to: tuple[int, ...], indices: Any, updates: tuple[int, ...] = ()
) -> Callable[[str], Call]:
    """Return calls of an operation with indices."""

    def call(dtype: str) -> Call:
        arrays = {"y": unwritten(to, dtype), "x": numbers(6, 7, dtype=dtype), "indices": np.array(indices)}
        if updates:
            arrays["updates"] = numbers(*updates, dtype=dtype, seed=1)
        return operation, arrays, {}

    return call


def normalised(operation: Operation, shape: tuple[int, ...], length: int) -> Callable[[str], Call]:
    """Return calls of a normalisation."""

    def call(dtype: str) -> Call:
        named = [p.name for p in operation.arrays if p.name not in ("x", "y")]
        others = {name: abs(numbers(length, dtype=dtype, seed=i)) + 1 for i, name in enumerate(named)}
        return operation, {"y": unwritten(shape, dtype), "x": numbers(*shape, dtype=dtype), **others}, {}

    return call


def product(operation: Operation, **shapes: tuple[int, ...]) -> Callable[[str], Call]:
    """Return calls of a product or convolution; ``y`` is not read."""

    def call(dtype: str) -> Call:
        arrays = {
            name: unwritten(shape, dtype) if name == "y" else numbers(*shape, dtype=dtype, seed=i)
            for i, (name, shape) in enumerate(shapes.items())
        }
        return operation, arrays, {}

    return call


def picked(k: int) -> Callable[[str], Call]:
    """Return calls of `topk`."""
    return lambda dtype: (
        topk(k, 1),
        {"values": unwritten((5, k), dtype), "indices": unwritten((5, k), "int64"), "x": numbers(5, 33, dtype=dtype)},
        {},
    )


def place(last: bool) -> Callable[[str], Call]:
    """Return calls of `arg`."""
    return lambda dtype: (
        arg("max", 1, last=last), {"y": unwritten((5,), "int64"), "x": np.round(numbers(5, 133, dtype=dtype))}, {}
    )  # fmt: skip


IMAGE, IMAGE_LAST = (2, 5, 13, 11), (2, 13, 11, 5)
MODELS: dict[str, Callable[[str], Call]] = {
    **{f"{mode} of rows": of_one(reduce(mode, (1,)), (7, 133), (7,)) for mode in MODES},
    **{f"{mode} of columns": of_one(reduce(mode, (0,)), (37, 70), (70,)) for mode in ("sum", "max", "logsumexp")},
    "argmax": place(False),
    "last argmax": place(True),
    "topk": picked(4),
    "prefix sums": of_one(scan_sum(1, exclusive=True), (5, 33), (5, 33)),
    "transpose": of_one(transpose((1, 0)), (37, 70), (70, 37)),
    "transpose of three": of_one(transpose((2, 0, 1)), (5, 6, 33), (33, 5, 6)),
    "slice": of_one(slice_of((1, 2), (2, 3)), (9, 40), (4, 12)),
    "pad": of_one(pad((1, 2, 3, 0), "reflect"), (9, 7), (13, 9)),
    "concat": product(concat(1, 2), y=(5, 40), x0=(5, 33), x1=(5, 7)),
    "gather": indexed(gather(1), (6, 3), [2, -1, 5]),
    "gather elements": indexed(gather_elements(1), (6, 2), [[1, -2]] * 6),
    "gather nd": indexed(gather_nd(), (2,), [[1, 2], [5, 6]]),
    "scatter elements": indexed(scatter_elements(1, "add"), (6, 7), [[1, 1, 2]] * 6, (6, 3)),
    "scatter nd": indexed(scatter_nd("max"), (6, 7), [[1, 2], [1, 2]], (2,)),
    "softmax": of_one(nn.softmax_over(-1), (5, 133), (5, 133)),
    "softmax of the middle axis": of_one(nn.softmax_over(1, log=True), (3, 9, 33), (3, 9, 33)),
    "layer norm": normalised(nn.layer_norm(-1, bias=True), (5, 133), 133),
    "batch norm": normalised(nn.batch_norm(), IMAGE, 5),
    "batch norm, channels last": normalised(nn.batch_norm(channels_last=True), IMAGE_LAST, 5),
    "group norm": normalised(nn.group_norm(5, activation=(("relu",),)), IMAGE, 5),
    "lrn": of_one(nn.lrn(size=3), IMAGE, IMAGE),
    "max pool": of_one(nn.pool("max", (3, 3), (2, 2), (1, 1, 1, 1)), IMAGE, (2, 5, 7, 6)),
    "average pool, channels last": of_one(
        nn.pool("average", (2, 3), channels_last=True), IMAGE_LAST, (2, 12, 9, 5)
    ),
    "im2col": of_one(nn.im2col((3, 3)), IMAGE, (2, 45, 99)),
    "matmul": product(nn.matmul(), y=(37, 29), a=(37, 19), b=(19, 29)),
    "conv": product(nn.conv(2, bias=True), y=(2, 6, 11, 9), x=IMAGE, w=(6, 5, 3, 3), b=(6,)),
    "conv, channels last": product(
        nn.conv(2, channels_last=True), y=(2, 11, 9, 6), x=IMAGE_LAST, w=(6, 5, 3, 3)
    ),
    "depthwise conv": product(nn.conv(2, groups=5), y=(2, 5, 11, 9), x=IMAGE, w=(5, 1, 3, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_operations_of_models(run: Any, name: str) -> None:
    assert_same_bits(run, MODELS[name]("float32"))


@pytest.mark.parametrize("name", ["logsumexp of rows", "topk", "scatter elements", "softmax", "group norm", "conv"])
def test_operations_of_models_in_double_precision(run: Any, name: str) -> None:
    assert_same_bits(run, MODELS[name]("float64"))


# --- expressions --------------------------------------------------------------------------------------


#: Operators of two numbers that are not in `expression`: of conditions, and with a domain of their own.
APART = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}


def expression(domains: set[str], dtype: str) -> Call:
    """Return a call of the sum of all operators of some domains on numbers from 0.01 to 1, one kernel."""
    terms: list[Any] = []
    for name, operator in OPERATORS.items():
        if operator.domain in domains and name not in APART and not name.startswith("is"):
            parameters = {"clip": (1, 2), "scale": (1.5,), "narrow": (7, -126)}.get(name, ())
            given_ = (("add", 0, 1, 1, 1),) if name == "acosh" else (0, 1)[: operator.most or 2]
            terms.append((name, *parameters, *given_))
    values = [abs(numbers(3, 37, dtype="float64", seed=i)).clip(0.01, 1) for i in range(2)]
    if dtype.startswith(("int", "uint")):
        values = [np.ceil(each * 9) for each in values]
    arrays = {f"x{i}": each.astype(dtype) for i, each in enumerate(values)}
    return elementwise(("add", *terms), 2), {"y": unwritten((3, 37), dtype), **arrays}, {}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_all_functions(run: Any, dtype: str) -> None:
    assert_same_bits(run, expression({"float", "number"}, dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64"])
def test_sums_of_all_operators_of_integers(run: Any, dtype: str) -> None:
    assert_same_bits(run, expression({"integer", "number"}, dtype))


LIMITS = DeviceLimits(max_work_group_size=8, compute_units=1, local_memory_bytes=1 << 14)


@pytest.mark.parametrize("name", ["matmul", "conv", "softmax"])
def test_kernels_as_made_for_other_limits(run: Any, name: str) -> None:
    operation, arrays, _ = MODELS[name]("float32")
    ours, theirs = (
        run(by(operation, compiler), NAME, arrays, limits=LIMITS)["y"] for compiler in ("own", "numba-dpex")
    )
    assert ours.tobytes() == theirs.tobytes()
