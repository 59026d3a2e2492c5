# SPDX-License-Identifier: Apache-2.0
"""A known-answer test of oneDNN: an installed library may still fail to load, or compute wrong results."""

from __future__ import annotations

from typing import Any

from syclsched import oneapi
from syclsched.errors import SyclschedError
from syclsched.oneapi.dpctl_interface import usm_arrays


def onednn_instruction_set() -> str | None:
    """Return the newest instruction set that oneDNN uses, as it names it; None if it cannot be loaded."""
    from syclsched.kernels.onednn.library import load

    try:
        library = load()
    except SyclschedError:
        return None
    found: str = library.instruction_set()
    return found


def onednn_error() -> str | None:
    """Return why oneDNN does not compute on the CPU device of this process, or None if it does.

    It multiplies two matrices of small integers, which is exact in any order.
    """
    oneapi.load()
    import dpctl
    import numpy as np

    from syclsched.kernels import nn
    from syclsched.model.operation import Signature

    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays: dict[str, Any] = {"y": np.zeros((2, 4), np.float32), "a": a, "b": b}
    signature = Signature(
        {name: each.shape for name, each in arrays.items()}, {name: each.dtype.name for name, each in arrays.items()}
    )
    try:
        queue = dpctl.SyclQueue("cpu", property="in_order")
        memory = {name: usm_arrays().asarray(each, sycl_queue=queue) for name, each in arrays.items()}
        nn.matmul().implementation("onednn").load(signature)(queue, memory, []).wait()
        found = usm_arrays().asnumpy(memory["y"])
    except (SyclschedError, RuntimeError, dpctl.SyclQueueCreationError) as error:
        return str(error)
    return (
        None if np.array_equal(found, a @ b) else f"a product of matrices is {found.tolist()}, not {(a @ b).tolist()}"
    )
