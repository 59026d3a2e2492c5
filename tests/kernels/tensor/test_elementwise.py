# SPDX-License-Identifier: Apache-2.0
"""Generated element-wise kernels, compared with NumPy: every operator, every dtype, any broadcast."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.grouped import is_pocl
from support.trying_tensors import Try, on_host, signature_of

from syclsched.costs.roofline import checked_work
from syclsched.errors import ArgumentError
from syclsched.kernels.common import ALL_DTYPES
from syclsched.kernels.tensor.elementwise import elementwise
from syclsched.kernels.tensor.writing import table_lookup
from syclsched.kernels.tensor.writing.expression import OPERATORS

LANGUAGES = ["opencl-c", "python"]
SETTINGS = settings(
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
#: Domains of functions that are not defined everywhere, and parameters without a default.
DOMAINS = {"asin": (-1, 1), "acos": (-1, 1), "atanh": (-0.99, 0.99), "acosh": (1, 9), "log": (0, 9), "sqrt": (0, 9)}
PARAMETERS: dict[str, tuple[Any, ...]] = {"clip": (-1, 2), "scale": (1.5,), "isinf": (1, 0), "narrow": (7, -126)}
ROUNDING = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-13}


def numbers(dtype: str, shape: tuple[int, ...], seed: int, low: float = -4, high: float = 4) -> np.ndarray:
    """Draw numbers of a dtype, special values included."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.random(shape) < 0.5
    if dtype.startswith("float"):
        values = random.uniform(low, high, shape).astype(dtype)
        special = np.array([0.0, 0.5, 1.5, 2.5, -0.5, -1.5, np.nan, np.inf, -np.inf, 1, -1]).astype(dtype)
        if low == -4 and values.ndim:
            values.reshape(-1)[: len(special)] = special[: values.size]
        return values
    info = np.iinfo(dtype)
    values = random.integers(max(info.min, -9), 10, shape).astype(dtype)
    special = np.array([info.min, info.max, 0, 0, 1, info.max], dtype)
    if values.ndim:
        values.reshape(-1)[: len(special)] = special[: values.size]
    return values


def same(got: np.ndarray, expected: np.ndarray, rounding: float = 0.0) -> None:
    if expected.dtype.kind == "f":
        tolerance = rounding or ROUNDING[expected.dtype.name]
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, expected)


def of(name: str, dtype: str) -> tuple[Any, list[np.ndarray]]:
    """Draw an expression that uses an operator, and inputs."""
    operator = OPERATORS[name]
    count = 2 if operator.most is None else operator.most
    low, high = DOMAINS.get(name, (-4, 4))
    inputs = [numbers(dtype, (37,), seed, low, high) for seed in range(count)]
    if len(inputs) > 1:
        inputs[-1] = np.roll(inputs[-1], 3)
    if name == "where":
        inputs[0] = numbers("bool", (37,), 5)
    if name.startswith("shift"):
        inputs[1] = np.arange(-2, 35).astype(dtype)
    if name == "pow" and not dtype.startswith("float"):
        inputs[1] = numbers("int8", (37,), 3) % 5 - 1
    return (name, *PARAMETERS.get(name, ()), *range(count)), inputs


def cases() -> list[tuple[str, str]]:
    domains = {"float": ["float32"], "integer": ["int32", "uint8"], "bool": ["bool"]}
    domains["number"] = ["float32", "int32"]
    domains["any"] = ["float32", "int64", "bool"]
    domains |= {"float32": ["float32"], "uint16": ["uint16"]}
    found = [(name, dtype) for name, operator in OPERATORS.items() for dtype in domains[operator.domain]]
    whole = ("div", "mod", "fmod", "pow", "abs", "neg", "sign", "max", "shift_left", "shift_right")
    found += [(name, dtype) for name in whole for dtype in ("int8", "uint64") if (name, dtype) != ("abs", "x")]
    return found + [(name, "float64") for name in ("exp", "round", "mod", "pow", "gelu", "isnan")]


