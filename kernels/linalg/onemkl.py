# SPDX-License-Identifier: Apache-2.0
"""oneMKL through private extension modules of dpnp and dpctl; only this module uses their names.

On a CPU device oneMKL computes on its own threads, so a limit on the OpenCL runtime's workers does not apply to it. Its
``potrf`` is not used: through dpnp it reports no failed pivot on a CPU device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def _on(queue: Any, array: Any) -> Any:
    """Return the array associated with a queue of its context, without a copy; the extensions require it."""
    return array if array.sycl_queue == queue else array.to_device(queue)


def gemm(queue: Any, arguments: Mapping[str, Any], depends: Sequence[Any]) -> Any:
    """Submit C -= A B^T: a product into a temporary array, then a subtraction."""
    import dpctl.tensor as dpt
    from dpctl.tensor import _tensor_elementwise_impl as elementwise
    from dpnp.backend.extensions.blas import _blas_impl as blas

    c, a, b = (_on(queue, arguments[name]) for name in ("c", "a", "b"))
    m, n = c.shape
    product = dpt.empty((m, n), dtype=c.dtype, usm_type="device", sycl_queue=queue)
    _, multiplied, row_major = blas._gemm(queue, a, b.T, product, list(depends))
    if not row_major:  # the same memory, read as oneMKL wrote it
        product = dpt.usm_ndarray((m, n), dtype=c.dtype, buffer=product.usm_data, strides=(1, m))
    _, subtracted = elementwise._subtract_inplace(lhs=c, rhs=product, sycl_queue=queue, depends=[multiplied])
    return subtracted
