# SPDX-License-Identifier: Apache-2.0
"""numba-dpex's names for kernels, on every generation of the SYCL packages.

A program for numba-dpex 0.23 runs after changing one import::

    import syclsched.dpex as dpex  # instead of numba_dpex
    from syclsched.dpex import kernel_api as kapi

Where numba-dpex is installed it compiles kernels without local memory; this package compiles the others, and launches
all of them, which takes less than half of the time. See `syclsched.kernel`. Functions compiled for the host (``dpjit``,
``prange``) and signatures given beforehand are numba-dpex's alone.

Examples
--------
>>> from syclsched import oneapi
>>> runtime = oneapi.load()  # so that dpctl finds its libraries
>>> import dpnp
>>> import syclsched.dpex as dpex
>>> @dpex.kernel
... def double(item, x):
...     x[item.get_id(0)] *= 2
>>> x = dpnp.ones(3, dtype="float32", device="cpu")
>>> dpex.call_kernel(double, dpex.Range(3), x)
>>> dpnp.asnumpy(x).tolist()
[2.0, 2.0, 2.0]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from syclsched import kernel_api
from syclsched.devices.native.host_tasks import wait_for
from syclsched.devices.native.sycl_types import SyclEvent
from syclsched.devices.programs.python_kernels import kernel_launcher
from syclsched.errors import ArgumentError
from syclsched.kernel_api import NdRange, Range
from syclsched.kernel_compiler import python_kernel
from syclsched.kernel_compiler.python_kernel import PythonKernel

__all__ = ["NdRange", "Range", "call_kernel", "call_kernel_async", "device_func", "kernel", "kernel_api"]


def kernel(function: Callable[..., None] | None = None, **options: Any) -> Any:
    """Make a Python function a kernel: ``numba_dpex.kernel``.

    Parameters
    ----------
    function : function
        The kernel's function. Not a signature: kernels are compiled for the arguments that they are called with.
    **options
        ``fastmath`` and ``compiler`` as for `syclsched.kernel`; numba-dpex's others, such as ``debug``, are passed to
        it, and have no effect on the package's own compiler.

    Returns
    -------
    PythonKernel
        The kernel, for `call_kernel`.

    Raises
    ------
    ArgumentError
        If ``function`` is a signature.
    """
    _refuse_signature(function)
    named = {name: options.pop(name) for name in ("fastmath", "compiler") if name in options}

    def make(given: Callable[..., None]) -> PythonKernel:
        made: PythonKernel = python_kernel.kernel(**named)(given)
        return replace(made, options=tuple(sorted(options.items())))

    return make if function is None else make(function)


def device_func(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a Python function callable from kernels: ``numba_dpex.device_func``.

    Parameters
    ----------
    function : function
        The function. Not a signature.
    **options
        Accepted and ignored: a device function is compiled with the options of the kernel that calls it.

    Returns
    -------
    DeviceFunction
        The function, as kernels call it.

    Raises
    ------
    ArgumentError
        If ``function`` is a signature.
    """
    _refuse_signature(function)
    return python_kernel.device_func if function is None else python_kernel.device_func(function)


def call_kernel(kernel_fn: PythonKernel, index_space: Range | NdRange, *kernel_args: Any) -> None:
    """Run a kernel on an index space and wait for its end: ``numba_dpex.call_kernel``.

    Parameters
    ----------
    kernel_fn : PythonKernel
        A function with the decorator `kernel`.
    index_space : Range or NdRange
        Its work-items, in work-groups of a given size with `NdRange`.
    *kernel_args
        Arrays of dpnp or dpctl, which all have the queue to run on; numbers; `kernel_api.LocalAccessor`.

    Raises
    ------
    ArgumentError
        If an argument cannot be passed to a kernel, or the arrays have different queues.
    ExecutionError
        If the kernel cannot be compiled.
    """
    wait_for(kernel_launcher.launch(kernel_fn, index_space, kernel_args, (), keep=False).event)


def call_kernel_async(
    kernel_fn: PythonKernel, index_space: Range | NdRange, dependent_events: Sequence[SyclEvent], *kernel_args: Any
) -> tuple[SyclEvent, SyclEvent]:
    """Run a kernel on an index space without waiting: ``numba_dpex.call_kernel_async``.

    Parameters
    ----------
    kernel_fn, index_space, *kernel_args
        As for `call_kernel`.
    dependent_events : sequence of dpctl.SyclEvent
        Events after which the kernel runs.

    Returns
    -------
    tuple of dpctl.SyclEvent
        The event of the host task that keeps the arguments alive, and that of the kernel.

    Raises
    ------
    ArgumentError, ExecutionError
        As for `call_kernel`.
    """
    made = kernel_launcher.launch(kernel_fn, index_space, kernel_args, dependent_events, keep=True)
    assert made.host_event is not None
    return made.host_event, made.event


def _refuse_signature(function: Any) -> None:
    if function is not None and not callable(function):
        raise ArgumentError(
            f"{type(function).__name__} is no function",
            where="kernel",
            hint="Leave signatures out: kernels are compiled for the arguments that they are called with",
        )


def __getattr__(name: str) -> Any:
    if name in ("dpjit", "prange"):
        raise AttributeError(
            f"syclsched.dpex has kernels; {name} compiles functions for the host: use numba_dpex.{name}"
        )
    raise AttributeError(f"module 'syclsched.dpex' has no attribute {name!r}")
