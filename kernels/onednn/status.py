# SPDX-License-Identifier: Apache-2.0
"""oneDNN status codes and the errors they raise."""

from __future__ import annotations

from typing import Final

from syclsched.errors import CapabilityError, ExecutionError

NAMES: Final = {
    0: "dnnl_success",
    1: "dnnl_out_of_memory",
    2: "dnnl_invalid_arguments",
    3: "dnnl_unimplemented",
    4: "dnnl_last_impl_reached",
    5: "dnnl_runtime_error",
    6: "dnnl_not_required",
    7: "dnnl_invalid_graph",
    8: "dnnl_invalid_graph_op",
    9: "dnnl_invalid_shape",
    10: "dnnl_invalid_data_type",
}
#: Statuses meaning "not supported", as opposed to a failure.
_REFUSALS: Final = frozenset({2, 3, 4, 8, 9, 10})


def explain(status: int) -> str:
    """Return the text of a status."""
    return f"oneDNN says {NAMES.get(status, f'status {status}')}"


def check(status: int, what: str, *, where: str = "oneDNN") -> None:
    """Raise an error if a call failed."""
    if status == 0:
        return
    message = f"{what}: {explain(status)}"
    if status in _REFUSALS:
        raise CapabilityError(message, where=where)
    raise ExecutionError(message, where=where)
