# SPDX-License-Identifier: Apache-2.0
"""Operations made from a user's host function, and the operation that copies one array into another."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import CodeType
from typing import Any

from syclsched.model.access import AccessMode
from syclsched.model.operation import Copies, Implementation, Operation, Parameter, Signature, Work


def host_operation(
    function: Callable[..., Any], modes: Mapping[str, AccessMode | None], flops: float, *, pure: bool = False
) -> Operation:
    """Return an operation with one host implementation that calls ``function`` with arguments by parameter name.

    ``modes`` gives the access mode of each argument, None for a scalar. A ``pure`` function has no effect but to write
    values that depend on its arguments alone.
    """
    label = getattr(function, "__name__", "host").strip("<>")

    def work(signature: Signature) -> Work:
        return Work(flops=flops, bytes=signature.nbytes, parallelism=1)

    return Operation(
        name=label,
        parameters=tuple(Parameter(name, mode, dtype="float64") for name, mode in modes.items()),
        implementations=(Implementation("host", "host", load=lambda _: function, revision=revision_of(function)),),
        work=work,
        pure=pure,
    )


def revision_of(function: Callable[..., Any]) -> str:
    """Return a digest that distinguishes functions of one name, so that they do not share measurements."""
    function = inspect.unwrap(function)
    while isinstance(function, partial):
        function = inspect.unwrap(function.func)
    code = getattr(function, "__code__", None)
    return _digest(repr(function)) if code is None else _code_revision(code)


@lru_cache(maxsize=1024)
def _code_revision(code: CodeType) -> str:
    # Constants and names, too: two lambdas of one line may differ in nothing else.
    constants = [each.co_code.hex() if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return _digest(f"{code.co_filename}:{code.co_firstlineno}:{code.co_code.hex()}:{constants}:{code.co_names}")


def _digest(seen: str) -> str:
    return hashlib.sha256(seen.encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def copy_operation() -> Operation:
    """Return the operation of `TaskGraph.copy`: a copy within one memory space, or on the host."""

    def copies(arguments: Mapping[str, Any]) -> list[tuple[Any, Any, int]]:
        source, destination = arguments["source"], arguments["destination"]
        return [(destination.usm_data, source.usm_data, source.nbytes)]

    def on_host(source: Any, destination: Any) -> None:
        destination[...] = source

    def check(signature: Signature) -> str | None:
        shapes = signature.shapes
        if shapes["source"] != shapes["destination"]:
            return f"cannot copy shape {shapes['source']} into shape {shapes['destination']}"
        return None

    return Operation(
        name="copy",
        parameters=(
            Parameter("source", AccessMode.READ),
            Parameter("destination", AccessMode.WRITE, like="source"),
        ),
        implementations=(
            Implementation("memcpy", "library", load=lambda _: Copies(copies), efficiency=0.8),
            Implementation("host", "host", load=lambda _: on_host, efficiency=0.8),
        ),
        work=lambda signature: Work(flops=0.0, bytes=signature.nbytes),
        check=check,
    )
