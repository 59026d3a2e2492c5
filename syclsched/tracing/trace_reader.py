# SPDX-License-Identifier: Apache-2.0
"""Reader of saved traces, with the checks that a schema cannot express."""

from __future__ import annotations

import json

from syclsched.errors import FormatError
from syclsched.model.text.json_serialisation import from_json
from syclsched.model.trace import Trace

_HINT = "Give a run that `syclsched run --record FILE` wrote"


def read_trace(text: str | bytes, *, where: str) -> Trace:
    """Read a trace from JSON text."""
    try:
        trace = from_json(Trace, text, where=where)
    except FormatError as error:
        problem = _other_kind(text)
        if problem is None:
            raise FormatError(error.what, where=where, hint=_HINT) from None
        raise FormatError(problem, where=where, hint=_HINT) from None
    seen: set[int] = set()
    for place, span in enumerate(trace.spans):
        at = f"at spans.{place}"
        if span.finish_s < span.start_s:
            raise FormatError(
                f"{at}.finish_s: expected at least start_s, {span.start_s!r}, it is {span.finish_s!r}", where=where
            )
        if span.predicted_finish_s < span.predicted_start_s:
            raise FormatError(
                f"{at}.predicted_finish_s: expected at least predicted_start_s, {span.predicted_start_s!r}, it is "
                f"{span.predicted_finish_s!r}",
                where=where,
            )
        if span.instruction in seen:
            raise FormatError(f"{at}.instruction: {span.instruction} is there twice", where=where)
        seen.add(span.instruction)
    return trace


def _other_kind(text: str | bytes) -> str | None:
    """Return a message if the text is another kind of file written by this package; else None."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    if "traceEvents" in document:
        return "this is a trace for Perfetto (`--trace`), which shows it; it does not hold all of the run"
    if "lanes" in document and "platform" in document:
        return "this is a plan, not a run"
    return None
