# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys
from typing import Any

import numba
import numpy as np
import pytest
from support.launching import launch

from syclsched.errors import KernelCompilationError
from syclsched.kernel_compiler import (
    ArrayArgument,
    ItemArgument,
    KernelOptions,
    KernelParameter,
    LocalArgument,
    Part,
    ScalarArgument,
    compile_kernel,
    device_function,
)
from syclsched.kernel_compiler.kernel_api import PrivateArray

FACTORS = (1.0, 2.0, 4.0)
OFFSET = 7


def _empty(item: Any, *arguments: Any) -> None:
    item.get_id(0)


def _add(item: Any, a: Any, b: Any, c: Any) -> None:
    i = item.get_id(0)
    c[i] = a[i] + b[i]


_VECTOR = ArrayArgument("float32", 1)


def test_kernel_parameters_describe_the_arguments() -> None:
    def kernel(item: Any, a: Any, b: Any, n: Any, z: Any, shared: Any, fixed: Any) -> None:
        b[0, 0] = a[0, 0] + n

    types = (
        ItemArgument(2, grouped=True),
        ArrayArgument("float32", 2),
        ArrayArgument("float64", 2, "A"),
        ScalarArgument("int16"),
        ScalarArgument("complex64"),
        LocalArgument("int32", 1),
        LocalArgument("int32", 1, (8,)),
    )
    compiled = compile_kernel(kernel, types)
    assert compiled.name == "kernel_kernel"
    assert compiled.arguments == types
    assert compiled.parameters == (
        KernelParameter(0, Part.POINTER, "float32"),
        KernelParameter(0, Part.EXTENT, "int64", 0),
        KernelParameter(0, Part.EXTENT, "int64", 1),
        KernelParameter(1, Part.POINTER, "float64"),
        KernelParameter(1, Part.EXTENT, "int64", 0),
        KernelParameter(1, Part.EXTENT, "int64", 1),
        KernelParameter(1, Part.STRIDE, "int64", 0),
        KernelParameter(1, Part.STRIDE, "int64", 1),
        KernelParameter(2, Part.VALUE, "int16"),
        KernelParameter(3, Part.REAL, "float32"),
        KernelParameter(3, Part.IMAGINARY, "float32"),
        KernelParameter(4, Part.LOCAL_MEMORY, "int32"),
        KernelParameter(4, Part.EXTENT, "int64", 0),
    )


def test_the_version_of_spirv_is_an_option() -> None:
    types = (ItemArgument(1), _VECTOR, _VECTOR, _VECTOR)
    for version, number in (("1.0", 0x10000), ("1.2", 0x10200)):
        code = compile_kernel(_add, types, options=KernelOptions(spirv_version=version)).spirv
        magic, actual = np.frombuffer(code[:8], np.uint32)
        assert magic == 0x07230203
        assert 0x10000 <= actual <= number


_MANY_KERNELS = '''
import math
from syclsched.kernel_compiler import ArrayArgument, ItemArgument, compile_kernel
from syclsched.kernel_compiler.kernel_api import PrivateArray

for number in range(24):
    source = f"""
def kernel(item, x, y):
    i = item.get_id(0)
    kept = PrivateArray({number % 7 + 1}, "float64")
    for j in range({number % 7 + 1}):
        kept[j] = x[i] * j + {number}
    total = 0.0
    for j in range({number % 7 + 1}):
        total += kept[j] if kept[j] < {number} else math.sin(kept[j])
    y[i] = total
"""
    names = {"math": math, "PrivateArray": PrivateArray}
    exec(source, names)
    element = ("float32", "float64", "int32", "uint8", "bool")[number % 5]
    x = ArrayArgument(element, 1, "CA"[number % 2])
    compile_kernel(names["kernel"], (ItemArgument(1), x, ArrayArgument("float64", 1)))
'''


