# SPDX-License-Identifier: Apache-2.0
"""The backend node tests that ship with ``onnx``, each through compilation of a model."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest
from support.gpu_shape import OTHER_DEVICE

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from support import node_cases  # noqa: E402
from support.case_selection import covering  # noqa: E402
from support.host_evaluation import evaluate  # noqa: E402

from syclsched import api  # noqa: E402
from syclsched.costs import MemoryHistory  # noqa: E402
from syclsched.errors import HostOperatorWarning  # noqa: E402
from syclsched.frontends.onnx.lowering import lower  # noqa: E402
from syclsched.frontends.onnx.model_file.dtypes import numpy_dtype  # noqa: E402
from syclsched.frontends.onnx.network import compose, cut_to_lengths  # noqa: E402
from syclsched.frontends.onnx.rewrites import rewrite  # noqa: E402
from syclsched.planner import attempt  # noqa: E402

CLAIMED = [case for case in node_cases.cases() if node_cases.out_of_scope(case) is None]
#: On the emulator, which compiles slowly, one test in so many, and all of exporters' convolutions and poolings:
#: without oneDNN, they take other implementations.
EMULATED = [
    case
    for number, case in enumerate(CLAIMED)
    if number % 40 == 0 or (case.kind.startswith("pytorch") and {"Conv", "MaxPool", "Gemm"} & set(case.operators))
]


def forms(case: node_cases.NodeCase) -> frozenset[Hashable]:
    """Return each operator of a case with the opset and with each dtype of an input."""
    opset = max(item.version for item in case.model.opset_import)
    dtypes = {each.type.tensor_type.elem_type for each in case.model.graph.input} or {0}
    return frozenset(product(case.operators, [opset], dtypes))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give devices every case with ``--all-cases``: import and evaluation on the host are tested with every one."""
    if "on_device" in metafunc.fixturenames:
        cases = CLAIMED if metafunc.config.getoption("--all-cases") else covering(CLAIMED, forms)
        metafunc.parametrize("on_device", cases, ids=lambda case: case.name)


@pytest.fixture(scope="module", autouse=True)
def _no_bound() -> Iterator[None]:
    """Leave out the lower bound of plans: half of the time of planning one node, and not read here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempt, "plan_bound_s", lambda problem: 0.0)
        yield


@cache
def platform() -> Any:
    return api.discover(where=lambda device: True)  # with the emulator


def test_there_are_node_tests() -> None:
    assert len(CLAIMED) > 900


@pytest.mark.parametrize("case", CLAIMED, ids=lambda case: case.name)
def test_imported_networks_have_the_results_of_onnx(case: node_cases.NodeCase) -> None:
    for inputs, outputs in case.data():
        given = node_cases.named(case, inputs)
        values, network = node_cases.prepared(case, given)
        got = values.results(evaluate(network, values))
        for name, want in zip(got, outputs, strict=True):
            assert node_cases.differences(got[name], want) is None, name


@pytest.mark.sycl
def test_the_cpu_device_has_the_results_of_onnx(on_device: node_cases.NodeCase) -> None:
    check_on(on_device, next(device.name for device in platform().devices if device.kind == "cpu"))


@pytest.mark.sycl
@pytest.mark.other_device
@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("case", EMULATED, ids=lambda case: case.name)
def test_the_emulator_has_the_results_of_onnx(case: node_cases.NodeCase) -> None:
    check_on(case, next(device.name for device in platform().devices if device.kind == OTHER_DEVICE))


def check_on(case: node_cases.NodeCase, device: str) -> None:
    for inputs, outputs in case.data():
        given = node_cases.named(case, inputs)
        values, network = node_cases.prepared(case, given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HostOperatorWarning)
            lowered = lower(rewrite(network).network)
        plan = api.plan(lowered.graph, platform(), policy=f"single:{device}", rewrite="none", history=MemoryHistory())
        arrays = {lowered.inputs[name]: values[name].astype(network.values[name].dtype) for name in network.inputs}
        with api.run(lowered.graph, platform(), plan=plan, inputs=arrays, calibrate=False) as run:
            made = {name: run.result(lowered.outputs[name]) for name in network.outputs}
            cut = cut_to_lengths(made, network.lengths)
            cast = {
                name: each.astype(numpy_dtype(network.elements.get(name, each.dtype.name)))
                for name, each in cut.items()
            }
            got = values.results(compose(cast, network.composition))
            for name, want in zip(got, outputs, strict=True):
                assert node_cases.differences(got[name], want) is None, name
