# SPDX-License-Identifier: Apache-2.0
"""Deviation of a simulated run from the times that its plan predicts."""

from __future__ import annotations

from typing import Final

from syclsched.model.trace import Trace

#: Part of the predicted makespan by which times may differ and are still called the same.
_SAME: Final = 1e-6


def deviates(trace: Trace) -> bool:
    """Return whether some instruction has other times than those predicted, if there are predicted ones."""
    least_s = _SAME * trace.predicted_makespan_s
    return trace.predicted_makespan_s > 0 and any(
        max(abs(s.start_s - s.predicted_start_s), abs(s.finish_s - s.predicted_finish_s)) > least_s for s in trace.spans
    )
