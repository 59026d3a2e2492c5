# SPDX-License-Identifier: Apache-2.0
"""Sequence operations: several operations merged into one task, whose steps run in order on one lane.

A device executes the unchanged steps, submitted back to back to one in-order queue; the host calls their functions in
order. Results are therefore bit-identical to those of separate tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from syclsched.errors import ArgumentError
from syclsched.model.access import AccessMode
from syclsched.model.operation import Implementation, Operation, OperationStep, Parameter, Signature, Work

#: Maximum length of a sequence's name; longer ones are shortened.
_NAME_LENGTH = 60


@dataclass(frozen=True, slots=True)
class SequencePart:
    """One step of a sequence, with the implementation chosen for it and its own signature.

    Parameters
    ----------
    operation : Operation
        The step's operation.
    implementation : Implementation
        The implementation chosen for it.
    signature : Signature
        The step's signature, derived from the sequence's.
    arguments : tuple of (str, str)
        Pairs of a parameter of the step and the parameter of the sequence passed for it.
    """

    operation: Operation
    implementation: Implementation
    signature: Signature
    arguments: tuple[tuple[str, str], ...]

    @property
    def writes_nothing(self) -> bool:
        """Whether all written arrays are empty."""
        written = [p.name for p in self.operation.arrays if p.mode is not None and p.mode.writes]
        return bool(written) and all(0 in self.signature.shapes[name] for name in written)


def sequence_parts(
    operation: Operation, implementation: Implementation, signature: Signature
) -> tuple[SequencePart, ...]:
    """Return the steps of a sequence operation with the implementations that an implementation of it selects.

    There are none if the implementation is not a sequence. One for devices says itself which steps it has: they need
    not be all of the operation's.
    """
    if implementation.kind == "sequence":
        return tuple(implementation.load(signature))
    if not implementation.parts:
        return ()
    return _parts(operation.steps, implementation.parts, signature)


def _parts(steps: tuple[OperationStep, ...], names: tuple[str, ...], signature: Signature) -> tuple[SequencePart, ...]:
    return tuple(
        SequencePart(
            step.operation, step.operation.implementation(name), step_signature(step, signature), step.arguments
        )
        for step, name in zip(steps, names, strict=True)
    )


def step_signature(step: OperationStep, signature: Signature) -> Signature:
    """Return the signature of a step, with the step's parameter names, from that of its sequence."""
    arrays = {p.name for p in step.operation.arrays}
    shapes = {own: signature.shapes[whole] for own, whole in step.arguments if own in arrays}
    dtypes = {own: signature.dtypes[whole] for own, whole in step.arguments if own in arrays}
    scalars = {own: signature.scalars[whole] for own, whole in step.arguments if own not in arrays}
    constants = frozenset(own for own, whole in step.arguments if whole in signature.constants)
    return Signature(shapes, dtypes, scalars, constants)


def sequence_operation(steps: Sequence[OperationStep], combinations: Iterable[tuple[str, ...]]) -> Operation:
    """Make an operation that executes several operations in order.

    Steps share data by naming the same parameter of the sequence; the parameters are in order of first use, and an
    array written before it is read has mode ``write``. Each combination names the steps' implementations: all for
    devices or all for the host. Raise `ArgumentError` if a combination mixes both, or more than one step reports a
    status.
    """
    steps = tuple(steps)
    name = _name([s.operation.name for s in steps])
    where = f"sequence {name!r}"
    reporting = [s for s in steps if s.operation.status is not None]
    if len(reporting) > 1:
        raise ArgumentError("more than one step reports a status", where=where)
    status, explain = None, None
    if reporting:
        wiring = dict(reporting[0].arguments)
        status = wiring[reporting[0].operation.status or ""]
        explain = partial(_explain, reporting[0].operation)
    return Operation(
        name=name,
        parameters=_parameters(steps),
        implementations=_implementations(steps, combinations, where),
        work=partial(_work, steps),
        check=partial(_check, steps),
        status=status,
        explain_status=explain,
        steps=steps,
        pure=all(step.operation.pure for step in steps),
    )


# --- inside ---------------------------------------------------------------------------------------


