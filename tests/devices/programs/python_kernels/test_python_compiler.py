# SPDX-License-Identifier: Apache-2.0
"""The choice of a Python kernel's compiler, and the cache keys of its SPIR-V."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.compilers import needs_numba_dpex

import syclsched
from syclsched import oneapi
from syclsched.devices.programs.python_kernels import python_compiler
from syclsched.devices.programs.python_kernels.function_references import with_replaced
from syclsched.devices.programs.python_kernels.spirv_key import cache_key, content_key
from syclsched.errors import ArgumentError
from syclsched.kernel_compiler import ArrayArgument, ItemArgument, ScalarArgument
from syclsched.kernels.vectors import kernel_vectors

ARGUMENTS = (ItemArgument(1), ArrayArgument("float32", 1))


def scaling(factor: Any) -> Any:
    @syclsched.kernel
    def scale(item: Any, x: Any) -> None:
        x[item.get_id(0)] *= factor

    return scale


def test_environment_variable_chooses_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = scaling(2)
    for name in ("own", "numba-dpex"):
        monkeypatch.setenv(python_compiler.VARIABLE, name)
        assert python_compiler.compiler_of(kernel) == name
        assert python_compiler.compiler_of(replace(kernel, compiler="own")) == "own"
    monkeypatch.setenv(python_compiler.VARIABLE, "gcc")
    with pytest.raises(ArgumentError, match="'gcc' is no compiler of Python kernels"):
        python_compiler.compiler_of(kernel)
    monkeypatch.delenv(python_compiler.VARIABLE)
    expected = "numba-dpex" if python_compiler.numba_dpex_can_be_used() else "own"
    assert python_compiler.compiler_of(kernel) == expected


@needs_numba_dpex
def test_a_kernel_of_numba_dpex_is_its_own() -> None:
    oneapi.load()
    import numba_dpex

    assert python_compiler.compiler_of(numba_dpex.kernel(scaling(2).function)) == "numba-dpex"


def test_keys_differ_by_all_that_the_code_depends_on() -> None:
    kernel, double = scaling(2), (ItemArgument(1), ArrayArgument("float64", 1))
    keys = [
        content_key(kernel, "own", ARGUMENTS, ()),
        content_key(scaling(3), "own", ARGUMENTS, ()),
        content_key(scaling(2.0), "own", ARGUMENTS, ()),
        content_key(replace(kernel, fastmath=True), "own", ARGUMENTS, ()),
        content_key(replace(kernel, options=(("debug", True),)), "own", ARGUMENTS, ()),
        content_key(replace(kernel, intrinsics=kernel_vectors.register), "own", ARGUMENTS, ()),
        content_key(kernel, "numba-dpex", ARGUMENTS, ()),
        content_key(kernel, "own", double, ()),
        content_key(kernel, "own", (*ARGUMENTS, ScalarArgument("int64")), ()),
        content_key(kernel, "own", ARGUMENTS, ("fp64 True",)),
    ]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert content_key(scaling(2), "own", ARGUMENTS, ()) == keys[0]
    assert cache_key(str(keys[0]), ("numba 1",)) != cache_key(str(keys[0]), ("numba 2",))


def test_kernels_with_opaque_values_have_no_key() -> None:
    assert content_key(scaling(object()), "own", ARGUMENTS, ()) is None
    assert content_key(object(), "numba-dpex", ARGUMENTS, ()) is None


OUTER = 3


def test_functions_are_copied_with_other_values() -> None:
    inner = 5

    def function(x: int) -> Any:
        return x * OUTER + inner + np.pi

    others = {3: 30, 5: 50, np.pi: 0}
    changed = with_replaced(function, lambda value: others[value] if type(value) in (int, float) else value)
    assert function(1) == 8 + np.pi
    assert changed(1) == 80
    assert np.pi > 3
    assert changed.__code__ is function.__code__


@pytest.mark.parametrize("decorate", [syclsched.kernel, syclsched.device_func])
def test_only_functions_are_decorated(decorate: Any) -> None:
    with pytest.raises(ArgumentError, match="decorates a Python function, not builtin_function_or_method"):
        decorate(len)


def test_a_kernel_has_a_work_item() -> None:
    with pytest.raises(ArgumentError, match="the first one is the work-item"):
        syclsched.kernel(lambda: None)
    with pytest.raises(ArgumentError, match="compiler is 'own', 'numba-dpex' or None"):
        syclsched.kernel(compiler="gcc")  # type: ignore[call-overload]
