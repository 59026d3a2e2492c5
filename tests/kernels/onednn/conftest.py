# SPDX-License-Identifier: Apache-2.0
"""An in-order queue of the CPU device, and a runner of oneDNN's implementations on it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from support.operations import close, described, on_host

from syclsched.costs.capability import installed
from syclsched.model.operation import Operation, Signature
from syclsched.oneapi.dpctl_interface import usm_arrays

if not installed("onednn"):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def cpu() -> Any:
    """An in-order queue of the CPU device."""
    from syclsched import oneapi

    oneapi.load()
    import dpctl

    return dpctl.SyclQueue("opencl:cpu", property="in_order")


class Runner:
    """Runs oneDNN's implementation of an operation and compares it with the host's."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def signature(self, operation: Operation, arrays: dict[str, np.ndarray], constants: Collection[str]) -> Signature:
        plain = described(operation, arrays)
        return Signature(plain.shapes, plain.dtypes, {}, frozenset(constants))

    def refused(
        self, operation: Operation, arrays: dict[str, np.ndarray], constants: Collection[str] = ()
    ) -> str | None:
        """Return the reason why oneDNN refuses it, or None."""
        refuses = operation.implementation("onednn").requires.refuses
        assert refuses is not None
        return refuses(self.signature(operation, arrays, constants))

    def __call__(
        self,
        operation: Operation,
        arrays: dict[str, np.ndarray],
        constants: Collection[str] = (),
        result: str = "y",
    ) -> np.ndarray:
        """Return oneDNN's results on arrays."""
        dpt = usm_arrays()

        signature = self.signature(operation, arrays, constants)
        implementation = operation.implementation("onednn")
        assert implementation.prepare is not None
        loaded = implementation.load(signature)
        usm = {n: dpt.asarray(a, sycl_queue=self.queue) for n, a in arrays.items() if n not in constants}
        for name, made in implementation.prepare(signature, self.queue, {n: arrays[n] for n in constants}).items():
            usm[name] = dpt.asarray(made, sycl_queue=self.queue) if isinstance(made, np.ndarray) else made
        loaded(self.queue, usm, []).wait()
        return np.asarray(dpt.asnumpy(usm[result]))

    def agrees(
        self,
        operation: Operation,
        arrays: dict[str, np.ndarray],
        constants: Collection[str] = (),
        factor: float = 1.0,
    ) -> None:
        """Assert that oneDNN accepts it, with the host's results."""
        assert self.refused(operation, arrays, constants) is None
        close(self(operation, arrays, constants), on_host(operation, arrays), "float32", factor)


@pytest.fixture(scope="session")
def onednn(cpu: Any, onednn_on_cpu: None) -> Runner:
    """Runs oneDNN's implementations on the CPU device."""
    return Runner(cpu)