def _parameters(steps: tuple[OperationStep, ...]) -> tuple[Parameter, ...]:
    found: dict[str, Parameter] = {}
    for step in steps:
        wiring = dict(step.arguments)
        for parameter in step.operation.parameters:
            whole = wiring[parameter.name]
            if parameter.mode is None:
                # Each step converts the number to the dtype that its own operation declares.
                found.setdefault(whole, Parameter(whole))
                continue
            before = found.get(whole)
            mode = parameter.mode if before is None else _merged(before.mode, parameter.mode)
            found[whole] = Parameter(whole, mode)
    return tuple(found.values())


def _merged(before: AccessMode | None, after: AccessMode) -> AccessMode:
    """Return the access mode of a sequence from an earlier and a later access by its steps."""
    if before is None or before is after or not after.writes or before is AccessMode.WRITE:
        # An array first written within the sequence never needs its old value.
        return before or after
    return AccessMode.UPDATE


def _implementations(
    steps: tuple[OperationStep, ...], combinations: Iterable[tuple[str, ...]], where: str
) -> tuple[Implementation, ...]:
    made: dict[str, Implementation] = {}
    every = dict.fromkeys(combinations)
    for names in every:
        chosen = [s.operation.implementation(n) for s, n in zip(steps, names, strict=True)]
        on_host = {i.kind == "host" for i in chosen}
        if len(on_host) > 1:
            raise ArgumentError(f"{', '.join(names)} are for devices and for the host", where=where)
        same = tuple(each.same_code_as or each.name for each in chosen)
        name = label = _name(names)
        while label in made:
            label = f"{name} ({len(made)})"
        made[label] = Implementation(
            name=label,
            kind="host" if on_host == {True} else "sequence",
            load=partial(_load_host if on_host == {True} else _load_parts, steps, names),
            revision=_revision(steps, chosen),
            same_code_as=_name(same) if same != names and same in every else "",
            parts=tuple(names),
        )
    return tuple(made.values())


def _load_parts(
    steps: tuple[OperationStep, ...], names: tuple[str, ...], signature: Signature
) -> tuple[SequencePart, ...]:
    return _parts(steps, names, signature)


def _load_host(steps: tuple[OperationStep, ...], names: tuple[str, ...], signature: Signature) -> Callable[..., None]:
    calls = [
        (part.implementation.load(part.signature), part.arguments, _only_read(part.operation))
        for part in _parts(steps, names, signature)
    ]

    def sequence(**arguments: Any) -> None:
        for function, wiring, only_read in calls:
            function(**{own: _view(arguments[whole], own in only_read) for own, whole in wiring})

    return sequence


def _only_read(operation: Operation) -> frozenset[str]:
    return frozenset(p.name for p in operation.arrays if p.mode is AccessMode.READ)


def _view(value: Any, only_read: bool) -> Any:
    """Return a read-only view of an argument that the step only reads."""
    if not only_read or not value.flags.writeable:
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _work(steps: tuple[OperationStep, ...], signature: Signature) -> Work:
    """Return the summed work of the steps, with the dtype of the step with the most operations."""
    each = [step.operation.work(step_signature(step, signature)) for step in steps]
    largest = max(each, key=lambda work: work.flops)
    return Work(
        flops=sum(work.flops for work in each),
        bytes=sum(work.bytes for work in each),
        dtype=largest.dtype,
        parallelism=max(work.parallelism for work in each),
    )


def _check(steps: tuple[OperationStep, ...], signature: Signature) -> str | None:
    for number, step in enumerate(steps):
        check = step.operation.check
        wrong = check(step_signature(step, signature)) if check is not None else None
        if wrong is not None:
            return f"step {number} ({step.operation.name}): {wrong}"
    return None


def _explain(operation: Operation, value: int) -> str:
    explain = operation.explain_status
    return f"step {operation.name!r}: " + (f"status {value}" if explain is None else explain(value))


def _revision(steps: tuple[OperationStep, ...], chosen: Sequence[Implementation]) -> str:
    """Return a digest of the steps' arguments and implementations, as the sequence's revision."""
    content = [
        (step.operation.name, step.arguments, implementation.name, implementation.revision)
        for step, implementation in zip(steps, chosen, strict=True)
    ]
    return hashlib.sha256(repr(content).encode()).hexdigest()[:12]


def _name(names: Iterable[str]) -> str:
    """Join names and count repetitions: ``scale*3+axpy``."""
    runs = [(name, sum(1 for _ in run)) for name, run in groupby(names)]
    joined = "+".join(name if count == 1 else f"{name}*{count}" for name, count in runs)
    return joined if len(joined) <= _NAME_LENGTH else f"{runs[0][0]}+...+{runs[-1][0]}"
