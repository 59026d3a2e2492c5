# SPDX-License-Identifier: Apache-2.0
"""Propagation of failures to dependent tasks."""

from __future__ import annotations

from dataclasses import replace

from syclsched.errors import ArgumentError
from syclsched.execution.core.failures import Failures, task_failed_error
from syclsched.model.access import AccessMode
from syclsched.model.plan import BufferUse, Instruction, InstructionKind, PlannedTask

READ, WRITE, UPDATE = AccessMode.READ, AccessMode.WRITE, AccessMode.UPDATE


def touch(
    number: int, task: str, *uses: tuple[str, AccessMode], space: str = "m", kind: InstructionKind = "launch"
) -> Instruction:
    return Instruction(number, kind, task, uses=tuple(BufferUse(a, space, m) for a, m in uses))


def tasks(**after: tuple[str, ...]) -> dict[str, PlannedTask]:
    return {name: PlannedTask(name, "kernel", "f", (), before) for name, before in after.items()}


def test_readers_of_a_lost_value_are_cancelled_transitively() -> None:
    failures = Failures(tasks(a=(), b=(), c=()))
    failures.lost(touch(0, "a", ("x", UPDATE)))
    reader = touch(1, "b", ("x", READ), ("y", WRITE))
    assert failures.cancels(reader)
    failures.lost(reader)
    assert failures.cancels(touch(2, "c", ("y", UPDATE)))
    assert failures.is_lost(("y", "m")) and failures.lost_task("b")


def test_a_copy_carries_the_loss_to_another_space() -> None:
    failures = Failures(tasks(a=()))
    failures.lost(touch(0, "a", ("x", WRITE)))
    copy = Instruction(1, "copy", "b", uses=(BufferUse("x", "m", READ), BufferUse("x", "n", WRITE)))
    assert failures.cancels(copy)
    failures.lost(copy)
    assert failures.cancels(touch(2, "c", ("x", READ), space="n"))
    assert not failures.lost_task("b"), "a copy is made for a task's sake; only the task itself makes it lost"


def test_a_rewritten_array_is_valid_and_unrelated_tasks_continue() -> None:
    failures = Failures(tasks(a=(), b=(), c=()))
    failures.lost(touch(0, "a", ("x", WRITE)))
    assert not failures.cancels(touch(1, "b", ("z", UPDATE)))
    fresh = touch(2, "c", ("x", WRITE))
    assert not failures.cancels(fresh)
    failures.done(fresh)
    assert not failures.cancels(touch(3, "b", ("x", READ)))


def test_a_failed_task_is_not_recomputed() -> None:
    failures = Failures(tasks(a=(), b=()))
    again = replace(touch(2, "a", ("x", WRITE)), again=1)
    assert not failures.cancels(again)
    failures.lost(touch(0, "a", ("x", WRITE)))
    assert failures.cancels(again)
    failures.done(touch(1, "b", ("x", WRITE)))
    assert failures.cancels(again)
    assert not failures.cancels(touch(3, "b", ("x", READ)))


def test_explicit_edges_pass_failure_on_and_barriers_do_not() -> None:
    failures = Failures(tasks(a=(), b=("a",), meet=("a",), after=("meet",)))
    failures.lost(touch(0, "a", ("x", WRITE)))
    assert failures.cancels(touch(1, "b", ("y", WRITE)))
    assert not failures.cancels(Instruction(2, "barrier", "meet"))
    assert not failures.cancels(touch(3, "after", ("y", WRITE)))


def test_the_first_error_in_the_plans_order_is_reported() -> None:
    failures = Failures({})
    assert failures.first is None
    for number in (5, 2, 9):
        instruction = touch(number, f"t{number}", ("x", WRITE))
        failures.record(instruction, task_failed_error(instruction, ValueError("no"), "raised"), "raised")
    assert failures.first is not None and failures.first.task == "t2"


def test_error_names_task_arrays_and_cause() -> None:
    cause = ArgumentError("odd", where="argument 'x'")
    error = task_failed_error(touch(1, "potrf_3", ("A33", UPDATE)), cause, "could not be submitted:")
    assert str(error) == "task 'potrf_3' (arrays 'A33'): could not be submitted: argument 'x': odd"
    assert error.__cause__ is cause


def test_an_error_names_ranges_once_and_not_every_array() -> None:
    uses = [(f"x[{i}:{i + 1}]", READ) for i in range(300)] + [("y", UPDATE), ("y", READ), ("x[500:600]", READ)]
    text = str(task_failed_error(touch(0, "a", *uses), ValueError("no"), "raised"))
    assert text == "task 'a' (arrays 'x[0:300]', 'y', 'x[500:600]'): raised ValueError: no"
    many = str(task_failed_error(touch(0, "a", *((f"z{i}", READ) for i in range(300))), ValueError("no"), "raised"))
    assert many.startswith("task 'a' (arrays 'z0', 'z1', ") and "and 292 more)" in many
