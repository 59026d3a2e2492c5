# SPDX-License-Identifier: Apache-2.0
"""Search for the library, and behaviour where it is absent or of the wrong kind."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from support.onednn_calls import needs_onednn

from syclsched.costs import capability
from syclsched.costs.capability import unsupported
from syclsched.errors import CapabilityError, ExecutionError
from syclsched.kernels import nn
from syclsched.kernels.onednn import library, status
from syclsched.model.graph import TaskGraph
from syclsched.model.platform import Device
from syclsched.model.task import Task
from syclsched.oneapi import stack_generation

CPU = Device("cpu", "c", "cpu", "opencl", "a CPU", "cpu", ("cpu",), aspects=("cpu",), dtypes=("float32",))
EMULATOR = Device("fpga", "f", "fpga", "opencl", "an emulator", "accelerator", ("fpga",), dtypes=("float32",))


def relu_of_product() -> Task:
    graph = TaskGraph()
    y, a, b = (graph.array(name, (4, 4), "float32") for name in "yab")
    operation = nn.matmul(activation=(("relu",),))
    return graph.kernel(operation, y=y.write(), a=a.read(), b=b.read())


def why(task: Task, device: Device) -> str | None:
    assert task.operation is not None
    return unsupported(task, task.operation.implementation("onednn"), device)


def test_onednn_is_the_first_implementation_on_the_cpu() -> None:
    task = relu_of_product()
    assert task.operation is not None
    assert task.operation.implementations[0].name == "onednn"
    assert why(task, CPU) is None


def test_emulator_is_not_used_by_default() -> None:
    assert why(relu_of_product(), EMULATOR) == "kind is fpga, not cpu or gpu"


def test_other_implementations_replace_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    capability.installed.cache_clear()
    monkeypatch.setattr(metadata, "distribution", none)
    try:
        task = relu_of_product()
        assert why(task, CPU) == "Python package onednn is not installed"
        assert task.operation is not None
        others = [i for i in task.operation.implementations if i.is_kernel]
        assert any(unsupported(task, each, CPU) is None for each in others)
    finally:
        monkeypatch.undo()
        capability.installed.cache_clear()


def test_unsupported_operations_are_refused_by_the_implementation() -> None:
    graph = TaskGraph()
    y, x = (graph.array(name, (1, 4, 4, 6), "float32") for name in "yx")
    task = graph.kernel(nn.lrn(size=4, channels_last=True), y=y.write(), x=x.read())
    assert str(why(task, CPU)).startswith("implementation does not take it: the size is odd")


def test_a_missing_library_raises_an_error_with_a_hint() -> None:
    with pytest.raises(CapabilityError, match=r"oneDNN: libdnnl.so.3 is not there\. pip install"):
        library.find(lambda: None)


def test_the_library_is_found_by_its_distribution_record() -> None:
    path = Path(library.find())
    assert path.name == library.LIBRARY
    assert library.needed_runtime(str(path)) == stack_generation.installed().sycl_library


@pytest.mark.sycl
def test_other_builds_are_refused(tmp_path: Path) -> None:
    from syclsched import oneapi

    oneapi.load()
    other = tmp_path / "libdnnl.so.3"
    other.write_bytes(b"\x7fELF no library \0libtbb.so.12\0")
    with pytest.raises(CapabilityError, match="is no SYCL build"):
        library._open(str(other))
    # Loading it would load a second SYCL runtime, and end the process.
    other.write_bytes(b"\x7fELF no library \0libsycl.so.99\0")
    with pytest.raises(CapabilityError, match=r"needs libsycl.so.99, and libsycl.so.* is loaded"):
        library._open(str(other))
    runtime = stack_generation.installed().sycl_library.encode()
    other.write_bytes(b"\x7fELF no library \0" + runtime + b"\0")
    with pytest.raises(CapabilityError, match="it cannot be loaded"):
        library._open(str(other))


def test_statuses_become_errors() -> None:
    status.check(0, "nothing")
    with pytest.raises(CapabilityError, match="oneDNN: conv: oneDNN says dnnl_unimplemented"):
        status.check(3, "conv")
    with pytest.raises(ExecutionError, match="conv: oneDNN says dnnl_out_of_memory"):
        status.check(1, "conv")


class OtherDevice:
    is_cpu = False


@pytest.mark.sycl
@needs_onednn
@pytest.mark.parametrize("on_cpu", [True, False])
def test_unimplemented_primitives_are_refused_from_then_on(monkeypatch: pytest.MonkeyPatch, on_cpu: bool) -> None:
    from syclsched import oneapi
    from syclsched.kernels.onednn import primitives, requests
    from syclsched.kernels.onednn.engines import engine_of

    oneapi.load()
    import dpctl

    def unimplemented(*_: Any) -> Any:
        raise CapabilityError("matmul: oneDNN says dnnl_unimplemented", where="oneDNN")

    monkeypatch.setattr(primitives, "create", unimplemented)
    task = relu_of_product()
    assert task.operation is not None
    assert task.signature is not None
    loaded = task.operation.implementation("onednn").load(task.signature)
    queue = dpctl.SyclQueue("opencl:cpu", property="in_order")
    primitives._primitives.clear()
    try:
        if on_cpu:
            with pytest.raises(CapabilityError):
                loaded.check(queue)
            assert "dnnl_unimplemented" in str(why(task, CPU))
        else:
            gpu = replace(engine_of(queue), device=OtherDevice())  # type: ignore[arg-type]
            with pytest.raises(CapabilityError):
                primitives.primitive_of(gpu, loaded.request)
            assert why(task, CPU) is None
    finally:
        requests.REFUSED.clear()
    assert why(task, CPU) is None
