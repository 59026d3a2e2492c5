# SPDX-License-Identifier: Apache-2.0
"""Kernels written in Python: functions with the options of their compilation.

A kernel's first parameter is the work-item (`syclsched.kernel_api.Item`, or `NdItem` where work-groups have a size);
the others are arrays and scalars. Nothing is compiled or imported here: the types of the arguments are known when a
kernel is launched.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, Final, Literal, overload

from syclsched.errors import ArgumentError

#: ``own``: the package's compiler. ``numba-dpex``: that package, where it is installed.
CompilerName = Literal["own", "numba-dpex"]
COMPILERS: Final[tuple[CompilerName, ...]] = ("own", "numba-dpex")

#: Python's comparisons, and their names in LLVM's instructions.
COMPARISONS: Final[Mapping[Callable[[Any, Any], bool], str]] = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}


@dataclass(frozen=True, slots=True)
class CompilerExtension:
    """Entry points of a compiler, to which functions in LLVM IR are added: numba's registration functions and types.

    Parameters
    ----------
    lower : Callable
        Registers the code of a function: ``lower(function, *types)(emit)``, with numba's arguments of ``emit``.
    array_type : type
        numba's type of an array in the memory of a device.
    data_models : object
        The data models of types, with numba's method ``register``.
    """

    lower: Callable[..., Any]
    array_type: type
    data_models: Any


@dataclass(frozen=True, slots=True, eq=False)
class PythonKernel:
    """A kernel in Python, as made by `syclsched.kernel`.

    Parameters
    ----------
    function : function
        The decorated function.
    fastmath : bool, optional
        Whether floating-point operations may be reordered and approximated, and NaN and infinity be assumed absent.
    compiler : str or None, optional
        ``own`` or ``numba-dpex``; None for numba-dpex where it is installed, else the package's own.
    intrinsics : Callable[[CompilerExtension], None] or None, optional
        Registers functions that the kernel calls with a compiler. Internal.
    options : tuple of (str, object), optional
        Further options of numba-dpex, without effect on the package's own compiler.
    """

    function: FunctionType
    fastmath: bool = False
    compiler: CompilerName | None = None
    intrinsics: Callable[[CompilerExtension], None] | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    def __call__(self, *arguments: Any) -> None:
        """Raise an error: a kernel runs on a device, for every work-item of an index space."""
        raise ArgumentError(
            f"kernel {self.name!r} cannot be called like a function",
            hint=f"Launch it: syclsched.dpex.call_kernel({self.name}, Range(n), ...), or make it a task",
        )


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFunction:
    """A Python function that kernels and other device functions call, as made by `syclsched.device_func`.

    Parameters
    ----------
    function : function
        The decorated function.
    """

    function: FunctionType

    def __call__(self, *arguments: Any) -> Any:
        """Call the Python function, for tests on the host."""
        return self.function(*arguments)


@overload
def kernel(function: Callable[..., None], /) -> PythonKernel: ...


@overload
def kernel(
    *, fastmath: bool = ..., compiler: CompilerName | None = ...
) -> Callable[[Callable[..., None]], PythonKernel]: ...


def kernel(
    function: Callable[..., None] | None = None,
    /,
    *,
    fastmath: bool = False,
    compiler: CompilerName | None = None,
) -> Any:
    """Make a Python function a kernel: a decorator, with or without options.

    Parameters
    ----------
    function : function
        Its first parameter is the work-item, the others are arrays and scalars. It returns nothing.
    fastmath : bool, optional
        Whether floating-point operations may be reordered and approximated, and NaN and infinity be assumed absent.
    compiler : str or None, optional
        ``own`` or ``numba-dpex``; by default numba-dpex where it is installed, else the package's own.

    Returns
    -------
    PythonKernel
        For `Implementation.load`, and for `syclsched.dpex.call_kernel`.

    Raises
    ------
    ArgumentError
        If there is no such compiler, or ``function`` is not a Python function with a first parameter.

    Examples
    --------
    >>> import numpy as np
    >>> import syclsched
    >>> from syclsched import kernel_api
    >>> @syclsched.kernel
    ... def double(item, x):
    ...     x[item.get_id(0)] *= 2
    >>> x = np.ones(3)
    >>> kernel_api.call_kernel(double, kernel_api.Range(3), x)  # in Python; `operation` makes a task's kernel of it
    >>> x
    array([2., 2., 2.])
    """
    if compiler is not None and compiler not in COMPILERS:
        raise ArgumentError(f"compiler is 'own', 'numba-dpex' or None, not {compiler!r}")
    make = partial(_kernel, fastmath=fastmath, compiler=compiler)
    return make if function is None else make(function)


def _kernel(function: Callable[..., None], fastmath: bool, compiler: CompilerName | None) -> PythonKernel:
    checked = _checked(function, "kernel")
    if not inspect.signature(checked).parameters:
        raise ArgumentError(f"kernel {checked.__name__!r} has no parameter; the first one is the work-item")
    return PythonKernel(checked, fastmath, compiler)


def device_func(function: Callable[..., Any], /) -> DeviceFunction:
    """Make a Python function callable from kernels: a decorator.

    Parameters
    ----------
    function : function
        It may take and return scalars, tuples, arrays and what `syclsched.kernel_api` offers.

    Returns
    -------
    DeviceFunction
        Kernels call it by its name. It is compiled into them, with their options.

    Raises
    ------
    ArgumentError
        If ``function`` is not a Python function.

    Examples
    --------
    >>> import numpy as np
    >>> import syclsched
    >>> from syclsched import kernel_api
    >>> @syclsched.device_func
    ... def square(value):
    ...     return value * value
    >>> @syclsched.kernel
    ... def squares(item, x):
    ...     x[item.get_id(0)] = square(x[item.get_id(0)])
    >>> x = np.arange(3.0)
    >>> kernel_api.call_kernel(squares, kernel_api.Range(3), x)
    >>> x
    array([0., 1., 4.])
    """
    return DeviceFunction(_checked(function, "device_func"))


def _checked(function: Callable[..., Any], decorator: str) -> FunctionType:
    if not isinstance(function, FunctionType):
        raise ArgumentError(f"{decorator} decorates a Python function, not {type(function).__name__}")
    return function
