# SPDX-License-Identifier: Apache-2.0
"""oneMKL through private extension modules of dpnp and dpctl; only this module uses their names.

On a CPU device oneMKL computes on its own threads, so a limit on the OpenCL runtime's workers does not apply to it. Its
``potrf`` is not used: through dpnp it reports no failed pivot on a CPU device.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from syclsched.oneapi.dpctl_interface import usm_array_extension, usm_arrays

_BLAS = "dpnp.backend.extensions.blas._blas_impl"


@lru_cache(maxsize=1)
def _blas() -> Any:
    """Return dpnp's extension module of matrix products, loaded without dpnp.

    Importing dpnp takes a third of a second, and 200 MB of libraries for random numbers, transforms and the like.
    """
    from syclsched.oneapi.loading import load_blas_libraries

    usm_arrays()  # whose types the module uses

    package = None if "dpnp" in sys.modules else PathFinder.find_spec("dpnp")
    for folder in () if package is None else package.submodule_search_locations or ():
        for file in Path(folder).glob("backend/extensions/blas/_blas_impl*.so"):
            load_blas_libraries()
            spec = spec_from_file_location(_BLAS, file)
            assert spec is not None and spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            # CPython has registered it without its parents, which dpnp, if it is imported later, could not find then.
            sys.modules.pop(_BLAS, None)
            return module
    return importlib.import_module(_BLAS)


def _on(queue: Any, array: Any) -> Any:
    """Return the array associated with a queue of its context, without a copy; the extensions require it."""
    return array if array.sycl_queue == queue else array.to_device(queue)


def gemm(queue: Any, arguments: Mapping[str, Any], depends: Sequence[Any]) -> Any:
    """Submit C = A B, or a product into a temporary array, then its addition to C or subtraction from C."""
    arrays = usm_arrays()
    c, a, b = (_on(queue, arguments[name]) for name in ("c", "a", "b"))
    a, b = (each.T if arguments[trans] else each for each, trans in ((a, "trans_a"), (b, "trans_b")))
    m, n = c.shape
    overwrites = arguments["beta"] == 0
    # Of two matrices stored by columns the extension makes one stored by columns.
    straight = overwrites and not (a.flags.f_contiguous and b.flags.f_contiguous)
    product = c if straight else arrays.empty((m, n), dtype=c.dtype, usm_type="device", sycl_queue=queue)
    _, multiplied, row_major = _blas()._gemm(queue, a, b, product, list(depends))
    if straight:
        assert row_major
        return multiplied
    if not row_major:  # the same memory, read as oneMKL wrote it
        product = arrays.usm_ndarray((m, n), dtype=c.dtype, buffer=product.usm_data, strides=(1, m))
    if overwrites:
        copy = usm_array_extension("_tensor_impl")._copy_usm_ndarray_into_usm_ndarray
        _, copied = copy(src=product, dst=c, sycl_queue=queue, depends=[multiplied])
        return copied
    elementwise = usm_array_extension("_tensor_elementwise_impl")
    add = elementwise._add_inplace if arguments["alpha"] == 1 else elementwise._subtract_inplace
    _, added = add(lhs=c, rhs=product, sycl_queue=queue, depends=[multiplied])
    return added