@pytest.mark.sycl
@pytest.mark.one_case_in(2)
@pytest.mark.parametrize(("name", "dtype"), cases())
def test_every_operator_has_the_results_of_numpy(on_device: Try, queue: Any, name: str, dtype: str) -> None:
    expression, inputs = of(name, dtype)
    if name == "gelu_tanh" and is_pocl(queue.sycl_device):  # its tanh of minus infinity is not exactly -1
        inputs = [np.nan_to_num(each, nan=np.nan, posinf=np.inf, neginf=-4) for each in inputs]
    operation = elementwise(expression, len(inputs))
    result = rule if (rule := OPERATORS[name].rule) in ("bool", "uint16", "float32") else dtype
    arrays = {"y": np.zeros(37, result), **{f"x{i}": each for i, each in enumerate(inputs)}}
    expected = on_host(operation, **arrays)["y"]
    # Both devices are of one runtime with one compiler: a few operators suffice on the second.
    some = ("add", "div", "exp", "erf", "pow", "round", "and", "where")
    languages = LANGUAGES if queue.sycl_device.device_type.name == "cpu" or name in some else []
    for language in languages:
        # Functions without a bound in OpenCL's table of errors are a few units off in the last place.
        same(on_device(operation, language, **arrays)["y"], expected, 2e-5 if dtype == "float32" else 1e-13)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_a_shift_beyond_the_width_leaves_copies_of_the_sign(on_device: Try, language: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    signed = [info.min, -1, 6, info.max, -6 if info.min else 3]
    amounts = [0, 1, info.bits - 1, info.bits, info.max, *([-1, info.min] if info.min else [])]
    x, y = (each.ravel() for each in np.meshgrid(np.array(signed if info.min else signed[2:], dtype), amounts))
    y = y.astype(dtype)
    arrays = {"y": np.zeros_like(x), "x0": x, "x1": y}
    for direction in ("left", "right"):
        wanted = []
        for number, bits in zip(x.tolist(), y.tolist(), strict=True):
            inside = 0 <= bits < info.bits
            if direction == "left":
                wanted.append(number << bits if inside else 0)
            else:
                wanted.append(number >> (bits if inside else info.bits))
        operation = elementwise((f"shift_{direction}", 0, 1), 2)
        for got in (on_device(operation, language, **arrays)["y"], on_host(operation, **arrays)["y"]):
            # Python's integers have any number of bits: the lowest ones are compared.
            assert [int(each) % 2**info.bits for each in got] == [each % 2**info.bits for each in wanted]


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_sign_of_a_float_remainder(on_device: Try, language: str) -> None:
    x, y = (each.ravel() for each in np.meshgrid([0.0, -0.0, 1, -1, 5, -5, np.inf, -np.inf, np.nan], [1, -1, 2, -2]))
    infinite = [(0.0, np.inf), (-0.0, -np.inf), (3, np.inf), (-3, np.inf), (3, -np.inf), (-3, -np.inf), (1, 0.0)]
    x, y = np.append(np.array([x, y]), np.transpose(infinite), 1).astype("float32")
    arrays = {"y": np.zeros_like(x), "x0": x, "x1": y}
    operation = elementwise(("mod", 0, 1), 2)
    for got in (on_device(operation, language, **arrays)["y"], on_host(operation, **arrays)["y"]):
        exact = ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got[exact]), np.signbit(y[exact]))
        np.testing.assert_array_equal(exact, np.isfinite(x) & (y != 0))
        np.testing.assert_array_equal(got[-7:-1], [0, 0, 3, np.inf, -np.inf, -3])


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("given", ["int64", "uint64"])
def test_whole_numbers_of_64_bits_are_rounded_once(on_device: Try, language: str, given: str) -> None:
    least, most = np.iinfo(given).min, np.iinfo(given).max
    # Halfway cases between neighbours in single precision, and values next to them that double cannot distinguish.
    odd = [2 * each + 1 for each in (1 << 23, (1 << 23) + 1, (1 << 24) - 1)]
    halves = [each << bits for bits in range(38) for each in odd]
    near = [each + more for each in halves for more in (-1025, -1, 0, 1, 1025)]
    x = np.array([0, 1, least, most, most - 1, *near, *([-each for each in near] if least else [])], given)
    for dtype in ("float32", "float64"):
        got = on_device(elementwise(("cast", dtype, 0), 1), language, y=np.zeros(x.shape, dtype), x0=x)["y"]
        np.testing.assert_array_equal(got, x.astype(dtype))


