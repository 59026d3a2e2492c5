# SPDX-License-Identifier: Apache-2.0
"""Compiled sequences: each step has its own arguments, steps run in order, and empty steps are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from syclsched.devices.programs.executables import EmptySubmission, SequenceExecutable, SequenceSubmission


class RecordingStep:
    """A step that records its arguments."""

    def __init__(self, name: str, log: list[Any]) -> None:
        self.name, self.log = name, log
        self.function = None

    def bind(self, arguments: Mapping[str, Any]) -> RecordingStep:
        self.log.append((self.name, dict(arguments)))
        return self

    def submit(self, queue: Any, depends: list[Any]) -> str:
        self.log.append((self.name, queue, list(depends)))
        return f"event of {self.name}"


def test_steps_get_their_own_arguments_and_only_the_first_waits() -> None:
    log: list[Any] = []
    executable = SequenceExecutable([
        (RecordingStep("one", log), (("y", "a0"), ("x", "a1"))),
        (RecordingStep("two", log), (("x", "a0"),)),
    ])  # fmt: skip
    assert executable.function is None
    submission = executable.bind({"a0": "first array", "a1": "second array", "alpha_0": 3.0})
    assert isinstance(submission, SequenceSubmission)
    assert submission.submit("queue", ["before"]) == "event of two"
    assert log == [
        ("one", {"y": "first array", "x": "second array"}),
        ("two", {"x": "first array"}),
        ("one", "queue", ["before"]),
        ("two", "queue", []),
    ]


def test_an_empty_sequence_is_a_fence() -> None:
    assert isinstance(SequenceExecutable([]).bind({}), EmptySubmission)
