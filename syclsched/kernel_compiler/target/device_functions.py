# SPDX-License-Identifier: Apache-2.0
"""Functions compiled for use in kernels: the kernels' own, device functions, numba's implementations of operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from numba.core import types
from numba.core.compiler import compile_extra
from numba.core.dispatcher import _FunctionCompiler
from numba.core.errors import TypingError
from numba.core.target_extension import dispatcher_registry, jit_registry, target_override
from numba.core.typing import make_concrete_template

from syclsched.kernel_compiler.target.contexts import TARGET, KernelFlags, KernelTarget, current_flags, descriptor
from syclsched.kernel_compiler.target.pipeline import KernelPipeline

#: Device functions made from functions that were marked for other targets.
_ADOPTED: WeakKeyDictionary[Any, DeviceDispatcher] = WeakKeyDictionary()


def kernel_flags(*, fastmath: bool, float_atomics: frozenset[str]) -> Any:
    """Return numba's flags for a kernel and the functions it calls."""
    flags = KernelFlags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.forceinline = True
    flags.error_model = "numpy"
    flags.fastmath = fastmath
    flags.float_atomics = float_atomics
    return flags


class DeviceDispatcher:
    """A Python function that kernels call, compiled for each list of argument types; numba's idea of a dispatcher."""

    _fold_args = True
    #: numba infers the types of recursive calls itself where this is true.
    is_compiling = False
    targetdescr = descriptor

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.targetoptions: dict[str, Any] = {}
        self._overloads: dict[Any, Any] = {}
        self._in_progress: set[Any] = set()
        self._compiler = _FunctionCompiler(function, descriptor, {}, {}, KernelPipeline)
        self._numba_type_ = types.Dispatcher(self)

    @classmethod
    def adopted(cls, dispatcher: Any) -> DeviceDispatcher:
        """Return the device function of a function that was marked for another of numba's targets."""
        if (function := _ADOPTED.get(dispatcher)) is None:
            function = _ADOPTED[dispatcher] = cls(dispatcher.py_func)
        return function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the Python function."""
        return self.py_func(*args, **kwargs)

    def compile(self, argument_types: tuple[Any, ...]) -> Any:
        """Compile the function for argument types with the flags of the compilation in progress."""
        flags = current_flags().copy()
        flags.no_compile = False  # numba sets it for its own functions, which it calls in another way
        key = argument_types, flags
        result = self._overloads.get(key)
        if result is None:
            if key in self._in_progress:
                raise TypingError(f"{self.__name__} calls itself, which devices cannot do")
            self._in_progress.add(key)
            try:
                result = self._overloads[key] = compile_function(self.py_func, argument_types, None, flags)
            finally:
                self._in_progress.discard(key)
        return result

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the template of a call for numba's typing."""
        signature, folded = self._compiler.fold_argument_types(args, kws)
        result = self.compile(tuple(folded))
        template = make_concrete_template(self.__name__, key=self.__name__, signatures=[result.signature])
        return template, signature, folded, {}

    def get_overload(self, signature: Any) -> Any:
        """Return the identity of the compiled function for a signature."""
        return self.compile(tuple(getattr(signature, "args", signature))).entry_point

    @property
    def nopython_signatures(self) -> list[Any]:
        """Signatures compiled so far."""
        return [result.signature for result in self._overloads.values()]


def compile_function(function: Callable[..., Any], argument_types: tuple[Any, ...], result: Any, flags: Any) -> Any:
    """Compile a function to LLVM IR; return numba's result."""
    with target_override(TARGET):
        return compile_extra(
            descriptor.typing_context,
            descriptor.target_context,
            function,
            argument_types,
            result,
            flags.copy(),
            {},
            pipeline_class=KernelPipeline,
        )


def _decorator(*args: Any, **options: Any) -> Callable[[Callable[..., Any]], DeviceDispatcher]:
    return DeviceDispatcher


def device_function(function: Callable[..., Any]) -> DeviceDispatcher:
    """Mark a Python function that kernels call.

    Parameters
    ----------
    function : callable
        The function; it is compiled into the kernels that call it, for the types of its arguments there.

    Returns
    -------
    DeviceDispatcher
        The function, still callable from Python.
    """
    return DeviceDispatcher(function)


# numba compiles its own implementations of operations, such as those of `@overload`, with the target's decorator.
jit_registry[KernelTarget] = _decorator
dispatcher_registry[KernelTarget] = DeviceDispatcher
