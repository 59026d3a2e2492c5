# SPDX-License-Identifier: Apache-2.0
"""Kernels written in Python, launched on dpnp arrays: local memory, a device function, an atomic sum, events.

These are numba-dpex's names: a program for numba-dpex runs after changing its import.
"""

import numpy as np

from syclsched import oneapi

oneapi.load()  # finds the SYCL runtime, before dpnp is imported
import dpnp  # noqa: E402

import syclsched.dpex as dpex  # noqa: E402
from syclsched.dpex import kernel_api as kapi  # noqa: E402

GROUP = 64


@dpex.device_func
def square(value):  # type: ignore[no-untyped-def]
    """Return a number times itself; kernels call it."""
    return value * value


@dpex.kernel
def sum_of_squares(item: kapi.NdItem, x, partial, total):  # type: ignore[no-untyped-def]
    """Add the squares of a work-group in local memory, and the group's sum to the total."""
    place, group = item.get_local_id(0), item.get_group()
    i = item.get_global_id(0)
    partial[place] = square(x[i]) if i < x.size else 0.0
    width = item.get_local_range(0) // 2
    while width > 0:
        kapi.group_barrier(group)
        if place < width:
            partial[place] += partial[place + width]
        width //= 2
    if place == 0:
        kapi.AtomicRef(total, 0).fetch_add(partial[0])


def main() -> None:
    x, total = dpnp.linspace(0, 1, 1000), dpnp.zeros(1)
    items = -(-x.size // GROUP) * GROUP
    space, partial = dpex.NdRange((items,), (GROUP,)), kapi.LocalAccessor(GROUP, x.dtype)
    kept, event = dpex.call_kernel_async(sum_of_squares, space, (), x, partial, total)
    event.wait()
    expected = float((dpnp.asnumpy(x) ** 2).sum())
    print(f"sum of squares {float(total[0]):.6f}, by NumPy {expected:.6f}")
    np.testing.assert_allclose(dpnp.asnumpy(total)[0], expected, rtol=1e-12)
    kept.wait()


if __name__ == "__main__":
    main()
