# SPDX-License-Identifier: Apache-2.0
"""Detection of device capabilities that an implementation lacks, and the reason given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syclsched.costs.capability import installed, unsupported
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import Implementation, ImplementationKind, Operation, Parameter, Requirements, Work
from syclsched.model.platform import HOST, Device
from syclsched.model.task import Task

GPU = Device("gpu", "g", "gpu", "level_zero", "a GPU", "gpu", ("gpu",), aspects=("gpu",), dtypes=("float32",))
CPU = Device(
    "cpu", "c", "cpu", "opencl", "a CPU", "cpu", ("cpu",), aspects=("cpu", "fp64"), dtypes=("float32", "float64")
)
HOST_DEVICE = Device(HOST, HOST, HOST, HOST, "the host", HOST, (HOST, "cpu"))


def implementation(kind: ImplementationKind = "opencl-c", requires: Requirements | None = None) -> Implementation:
    return Implementation("impl", kind, load=lambda _: None, requires=requires or Requirements())


def task(dtype: str, scalar: Parameter | None = None) -> Task:
    graph = TaskGraph()
    x = graph.array("x", (8,), dtype)
    scalars = {} if scalar is None else {scalar.name: 1}
    parameters = (Parameter("x", AccessMode.UPDATE), *(() if scalar is None else (scalar,)))
    operation = Operation("op", parameters, (implementation(),), work=lambda _: Work(1.0, 8.0))
    return graph.kernel(operation, x=x, **scalars)


def test_single_precision_runs_where_it_can() -> None:
    assert unsupported(task("float32"), implementation(), GPU) is None


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "bool"])
def test_integers_need_not_be_listed(dtype: str) -> None:
    assert unsupported(task(dtype), implementation(), GPU) is None


@pytest.mark.parametrize(("dtype", "aspect"), [("float64", "fp64"), ("complex128", "fp64"), ("float16", "fp16")])
def test_the_dtypes_of_arrays_imply_aspects(dtype: str, aspect: str) -> None:
    why = unsupported(task(dtype), implementation(), GPU)
    assert why == f"no aspect {aspect} (array 'x' is {dtype})"


def test_a_dtype_the_device_does_not_list_is_refused() -> None:
    half = replace(GPU, aspects=("fp16",))
    assert unsupported(task("float16"), implementation(), half) == "no dtype float16 (array 'x' is float16)"


def test_complex_needs_its_real_part_only() -> None:
    assert unsupported(task("complex64"), implementation(), GPU) is None


def test_double_scalar_needs_fp64_in_kernels_only() -> None:
    double = task("float32", Parameter("alpha", dtype="float64"))
    assert unsupported(double, implementation("python"), GPU) == "no aspect fp64 (scalar 'alpha' is float64)"
    assert unsupported(double, implementation("library"), GPU) is None
    alike = task("float32", Parameter("alpha", like="x"))
    assert unsupported(alike, implementation("python"), GPU) is None


@pytest.mark.parametrize(
    ("requires", "why"),
    [
        (Requirements(aspects=("cpu",)), "no aspect cpu"),
        (Requirements(backends=("cuda", "hip")), "backend is level_zero, not cuda or hip"),
        (Requirements(device_kinds=("accelerator",)), "kind is gpu, not accelerator"),
        (Requirements(packages=("no_such_package.at_all",)), "Python package no_such_package.at_all is not installed"),
        (Requirements(backend_packages=(("level_zero", "none.such"),)), "Python package none.such is not installed"),
        (Requirements(dtypes=("int32",)), "implementation does not take float32 (array 'x'), only int32"),
        (Requirements(refuses=lambda s: f"x is {s.shapes['x']}"), "implementation does not take it: x is (8,)"),
    ],
)
def test_a_missing_requirement_is_named(requires: Requirements, why: str) -> None:
    assert unsupported(task("float32"), implementation(requires=requires), GPU) == why


def test_requirements_that_are_met_are_no_obstacle() -> None:
    more = (("level_zero", "no_such_package"), ("opencl", "json"))
    requires = Requirements(("fp64",), ("float64",), ("opencl",), ("cpu",), ("json",), lambda _: None, more)
    assert unsupported(task("float64"), implementation(requires=requires), CPU) is None


def test_the_host_runs_host_functions_only() -> None:
    assert unsupported(task("float64"), implementation("host"), HOST_DEVICE) is None
    assert unsupported(task("float64"), implementation("host"), CPU) == "runs no host implementations"
    assert unsupported(task("float64"), implementation(), HOST_DEVICE) == "runs host implementations only"


def test_a_host_function_can_still_lack_a_package_or_a_dtype() -> None:
    needs = Requirements(packages=("no_such_package",))
    assert unsupported(task("float64"), implementation("host", needs), HOST_DEVICE) is not None
    needs = Requirements(dtypes=("float32",))
    assert unsupported(task("float64"), implementation("host", needs), HOST_DEVICE) is not None


def test_an_untrusted_device_supports_no_task() -> None:
    liar = replace(CPU, distrust="wrong sums")
    assert unsupported(task("float32"), implementation(), liar) == "not trusted (wrong sums)"


def test_a_library_that_refuses_a_device_is_not_used_there() -> None:
    refused = replace(GPU, refusals=(("oneDNN", "no engine"),))
    why = "oneDNN refuses the device (no engine)"
    assert unsupported(task("float32"), implementation("library", Requirements(libraries=("oneDNN",))), refused) == why
    assert unsupported(task("float32"), implementation("library", Requirements(libraries=("oneMKL",))), refused) is None
    assert unsupported(task("float32"), implementation("library", Requirements(libraries=("oneDNN",))), GPU) is None


def test_installed_does_not_import() -> None:
    assert installed("json")
    assert not installed("no_such_package")
    assert not installed("json.no_such_module")


def test_a_distribution_without_a_package_counts_as_installed() -> None:
    # Libraries only: nothing of that name can be imported.
    assert installed("intel-opencl-rt")