@pytest.mark.instruction_sets
@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_functions_of_the_package_are_exact(on_device: Try, queue: Any, language: str) -> None:
    if queue.sycl_device.device_type.name != "cpu":
        return  # the same compiler as the CPU device's
    x = np.concatenate([np.linspace(-5, 5, 40001), np.logspace(-38, 0, 2001), [-np.inf, np.inf, np.nan, -0.0, 1e30]])
    x = x.astype("float32")
    wide, root = x.astype("float64"), float(np.float32(math.sqrt(2)))
    exact = [
        (("erf", 0), np.array([math.erf(each) for each in wide])),
        (("erf", ("div", 0, ("const", root))), np.array([math.erf(each / root) for each in wide])),
        (("sigmoid", 0), 1 / (1 + np.exp(-wide))),
    ]
    for expression, wanted in exact:
        got = on_device(elementwise(expression, 1), language, y=np.zeros_like(x), x0=x)["y"]
        units = np.abs(got - wanted) / np.spacing(np.abs(wanted).astype("float32"))
        assert np.nanmax(units) < 2.5, expression
        np.testing.assert_array_equal(np.isnan(got), np.isnan(x))
        assert np.signbit(got[-2]) == (expression[0] == "erf")


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("given_dtype", ALL_DTYPES)
def test_casts(on_device: Try, queue: Any, given_dtype: str, language: str) -> None:
    x = numbers(given_dtype, (40,), 1)
    if given_dtype.startswith("float"):
        x = np.nan_to_num(x, nan=3.7, posinf=90, neginf=-90)  # undefined otherwise
    elif given_dtype != "bool":
        x[:6] = 11
    known = [dtype for dtype in ALL_DTYPES if dtype != "float16"]
    if language == "opencl-c" and queue.sycl_device.has_aspect_fp16:
        known.append("float16")
    elif given_dtype == "float16":
        return
    for dtype in known[ALL_DTYPES.index(given_dtype) % 3 :: 3]:
        arrays = {"y": np.zeros(40, dtype), "x0": np.abs(x) if dtype.startswith("u") and x.dtype.kind != "b" else x}
        operation = elementwise(("cast", dtype, 0), 1)
        got = on_device(operation, language, **arrays)["y"]
        np.testing.assert_array_equal(got, on_host(operation, **arrays)["y"], f"{given_dtype} to {dtype}")


@pytest.mark.instruction_sets
@pytest.mark.sycl
def test_half_precision_is_computed_in_single_and_rounded_once(on_device: Try, queue: Any) -> None:
    if not queue.sycl_device.has_aspect_fp16:
        pytest.skip("the device has no half precision")
    x = numbers("float16", (64,), 3)
    operation = elementwise(("sub", ("add", 0, ("const", 2048.0)), ("cast", "float16", ("cast", "float32", 0))), 1)
    arrays = {"y": np.zeros(64, "float16"), "x0": x}
    expected = on_host(operation, **arrays)["y"]
    same(on_device(operation, "opencl-c", **arrays)["y"], expected)
    assert (expected[np.isfinite(expected)] == 2048).all()


SHAPES = st.lists(st.sampled_from([1, 2, 3, 5, 17, 33]), min_size=0, max_size=4).map(tuple)


@pytest.mark.sycl
@SETTINGS
@given(shape=SHAPES, data=st.data(), language=st.sampled_from(LANGUAGES))
def test_any_broadcast(on_device: Try, shape: tuple[int, ...], data: st.DataObject, language: str) -> None:
    inputs = []
    for i in range(3):
        kept = data.draw(st.integers(0, len(shape)))
        inputs.append(
            np.random.default_rng(i)
            .integers(-9, 9, tuple(data.draw(st.sampled_from([1, n])) for n in shape[len(shape) - kept :]))
            .astype("float32")
        )
    operation = elementwise(("sub", ("mul", 0, 1), ("max", 2, ("const", 0))), 3)
    arrays = {"y": np.zeros(shape, "float32"), **{f"x{i}": each for i, each in enumerate(inputs)}}
    expected = np.broadcast_to(inputs[0] * inputs[1] - np.maximum(inputs[2], 0), shape)
    np.testing.assert_array_equal(on_device(operation, language, **arrays)["y"], expected)
    np.testing.assert_array_equal(on_host(operation, **arrays)["y"], expected)


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_no_axes_and_no_elements(on_device: Try, language: str, shape: tuple[int, ...]) -> None:
    arrays = {"y": np.zeros(shape, "int64"), "x0": np.full(shape, 20, "int64"), "x1": np.array(2)}
    got = on_device(elementwise(("add", 0, 1), 2), language, **arrays)["y"]
    np.testing.assert_array_equal(got, np.full(shape, 22))


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_expressions_of_element_indices(on_device: Try, language: str) -> None:
    count = elementwise(("add", 0, ("mul", ("index", -1), 1)), 2)
    scalars = {"x0": np.array(5), "x1": np.array(-2)}
    got = on_device(count, language, y=np.zeros(9, "int64"), **scalars)["y"]
    np.testing.assert_array_equal(got, np.arange(5, -13, -2))
    lower = elementwise(("where", ("less_equal", ("index", -1), ("index", -2)), 0, ("const", 0)), 1)
    x = np.arange(2 * 20 * 18, dtype="float32").reshape(2, 20, 18)
    np.testing.assert_array_equal(on_device(lower, language, y=np.zeros_like(x), x0=x)["y"], np.tril(x))
    hot = elementwise(("where", ("equal", ("cast", "int64", 0), ("index", -2)), ("const", 3), ("const", -1)), 1)
    given_indices = np.array([[[0, 2]], [[1, 4]]], "int32")
    expected = np.where(given_indices == np.arange(3)[:, None], 3, -1).astype("float32")
    got = on_device(hot, language, y=np.zeros((2, 3, 2), "float32"), x0=given_indices)["y"]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.sycl
