# SPDX-License-Identifier: Apache-2.0
"""Operations with one more implementation: a sequence of kernels that passes data on in an array of the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from syclsched.model.operation import Implementation, Operation, OperationStep, Parameter, Requirements, Signature
from syclsched.model.sequence import SequencePart, step_signature


def with_scratch(
    operation: Operation,
    array: Parameter,
    steps: tuple[OperationStep, ...],
    name: str,
    requires: Requirements,
    efficiency: float,
) -> Operation:
    """Return an operation with an array as its last parameter, and an implementation of these steps.

    The steps' implementations have its name. An implementation that the operation had under this name is left out, and
    so are those in Python, which take long to compile; all others leave the array as it is.
    """
    whole = Implementation(
        name,
        "sequence",
        partial(_parts, steps, name),
        requires=requires,
        efficiency=efficiency,
        revision=" ".join(each.operation.implementation(name).revision for each in steps),
        parts=(name,) * len(steps),
    )
    kept = (each for each in operation.implementations if each.name != name and not each.is_python_kernel)
    others = (_leaving(operation, each, array.name) for each in kept)
    return replace(
        operation,
        name=f"{operation.name} {array.name}",
        parameters=(*operation.parameters, array),
        implementations=(*others, whole),
        split=None,  # chunks would share the array
        steps=steps,
        recipe=None,
    )


def _leaving(operation: Operation, by: Implementation, array: str) -> Implementation:
    """Return an implementation that takes the array and leaves it as it is."""
    if by.kind == "host":
        return replace(by, load=partial(_load_host, by, array))
    if by.kind == "library":
        return by
    return replace(by, kind="sequence", load=partial(_alone, operation, by), launch=None, prepare=None, form=None)


def _load_host(by: Implementation, array: str, signature: Signature) -> Callable[..., None]:
    function = by.load(signature)

    def leave(**arguments: Any) -> None:
        function(**{name: value for name, value in arguments.items() if name != array})

    return leave


def _alone(operation: Operation, by: Implementation, signature: Signature) -> tuple[SequencePart, ...]:
    """Return the operation by one kernel as a sequence of one step."""
    step = OperationStep(operation, tuple((each.name, each.name) for each in operation.parameters))
    return (SequencePart(operation, by, step_signature(step, signature), step.arguments),)


def _parts(steps: tuple[OperationStep, ...], name: str, signature: Signature) -> tuple[SequencePart, ...]:
    return tuple(
        SequencePart(
            each.operation, each.operation.implementation(name), step_signature(each, signature), each.arguments
        )
        for each in steps
    )
