# SPDX-License-Identifier: Apache-2.0
"""Gradient functions of operations: the meaning of their parameters, which go by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syclsched.errors import ArgumentError

if TYPE_CHECKING:
    from syclsched.model.operation import Operation

#: What a parameter of a gradient function stands for, and of which parameter of the operation.
GradientArgument = tuple[str, str]  # ("before" | "after" | "number" | "gradient", parameter)


def gradient_arguments(operation: Operation, function: Callable[..., Any]) -> dict[str, GradientArgument]:
    """Return what each parameter of a gradient function stands for.

    Raises
    ------
    ArgumentError
        If it takes what the operation does not have.
    """
    known: dict[str, list[GradientArgument]] = {}
    for each in operation.parameters:
        mode = each.mode
        if mode is None:
            known.setdefault(each.name, []).append(("number", each.name))
            continue
        known.setdefault(each.name, []).append(("before" if mode.reads else "after", each.name))
        if mode.writes:
            known.setdefault(f"d{each.name}", []).append(("gradient", each.name))
        if mode.reads and mode.writes:
            known.setdefault(f"new_{each.name}", []).append(("after", each.name))
    where = f"gradient of operation {operation.name!r}"
    if not any(each.mode is not None and each.mode.reads for each in operation.parameters):
        raise ArgumentError("it reads no array", where=where, hint="Such an operation needs no gradient")
    found: dict[str, GradientArgument] = {}
    for name in inspect.signature(function).parameters:
        meanings = known.get(name, [])
        if len(meanings) != 1:
            what = "is no parameter of it" if not meanings else "stands for two things"
            raise ArgumentError(f"{name!r} {what}", where=where, hint=f"It may take: {', '.join(known)}")
        found[name] = meanings[0]
    return found
