# SPDX-License-Identifier: Apache-2.0
"""Refusals of traces with impossible numbers, with their place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.synthetic import random_trace, span

from syclsched.errors import FormatError
from syclsched.model.text.json_serialisation import to_json
from syclsched.tracing.trace_reader import read_trace

TRACE = random_trace(3)


def test_written_traces_are_read() -> None:
    assert read_trace(to_json(TRACE), where="here") == TRACE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"start_s": 3.0, "finish_s": 2.0},
            r"here: at spans\.0\.finish_s: .* at least start_s, 3\.0, it is 2\.0",
        ),
        ({"predicted_start_s": 3.0, "predicted_finish_s": 2.0}, r"spans\.0\.predicted_finish_s: .* 3\.0, it is 2\.0"),
    ],
)
def test_impossible_times_are_refused(change: dict[str, float], message: str) -> None:
    wrong = replace(TRACE, spans=(replace(span(0, "gpu:0", 0.0, 1.0), **change),))  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=message):
        read_trace(to_json(wrong), where="here")


def test_a_repeated_instruction_is_refused() -> None:
    with pytest.raises(FormatError, match=r"spans\.1\.instruction: 0 is there twice"):
        read_trace(to_json(replace(TRACE, spans=(span(0, "gpu:0", 0.0, 1.0),) * 2)), where="here")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"traceEvents": [], "displayTimeUnit": "ms"}', "here: this is a trace for Perfetto"),
        ('{"name": "g", "lanes": [], "platform": {}}', "here: this is a plan, not a run"),
        ('{"name": "g"}', "here: at policy: Field required"),
        ("[1]", r"here: at the whole document: Input should be an object"),
        ("[" * 100_000, "here: at the whole document"),
    ],
)
def test_other_files_are_refused_with_a_hint(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as refused:
        read_trace(text, where="here")
    assert "`syclsched run --record FILE`" in str(refused.value)
