# SPDX-License-Identifier: Apache-2.0
"""Values of completed buffers, as the caller wants them."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from syclsched.devices import memory
from syclsched.execution.buffers import LiveBuffer

Like = Literal["numpy", "dpnp", "usm_ndarray"]
NumpyArray = np.ndarray[Any, np.dtype[Any]]


def read_numpy(buffer: LiveBuffer) -> NumpyArray:
    """Return a copy of a buffer's value in host memory.

    Parameters
    ----------
    buffer : LiveBuffer
        Nobody writes it any more.

    Returns
    -------
    numpy.ndarray
        The caller's own.
    """
    if buffer.on_host:
        return buffer.numpy(writable=False).copy()
    result = np.empty(buffer.array.shape, buffer.array.dtype)
    if result.nbytes:
        # Any queue of the memory's context will do: all that was to come before has completed.
        buffer.storage.sycl_queue.memcpy_async(memory.as_bytes(result), buffer.storage, result.nbytes, []).wait()
    return result


def read(buffer: LiveBuffer, like: Like, queue: Any, *, share: bool) -> Any:
    """Return a buffer's value.

    Parameters
    ----------
    buffer : LiveBuffer
        Nobody writes it any more.
    like : str
        ``numpy``, ``dpnp`` or ``usm_ndarray``.
    queue : dpctl.SyclQueue or None
        Where device arrays are wanted, for a buffer that is in the host's memory.
    share : bool
        Whether a device array may be the buffer's own memory.

    Returns
    -------
    numpy.ndarray, dpnp.ndarray or dpctl.tensor.usm_ndarray
        A NumPy array is always a copy.
    """
    if like == "numpy":
        return read_numpy(buffer)
    from dpctl import tensor

    if buffer.is_usm:
        array = buffer.usm_array(buffer.storage.sycl_queue)
        array = array if share else tensor.copy(array)
    else:
        array = tensor.asarray(buffer.numpy(writable=False), sycl_queue=queue)
    if like == "usm_ndarray":
        return array
    import dpnp

    return dpnp.asarray(array)