def test_many_kernels_are_compiled_in_one_process() -> None:
    # LLVM's objects of one module keep pointers into it; their use in another module ended the process.
    done = subprocess.run([sys.executable, "-c", _MANY_KERNELS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


# --- errors -------------------------------------------------------------------------------------------


def _list(item: Any, x: Any) -> None:
    numbers = [1.0, 2.0]
    x[0] = numbers[item.get_id(0)]


def _output(item: Any, x: Any) -> None:
    print("x", x[0])


def _attribute(item: Any, x: Any) -> None:
    x[0] = x.unknown


def _allocation(item: Any, x: Any) -> None:
    x[0] = np.zeros(3)[0]


def _assignment(item: Any, x: Any) -> None:
    x[:] = PrivateArray((2, 2), np.float32)


def _result(item: Any, x: Any) -> Any:
    return x[0]


def _shape(item: Any, x: Any) -> None:
    PrivateArray(item.get_range(0), np.float32)[0] = x[0]


@device_function
def factorial(n: Any) -> Any:
    return 1 if n < 2 else n * factorial(n - 1)


def _recursion(item: Any, x: Any) -> None:
    x[0] = factorial(item.get_id(0))


@pytest.mark.parametrize(
    ("kernel", "line", "reason"),
    [
        (_list, 1, "kernels have no lists"),
        (_output, 1, "kernels cannot print"),
        (_attribute, 1, "Unknown attribute 'unknown'"),
        (_allocation, 1, r"zeros\(.*\) is not supported in a kernel"),
        (_assignment, 1, "an array of 2 dimensions cannot be assigned to 1"),
        (_result, 1, "a kernel returns nothing"),
        (_shape, 1, "the shape of a PrivateArray must be a constant"),
        (_recursion, None, "factorial calls itself"),
    ],
)
def test_errors_name_the_line_and_the_reason(kernel: Any, line: int | None, reason: str) -> None:
    with pytest.raises(KernelCompilationError, match=reason) as caught:
        compile_kernel(kernel, (ItemArgument(1), _VECTOR))
    assert __file__ in str(caught.value)
    if line is not None:
        number = int(str(caught.value).split(" line ")[1].split(",")[0])
        assert number == kernel.__code__.co_firstlineno + line


@pytest.mark.parametrize("types", [(), (_VECTOR,), (ItemArgument(4),), (ItemArgument(1), ItemArgument(1))])
def test_the_first_argument_is_an_item(types: Any) -> None:
    with pytest.raises(KernelCompilationError, match=r"dimensions|first argument"):
        compile_kernel(_empty, types)


# --- functions and constants --------------------------------------------------------------------------


@device_function
def scaled(x: Any, factor: Any = 2) -> Any:
    return x * factor + OFFSET


@device_function
def swapped(a: Any, b: Any) -> Any:
    return b, a


@numba.njit  # type: ignore[untyped-decorator]
def incremented(x: Any) -> Any:
    return x + 1


def _functions(item: Any, x: Any, y: Any) -> None:
    def doubled(value: Any) -> Any:
        return 2 * value

    i = item.get_id(0)
    a, b = swapped(x[i], scaled(x[i]))
    y[i] = a - b + scaled(x[i], factor=3) + incremented(doubled(x[i]))


@pytest.mark.sycl
def test_functions() -> None:
    x, y = np.arange(5.0), np.zeros(5)
    launch(_functions, (5,), x, y)
    np.testing.assert_array_equal(y, 2 * x + 7 - x + 3 * x + 7 + 2 * x + 1)


def test_a_device_function_is_a_python_function() -> None:
    assert scaled(1.5, factor=4) == 13


def _tuples(item: Any, x: Any, y: Any) -> None:
    i = item.get_id(0)
    total = 0.0
    for number, (a, b) in enumerate(((1, 2), (3, 4))):
        total += number * a + b
    for factor in FACTORS:
        total += factor * x[i]
    pair = (x[i], 2, True)
    total += pair[0] + pair[1] + len(pair)
    total += FACTORS[i % 3] + FACTORS[-1 - i % 3]
    y[i] = total


@pytest.mark.sycl
def test_tuples() -> None:
    x, y = np.arange(5.0), np.zeros(5)
    launch(_tuples, (5,), x, y)
    looked_up = np.array(FACTORS)[np.arange(5) % 3] + np.array(FACTORS)[2 - np.arange(5) % 3]
    np.testing.assert_array_equal(y, 9 + 7 * x + x + 5 + looked_up)


def _flow(item: Any, y: Any) -> None:
    i = item.get_id(0)
    steps = 0
    n = i + 1
    while n != 1:
        if steps > 15:
            break
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    squares = 0
    for j in range(i):
        if j == 2:
            continue
        squares += j * j
    if i < 0:
        raise ValueError("never")
    y[i] = 1000 * steps + squares


@pytest.mark.sycl
def test_control_flow() -> None:
    y = np.zeros(12, np.int64)
    launch(_flow, (12,), y)
    wanted = np.zeros(12, np.int64)

    class Item:
        def __init__(self, place: int) -> None:
            self.get_id = lambda axis: place

    for place in range(12):
        _flow(Item(place), wanted)
    assert y.tolist() == wanted.tolist()
