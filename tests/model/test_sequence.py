# SPDX-License-Identifier: Apache-2.0
"""Operations that are sequences of others: parameters, implementations, and the signatures of their steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from syclsched.errors import ArgumentError
from syclsched.model.access import AccessMode
from syclsched.model.graph import TaskGraph
from syclsched.model.operation import (
    Implementation,
    Launch,
    OpenCLSource,
    Operation,
    OperationStep,
    Parameter,
    Signature,
    Work,
)
from syclsched.model.sequence import sequence_operation, sequence_parts, step_signature


def operation(name: str, *modes: AccessMode | None, host: Any = None, status: str | None = None) -> Operation:
    """Return an operation with parameters ``p0``, ``p1``, ...; a device implementation, and a host one if given."""
    on_host = (Implementation("host", "host", lambda _: host),) if host is not None else ()
    return Operation(
        name,
        tuple(Parameter(f"p{i}", mode) for i, mode in enumerate(modes)),
        (
            Implementation("cl", "opencl-c", lambda _: OpenCLSource("", name), lambda s, d: Launch((1,))),
            Implementation(
                "cl2", "opencl-c", lambda _: OpenCLSource("", name), lambda s, d: Launch((1,)), revision="7"
            ),
            *on_host,
        ),
        lambda signature: Work(float(signature.shapes["p0"][0]), 8.0, "float32" if name == "small" else "float64", 4),
        check=lambda signature: "p0 is empty" if signature.shapes["p0"] == (0,) else None,
        status=status,
        explain_status=(lambda value: f"broke with {value}") if status else None,
    )


READ, WRITE, UPDATE, REDUCE = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE, AccessMode.REDUCE


def step(of: Operation, *arguments: str) -> OperationStep:
    return OperationStep(of, tuple((f"p{i}", whole) for i, whole in enumerate(arguments)))


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ((READ, READ), READ),
        ((READ, WRITE), UPDATE),
        ((READ, UPDATE), UPDATE),
        ((WRITE, READ), WRITE),
        ((WRITE, UPDATE), WRITE),
        ((WRITE, REDUCE, READ), WRITE),
        ((UPDATE, WRITE), UPDATE),
        ((REDUCE, REDUCE), REDUCE),
        ((REDUCE, UPDATE), UPDATE),
        ((REDUCE, READ), REDUCE),
        ((READ, READ, WRITE), UPDATE),
    ],
)
def test_modes_of_steps_add_up(modes: tuple[AccessMode, ...], expected: AccessMode) -> None:
    whole = sequence_operation([step(operation("op", mode), "a") for mode in modes], [("cl",) * len(modes)])
    assert [(p.name, p.mode) for p in whole.parameters] == [("a", expected)]
    # Like two tasks: an old value is needed if and only if the first of them reads it.
    assert expected.reads == modes[0].reads
    assert expected.writes == any(mode.writes for mode in modes)


def test_signatures_work_and_names_follow_from_the_steps() -> None:
    first, second = operation("small", UPDATE, None), operation("large", WRITE, READ)
    whole = sequence_operation(
        [step(first, "a", "n"), step(second, "b", "a"), step(second, "c", "a")],
        [("cl", "cl", "cl"), ("cl2", "cl", "cl"), ("cl", "cl", "cl")],
    )
    assert whole.name == "small+large*2"
    assert [i.name for i in whole.implementations] == ["cl*3", "cl2+cl*2"]
    assert {i.kind for i in whole.implementations} == {"sequence"}
    assert len({i.revision for i in whole.implementations}) == 2
    signature = Signature({"a": (3,), "b": (50,), "c": (9,)}, dict.fromkeys("abc", "float64"), {"n": 2})
    assert step_signature(whole.steps[0], signature) == Signature({"p0": (3,)}, {"p0": "float64"}, {"p1": 2})
    assert whole.work(signature) == Work(62.0, 24.0, "float64", 4)
    parts = sequence_parts(whole, whole.implementations[1], signature)
    assert [(p.operation.name, p.implementation.name) for p in parts] == [
        ("small", "cl2"), ("large", "cl"), ("large", "cl"),
    ]  # fmt: skip
    assert sequence_parts(first, first.implementations[0], parts[0].signature) == ()


def test_host_steps_run_in_order_with_read_only_inputs() -> None:
    calls: list[str] = []

    def double(p0: Any, p1: float) -> None:
        calls.append("double")
        p0 *= p1

    def take(p0: Any, p1: Any) -> None:
        calls.append("take")
        p0[...] = p1
        assert not p1.flags.writeable

    steps = [
        step(operation("double", UPDATE, None, host=double), "a", "n"),
        step(operation("take", WRITE, READ, host=take), "b", "a"),
    ]
    whole = sequence_operation(steps, [("host", "host")])
    (implementation,) = whole.implementations
    assert implementation.kind == "host"
    graph = TaskGraph()
    a, b = graph.array("a", data=np.arange(3.0)), graph.array("b", (3,))
    task = graph.kernel(whole, a=a, b=b, n=3)
    values = {"a": np.arange(3.0), "b": np.zeros(3)}
    assert task.signature is not None
    implementation.load(task.signature)(**values, n=3)
    assert calls == ["double", "take"]
    np.testing.assert_array_equal(values["b"], [0.0, 3.0, 6.0])


def test_steps_check_their_arguments() -> None:
    whole = sequence_operation([step(operation("op", UPDATE), "a")] * 2, [("cl", "cl")])
    graph = TaskGraph()
    with pytest.raises(ArgumentError, match=r"step 0 \(op\): p0 is empty"):
        graph.kernel(whole, a=graph.array("a", (0,)))


def test_a_status_of_one_step_is_that_of_all() -> None:
    judge = operation("judge", READ, WRITE, status="p1")
    whole = sequence_operation([step(operation("op", UPDATE), "a"), step(judge, "a", "s")], [("cl", "cl")])
    assert whole.status == "s"
    assert whole.explain_status is not None
    assert whole.explain_status(3) == "step 'judge': broke with 3"
    with pytest.raises(ArgumentError, match="more than one step reports a status"):
        sequence_operation([step(judge, "a", "s"), step(judge, "a", "t")], [("cl", "cl")])


def test_devices_and_host_are_not_mixed() -> None:
    both = operation("op", UPDATE, host=lambda p0: None)
    with pytest.raises(ArgumentError, match="cl, host are for devices and for the host"):
        sequence_operation([step(both, "a"), step(both, "a")], [("cl", "host")])


def test_other_code_or_other_wiring_has_another_revision() -> None:
    op = operation("op", UPDATE, READ)
    wirings = [(step(op, "a", "b"), step(op, "a", "b")), (step(op, "a", "b"), step(op, "b", "a"))]
    revisions = {
        i.revision
        for steps in wirings
        for i in sequence_operation(steps, [("cl", "cl"), ("cl2", "cl")]).implementations
    }
    assert len(revisions) == 4
