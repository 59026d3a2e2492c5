# SPDX-License-Identifier: Apache-2.0
"""numba's typing context and target context for SPIR-V kernels, and the descriptor that joins them."""

from __future__ import annotations

import math
import operator
from functools import cached_property
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba.core import types, typing
from numba.core.base import BaseContext
from numba.core.callconv import MinimalCallConv
from numba.core.compiler import Flags
from numba.core.descriptors import TargetDescriptor
from numba.core.fastmathpass import rewrite_module
from numba.core.imputils import Registry
from numba.core.options import TargetOptions
from numba.core.target_extension import GPU, dispatcher_registry, target_registry
from numba.core.targetconfig import ConfigStack, Option
from numba.core.typing.templates import Registry as TypingRegistry
from numba.np.numpy_support import from_dtype

from syclsched.kernel_compiler.kernel_api.memory_model import AddressSpace, MemoryOrder, MemoryScope
from syclsched.kernel_compiler.target.code_library import FUNCTION_CONVENTION, KernelCodegen
from syclsched.kernel_compiler.target.kernel_types import DeviceArray, data_models

#: numba's name of the target, for ``@overload(..., target=TARGET)``.
TARGET: Final = "syclsched_spirv"

_ENUMERATIONS: Final = (MemoryOrder, MemoryScope, AddressSpace)

#: Code generation for this target alone.
lowering_registry = Registry(TARGET)
#: Typing for this target alone.
typing_registry = TypingRegistry()

#: numba's declarations of NumPy's functions, and of those of ``math``.
_numpy_registry, _math_registry = TypingRegistry(), TypingRegistry()
#: Functions that return floating-point numbers in kernels, as in numba-dpex: infinity and NaN are no whole numbers.
ROUNDING: Final = frozenset({math.floor, math.ceil, math.trunc})
_OPERATORS: Final = frozenset(each for each in vars(operator).values() if callable(each))

#: Code of NumPy's functions on scalars, by function and by the types of their loops.
universal_functions: dict[Any, dict[str, Any]] = {}


class KernelTarget(GPU):  # type: ignore[misc]
    """Devices that take SPIR-V."""


target_registry[TARGET] = KernelTarget


class KernelFlags(Flags):  # type: ignore[misc]
    """numba's compilation flags, and those of kernels."""

    float_atomics = Option(type=frozenset, default=frozenset(), doc="Floating-point atomic operations of the device")


def current_flags() -> Any:
    """Return the flags of the compilation in progress."""
    return ConfigStack.top_or_none()


def _fill(registry: Any, source: Any, excluded: frozenset[Any]) -> None:
    """Copy declarations to an empty registry, without those of some functions."""
    if not registry.globals:
        registry.functions += source.functions
        registry.attributes += source.attributes
        registry.globals += [each for each in source.globals if each[0] not in excluded]


def _numpy_twin(value: Any) -> Any:
    """Return NumPy's universal function for one of dpnp of the same name; other values unchanged."""
    if not (getattr(value, "__module__", None) or "").startswith("dpnp"):
        return value
    twin = getattr(np, getattr(value, "__name__", ""), None)
    return twin if isinstance(twin, np.ufunc) else value


class KernelTypingContext(typing.BaseContext):  # type: ignore[misc]
    """Types of names and operations in kernels."""

    def resolve_value_type(self, val: Any) -> Any:
        """Return the type of a global; constants of the memory model are literals, arrays constant memory."""
        if isinstance(val, _ENUMERATIONS):
            return types.IntegerLiteral(int(val))
        if isinstance(val, np.ndarray):
            return DeviceArray(from_dtype(val.dtype), val.ndim, "C", int(AddressSpace.CONSTANT), readonly=True)
        if hasattr(val, "py_func") and getattr(val, "targetdescr", None) is not descriptor:
            # `DeviceDispatcher` registers itself with numba: it compiles with the contexts of this module.
            return dispatcher_registry[KernelTarget].adopted(val)._numba_type_
        return super().resolve_value_type(_numpy_twin(val))

    def resolve_getattr(self, typ: Any, attr: str) -> Any:
        """Return the type of an attribute; constants of the memory model are literals."""
        if isinstance(typ, types.IntEnumClass) and issubclass(typ.instance_class, _ENUMERATIONS):
            value = getattr(typ.instance_class, attr, None)
            return None if value is None else types.IntegerLiteral(int(value))
        if isinstance(typ, types.Module) and typ.pymod.__name__ == "dpnp":
            typ = types.Module(np)
        return super().resolve_getattr(typ, attr)

    def load_additional_registries(self) -> None:
        """Add numba's declarations of numbers and mathematics, and this target's own."""
        from numba.core.typing import cmathdecl, enumdecl, mathdecl, npydecl

        # Without operators on whole arrays: numba would try them for each operation on numbers.
        _fill(_numpy_registry, npydecl.registry, _OPERATORS)
        _fill(_math_registry, mathdecl.registry, ROUNDING)
        for registry in (cmathdecl.registry, enumdecl.registry, _math_registry, _numpy_registry, typing_registry):
            self.install_registry(registry)