def test_a_long_expression_shares_repeated_subexpressions(on_device: Try) -> None:
    expression: Any = 0
    for _ in range(5):
        expression = ("add", ("mul", expression, ("const", 0.5)), expression)
    source = elementwise(expression, 1).implementation("opencl-c")
    x = np.linspace(-1, 1, 100, dtype="float32")
    assert source.load(signature_of({"y": x, "x0": x})).source.count("*") < 30
    got = on_device(elementwise(expression, 1), "opencl-c", y=np.zeros_like(x), x0=x)["y"]
    np.testing.assert_allclose(got, x * 1.5**5, rtol=1e-5)


@pytest.mark.sycl
@pytest.mark.parametrize("result", ["uint8", "int8"])
@pytest.mark.parametrize("given", ["uint8", "int8"])
def test_long_expressions_of_bytes_use_a_lookup_table(on_device: Try, given: str, result: str) -> None:
    limits = np.iinfo(result)
    real: Any = ("mul", ("sub", ("cast", "float32", 0), ("const", 3.0)), ("const", 0.05))
    real = ("add", ("mul", real, ("sigmoid", real)), ("tanh", real))
    rounded: Any = ("add", ("round", ("div", real, ("const", 0.07))), ("const", 5.0))
    operation = elementwise(("cast", result, ("clip", float(limits.min), float(limits.max), rounded)), 1)
    x = np.resize(np.arange(256, dtype="uint8").view(given), (3, 1111))
    y = np.zeros(x.shape, result)
    expected = on_host(operation, y=y, x0=x)["y"]
    np.testing.assert_array_equal(on_device(operation, table_lookup.NAME, y=y, x0=x)["y"], expected)


def test_short_expressions_use_no_table() -> None:
    x = np.zeros((2, 3), "uint8")
    implementation = elementwise(("add", 0, 0), 1).implementation(table_lookup.NAME)
    assert implementation.requires.refuses is not None
    assert "long" in str(implementation.requires.refuses(signature_of({"y": x, "x0": x})))


def test_unsuitable_arguments_are_refused() -> None:
    operation = elementwise(("add", 0, 1), 2)
    assert operation is elementwise(("add", 0, 1), 2)
    assert operation.check is not None
    x = np.zeros((3, 4), "float32")
    wrong = {
        "cannot be broadcast": {"y": x, "x0": x, "x1": np.zeros(3, "float32")},
        "operands of 'add' are float32 and int32": {"y": x, "x0": x, "x1": np.zeros(4, "int32")},
        "gives float32, not float64": {"y": x.astype("float64"), "x0": x, "x1": x},
    }
    for message, arrays in wrong.items():
        assert message in str(operation.check(signature_of(arrays)))
    with pytest.raises(ArgumentError, match="no operator 'plus'"):
        elementwise(("plus", 0, 1), 2)
    with pytest.raises(ArgumentError, match="no input 2"):
        elementwise(("add", 0, 2), 2)


def test_empty_results_have_no_flops() -> None:
    arrays = {"y": np.zeros((0, 4)), "x0": np.zeros((0, 4)), "x1": np.zeros(4)}
    assert checked_work(elementwise(("add", 0, 1), 2), signature_of(arrays), "here").flops == 0


def test_names_of_expressions_are_short() -> None:
    one, other = elementwise(("add", 0, ("const", 1)), 1), elementwise(("add", 0, ("const", 1.0)), 1)
    assert one.name == "elementwise add(x0, 1)"
    assert one is not other
    expression: Any = 0
    for i in range(60):
        expression = ("add", expression, ("const", i))
    assert len(elementwise(expression, 1).name) <= 100


@pytest.mark.sycl
@pytest.mark.parametrize("language", LANGUAGES)
def test_bits_of_bfloat16_equal_those_of_ml_dtypes(on_device: Try, language: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    random = np.random.default_rng(0)
    x = random.integers(0, 2**32, 4000, np.uint32)
    x[:8] = [0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0x80000001, 0xFF800000]
    floats = np.where(np.isnan(x.view(np.float32)), np.float32(np.nan), x.view(np.float32))
    down, up = elementwise(("bfloat16_bits", 0), 1), elementwise(("of_bfloat16_bits", 0), 1)
    bits = on_device(down, language, y=np.zeros(4000, "uint16"), x0=floats)["y"]
    wanted = floats.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(bits, wanted.view(np.uint16))
    back = on_device(up, language, y=np.zeros(4000, "float32"), x0=bits)["y"]
    np.testing.assert_array_equal(back, wanted.astype(np.float32))
