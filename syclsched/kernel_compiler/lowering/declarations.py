# SPDX-License-Identifier: Apache-2.0
"""Declarations of functions and methods to numba's typing, with keyword arguments and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, signature

from syclsched.kernel_compiler.target.contexts import typing_registry

#: Given the types of all arguments, a typer returns the result's type, or None to refuse them.
Typer = Callable[..., Any]


def template(name: Any, typer: Typer) -> type[Any]:
    """Return numba's description of a function with the parameters and default values of a typer."""
    parameters = inspect.signature(typer)

    class Template(AbstractTemplate):  # type: ignore[misc]
        key = name
        prefer_literal = True

        def generic(self, args: Any, kws: Any) -> Any:
            try:
                given = parameters.bind(*args, **kws)
            except TypeError as error:
                raise TypingError(str(error)) from error
            kinds = [
                given.arguments[word] if word in given.arguments else _type_of(parameter.default)
                for word, parameter in parameters.parameters.items()
            ]
            result = typer(*kinds)
            if result is None:
                return None
            return signature(result, *kinds, recvr=getattr(self, "this", None)).replace(pysig=parameters)

    return Template


def declare_function(function: Callable[..., Any], typer: Typer) -> None:
    """Declare the type of a function's result in kernels."""
    typing_registry.register_global(function, types.Function(template(function, typer)))


def _type_of(default: Any) -> Any:
    if default is None:
        return types.none
    return types.BooleanLiteral(default) if isinstance(default, bool) else types.IntegerLiteral(int(default))