class KernelCallConvention(MinimalCallConv):  # type: ignore[misc]
    """Calls between functions of a kernel: a status is returned, the result through a pointer."""

    def return_user_exc(self, builder: Any, exc: Any, *args: Any, **kwargs: Any) -> None:
        """End the work-item's function: kernels have no exceptions."""
        builder.ret(ir.Constant(ir.IntType(32), 1))

    def return_status_propagate(self, builder: Any, status: Any) -> None:
        """End the caller as well."""
        builder.ret(status.code)


class KernelContext(BaseContext):  # type: ignore[misc]
    """Generation of LLVM IR for SPIR-V."""

    implement_powi_as_math_call = True
    strict_alignment = False

    def __init__(self, typing_context: Any) -> None:
        super().__init__(typing_context, TARGET)

    def init(self) -> None:
        """Set the attributes that numba's constructor leaves to its subclasses."""
        self.data_model_manager = data_models
        self._codegen = KernelCodegen()
        self._fast_internal_functions: dict[Any, Any] = {}

    def load_additional_registries(self) -> None:
        """Add numba's code for Python's types, and this target's own."""
        from numba.core import inline_closurecall, optional  # noqa: F401
        from numba.cpython import (  # noqa: F401
            builtins,
            cmathimpl,
            enumimpl,
            iterators,
            mathimpl,
            numbers,
            rangeobj,
            slicing,
            tupleobj,
        )
        from numba.misc import literal  # noqa: F401
        from numba.np import arraymath, arrayobj, npyimpl  # noqa: F401

        for registry in (cmathimpl.registry, mathimpl.registry, npyimpl.registry):
            self.install_registry(registry)

    def subtarget(self, **kws: Any) -> Any:
        """Return the context with options; functions that numba compiles for its own use differ by fastmath."""
        context = super().subtarget(**kws)
        if context.fastmath:
            context.cached_internal_func = self._fast_internal_functions
        return context

    def refresh(self) -> None:
        """Register declarations made since the last compilation; this target's own code replaces numba's."""
        super().refresh()
        self.install_registry(lowering_registry)

    def get_constant_generic(self, builder: Any, ty: Any, val: Any) -> Any:
        """Return a constant; those of the memory model are numbers."""
        if isinstance(ty, types.Dispatcher):  # a function is known by its type; numba would take its address
            return self.get_dummy_value()
        return super().get_constant_generic(builder, ty, int(val) if isinstance(val, _ENUMERATIONS) else val)

    def codegen(self) -> Any:
        """Return the maker of modules."""
        return self._codegen

    def create_module(self, name: str) -> Any:
        """Return an empty module."""
        return self._codegen._create_empty_module(name)

    @property
    def target_data(self) -> Any:
        """Sizes of LLVM types."""
        return self._codegen.target_data

    @cached_property
    def call_conv(self) -> Any:
        """Calling convention of functions."""
        return KernelCallConvention(self)

    def declare_function(self, module: Any, fndesc: Any) -> Any:
        """Declare a function that is inlined wherever it is called."""
        function = super().declare_function(module, fndesc)
        function.calling_convention = FUNCTION_CONVENTION
        function.attributes.add("alwaysinline")
        return function

    def declare_env_global(self, module: Any, envname: str) -> Any:
        """Declare nothing: kernels have no Python environment."""

    def get_executable(self, library: Any, fndesc: Any, env: Any) -> Any:
        """Return a new identity for a compiled function, by which calls find it."""

        def entry_point() -> None:
            raise RuntimeError(f"{fndesc.qualname} is code of a device")

        return entry_point

    def post_lowering(self, mod: Any, library: Any) -> None:
        """Mark floating-point instructions where the kernel's option allows to reorder them."""
        if self.fastmath:
            rewrite_module(mod, self.fastmath)

    def get_ufunc_info(self, ufunc_key: Any) -> Any:
        """Return the code of a NumPy function by its loop's types."""
        return universal_functions[ufunc_key]


class KernelTargetOptions(TargetOptions):  # type: ignore[misc]
    """No options by keyword: kernels are compiled with flags made for them."""


class KernelTargetDescriptor(TargetDescriptor):  # type: ignore[misc]
    """The target's contexts, made once for a process."""

    options = KernelTargetOptions

    @cached_property
    def typing_context(self) -> Any:
        """The typing context."""
        return KernelTypingContext()

    @cached_property
    def target_context(self) -> Any:
        """The target context."""
        return KernelContext(self.typing_context)

    def refresh(self) -> None:
        """Register declarations made since the last compilation."""
        self.target_context.refresh()


descriptor = KernelTargetDescriptor(TARGET)
