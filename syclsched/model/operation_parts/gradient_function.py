# SPDX-License-Identifier: Apache-2.0
"""Gradient functions of operations: the meaning of their parameters, which go by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.model.access import AccessMode

#: The role of a gradient function's parameter, and the parameter of the operation that it refers to.
GradientArgument = tuple[str, str]  # ("before" | "after" | "number" | "gradient", parameter)


def gradient_arguments(
    operation: str, modes: Mapping[str, AccessMode | None], function: Callable[..., Any]
) -> dict[str, GradientArgument]:
    """Return the role of each parameter of a gradient function, by the modes of an operation's parameters.

    Raises
    ------
    ArgumentError
        If it takes what the operation does not have.
    """
    known: dict[str, list[GradientArgument]] = {}
    for each, mode in modes.items():
        if mode is None:
            known.setdefault(each, []).append(("number", each))
            continue
        known.setdefault(each, []).append(("before" if mode.reads else "after", each))
        if mode.writes:
            known.setdefault(f"d{each}", []).append(("gradient", each))
        if mode.reads and mode.writes:
            known.setdefault(f"new_{each}", []).append(("after", each))
    where = f"gradient of operation {operation!r}"
    if not any(mode is not None and mode.reads for mode in modes.values()):
        raise ArgumentError("it reads no array", where=where, hint="Such an operation needs no gradient")
    found: dict[str, GradientArgument] = {}
    for name in inspect.signature(function).parameters:
        meanings = known.get(name, [])
        if len(meanings) != 1:
            what = "is no parameter of it" if not meanings else "stands for two things"
            raise ArgumentError(f"{name!r} {what}", where=where, hint=f"It may take: {', '.join(known)}")
        found[name] = meanings[0]
    return found
